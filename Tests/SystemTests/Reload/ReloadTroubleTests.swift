// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import TestSupport
import Testing

/// Operators act while peers misbehave: that is when they have to.
@Suite("Reload and stop with hostile peers", .onOwnThreads)
struct ReloadTroubleTests {
    /// What goes on meanwhile, without a pause.
    enum Situation: CaseIterable {
        case handshakes, informationalFlood, fieldReferences, lyingProxy, closedWindows, ownedConnections, silentOrigins
    }

    private static let trouble = "trouble.example.com"
    private static let body = String(repeating: "stored ", count: 100_000)

    /// Clients that go on until they are stopped; what happens to their requests is not asked.
    private final class Clients: Sendable {
        private let isOver = Monitor(false)
        private let running = Monitor(0)
        /// How often they have done what they are for.
        let rounds = Monitor(0)
        /// The latest failure, for a test that waits in vain.
        let failure = Monitor("none")

        init(_ count: Int, _ work: @escaping @Sendable (Clients) throws -> Void) {
            running.with { $0 = count }
            for _ in 0..<count {
                Thread.detachNewThread { [self] in
                    while goOn {
                        do {
                            try work(self)
                        } catch {
                            failure.with { $0 = "\(error)" }
                            // A proxy that has ended would be asked as fast as the machine can.
                            usleep(1000)
                        }
                    }
                    running.with { $0 -= 1 }
                }
            }
        }

        var goOn: Bool { !isOver.with { $0 } }

        func note() { rounds.with { $0 += 1 } }

        /// Notes a round, and holds on to what it has until the clients are stopped.
        func hold() {
            note()
            while goOn { _ = try? isOver.wait(for: "the end") { $0 ? true : nil } }
        }

        func stop() throws {
            isOver.with { $0 = true }
            try running.wait(for: "the clients to end") { $0 == 0 ? true : nil }
        }
    }

    /// An origin, or a proxy in front of one, that misbehaves on each connection.
    private static func origin(_ situation: Situation, _ server: TestServer) throws -> ScriptedOrigin {
        let hints = String(repeating: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", count: 200)
        switch situation {
        case .handshakes, .closedWindows:
            return try ScriptedOrigin(server) { connection in
                if try connection.readRequest() != nil { try connection.respond("x", fields: ["Connection: close"]) }
            }
        case .informationalFlood:
            return try ScriptedOrigin(server) { connection in
                _ = try connection.readRequestHead()
                while true { try connection.write(hints) }
            }
        case .fieldReferences:
            return try ScriptedOrigin(server, protocols: ["h2"]) { connection in
                let script = try HTTP2Script(connection)
                guard let request = try script.nextRequest() else { return }
                // A field of 4,000 bytes enters the dynamic table; each byte behind it is one more of them.
                let value = [UInt8](repeating: 0x76, count: 4000)
                let field = [0x40, 0x01, 0x78, 0x7F, 0xA1, 0x1E] as [UInt8] + value
                try script.send(.headers, stream: request.stream, [0x88] + field)
                let references = [UInt8](repeating: 0xBE, count: 16_000)
                while true { try script.send(.continuation, stream: request.stream, references) }
            }
        case .lyingProxy:
            return try ScriptedOrigin(nil) { connection in
                _ = try connection.readRequestHead()
                try connection.write("HTTP/1.1 407 No\r\nContent-Length: 90000000000\r\n\r\n")
                while true { try connection.write([UInt8](repeating: 0x78, count: 16 << 10)) }
            }
        case .ownedConnections:
            return try ScriptedOrigin(server) { connection in
                while let request = try connection.readRequest() {
                    let isFirst = request["Authorization"] == "NTLM hello"
                    let fields = isFirst ? ["WWW-Authenticate: NTLM challenge"] : []
                    try connection.respond("x", status: isFirst ? "401 Unauthorized" : "200 OK", fields: fields)
                }
            }
        case .silentOrigins:
            return try ScriptedOrigin(nil) { $0.readToEnd() }
        }
    }

    private static func clients(_ situation: Situation, of proxy: ProxyUnderTest) -> Clients {
        let port = proxy.port
        let request = ProxyUnderTest.request("GET", "http://\(trouble)/")
        switch situation {
        case .closedWindows:
            return Clients(4) { clients in
                let peer = try HTTP2Peer(TestClient(port: port), window: 0)
                defer { peer.close() }
                let streams = try (0..<30).map { _ in try peer.request("GET", "/stored", authority: Stage.host) }
                try peer.wait { streams.allSatisfy { $0.status != nil } }
                clients.hold()
            }
        case .ownedConnections:
            return Clients(4) { clients in
                let client = try TestClient(port: port)
                for authorization in ["NTLM hello", "NTLM who challenge"] {
                    let fields = ["Authorization: \(authorization)"]
                    try client.send(ProxyUnderTest.request("GET", "http://\(trouble)/", fields: fields))
                    _ = try client.readResponse()
                }
                while clients.goOn {
                    try client.send(request)
                    let response = try client.readResponse()
                    clients.note()
                    if response["Connection"] == "close" { break }
                    usleep(1000)
                }
            }
        case .silentOrigins:
            return Clients(4) { clients in
                let client = try TestClient(port: port)
                try client.send(request)
                clients.hold()
            }
        default:
            return Clients(4) { clients in
                let client = try TestClient(port: port)
                try client.send(request)
                _ = try client.readResponse()
                clients.note()
            }
        }
    }

    private func stage(_ situation: Situation) throws -> (Stage, ScriptedOrigin) {
        let server = try Stage.pki.server(Self.trouble)
        let origin = try Self.origin(situation, server)
        let stage = try Stage({ settings in
            HTTP2ClientTests.takeHTTP2(&settings)
            settings.members["workers"] = 2
            settings.members["cache"] = [String: Any]()
            settings.members["admin"] = ["address": "127.0.0.1:0"]
            // A client that has closed, but whose window was shut, is held until it has stalled.
            settings.setTimeouts(["drain": "2s", "stall": "3s"])
            settings.serve(Self.trouble, server, at: origin.port)
            if situation == .lyingProxy {
                settings.hosts[Self.trouble]?["upstreamProxy"] = "http://127.0.0.1:\(origin.port)"
            }
            if situation == .fieldReferences { settings.hosts[Self.trouble]?["httpVersion"] = "2" }
        }) { request in
            OriginResponse.text(
                request.target == "/stored" ? Self.body : request.target,
                fields: request.target == "/stored" ? ["Cache-Control: max-age=3600"] : []
            )
        }
        return (stage, origin)
    }

    @Test(
        "a reload applies to the next request, and a stop is timely",
        arguments: Situation.allCases
    )
    func operators(situation: Situation) throws {
        let (stage, origin) = try stage(situation)
        #expect(try stage.get("/stored").text == Self.body)
        #expect(try stage.get("/before").text == "/before")
        let descriptors = try stage.proxy.descriptorCount()
        for round in 0..<2 {
            let clients = Self.clients(situation, of: stage.proxy)
            defer { try? clients.stop() }
            do {
                try clients.rounds.wait(for: "the trouble") { $0 >= 4 ? true : nil }
            } catch {
                Issue.record("\(error): \(clients.failure.with { $0 }) \(stage.proxy.taskLines.suffix(2).map(\.text))")
            }
            for number in 0..<4 {
                let isRefused = number % 2 == 0
                try stage.reload { if isRefused { $0.pin(Stage.host, to: .unrelated(3)) } }
                let response = try stage.get("/after")
                if isRefused {
                    #expect(response.problemCode == "pin_mismatch", "\(response.text)")
                } else {
                    #expect(response.text == "/after")
                }
            }
            if round == 0 {
                try clients.stop()
                // Idle connections to origins are kept; a reload closes those of before.
                try stage.reload { _ in }
                try Patience.poll(for: "the descriptors to be closed") {
                    try stage.proxy.descriptorCount() <= descriptors ? true : nil
                }
            } else {
                let begun = ContinuousClock.now
                stage.proxy.signal(SIGTERM)
                let finished = try stage.proxy.waitForExit()
                #expect(finished.exitCode == 0, "\(finished.errors)")
                // timeouts.drain, and a machine that does other things.
                #expect(ContinuousClock.now - begun < .seconds(15))
            }
        }
        #expect(origin.connections.isEmpty == (situation == .closedWindows))
    }
}
