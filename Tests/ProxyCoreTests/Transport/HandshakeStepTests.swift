// SPDX-License-Identifier: Apache-2.0
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import ProxyCore

@Suite("Steps of a handshake on a thread of their own")
struct HandshakeStepTests {
    @Test("a step whose client has gone is not made, and ends", arguments: [false, true])
    func dropped(isDropped: Bool) throws {
        let context = try TLSServerContext(
            ServerIdentity(TestPKI.shared.server("127.0.0.1").identity),
            TLSServerContext.Settings()
        )
        let loop = try EventLoop()
        var ends: [TLSServerSession.Progress] = []
        let step = HandshakeStep(try context.session()) { ends.append($0) }
        if isDropped { step.drop() }
        step.make(on: loop)
        loop.submit { loop.stop() }
        loop.run()
        // Without a client's bytes OpenSSL asks for them.
        #expect(ends == [isDropped ? .truncated : .needsInput])
    }
}
