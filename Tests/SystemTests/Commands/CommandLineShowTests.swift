// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("Command line: pins show", .onOwnThreads)
struct CommandLineShowTests {
    private let folder: TemporaryFolder
    private let pki: TestPKI
    private let anchors: String

    init() throws {
        folder = try TemporaryFolder()
        pki = try TestPKI()
        anchors = try folder.write(pki.root.certificate.pem, as: "anchors.pem")
    }

    /// `pins show` of `api.test`, which is nowhere but at an origin of this machine.
    private func show(_ server: TestServer, _ words: String..., host: String = "api.test") throws -> Programs.Finished {
        let origin = try ScriptedOrigin(server) { connection in connection.readToEnd() }
        let finished = try pinproxy(
            ["pins", "show", host, "--connect", "127.0.0.1:\(origin.port)", "--anchors", anchors] + words
        )
        #expect(try origin.waitForClosed().map(\.applicationBytes) == [0])
        return finished
    }

    private func json(_ finished: Programs.Finished) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(finished.output.utf8)) as? [String: Any])
    }

    private func codes(_ object: [String: Any]) -> [String] {
        (object["warnings"] as? [[String: Any]] ?? []).compactMap { $0["code"] as? String }
    }

    // MARK: The chain

    @Test("the JSON has chains, anchors and TLS version, without warnings")
    func goodChain() throws {
        let server = try pki.server("api.test")
        let finished = try show(server, "--json")
        #expect(finished.exitCode == 0, "\(finished.errors)")
        let object = try json(finished)
        #expect(object["host"] as? String == "api.test")
        #expect(object["port"] as? Int == 443)
        #expect(object["valid"] as? Bool == true)
        #expect(object["code"] == nil)
        #expect(object["anchors"] as? String == anchors)
        #expect(object["tlsVersion"] as? String == "TLSv1.3")
        let chain = try #require(object["chain"] as? [[String: Any]])
        let keys = server.chain.map(\.publicKeyPin) + [pki.root.certificate.publicKeyPin]
        #expect(chain.map { $0["pin"] as? String } == keys.map(\.description))
        #expect(chain.map { $0["sent"] as? Bool } == [true, true, false])
        #expect(chain.map { $0["isCA"] as? Bool } == [false, true, true])
        #expect(chain[0]["names"] as? [String] == ["DNS:api.test"])
        #expect(chain[0]["key"] as? String == "EC P-256")
        #expect(chain[0]["notBefore"] as? String == "2020-01-01")
        #expect(chain[0]["notAfter"] as? String == "2099-01-01")
        let sent = try #require(object["sent"] as? [[String: Any]])
        #expect(sent.map { $0["pin"] as? String } == server.chain.map(\.publicKeyPin.description))
        #expect(codes(object) == [])

        let text = try show(server)
        #expect(text.output.contains("It ends in \"CN = pinproxy test root\", from\n\(anchors)"))
        #expect(
            text.output.contains("The server sent the first 2 of these, in this order; the rest is from \(anchors).")
        )
    }

    @Test("near and past ends are shown")
    func dates() throws {
        let now = Int64(Date().timeIntervalSince1970)
        let day: Int64 = 86_400
        let near = try pki.server(
            CertificateBuilder.server(hosts: ["api.test"], validity: now - 19 * day..<now + 5 * day)
        )
        let finished = try show(near)
        #expect(finished.exitCode == 0)
        #expect(finished.output.contains("warning: \"CN = api.test\" ends on "))
        let said = finished.output.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(said.contains("less than a third of its lifetime is left"), "\(said)")
        let past = try pki.server(CertificateBuilder.server(hosts: ["api.test"], validity: now - 9 * day..<now - day))
        let refused = try show(past, "--json")
        #expect(refused.exitCode == 77)
        let object = try json(refused)
        #expect(object["code"] as? String == "certificate_expired")
        #expect(object["chain"] == nil && object["anchors"] == nil)
        // Which machine has shown it.
        #expect((object["address"] as? String)?.hasPrefix("127.0.0.1:") == true)
        #expect(object["tlsVersion"] as? String == "TLSv1.3" && object["cipher"] != nil)
        let words = try show(past).output
        #expect(words.contains(" at 127.0.0.1:") && words.contains(", TLSv1.3, TLS_"), "\(words)")
        #expect((object["sent"] as? [[String: Any]])?.count == 2)
        #expect(codes(object) == ["certificate_expired"])
    }

    @Test("a wrong name is shown beside an incomplete chain")
    func wrongNameAndUnknownRoot() throws {
        let other = try TestPKI("other")
        var server = try other.server("other.test")
        server.chain.append(other.root.certificate)
        let object = try json(try show(server, "--json"))
        #expect(object["valid"] as? Bool == false)
        #expect(codes(object) == ["host_mismatch", "unknown_root"])
        let right = try other.server("api.test")
        #expect(codes(try json(try show(right, "--json"))) == ["incomplete_chain"])
    }

    @Test("a missing intermediate is shown, whether anchors replace it or not")
    func incompleteChain() throws {
        var server = try pki.server("api.test")
        server.chain.removeLast()
        let broken = try show(server)
        #expect(broken.exitCode == 77)
        #expect(broken.output.contains("\"CN = pinproxy test intermediate\" was not sent"))
        try folder.write(pki.intermediate.certificate.pem + pki.root.certificate.pem, as: "anchors.pem")
        let lucky = try show(server, "--json")
        #expect(lucky.exitCode == 0)
        #expect(codes(try json(lucky)) == ["incomplete_chain"])
    }

    @Test("a cross-signed alternative and a superfluous certificate are distinguished")
    func extraCertificates() throws {
        let elsewhere = try TestPKI("elsewhere")
        var server = try pki.server("api.test")
        let authority = CertificateBuilder.authority("pinproxy test intermediate", validity: TestPKI.validity)
        server.chain.append(try authority.certificate(for: pki.intermediate.key, issuer: elsewhere.root))
        server.chain.append(elsewhere.intermediate.certificate)
        let object = try json(try show(server, "--json"))
        #expect(codes(object) == ["cross_signed", "superfluous_certificate"])
        let text = try show(server)
        #expect(text.output.contains("The server sent, in this order:\n"))
        #expect(text.output.contains("CN = elsewhere intermediate (not in the chain)\n"))
    }

    @Test("international names use A-labels, and IPv6 literals may have brackets")
    func names() throws {
        let server = try pki.server("xn--bcher-kva.test")
        #expect(try show(server, host: "bücher.test").exitCode == 0)
        let address = try pki.server(
            {
                var builder = CertificateBuilder.server(hosts: [], validity: TestPKI.validity)
                builder.names = [.ip("::1")]
                return builder
            }()
        )
        for host in ["::1", "[::1]", "[::1]:443"] {
            let finished = try show(address, host: host)
            #expect(finished.exitCode == 0, "\(host): \(finished.output)")
            #expect(finished.output.hasPrefix("[::1]:443 at 127.0.0.1:"))
        }
    }

    @Test("a server of HTTP/2 alone is shown")
    func http2() throws {
        let origin = try ScriptedOrigin(try pki.server("api.test"), protocols: ["h2"]) { $0.readToEnd() }
        let finished = try pinproxy(
            "pins",
            "show",
            "api.test",
            "--connect",
            "127.0.0.1:\(origin.port)",
            "--anchors",
            anchors
        )
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(finished.output.contains("The chain is VALID"))
    }

    // MARK: Trouble

    @Test(
        "a server that wants a client certificate causes a warning or error",
        arguments: [false, true]
    )
    func clientCertificate(tls12: Bool) throws {
        let origin = try OpenSSLServer(
            try pki.server("api.test"),
            mode: .printing,
            arguments: ["-Verify", "1"] + (tls12 ? ["-tls1_2"] : [])
        )
        let finished = try pinproxy(
            "pins",
            "show",
            "api.test",
            "--connect",
            "127.0.0.1:\(origin.port)",
            "--anchors",
            anchors
        )
        if tls12 {
            #expect(finished.exitCode == 1)
            #expect(finished.errors.contains("it asks for a client certificate, and no certificate was sent"))
        } else {
            #expect(finished.exitCode == 0, "\(finished.errors)")
            #expect(finished.output.contains("warning: the server asks for a client certificate"))
        }
    }

    @Test("a port without TLS and a silent server end with 1")
    func noTLS() throws {
        let plain = try ScriptedOrigin(nil) { connection in try connection.write("220 mail.test ESMTP\r\n") }
        let finished = try pinproxy("pins", "show", "127.0.0.1:\(plain.port)", "--anchors", anchors)
        #expect(finished.exitCode == 1)
        #expect(finished.errors.contains("does not speak TLS on this port"), "\(finished.errors)")
        let listening = try TestSocket.listen()
        defer { close(listening.descriptor) }
        let silent = try pinproxy(
            "pins",
            "show",
            "127.0.0.1:\(listening.port)",
            "--anchors",
            anchors,
            "--timeout",
            "200ms"
        )
        #expect(silent.exitCode == 1)
        #expect(silent.errors.contains("200"), "\(silent.errors)")
    }

    // MARK: Pin files

    private func pins(_ text: String) throws -> [Pin] {
        let loaded = try PinFile.load(text: text, file: "\(folder.path)/pin.json", at: 1_800_000_000)
        return try #require(loaded.domains.domains.first?.policy).configuration.pins
    }

    @Test("--new-backup-key makes a private key, and its pin is the backup")
    func newBackupKey() throws {
        let server = try pki.server("api.test")
        let path = "\(folder.path)/next.key"
        let finished = try show(server, "--pin-file", "--new-backup-key", path)
        #expect(finished.exitCode == 0, "\(finished.errors)")
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        #expect(try String(contentsOfFile: path, encoding: .utf8).hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
        let pins = try pins(finished.output)
        let fromFile = try pinproxy("pins", "from", path)
        #expect(fromFile.output == "\(pins[1].key)  EC P-256, private key\n")
        #expect(pins[0].key == server.pin)
        #expect(pins.map(\.isBackup) == [false, true])
        #expect(pins.map(\.scope) == [.leaf, .leaf])
        // OpenSSL takes the key as well.
        #expect(try Programs.run("openssl", ["pkey", "-in", path, "-noout", "-check"]).exitCode == 0)

        let before = try String(contentsOfFile: path, encoding: .utf8)
        let again = try show(server, "--pin-file", "--new-backup-key", path)
        #expect(again.exitCode == 1)
        #expect(again.output.isEmpty)
        #expect(again.errors.contains("nothing is ever overwritten"))
        #expect(try String(contentsOfFile: path, encoding: .utf8) == before)
        try FileManager.default.createSymbolicLink(
            atPath: "\(folder.path)/link",
            withDestinationPath: "\(folder.path)/elsewhere"
        )
        #expect(try show(server, "--pin-file", "--new-backup-key", "\(folder.path)/link").exitCode == 1)
        #expect(!FileManager.default.fileExists(atPath: "\(folder.path)/elsewhere"))
    }

    @Test("an invalid chain gives no key")
    func noKeyForNothing() throws {
        let path = "\(folder.path)/next.key"
        let finished = try show(try TestPKI("other").server("api.test"), "--pin-file", "--new-backup-key", path)
        #expect(finished.exitCode == 77)
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test("--pin names the pinned certificate, and the server passes")
    func places() throws {
        let server = try pki.server("api.test")
        let (middle, root) = (server.chain[1].publicKeyPin, pki.root.certificate.publicKeyPin)
        // A private CA: the backup is the root, since intermediates change.
        let expected: [(String, [PublicKeyPin], [Pin.Scope])] = [
            ("leaf", [server.pin, root], [.leaf, .ca]), ("intermediate", [middle, root], [.ca, .ca]),
            ("root", [root], [.ca]),
        ]
        for (place, keys, scopes) in expected {
            let finished = try show(server, "--pin-file", "--pin", place)
            #expect(finished.exitCode == 0, "\(finished.errors)")
            let loaded = try PinFile.load(text: finished.output, file: "\(folder.path)/pin.json", at: 1_800_000_000)
            let policy = try #require(loaded.domains.domains.first?.policy)
            #expect(policy.configuration.pins.map(\.key) == keys, "\(place)")
            #expect(policy.configuration.pins.map(\.scope) == scopes, "\(place)")
            let host = try #require(loaded.domains.domains.first?.host)
            let evaluation = policy.evaluate(chain: server.chain, host: host, anchors: TrustAnchors(certificates: []))
            #expect(evaluation.verdict == .pass && !evaluation.matchedBackupOnly, "\(place)")
        }
        let short = TestServer(
            identity: try CertificateBuilder.server(hosts: ["api.test"], validity: TestPKI.validity)
                .identity(issuer: pki.root),
            chain: []
        )
        let direct = TestServer(identity: short.identity, chain: [short.certificate])
        let missing = try show(direct, "--pin-file", "--pin", "intermediate")
        #expect(missing.exitCode == 1)
        #expect(missing.errors.contains("has 2 certificates and no intermediate (--pin leaf or --pin root)"))
    }

    @Test(
        "contradictory options end with 64",
        arguments: [
            (["--pin", "leaf"], "--pin needs --pin-file"),
            (["--new-backup-key", "x"], "--new-backup-key needs --pin-file"),
            (["--pin-file", "--json"], "two things to print"), (["--pin-file", "--pin", "stem"], "not \"stem\""),
            (["--timeout", "5"], "--timeout takes a time"), (["--connect", "127.0.0.1:0"], "no port from 1 to 65535"),
        ]
    )
    func contradictions(words: [String], message: String) throws {
        let finished = try pinproxy(["pins", "show", "api.test"] + words)
        #expect(finished.exitCode == 64)
        #expect(finished.errors.contains(message), "\(finished.errors)")
    }

    @Test("colours appear on a terminal alone, without NO_COLOR")
    func colours() throws {
        let origin = try ScriptedOrigin(try pki.server("api.test")) { connection in connection.readToEnd() }
        let words = [
            try Programs.built("pinproxy"), "pins", "show", "api.test", "--connect", "127.0.0.1:\(origin.port)",
            "--anchors", anchors,
        ]
        // script(1) gives the program a terminal.
        func onTerminal(_ environment: [String: String]) throws -> String {
            let line = words.map { "'\($0)'" }.joined(separator: " ")
            let base = Programs.environment.filter { $0.key != "NO_COLOR" }.merging(["TERM": "xterm"]) { $1 }
            return try Programs.run(
                "script",
                ["-qec", line, "/dev/null"],
                environment: base.merging(environment) { $1 }
            ).output
        }
        #expect(try onTerminal([:]).contains("\u{1b}[32mThe chain is VALID"))
        #expect(!(try onTerminal(["NO_COLOR": "1"]).contains("\u{1b}")))
        #expect(!(try onTerminal(["TERM": "dumb"]).contains("\u{1b}")))
        #expect(!(try Programs.run(words[0], Array(words.dropFirst())).output.contains("\u{1b}")))
    }
}
