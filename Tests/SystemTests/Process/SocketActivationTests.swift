// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

/// The test stands in for the service manager: it has the sockets, and passes them as descriptors from 3 on.
@Suite("Sockets of the service manager", .onOwnThreads)
struct SocketActivationTests {
    /// A socket that is closed with this object.
    private final class Held {
        let descriptor: Int32
        let port: UInt16

        init() throws { (descriptor, port) = try TestSocket.listen() }

        /// A socket that does not listen.
        init(ofType type: __socket_type) {
            descriptor = socket(AF_INET, Int32(type.rawValue), 0)
            port = 0
        }

        deinit { close(descriptor) }
    }

    private let folder: TemporaryFolder
    private let origin: ScriptedOrigin
    private var settings: ProxySettings

    init() throws {
        folder = try TemporaryFolder()
        let server = try Stage.pki.server(Stage.host)
        origin = try ScriptedOrigin(server) { connection in
            while let request = try connection.readRequest() {
                try connection.write(OriginResponse.text(request.target))
            }
        }
        settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
    }

    /// - Parameter identifier: the shell's expression for LISTEN_PID; the process that the shell becomes by default.
    private func start(
        _ settings: ProxySettings,
        _ sockets: [Held],
        names: String = "forward:admin",
        identifier: String = "$$"
    ) throws -> ChildProcess {
        let shell = "LISTEN_PID=\(identifier) LISTEN_FDS=\(sockets.count) LISTEN_FDNAMES=\(names) exec \"$0\" \"$@\""
        return try ChildProcess(
            "/bin/sh",
            ["-c", shell, try Programs.built("pinproxy"), "run", "--config", try settings.write(to: folder)],
            passing: sockets.map(\.descriptor)
        )
    }

    private func request(_ client: TestClient, _ path: String) throws {
        try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)\(path)"))
    }

    @Test("listeners take their sockets, and clients wait during a restart")
    func restart() throws {
        let (forward, admin) = (try Held(), try Held())
        var settings = settings
        settings.listeners = [["address": "127.0.0.1:\(forward.port)"], ["address": "127.0.0.1:0"]]
        settings.members["admin"] = ["address": "127.0.0.1:\(admin.port)"]
        // A client that comes before the proxy.
        var waiting = try TestClient(port: forward.port)
        try request(waiting, "/0")
        for number in 1...2 {
            // In another order than the listeners.
            let process = try start(settings, [admin, forward], names: "admin:forward")
            #expect(try waiting.readResponse().text == "/\(number - 1)")
            let live = try TestClient(port: admin.port)
            try live.send("GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(try live.readResponse().text == "live\n")
            _ = try process.waitForErrors("all listeners") { $0.contains("\"listener\":\"admin\"") ? true : nil }
            #expect(process.errors.contains("\"address\":\"127.0.0.1:\(forward.port)\""))
            process.signal(SIGTERM)
            #expect(try process.waitForExit().exitCode == 0, "\(process.errors)")
            waiting = try TestClient(port: forward.port)
            try request(waiting, "/\(number)")
        }
    }

    @Test("a Unix socket is taken by path, and its file stays")
    func unixSocket() throws {
        let path = "\(folder.path)/proxy.sock"
        let listening = try Self.listen(path)
        defer { close(listening) }
        var settings = settings
        settings.listeners = [["unixSocket": path]]
        let shell = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\""
        let process = try ChildProcess(
            "/bin/sh",
            ["-c", shell, try Programs.built("pinproxy"), "run", "--config", try settings.write(to: folder)],
            passing: [listening]
        )
        let client = try TestClient(unixPath: path)
        try request(client, "/unix")
        #expect(try client.readResponse().text == "/unix")
        process.signal(SIGTERM)
        #expect(try process.waitForExit().exitCode == 0, "\(process.errors)")
        #expect(access(path, F_OK) == 0)
    }

    private static func listen(_ path: String) throws -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        try #require(bytes.count < MemoryLayout.size(ofValue: address.sun_path))
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(bound == 0 && Glibc.listen(descriptor, 64) == 0)
        return descriptor
    }

    @Test("a socket without a listener ends the start, with its name")
    func unknown() throws {
        let (forward, other) = (try Held(), try Held())
        var settings = settings
        settings.listeners = [["address": "127.0.0.1:\(forward.port)"]]
        let process = try start(settings, [forward, other], names: "forward:spare")
        let finished = try process.waitForExit()
        #expect(finished.exitCode == 78)
        #expect(finished.errors.contains("127.0.0.1:\(other.port) (\"spare\")"), "\(finished.errors)")
        #expect(!finished.errors.contains("127.0.0.1:\(forward.port)") && finished.errors.contains("ListenStream="))
        // The same without it starts.
        let good = try start(settings, [forward], names: "forward")
        _ = try good.waitForErrors("the listener") { $0.contains("\"listening\"") ? true : nil }
        good.signal(SIGTERM)
        #expect(try good.waitForExit().exitCode == 0)
    }

    @Test("a descriptor that is no listening stream socket ends the start", arguments: ["datagram", "idle"])
    func useless(kind: String) throws {
        let forward = try Held()
        var settings = settings
        settings.listeners = [["address": "127.0.0.1:\(forward.port)"]]
        let useless = Held(ofType: kind == "datagram" ? SOCK_DGRAM : SOCK_STREAM)
        let finished = try start(settings, [forward, useless], names: "forward:\(kind)").waitForExit()
        #expect(finished.exitCode == 78)
        #expect(finished.errors.contains("no listening stream socket (\"\(kind)\")"), "\(finished.errors)")
    }

    @Test("sockets for another process are not taken")
    func inherited() throws {
        let held = try Held()
        var settings = settings
        settings.listeners = [["address": "127.0.0.1:\(held.port)"]]
        let finished = try start(settings, [held], identifier: "1").waitForExit()
        #expect(finished.exitCode == 69, "the address is in use: \(finished.errors)")
    }

    @Test("the socket unit has the addresses of the package's configuration")
    func unit() throws {
        let repository = Repository.folder
        let unit = try String(contentsOf: repository.appendingPathComponent("deploy/pinproxy.socket"), encoding: .utf8)
        let data = try Data(contentsOf: repository.appendingPathComponent("deploy/config.json"))
        let configuration = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        let listeners = try #require(configuration["listeners"] as? [[String: Any]])
        let admin = try #require(configuration["admin"] as? [String: Any])
        let wanted = (listeners + [admin]).compactMap { $0["address"] as? String }
        #expect(unit.matches(of: /(?m)^ListenStream=(\S+)$/).map { String($0.output.1) } == wanted)
    }
}
