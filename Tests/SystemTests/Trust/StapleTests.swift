// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("Required staples, through the whole program", .onOwnThreads)
struct StapleTests {
    private let host = Stage.host
    private let pki = Stage.pki
    private let server: TestServer

    init() throws {
        let builder = CertificateBuilder.server(hosts: [Stage.host, "*.\(Stage.host)"], validity: TestPKI.validity)
        server = try Stage.pki.server(builder)
    }

    /// A kind of connection to the origin.
    struct Kind: CustomTestStringConvertible, Sendable {
        var version: TLSVersion
        var isHTTP2: Bool

        var testDescription: String { "TLS \(version.rawValue), \(isHTTP2 ? "h2" : "HTTP/1.1")" }

        static let all = [TLSVersion.tls12, .tls13].flatMap { version in
            [false, true].map { Kind(version: version, isHTTP2: $0) }
        }
    }

    /// A good response, signed by a delegated responder: from an hour ago to an hour from now.
    private func good(_ change: (inout OCSPResponseBuilder) throws -> Void = { _ in }) throws -> [UInt8] {
        let now = Int64(Date().timeIntervalSince1970)
        let validity = (now - 3600)..<(now + 3600)
        var response = OCSPResponseBuilder(server.certificate, issuer: pki.intermediate, validity: validity)
        var builder = CertificateBuilder(validity: TestPKI.validity)
        builder.subject = [("CN", "responder")]
        builder.extendedKeyUsage = ["OCSPSigning"]
        response.signer = try builder.identity(issuer: pki.intermediate)
        response.sendsSigner = true
        try change(&response)
        return try response.der()
    }

    /// The fault of a staple, with the code of the refusal.
    private func refused() throws -> [(staple: [UInt8]?, code: String, word: String)] {
        let now = Int64(Date().timeIntervalSince1970)
        return [
            (nil, "staple_missing", "sent no staple"),
            (Array("gibberish".utf8), "staple_missing", "no OCSP response"),
            (try good { $0.responseStatus = 3 }, "staple_missing", "trylater"),
            (try good { $0.singleResponses[0].nextUpdate = now - 400 }, "staple_missing", "out of date"),
            (try good { $0.singleResponses[0].status = .unknown }, "staple_missing", "does not know"),
            (try good { $0.singleResponses[0].status = .revoked }, "certificate_revoked", "revoked"),
            (
                try good { $0.singleResponses[0].leaf = try pki.server(host).certificate }, "staple_missing",
                "another certificate"
            ),
            (try good { $0.signer = try TestPKI("other").intermediate }, "staple_missing", "not vouched for"),
        ]
    }

    private func settings(
        at port: UInt16,
        isHTTP2: Bool = false,
        with members: [String: Any] = ["revocation": ["requireStaple": true]]
    ) -> ProxySettings {
        var settings = ProxySettings(trusting: pki)
        settings.resolve(host, to: port)
        settings.pin(host, to: server.pin, with: members)
        if isHTTP2 { settings.hosts[host]?["httpVersion"] = "2" }
        return settings
    }

    @Test(
        "81 a refused staple is a 502, and nothing is sent",
        arguments: Kind.all
    )
    func refused(kind: Kind) throws {
        var settings = ProxySettings(trusting: pki)
        let cases = try refused().enumerated().map { number, variant in
            let origin = try ScriptedOrigin(
                server,
                protocols: kind.isHTTP2 ? ["h2"] : [],
                maximum: kind.version,
                staple: variant.staple
            ) { $0.readToEnd() }
            let host = "\(number).\(host)"
            settings.resolve(host, to: origin.port)
            settings.pin(host, to: server.pin, with: ["revocation": ["requireStaple": true]])
            if kind.isHTTP2 { settings.hosts[host]?["httpVersion"] = "2" }
            return (host: host, origin: origin, variant: variant)
        }
        let proxy = try ProxyUnderTest(settings)
        for (number, (host, origin, variant)) in cases.enumerated() {
            let response = try proxy.get("http://\(host)/secret")
            #expect(response.status == 502 && response.problemCode == variant.code, "\(response.text)")
            #expect(response["Proxy-Status"]?.hasPrefix("pinproxy; error=tls_certificate_error; details=") == true)
            let detail = response.problem["detail"] as? String ?? ""
            #expect(detail.contains(variant.word), "\(detail)")
            #expect(try origin.waitForClosed().allSatisfy { $0.applicationBytes == 0 })
            let line = try #require(try proxy.waitForTaskLines(number + 1).last)
            #expect(line.string("error") == variant.code && line.integer("status") == 502, "\(line.text)")
            #expect(line.object("pinning")?["verdict"] as? String == "fail", "\(line.text)")
        }
    }

    @Test("81 with a good staple the same origin gets the request", arguments: Kind.all)
    func passed(kind: Kind) throws {
        // An h2 origin never answers here: what it receives is all that counts.
        let origin = try ScriptedOrigin(
            server,
            protocols: kind.isHTTP2 ? ["h2"] : [],
            maximum: kind.version,
            staple: good()
        ) { connection in
            if kind.isHTTP2 { return connection.readToEnd() }
            while let request = try connection.readRequest() { try connection.respond("for \(request.target)") }
        }
        let proxy = try ProxyUnderTest(settings(at: origin.port, isHTTP2: kind.isHTTP2))
        let client = try proxy.connect()
        try client.send(ProxyUnderTest.request("GET", "http://\(host)/secret"))
        if kind.isHTTP2 {
            try origin.wait(for: "the HTTP/2 preface") { $0.contains { $0.applicationBytes > 24 } ? true : nil }
            return
        }
        #expect(try client.readResponse().text == "for /secret")
        let line = try #require(try proxy.waitForTaskLines(1).first)
        #expect(line.object("pinning")?["verdict"] as? String == "pass", "\(line.text)")
        #expect(line.transactions.first?["tlsVersion"] as? String == "TLSv\(kind.version.rawValue)", "\(line.text)")
    }

    /// Whatever a server can put into a staple, and whether it is a good one nevertheless.
    private func odd() throws -> [(what: String, staple: [UInt8], isGood: Bool)] {
        var named = CertificateBuilder(validity: TestPKI.validity)
        named.subject = (0..<500).map { ("OU", "\($0) \u{1B}[2J\u{202E}" + String(repeating: "x", count: 40)) }
        named.extendedKeyUsage = ["OCSPSigning"]
        let responder = try named.identity(issuer: pki.intermediate)
        let stranger = try named.identity()
        let long = String(repeating: "9", count: 20_000)
        return [
            ("times that are none", try good { $0.singleResponses[0].times = ("XXXXXXXXXXXXX", "\u{1B}[2J") }, false),
            ("times of 20 KB", try good { $0.singleResponses[0].times = (long, long) }, false),
            ("year 9999", try good { $0.singleResponses[0].nextUpdate = 253_402_300_799 }, true),
            (
                "500 single responses",
                try good { $0.singleResponses = Array(repeating: $0.singleResponses[0], count: 500) }, true
            ),
            (
                "serial of 40 KB",
                try good { $0.singleResponses[0].serial = [UInt8](repeating: 0x7F, count: 40_000) }, false
            ),
            ("responder with a name of 25 KB", try good { $0.signer = responder }, true),
            ("stranger with such a name", try good { $0.signer = stranger }, false),
        ]
    }

    @Test("a staple with odd contents keeps every document readable")
    func oddContents() throws {
        let folder = try TemporaryFolder()
        let anchors = try folder.write(pki.root.certificate.pem, as: "anchors.pem")
        var settings = ProxySettings(trusting: pki)
        settings.members["admin"] = ["address": "127.0.0.1:0"]
        let cases = try odd().enumerated().map { number, variant in
            let origin = try ScriptedOrigin(server, staple: variant.staple) { connection in
                guard try connection.readRequest() != nil else { return }
                try connection.write("HTTP/1.1 204 N\r\nConnection: close\r\n\r\n")
            }
            let host = "\(number).\(host)"
            settings.resolve(host, to: origin.port)
            settings.pin(host, to: server.pin, with: ["revocation": ["requireStaple": true]])
            return (host: host, origin: origin, variant: variant)
        }
        let proxy = try ProxyUnderTest(settings)
        for (number, (host, _, variant)) in cases.enumerated() {
            let response = try proxy.get("http://\(host)/")
            #expect(response.status == (variant.isGood ? 204 : 502), "\(variant.what): \(response.text)")
            #expect(response.body.count < 4000 && !response.text.contains("\u{1B}"), "\(variant.what)")
            let line = try #require(try proxy.waitForTaskLines(number + 1).last)
            #expect(line.text.utf8.count < 6000, "\(variant.what)")
        }
        for path in ["/policy", "/tasks", "/tasks.har", "/metrics", "/live", "/"] {
            let document = try proxy.exchange("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
            #expect(document.status == 200, "\(path)")
            guard path == "/policy" || path == "/tasks.har" else { continue }
            _ = try JSONSerialization.jsonObject(with: Data(document.body))
        }
        #expect(try proxy.terminate().exitCode == 0)
        let verified = try pinproxy("pins", "verify", "--config", try settings.write(to: folder))
        #expect(verified.exitCode == 1 && verified.output.utf8.count < 40_000, "\(verified.errors)")
        for (host, origin, variant) in cases {
            let shown = try pinproxy(
                ["pins", "show", host, "--connect", "127.0.0.1:\(origin.port)", "--anchors", anchors, "--json"]
            )
            #expect(shown.exitCode == 0 && shown.output.utf8.count < 40_000, "\(variant.what): \(shown.errors)")
        }
    }

    @Test("81 modes none and report-only require the staple too")
    func modes() throws {
        let none: [String: Any] = ["pinningMode": "none"]
        let reporting: [String: Any] = [
            "pinningMode": "publicKey", "enforcePinning": false,
            "pins": ["\(PublicKeyPin.unrelated(2))", "\(PublicKeyPin.unrelated(3))"],
        ]
        for (domain, verdict) in [(none, "notPinned"), (reporting, "reportOnly")] {
            for staple in [nil, try good()] {
                for isRequired in [true, false] {
                    let origin = try ScriptedOrigin(server, staple: staple) { connection in
                        while try connection.readRequest() != nil { try connection.respond() }
                    }
                    var settings = ProxySettings(trusting: pki)
                    settings.resolve(host, to: origin.port)
                    settings.pinnedDomains[host] = domain
                    if isRequired { settings.pinnedDomains[host]?["revocation"] = ["requireStaple": true] }
                    let proxy = try ProxyUnderTest(settings)
                    let response = try proxy.get("http://\(host)/")
                    let line = try #require(try proxy.waitForTaskLines(1).first)
                    let isRefused = isRequired && staple == nil
                    #expect(response.status == (isRefused ? 502 : 200), "\(line.text)")
                    let told = line.object("pinning")?["verdict"] as? String
                    #expect(told == (isRefused ? "fail" : verdict), "\(line.text)")
                    if isRefused { #expect(response.problemCode == "staple_missing") }
                }
            }
        }
    }

    @Test("81 a kept connection is not used beyond the end of its staple")
    func aging() throws {
        // A staple that ends soon; sooner than the proxy has started, on a machine that is busy, so then a later one.
        for seconds: Int64 in [3, 15, 50] {
            let end = Int64(Date().timeIntervalSince1970) + seconds
            // The five minutes for clocks that differ are counted in.
            let staple = try good { $0.singleResponses[0].nextUpdate = end - 300 }
            let origin = try ScriptedOrigin(server, staple: staple) { connection in
                while try connection.readRequest() != nil { try connection.respond() }
            }
            let proxy = try ProxyUnderTest(settings(at: origin.port))
            let client = try proxy.connect()
            // The server goes on to serve the old staple, so that the connection that is made then is refused.
            var accepted = 0
            let response = try Patience.poll(for: "a refusal", every: 0.05) {
                try client.send(ProxyUnderTest.request("GET", "http://\(host)/"))
                let response = try client.readResponse()
                if response.status == 200 { accepted += 1 }
                return response.status == 200 ? nil : response
            }
            #expect(Int64(Date().timeIntervalSince1970) >= end)
            guard accepted > 0 else { continue }
            #expect(response.problemCode == "staple_missing", "\(response.text)")
            let records = try origin.waitForClosed(2)
            #expect(records.map(\.requests.count) == [accepted, 0])
            return
        }
        Issue.record("no request came in time")
    }

    @Test("81 openssl s_server and nginx work with and without a staple", arguments: [false, true])
    func programs(isHTTP2: Bool) throws {
        for isStapled in [true, false] {
            let staple = isStapled ? try good() : nil
            let nginx = try NginxOrigin(server, http2: isHTTP2, staple: staple)
            let before = try nginx.requestCount()
            let proxy = try ProxyUnderTest(settings(at: nginx.port, isHTTP2: isHTTP2))
            let response = try proxy.get("http://\(host)/plain")
            #expect(response.status == (isStapled ? 200 : 502), "\(response.text)")
            if !isStapled {
                #expect(response.problemCode == "staple_missing")
                // No request but the two that ask for the number.
                #expect(try nginx.requestCount() == before + 1)
            }
        }
        guard !isHTTP2 else { return }
        for version in ["-tls1_2", "-tls1_3"] {
            let responses = ["answer": "HTTP/1.0 200 ok\r\nContent-Type: text/plain\r\n\r\nfrom s_server\n"]
            let right = try OpenSSLServer(
                server,
                mode: .files,
                responses: responses,
                staple: good(),
                arguments: [version]
            )
            let proxy = try ProxyUnderTest(settings(at: right.port))
            #expect(try proxy.get("http://\(host)/answer").text == "from s_server\n")
            let wrong = try OpenSSLServer(server, mode: .printing, arguments: [version])
            let refusing = try ProxyUnderTest(settings(at: wrong.port))
            #expect(try refusing.get("http://\(host)/answer").problemCode == "staple_missing")
            try wrong.waitForFailedHandshake()
            #expect(!wrong.output.contains("GET "))
        }
    }
}
