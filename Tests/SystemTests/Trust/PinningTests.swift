// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import TestSupport
import Testing

/// A pinning mode as a pin file says it, with how to pin a server in it.
enum PinningCase: CaseIterable {
    case none
    case certificate
    case publicKey
    case certificateWithInvalidAllowed
    case publicKeyWithInvalidAllowed

    var allowsInvalid: Bool { self == .certificateWithInvalidAllowed || self == .publicKeyWithInvalidAllowed }

    func pin(_ host: String, to server: TestServer, in settings: inout ProxySettings) {
        let members: [String: Any] = allowsInvalid ? ["allowInvalidCertificates": true] : [:]
        switch self {
        case .none: settings.pinnedDomains[host] = ["pinningMode": "none"]
        case .publicKey, .publicKeyWithInvalidAllowed: settings.pin(host, to: server.pin, with: members)
        case .certificate, .certificateWithInvalidAllowed:
            settings.pin(host, toCertificate: server.certificate, with: members)
        }
    }
}

@Suite("Pinning, through the whole program", .onOwnThreads)
struct PinningTests {
    private let host = Stage.host
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// A proxy with all ways in.
    private func proxy(
        to origin: ScriptedOrigin,
        trusting pki: TestPKI = Stage.pki,
        _ change: (inout ProxySettings) -> Void
    ) throws -> ProxyUnderTest {
        var settings = ProxySettings(trusting: pki)
        settings.resolve(host, to: origin.port)
        WayIn.addListeners(to: &settings, host: host, folder: folder)
        change(&settings)
        return try ProxyUnderTest(settings)
    }

    private func origin(_ server: TestServer, protocols: [String] = []) throws -> ScriptedOrigin {
        try ScriptedOrigin(server, protocols: protocols) { connection in
            while let request = try connection.readRequest() {
                try connection.respond("you asked for \(request.target)")
            }
        }
    }

    @Test("the right pin passes over all ways in", arguments: PinningCase.allCases)
    func rightPin(mode: PinningCase) throws {
        // Where invalid certificates are allowed, one that no anchor vouches for.
        let pki = mode.allowsInvalid ? try TestPKI("unknown") : Stage.pki
        let server = try pki.server(host)
        let origin = try origin(server)
        let proxy = try proxy(to: origin) { mode.pin(host, to: server, in: &$0) }
        for way in WayIn.allCases {
            let response = try way.get("/\(way)", of: host, through: proxy)
            #expect(response.status == 200, "\(way)")
            #expect(response.text == "you asked for /\(way)")
        }
        let lines = try proxy.waitForTaskLines(WayIn.allCases.count)
        for line in lines {
            let pinning = try #require(line.object("pinning"))
            #expect(pinning["verdict"] as? String == (mode == .none ? "notPinned" : "pass"), "\(line.text)")
        }
        #expect(try proxy.terminate().exitCode == 0)
    }

    @Test(
        "75 another key under a trusted CA is refused over all ways",
        arguments: PinningCase.allCases.filter { $0 != .none }
    )
    func anotherKey(mode: PinningCase) throws {
        let pinned = try Stage.pki.server(host)
        let offered = try Stage.pki.server(host)
        let origin = try origin(offered)
        let proxy = try proxy(to: origin) { mode.pin(host, to: pinned, in: &$0) }
        for way in WayIn.allCases {
            let response = try way.get("/secret", of: host, through: proxy)
            #expect(response.status == 502, "\(way)")
            #expect(response["Proxy-Status"]?.hasPrefix("pinproxy; error=tls_certificate_error; details=") == true)
            #expect(response.problemCode == "pin_mismatch")
            let offers = (response.problem["offeredPins"] as? [[String: Any]] ?? []).compactMap { $0["pin"] as? String }
            #expect(offers.contains("\(offered.pin)"), "\(response.text)")
            let expected = response.problem["expectedPins"] as? [String] ?? []
            #expect(expected.contains("\(pinned.pin)"), "\(response.text)")
        }
        let records = try origin.waitForClosed(WayIn.allCases.count)
        #expect(records.count == WayIn.allCases.count, "asked once each")
        #expect(records.allSatisfy { $0.applicationBytes == 0 })
        let lines = try proxy.waitForTaskLines(WayIn.allCases.count)
        #expect(lines.allSatisfy { $0.string("error") == "pin_mismatch" && $0.integer("status") == 502 })
        for line in lines {
            #expect(line.object("pinning")?["verdict"] as? String == "fail", "\(line.text)")
        }
    }

    @Test("75 a body is not sent to a refused origin either")
    func refusedUpload() throws {
        let origin = try origin(try Stage.pki.server(host))
        let proxy = try proxy(to: origin) { $0.pin(host, to: .unrelated(2)) }
        let client = try proxy.connect()
        try client.send("POST http://\(host)/ HTTP/1.1\r\nHost: \(host)\r\nContent-Length: 100000\r\n\r\n")
        try client.send([UInt8](repeating: 97, count: 100_000))
        let response = try client.readResponse(to: "POST")
        #expect(response.status == 502)
        #expect(try origin.waitForClosed().allSatisfy { $0.applicationBytes == 0 })
    }

    @Test("75 an HTTP/2 origin with another key receives no byte")
    func http2Bytes() throws {
        let server = try Stage.pki.server(host)
        for isRight in [false, true] {
            // It never answers: what it receives is all that counts.
            let origin = try ScriptedOrigin(server, protocols: ["h2"]) { $0.readToEnd() }
            let proxy = try proxy(to: origin) {
                $0.pin(host, to: isRight ? server.pin : .unrelated(2))
                $0.hosts[host]?["httpVersion"] = "2"
            }
            let client = try proxy.connect()
            try client.send(ProxyUnderTest.request("GET", "http://\(host)/secret"))
            if isRight {
                try origin.wait(for: "the HTTP/2 preface") { $0.contains { $0.applicationBytes > 24 } ? true : nil }
            } else {
                #expect(try client.readResponse().problemCode == "pin_mismatch")
                #expect(try origin.waitForClosed().allSatisfy { $0.applicationBytes == 0 })
            }
        }
    }

    @Test("75 openssl s_server passes with the right pin alone")
    func opensslServer() throws {
        let server = try Stage.pki.server(host, "second.example.com")
        let right = try OpenSSLServer(
            server,
            mode: .files,
            responses: ["answer": "HTTP/1.0 200 ok\r\nContent-Type: text/plain\r\n\r\nfrom s_server\n"]
        )
        let wrong = try OpenSSLServer(server, mode: .printing)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(host, server, at: right.port)
        settings.resolve("second.example.com", to: wrong.port)
        settings.pin("second.example.com", to: .unrelated(2))
        let proxy = try ProxyUnderTest(settings)
        let passed = try proxy.get("http://\(host)/answer")
        #expect(passed.status == 200)
        #expect(passed.text == "from s_server\n")
        let refused = try proxy.get("http://second.example.com/answer")
        #expect(refused.status == 502)
        #expect(refused.problemCode == "pin_mismatch")
        try wrong.waitForFailedHandshake()
        #expect(!wrong.output.contains("GET "))
    }

    @Test(
        "a chain without an anchor is refused in every mode that checks",
        arguments: ["none", "publicKey"]
    )
    func untrustedChain(mode: String) throws {
        let server = try TestPKI("unknown").server(host)
        let origin = try origin(server)
        let proxy = try proxy(to: origin) {
            if mode == "none" { $0.pinnedDomains[host] = ["pinningMode": mode] } else { $0.pin(host, to: server.pin) }
        }
        let response = try proxy.get("http://\(host)/")
        #expect(response.status == 502)
        #expect(response.problemCode == "certificate_untrusted")
        #expect(try origin.waitForClosed().allSatisfy { $0.applicationBytes == 0 })
    }

    @Test("37 a pinned certificate for another host is refused")
    func anotherHost() throws {
        let server = try Stage.pki.server("other.example.com")
        let origin = try origin(server)
        let proxy = try proxy(to: origin) { $0.pin(host, to: server.pin) }
        let response = try proxy.get("http://\(host)/")
        #expect(response.problemCode == "certificate_host_mismatch")
        #expect(try origin.waitForClosed().allSatisfy { $0.applicationBytes == 0 })
    }

    @Test("34 an expired pin set refuses, or falls back if it says so")
    func expiredPinSet() throws {
        for (fallback, status) in [("deny", 502), ("unpinned", 200)] {
            let server = try Stage.pki.server(host)
            let origin = try origin(server)
            let proxy = try proxy(to: origin) {
                $0.pin(host, to: server.pin, with: ["expiration": "2020-01-31", "onExpiration": fallback])
            }
            let response = try proxy.get("http://\(host)/")
            #expect(response.status == status)
            if status == 502 {
                #expect(response.problemCode == "pin_set_expired")
                #expect(try origin.waitForClosed().allSatisfy { $0.applicationBytes == 0 })
            } else {
                let line = try #require(try proxy.waitForTaskLines(1).first)
                #expect(line.object("pinning")?["verdict"] as? String == "expired")
            }
        }
    }

    @Test("a pinned host is never reached without TLS, on any port")
    func neverPlain() throws {
        let plain = try ScriptedOrigin(nil) { connection in
            while try connection.readRequest() != nil { try connection.respond("plain") }
        }
        let proxy = try proxy(to: plain) { $0.pin(host, to: .unrelated(2)) }
        for port in ["", ":80", ":8080", ":443"] {
            let response = try proxy.get("http://\(host)\(port)/secret")
            #expect(response.status == 502)
            #expect(response.problemCode == "tls_handshake_failed")
        }
        // The origin received a ClientHello, and nothing of the request.
        let bytes = try plain.waitForClosed(4).flatMap(\.requests)
        #expect(bytes.isEmpty)
    }
}
