// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

@Suite("Under a service manager", .onOwnThreads)
struct ServiceManagerTests {
    /// A stand-in for systemd: a socket that receives the service's notifications.
    private final class Manager {
        let path: String
        private let descriptor: Int32

        init(in folder: TemporaryFolder) throws {
            path = "\(folder.path)/notify.sock"
            descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            let bytes = Array(path.utf8)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
            let bound = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            guard descriptor >= 0, bound == 0 else { throw TestSocket.Failure("bind") }
            TestSocket.setTimeouts(descriptor)
        }

        deinit { close(descriptor) }

        /// The next message; waits for it.
        func next() throws -> String {
            var buffer = [UInt8](repeating: 0, count: 512)
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count >= 0 else { throw TestSocket.Failure("recv") }
            return String(decoding: buffer[..<count], as: UTF8.self)
        }

        /// Whether nothing comes for so many seconds.
        func isSilent(seconds: Int) -> Bool {
            TestSocket.setTimeouts(descriptor, seconds: seconds)
            defer { TestSocket.setTimeouts(descriptor) }
            return (try? next()) == nil
        }
    }

    /// Holds one thread of the proxy, as a debugger does, until it ends itself. Prints what was held.
    private static let freeze = """
        import ctypes, os, sys, time
        tasks = f"/proc/{sys.argv[1]}/task"
        thread = next(int(name) for name in os.listdir(tasks) if open(f"{tasks}/{name}/comm").read().strip() == "worker 1")
        library = ctypes.CDLL(None, use_errno=True)
        if library.ptrace(0x4206, thread, None, None) or library.ptrace(0x4207, thread, None, None):
            sys.exit(os.strerror(ctypes.get_errno()))
        while open(f"{tasks}/{thread}/stat").read().rsplit(")", 1)[1].split()[0] != "t": time.sleep(0.01)
        print("held", flush=True)
        time.sleep(600)
        """

    @Test("the manager is told of readiness, life and end")
    func messages() throws {
        let folder = try TemporaryFolder()
        let manager = try Manager(in: folder)
        let proxy = try ProxyUnderTest(
            ProxySettings(trusting: Stage.pki),
            environment: ["NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "90000"]
        )
        #expect(try manager.next() == "READY=1")
        // The listeners' lines came before; now the signs of life, one after the other.
        for _ in 0..<3 { #expect(try manager.next() == "WATCHDOG=1") }
        proxy.signal(SIGTERM)
        var last = try manager.next()
        while last == "WATCHDOG=1" { last = try manager.next() }
        #expect(last == "STOPPING=1")
        #expect(try proxy.waitForExit().exitCode == 0)
    }

    @Test("no watchdog notification is sent while a worker's loop is stuck", .enabled(if: geteuid() == 0))
    func stuckLoop() throws {
        let folder = try TemporaryFolder()
        let manager = try Manager(in: folder)
        let proxy = try ProxyUnderTest(
            ProxySettings(trusting: Stage.pki),
            environment: ["NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "600000"]
        )
        #expect(try manager.next() == "READY=1")
        #expect(try manager.next() == "WATCHDOG=1")
        let debugger = try ChildProcess("/usr/bin/python3", ["-c", Self.freeze, "\(proxy.identifier)"])
        _ = try debugger.waitForOutput("a held thread") { $0.contains("held") ? true : nil }
        // A sign is due each 200 ms: three or four come before the loop has been waited for long enough.
        var count = 0
        while count < 20, !manager.isSilent(seconds: 2) { count += 1 }
        #expect(count < 20, "signs of life of a proxy with a worker that stands still")
        debugger.signal(SIGKILL)
        _ = try debugger.waitForExit()
        #expect(try manager.next() == "WATCHDOG=1", "the loop goes round again")
        #expect(try proxy.terminate().exitCode == 0)
    }

    @Test("without a watchdog only reloads are told in between")
    func noWatchdog() throws {
        let folder = try TemporaryFolder()
        let manager = try Manager(in: folder)
        let proxy = try ProxyUnderTest(
            ProxySettings(trusting: Stage.pki),
            environment: ["NOTIFY_SOCKET": manager.path]
        )
        #expect(try manager.next() == "READY=1")
        // A reload is told with its begin and its end, also one that changes nothing.
        var settings = ProxySettings(trusting: Stage.pki)
        for hasError in [false, true] {
            settings.members["unpinnedHosts"] = hasError ? "perhaps" : "deny"
            let event = try proxy.reload(settings)
            #expect(event.string("event") == (hasError ? "reloadFailed" : "reloaded"))
            let begin = try manager.next()
            #expect(begin.wholeMatch(of: /RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*/) != nil, "\(begin)")
            #expect(try manager.next() == "READY=1")
        }
        try proxy.terminate()
        #expect(try manager.next() == "STOPPING=1")
    }
}
