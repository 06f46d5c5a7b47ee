// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

/// `tlsProfile`, `requireGroups`, `tlsGroup` and `tlsServerName`, with real servers.
@Suite("What the TLS handshake offers to origins", .onOwnThreads)
struct TLSSettingsTests {
    private static let identity = try! Stage.pki.server(Stage.host, key: .rsa(bits: 2048))

    private func openSSL(_ arguments: String..., server: TestServer = identity) throws -> OpenSSLServer {
        try OpenSSLServer(
            server,
            mode: .files,
            responses: ["hello": "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"],
            arguments: arguments
        )
    }

    private func proxy(
        at port: UInt16,
        _ change: (inout ProxySettings) -> Void = { _ in }
    ) throws -> ProxyUnderTest {
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["workers"] = 1
        settings.serve(Stage.host, Self.identity, at: port)
        change(&settings)
        return try ProxyUnderTest(settings)
    }

    // MARK: tlsProfile

    @Test(
        "the refusal names the profile that the server needs",
        arguments: [
            ("AES128-GCM-SHA256", "compatible", "RSA key exchange, AES-CBC"),
            ("ECDHE-RSA-AES256-SHA", "compatible", "RSA key exchange, AES-CBC"),
            ("DHE-RSA-AES128-GCM-SHA256", "legacy", "DHE"),
        ]
    )
    func profile(cipher: String, needed: String, what: String) throws {
        let server = try openSSL("-tls1_2", "-cipher", cipher)
        let strict = try proxy(at: server.port)
        // Found out once, and said from then on.
        for _ in 0..<2 {
            let response = try strict.get("http://\(Stage.host)/hello")
            #expect(response.status == 502 && response.problemCode == "tls_handshake_failed", "\(response.text)")
            let text = response.text.replacing("\\\"", with: "\"")
            #expect(text.contains("what tlsProfile \"\(needed)\" offers (\(what))"), "\(text)")
            #expect(text.contains("or say \"tlsProfile\": \"\(needed)\" for the host"), "\(text)")
        }
        for isDefault in [false, true] {
            let wide = try proxy(at: server.port) {
                if isDefault {
                    $0.members["defaults"] = ["tlsProfile": needed]
                } else {
                    $0.hosts[Stage.host]?["tlsProfile"] = needed
                }
            }
            #expect(try wide.get("http://\(Stage.host)/hello").text == "hello")
            let transaction = try #require(try wide.waitForTaskLines(1).first?.transactions.first)
            #expect(transaction["cipher"] as? String == cipher)
            #expect((transaction["tlsGroup"] == nil) == !cipher.hasPrefix("ECDHE"))
        }
    }

    @Test("a host may have stricter settings than the defaults")
    func stricterHost() throws {
        let server = try openSSL("-tls1_2", "-cipher", "AES128-SHA")
        let proxy = try proxy(at: server.port) {
            $0.members["defaults"] = ["tlsProfile": "legacy"]
            $0.hosts[Stage.host]?["tlsProfile"] = "modern"
        }
        #expect(try proxy.get("http://\(Stage.host)/hello").problemCode == "tls_handshake_failed")
    }

    @Test("a server that refuses every profile is tried two more times")
    func hopeless() throws {
        let origin = try ScriptedOrigin(nil) { connection in
            _ = connection.read()
            try connection.write([21, 3, 3, 0, 2, 2, 40])
            connection.finishWriting()
            connection.readToEnd()
        }
        let proxy = try proxy(at: origin.port)
        for count in [3, 4] {
            let response = try proxy.get("http://\(Stage.host)/")
            #expect(response.problemCode == "tls_handshake_failed", "\(response.text)")
            #expect(
                response.text.contains("refuses what the wider profiles (tlsProfile) offer, too"),
                "\(response.text)"
            )
            #expect(try origin.waitForClosed(count).count == count)
        }
    }

    @Test("a reload ends a trial, and the request uses the new policy")
    func reloadDuringTrial() throws {
        let origin = try ScriptedOrigin(nil) { connection in
            _ = connection.read()
            // The trial of the first policy is left without an answer.
            if connection.number == 1 { return connection.readToEnd() }
            try connection.write([21, 3, 3, 0, 2, 2, 40])
            connection.finishWriting()
            connection.readToEnd()
        }
        let proxy = try proxy(at: origin.port)
        let client = try proxy.connect()
        try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/"))
        _ = try origin.wait(for: "the trial") { $0.count == 2 && $0[0].isClosed ? true : nil }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["workers"] = 1
        settings.serve(Stage.host, Self.identity, at: origin.port)
        settings.hosts[Stage.host]?["tlsProfile"] = "compatible"
        try proxy.reload(settings)
        let response = try client.readResponse()
        #expect(response.status == 502 && response.problemCode == "tls_handshake_failed", "\(response.text)")
        #expect(response.text.contains("refuses what the wider profiles (tlsProfile) offer, too"), "\(response.text)")
        // One attempt and one trial under the new policy; no connection of the former one is left.
        #expect(try origin.waitForClosed(4).count == 4)
        #expect(try proxy.waitForTaskLines(1).count == 1)
    }

    @Test("a host of TLS 1.3 alone gets no trial")
    func noTrial() throws {
        let origin = try ScriptedOrigin(nil) { connection in
            _ = connection.read()
            try connection.write([21, 3, 3, 0, 2, 2, 40])
            connection.finishWriting()
            connection.readToEnd()
        }
        let proxy = try proxy(at: origin.port) {
            $0.pin(Stage.host, to: Self.identity.pin, with: ["minTLSVersion": "1.3"])
        }
        let response = try proxy.get("http://\(Stage.host)/")
        #expect(response.text.contains("Offered are TLS 1.3, on"), "\(response.text)")
        #expect(origin.connections.count == 1)
    }

    @Test("pins show reaches such a server, and warns of its needs")
    func pinsShow() throws {
        let folder = try TemporaryFolder()
        let anchors = try folder.write(Stage.pki.root.certificate.pem, as: "root.pem")
        func show(_ server: OpenSSLServer) throws -> [String: Any] {
            let finished = try pinproxy(
                ["pins", "show", Stage.host, "--connect", "127.0.0.1:\(server.port)", "--anchors", anchors, "--json"]
            )
            #expect(finished.exitCode == 0, "\(finished.errors)")
            return try #require(try JSONSerialization.jsonObject(with: Data(finished.output.utf8)) as? [String: Any])
        }
        func codes(_ object: [String: Any]) -> [String] {
            (object["warnings"] as? [[String: Any]] ?? []).compactMap { $0["code"] as? String }
        }
        let weak = try show(try openSSL("-tls1_2", "-cipher", "DHE-RSA-AES256-SHA"))
        #expect(weak["valid"] as? Bool == true && codes(weak) == ["tls_profile"] && weak["tlsGroup"] == nil)
        let good = try show(try openSSL("-tls1_2", "-groups", "P-384"))
        #expect(codes(good) == [] && good["tlsGroup"] as? String == "P-384")
    }

    // MARK: requireGroups and tlsGroup

    @Test(
        "requireGroups in a pin file: another group gets no byte",
        arguments: ["-tls1_2", "-tls1_3"]
    )
    func requiredGroups(version: String) throws {
        for (group, isServed) in [("P-384", true), ("P-256", false)] {
            let server = try OpenSSLServer(Self.identity, mode: .printing, arguments: [version, "-groups", group])
            let served = try openSSL(version, "-groups", group)
            let proxy = try proxy(at: isServed ? served.port : server.port) {
                $0.pin(Stage.host, to: Self.identity.pin, with: ["requireGroups": ["P-384"]])
            }
            let response = try proxy.get("http://\(Stage.host)/hello")
            if isServed {
                #expect(response.text == "hello")
                let transaction = try #require(try proxy.waitForTaskLines(1).first?.transactions.first)
                #expect(transaction["tlsGroup"] as? String == "P-384")
            } else {
                #expect(response.problemCode == "tls_handshake_failed", "\(response.text)")
                #expect(response.text.contains("requireGroups leaves out the other groups"), "\(response.text)")
                #expect(response.text.contains("on P-384."), "\(response.text)")
                #expect(!server.output.contains("GET"))
            }
        }
    }

    @Test("a reload that requires a group ends connections of others")
    func reload() throws {
        let stage = try Stage({ $0.members["workers"] = 1 }) { OriginResponse.text($0.target) }
        #expect(try stage.get().status == 200)
        let line = try #require(try stage.proxy.waitForTaskLines(1).last)
        // What OpenSSL 3.5 and later has in common with itself.
        let first = line.transactions.first?["tlsGroup"] as? String
        #expect(first == "X25519" || first == "X25519MLKEM768")
        try stage.reload { $0.pin(Stage.host, to: stage.server.pin, with: ["requireGroups": ["P-256"]]) }
        #expect(try stage.get().status == 200)
        let transaction = try #require(try stage.proxy.waitForTaskLines(2).last?.transactions.first)
        #expect(transaction["tlsGroup"] as? String == "P-256" && transaction["reusedConnection"] as? Bool == false)
    }

    @Test("a group that this OpenSSL lacks is a load error")
    func missingGroup() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: Stage.pki)
        settings.pin(Stage.host, to: Self.identity.pin, with: ["requireGroups": ["X25519MLKEM768"]])
        let finished = try pinproxy("check", "--config", try settings.write(to: folder))
        let version = try Programs.run("openssl", ["version"]).output
        if version.contains(" 3.5") || version.contains(" 3.6") || version.contains(" 4.") {
            #expect(finished.exitCode == 0, "\(finished.errors)")
        } else {
            #expect(finished.exitCode != 0)
            let text = finished.output + finished.errors
            #expect(text.contains("/pinnedDomains/\(Stage.host)/requireGroups/0"), "\(text)")
            #expect(text.contains("has no group X25519MLKEM768") && text.contains("Debian 13"), "\(text)")
        }
    }

    // MARK: tlsServerName

    @Test("tlsServerName is requested and verified; Host stays the URL's")
    func serverName() throws {
        let alias = "alias.test"
        let other = try Stage.pki.server("other.example.com")
        // The first certificate is for clients that ask for no name, or for an unknown one.
        let origin = try ScriptedOrigin(Self.identity) { OriginResponse.text($0["Host"] ?? "") }
        func proxy(_ server: TestServer, _ name: String?) throws -> ProxyUnderTest {
            var settings = ProxySettings(trusting: Stage.pki)
            settings.serve(alias, server, at: origin.port)
            if let name { settings.hosts[alias]?["tlsServerName"] = name }
            return try ProxyUnderTest(settings)
        }
        let unnamed = try proxy(Self.identity, nil)
        #expect(try unnamed.get("http://\(alias)/").problemCode == "certificate_host_mismatch")
        let named = try proxy(Self.identity, Stage.host)
        #expect(try named.get("http://\(alias)/").text == alias)
        #expect(try named.waitForTaskLines(1).first?.string("url") == "https://\(alias)/")
        let wrong = try proxy(Self.identity, "other.example.com")
        let response = try wrong.get("http://\(alias)/")
        #expect(response.problemCode == "certificate_host_mismatch", "\(response.text)")
        // The pins are those of the URL's host.
        #expect(try proxy(other, Stage.host).get("http://\(alias)/").problemCode == "pin_mismatch")
    }

    @Test("a tlsServerName that names the HTTPS proxy changes no pins")
    func serverNameOfProxy() throws {
        let (hop, server) = (try Stage.pki.server("localhost"), try Stage.pki.server("localhost"))
        let origin = try ScriptedOrigin(server) { OriginResponse.text($0["Host"] ?? "") }
        let upstream = try HTTPSProxy(hop, to: origin.port)
        func proxy(originPin: PublicKeyPin, hopPin: PublicKeyPin) throws -> ProxyUnderTest {
            var settings = ProxySettings(trusting: Stage.pki)
            settings.pin("alias.test", to: originPin)
            settings.pin("localhost", to: hopPin, with: ["ports": [Int(upstream.port)]])
            settings.members["access"] = ["denyAddresses": [String]()]
            settings.members["workers"] = 1
            settings.hosts["alias.test"] = [
                "tlsServerName": "localhost", "upstreamProxy": "https://localhost:\(upstream.port)",
            ]
            return try ProxyUnderTest(settings)
        }
        let right = try proxy(originPin: server.pin, hopPin: hop.pin)
        for _ in 0..<2 { #expect(try right.get("http://alias.test/").text == "alias.test") }
        let lines = try right.waitForTaskLines(2)
        #expect(lines.last?.transactions.first?["reusedConnection"] as? Bool == true)
        #expect(lines.first?.object("pinning")?["matched"] as? String == "\(server.pin)")
        // The one's key proves nothing of the other.
        let asHop = try proxy(originPin: hop.pin, hopPin: hop.pin)
        #expect(try asHop.get("http://alias.test/").problemCode == "pin_mismatch")
        let asked = upstream.asked.with { $0.count }
        let asOrigin = try proxy(originPin: server.pin, hopPin: server.pin)
        #expect(try asOrigin.get("http://alias.test/").problemCode == "proxy_untrusted")
        #expect(upstream.asked.with { $0.count } == asked)
    }

    @Test("the server gets the name in its hello, and an address gets none")
    func hello() throws {
        for (name, isSent) in [(Stage.host, true), ("192.0.2.7", false)] {
            let origin = try ScriptedOrigin(nil) { connection in
                let hello = connection.read()
                try connection.write("\(hello.firstRange(of: Array(Stage.host.utf8)) != nil)")
            }
            var settings = ProxySettings(trusting: Stage.pki)
            settings.serve("alias.test", Self.identity, at: origin.port)
            settings.hosts["alias.test"]?["tlsServerName"] = name
            let proxy = try ProxyUnderTest(settings)
            #expect(try proxy.get("http://alias.test/").problemCode == "tls_handshake_failed")
            #expect(try origin.waitForClosed().first?.bytesWritten == "\(isSent)".utf8.count)
        }
    }

    @Test("a pinned tlsServerName for an unpinned host is a load error")
    func unpinnedAlias() throws {
        for isNamed in [false, true] {
            let folder = try TemporaryFolder()
            var settings = ProxySettings(trusting: Stage.pki)
            settings.pin(Stage.host, to: Self.identity.pin)
            settings.hosts["alias.test"] = ["tlsServerName": Stage.host]
            if isNamed { settings.pin("alias.test", to: Self.identity.pin) }
            let finished = try pinproxy("check", "--config", try settings.write(to: folder))
            #expect((finished.exitCode == 0) == isNamed)
            let text = finished.output + finished.errors
            #expect(text.contains("its pins would not count for alias.test") == !isNamed, "\(text)")
            #expect(text.contains("/hosts/alias.test/tlsServerName") == !isNamed, "\(text)")
        }
    }

    @Test("tlsServerName for subdomains is a load error unless they are pinned")
    func unpinnedAliasOfSubdomains() throws {
        for isNamed in [false, true] {
            let folder = try TemporaryFolder()
            var settings = ProxySettings(trusting: Stage.pki)
            settings.pin(Stage.host, to: Self.identity.pin)
            settings.hosts["alias.test"] = ["tlsServerName": Stage.host, "includeSubdomains": true]
            settings.pin("alias.test", to: Self.identity.pin, with: ["includeSubdomains": isNamed])
            let finished = try pinproxy("check", "--config", try settings.write(to: folder))
            #expect((finished.exitCode == 0) == isNamed)
            let text = finished.output + finished.errors
            #expect(text.contains("would not count for hosts below alias.test") == !isNamed, "\(text)")
        }
    }
}
