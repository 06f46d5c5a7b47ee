// SPDX-License-Identifier: Apache-2.0
import Glibc
import Testing

@testable import IOCore

@Suite("Telling the service manager")
struct ServiceNotifierTests {
    private static func notifier(_ variables: [String: String]) -> ServiceNotifier? {
        ServiceNotifier { variables[$0] }
    }

    @Test(
        "without a listener no message is sent",
        arguments: ["", "relative/path", String(repeating: "/x", count: 60)]
    )
    func nobody(name: String) {
        #expect(Self.notifier([:]) == nil)
        #expect(Self.notifier(["NOTIFY_SOCKET": name]) == nil)
    }

    @Test("the time of the watchdog counts for the process that it is meant for")
    func watchdog() {
        let name = "@pinproxy-test-nobody"
        func time(_ variables: [String: String]) -> UInt64? {
            Self.notifier(variables.merging(["NOTIFY_SOCKET": name]) { $1 })?.watchdogTime
        }
        #expect(time([:]) == nil)
        #expect(time(["WATCHDOG_USEC": "30000000"]) == 30_000_000_000)
        #expect(time(["WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "\(getpid())"]) == 30_000_000_000)
        #expect(time(["WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "\(getppid())"]) == nil)
        for bad in ["0", "-1", "soon", "99999999999999999999"] { #expect(time(["WATCHDOG_USEC": bad]) == nil) }
    }

    @Test("a message arrives whole, at a name of the abstract kind")
    func message() throws {
        let name = "pinproxy-test-\(getpid())-\(UInt32.random(in: 0 ... .max))"
        let listener = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        try #require(listener >= 0)
        defer { close(listener) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = [0] + Array(name.utf8)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, length) }
        }
        try #require(bound == 0)
        let notifier = try #require(Self.notifier(["NOTIFY_SOCKET": "@\(name)"]))
        notifier.notify("READY=1\nSTATUS=serving")
        var buffer = [UInt8](repeating: 0, count: 100)
        let count = recv(listener, &buffer, buffer.count, Int32(MSG_DONTWAIT))
        #expect(count > 0 && String(decoding: buffer[..<max(0, count)], as: UTF8.self) == "READY=1\nSTATUS=serving")
    }
}
