// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Running as root", .onOwnThreads)
struct RootWarningTests {
    @Test("root causes a warning with a remedy at the start")
    func warning() throws {
        for isRoot in [true, false] {
            let folder = try TemporaryFolder()
            let path = try ProxySettings(trusting: Stage.pki).write(to: folder)
            // In a user namespace: with a mapping the user is 0 there, without one it is the overflow user.
            let child = try ChildProcess(
                try Programs.path(of: "unshare"),
                ["--user"] + (isRoot ? ["--map-root-user"] : []) + [
                    try Programs.built("pinproxy"), "run", "--config", path,
                ]
            )
            let listening = try child.waitForErrors("the listener") { $0.contains("\"listening\"") ? $0 : nil }
            let warnings = listening.split(separator: "\n").compactMap { LogLine(String($0)) }
                .filter { $0.string("event") == "warning" && $0.string("message")?.contains("root") == true }
            #expect(warnings.count == (isRoot ? 1 : 0), "\(listening)")
            if isRoot { #expect(warnings.first?.string("message")?.contains("CAP_NET_BIND_SERVICE") == true) }
        }
    }
}
