// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import ProxyCore

extension Command {
    static let demo = Command(
        name: "demo",
        summary: "see one pin hold and one pin fail; works offline",
        explanation: [
            """
            Makes a certificate authority, a key and a TLS origin in memory, starts a real proxy before it, and sends \
            a request to two hosts that both lead to that origin: the pin of the first is the origin's key, that of \
            the second is another.
            """,
            "Exit code 0 when the first request got its response and nothing of the second reached the origin, else 1.",
        ]
    ) { _ throws(CommandFailure) in
        // The other end may close the connections of OpenSSL and libcurl.
        signal(SIGPIPE, SIG_IGN)
        let demo: Demo
        do {
            demo = try Demo.play()
        } catch let failure as CommandFailure {
            throw failure
        } catch let failure as ProxyServer.StartFailure {
            throw RunningProxy.failure(failure)
        } catch {
            throw CommandFailure(.failed, "the demo could not be played: \(error)")
        }
        try Output.standard(DemoReport(demo: demo, style: .standardOutput).text)
        return demo.isAsItShouldBe ? .success : .failed
    }
}
