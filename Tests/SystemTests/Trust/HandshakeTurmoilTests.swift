// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import TestSupport
import Testing

/// What two workers, the threads of handshakes, reloads and a stop can do to each other: many short connections, so that there
/// is a handshake on a thread whenever a client leaves, a time ends, or other pins come into force.
///
/// It runs under ThreadSanitizer, too, where the proxy ends at the first race (`make sanitize`).
@Suite("Turmoil of handshakes", .earlyOnOwnThreads)
struct HandshakeTurmoilTests {
    /// A host that is reached by a pinned HTTPS proxy.
    private static let through = "through.example.com"
    /// A host whose right pin comes and goes with reloads.
    private static let changing = "changing.example.com"
    private static let wrong = "wrong.example.com"
    /// A host whose server sends its part of the handshake byte by byte, and is given up by `timeouts.connect`.
    private static let slow = "slow.example.com"

    private enum Kind: CaseIterable {
        case asking, asksThrough, asksChanging, refused, slow, leaving, leavingSlow, leavingTLS, curl
    }

    private struct Account {
        /// SIGTERM is about to be sent: connections may end from now on.
        var isStopping = false
        var running = 0
        var counts: [Kind: Int] = [:]
        var wrong: [String] = []
    }

    private static let bytes = patternBytes(60_000)

    /// The rounds of reloads. The sanitizers find what lies between two threads: there, clients do not pause, and there are more.
    private static let rounds = Programs.isSanitized ? 6 : 4

    /// The body of the response to a target: its length and its place in the pattern depend on it.
    private static func body(of target: String) -> [UInt8] {
        let number = target.utf8.reduce(7) { ($0 &* 31 &+ Int($1)) & 0xFFFF }
        return Array(target.utf8) + bytes[(number % 999)..<(1000 + number % 59_000)]
    }

    /// Each connection ends soon, so that there are many handshakes.
    private static let script: ScriptedOrigin.Script = { connection in
        for _ in 0..<3 {
            guard let request = try connection.readRequest() else { return }
            let body = body(of: request.target)
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n")
            try connection.write(body)
        }
    }

    /// A hello that the server answers with its whole flight, which costs a signature.
    private static let hello: [UInt8] = {
        var hello = ClientHelloBytes("localhost")
        let share = [0, 29] + ClientHelloBytes.vector(2, [UInt8](repeating: 9, count: 32))
        hello.extensions += [
            (10, ClientHelloBytes.vector(2, [0, 29])), (13, ClientHelloBytes.vector(2, [8, 4, 4, 3])),
            (51, ClientHelloBytes.vector(2, share)),
        ]
        return hello.bytes
    }()

    /// What the clients know.
    private struct Place {
        let port: UInt16
        let portOfTLS: UInt16
        let anchors: String
    }

    /// One round of a client; nil when all was as it should be.
    private static func play(
        _ kind: Kind,
        _ place: Place,
        _ path: String,
        _ random: inout SeededGenerator
    ) throws -> String? {
        switch kind {
        case .asking: return try ask(host: Stage.host, place, path, expecting: [200])
        case .asksThrough: return try ask(host: through, place, path, expecting: [200])
        case .asksChanging: return try ask(host: changing, place, path, expecting: [200, 502])
        case .refused: return try ask(host: wrong, place, path, expecting: [502])
        case .slow: return try ask(host: slow, place, path, expecting: [504])
        case .leaving, .leavingSlow:
            let client = try TestClient(port: place.port)
            let host = kind == .leaving ? [Stage.host, through, changing].randomElement(using: &random)! : slow
            try client.send(ProxyUnderTest.request("GET", "http://\(host)\(path)"))
            usleep(.random(in: 0..<20_000, using: &random))
            client.reset()
        case .leavingTLS:
            let client = try TestClient(port: place.portOfTLS)
            let isWhole = Int.random(in: 0..<4, using: &random) > 0
            try client.send(isWhole ? hello : Array(hello.dropLast(20)))
            if isWhole, Bool.random(using: &random) { _ = try client.receive(upTo: 100) }
            if Bool.random(using: &random) { client.reset() } else { client.close() }
        case .curl:
            let url = "http://\(Stage.host)\(path)"
            let finished = try Programs.run(
                "curl",
                ["-sS", "--max-time", "30", "--proxy", "https://localhost:\(place.portOfTLS)"]
                    + ["--proxy-cacert", place.anchors, url, url + ".2"]
            )
            guard finished.exitCode == 0 else { throw ChildProcess.Failure(description: "curl: \(finished.errors)") }
            let expected = [path, path + ".2"].flatMap { body(of: $0) }
            // The pattern is no text: what is no UTF-8 is replaced in both.
            let isRight = finished.output == String(decoding: expected, as: UTF8.self)
            return isRight ? nil : "curl got other bytes for \(path)"
        }
        return nil
    }

    /// A few requests on one connection.
    private static func ask(
        host: String,
        _ place: Place,
        _ path: String,
        expecting statuses: Set<Int>
    ) throws -> String? {
        let client = try TestClient(port: place.port)
        for number in 0..<2 {
            let target = "\(path).\(number)"
            try client.send(ProxyUnderTest.request("GET", "http://\(host)\(target)"))
            let response = try client.readResponse()
            let isRight =
                switch response.status {
                case 200: !response.isTruncated && response.body == body(of: target)
                case 502: response.problemCode == "pin_mismatch"
                default: response.problemCode == "connect_timeout"
                }
            guard isRight, statuses.contains(response.status) else {
                return "\(host)\(target) got \(response.startLine) \(response.text.prefix(200))"
            }
            // A stop has begun.
            if response["Connection"] == "close" { break }
        }
        return nil
    }

    /// A client of one kind, until the proxy stops.
    private static func start(_ kind: Kind, seed: UInt64, _ place: Place, _ account: Monitor<Account>) {
        account.with { $0.running += 1 }
        Thread.detachNewThread {
            var random = SeededGenerator(seed: seed)
            var round = 0
            var isOver = false
            while !isOver {
                round += 1
                // Otherwise a dozen threads would take all processors as long as the slowest client takes for its round.
                if !Programs.isSanitized { usleep(.random(in: 0..<10_000, using: &random)) }
                let result = Result { try play(kind, place, "/\(kind)/\(seed).\(round)", &random) }
                account.with { account in
                    account.counts[kind, default: 0] += 1
                    switch result {
                    case .success(nil): break
                    case .success(let fault?): account.wrong.append(fault)
                    case .failure(let error):
                        // Who resets may be told so.
                        let mayFail = account.isStopping || kind == .leavingTLS
                        if !mayFail { account.wrong.append("\(kind): \(error)") }
                    }
                    isOver = account.isStopping || account.wrong.count > 20
                }
            }
            account.with { $0.running -= 1 }
        }
    }

    @Test("responses stay whole through turmoil, and wrong keys get no byte")
    func everything() throws {
        let server = try Stage.pki.server(Stage.host, Self.through, Self.slow, Self.changing)
        let identity = try Stage.pki.server("127.0.0.1")
        let stranger = try Stage.pki.server(Self.wrong)
        let own = try Stage.pki.server("localhost", key: .rsa(bits: 2048))
        let origin = try ScriptedOrigin(server, script: Self.script)
        let refused = try ScriptedOrigin(stranger, script: Self.script)
        let given = try ScriptedOrigin(server, script: Self.script)
        let upstream = try HTTPSProxy(identity, to: origin.port)
        let dripping = try RecordRelay(to: given.port) { stream in
            while let bytes = stream.nextBytes() {
                for byte in bytes {
                    try stream.deliver([byte])
                    usleep(300)
                }
            }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["workers"] = 2
        settings.setTimeouts(["drain": "5s"])
        for host in [Stage.host, Self.changing] { settings.serve(host, server, at: origin.port) }
        settings.resolve(Self.wrong, to: refused.port)
        settings.pin(Self.wrong, to: .unrelated(2))
        settings.serve(Self.slow, server, at: dripping.port)
        settings.hosts[Self.slow]?["timeouts"] = ["connect": "100ms"]
        settings.pin(Self.through, to: server.pin)
        settings.pin("127.0.0.1", to: identity.pin, with: ["ports": [Int(upstream.port)]])
        settings.hosts[Self.through] = ["upstreamProxy": "https://127.0.0.1:\(upstream.port)"]
        settings.files["own.pem"] = own.chainPEM
        settings.files["own.key"] = own.privateKeyPEM
        settings.listeners.append([
            "address": "127.0.0.1:0", "mode": "forward", "tls": ["certificate": "own.pem", "key": "own.key"],
        ])
        let proxy = try ProxyUnderTest(settings)
        // A file of the clients' own: each reload writes the proxy's anew, which is empty for a moment.
        let folder = try TemporaryFolder()
        let anchors = try folder.write(Stage.pki.root.certificate.pem, as: "anchors.pem")
        defer { withExtendedLifetime(folder) {} }
        let place = Place(port: proxy.port, portOfTLS: proxy.port(of: 1), anchors: anchors)
        let account = Monitor(Account())
        defer { account.with { $0.isStopping = true } }
        for (number, kind) in (Kind.allCases + [.asking, .leaving, .leavingTLS]).enumerated() {
            Self.start(kind, seed: UInt64(number + 1), place, account)
        }
        var isRight = true
        for number in 1...Self.rounds {
            // Each client has gone on since the last reload.
            let before = account.with { $0.counts }
            try account.wait(for: "the clients to go on") { account in
                let areAllOn = Kind.allCases.allSatisfy { account.counts[$0, default: 0] > before[$0, default: 0] }
                return areAllOn || !account.wrong.isEmpty ? true : nil
            }
            var next = settings
            let isBroken = number % 4 == 3
            if isBroken { next.pinnedDomains[Stage.host]?["pins"] = ["sha256/AAAA"] } else { isRight.toggle() }
            if !isRight { next.pin(Self.changing, to: .unrelated(3)) }
            let event = try proxy.reload(next)
            #expect(event.string("event") == (isBroken ? "reloadFailed" : "reloaded"), "\(event.text)")
            let response = try proxy.get("http://\(Self.changing)/reload/\(number)")
            #expect(
                response.status == (isRight ? 200 : 502),
                "\(number): \(response.startLine) \(response.text.prefix(200))"
            )
        }
        account.with { $0.isStopping = true }
        let finished = try proxy.terminate()
        #expect(finished.exitCode == 0, "\(finished.errors.suffix(4000))")
        let wrong = try account.wait(for: "the clients", seconds: 2 * Patience.seconds) {
            $0.running == 0 ? $0.wrong : nil
        }
        #expect(wrong.isEmpty, "\(wrong.prefix(5))")
        for origin in [refused, given] {
            let records = try origin.waitForClosed()
            #expect(records.allSatisfy { !$0.isEstablished && $0.applicationBytes == 0 })
        }
    }
}
