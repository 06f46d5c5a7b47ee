// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("Command line: pins verify", .onOwnThreads)
struct CommandLineVerifyTests {
    private let folder: TemporaryFolder
    private let pki: TestPKI
    private let server: TestServer

    init() throws {
        folder = try TemporaryFolder()
        pki = try TestPKI()
        server = try pki.server("api.test", "www.api.test", "other.test")
    }

    private func origin() throws -> ScriptedOrigin {
        try ScriptedOrigin(server) { connection in connection.readToEnd() }
    }

    /// Runs `pins verify` and reads its JSON lines.
    private func verify(
        _ settings: ProxySettings,
        _ words: String...
    ) throws -> (finished: Programs.Finished, lines: [[String: Any]]) {
        let path = try settings.write(to: folder)
        let finished = try pinproxy(["pins", "verify", "--config", path, "--json"] + words)
        let lines = try finished.output.split(separator: "\n").map { line in
            try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        }
        return (finished, lines)
    }

    @Test("a host whose pin holds passes, without a request")
    func pass() throws {
        let origin = try origin()
        var settings = ProxySettings(trusting: pki)
        settings.resolve("api.test", to: origin.port)
        settings.pinnedDomains["api.test"] = [
            "pinningMode": "publicKey",
            "expiration": "2098-12-31",
            "pins": [
                ["spki-sha256": server.pin.base64, "comment": "the key\u{1b}[31m of today"],
                ["spki-sha256": PublicKeyPin.unrelated().base64, "backup": true],
            ],
        ]
        let (finished, lines) = try verify(settings)
        #expect(finished.exitCode == 0, "\(finished.errors)")
        let line = try #require(lines.first)
        #expect(lines.count == 1)
        #expect(line["host"] as? String == "api.test")
        #expect(line["domain"] as? String == "api.test")
        #expect(line["port"] as? Int == 443)
        #expect(line["passed"] as? Bool == true)
        #expect(line["verdict"] as? String == "pass")
        #expect(line["pinningMode"] as? String == "publicKey")
        #expect(line["matchedPin"] as? String == "\(server.pin)")
        #expect(line["matchedBackupOnly"] as? Bool == false)
        #expect(line["certificateExpiry"] as? String == "2099-01-01")
        #expect(line["pinSetExpiry"] as? String == "2098-12-31")
        // Certificates and pin set end at the same second.
        let days = Int((TestPKI.validity.upperBound - Int64(Date().timeIntervalSince1970)) / 86_400)
        #expect([days, days - 1].contains(try #require(line["daysToCertificateExpiry"] as? Int)))
        #expect(line["daysToPinSetExpiry"] as? Int == line["daysToCertificateExpiry"] as? Int)
        #expect(line["address"] as? String == "127.0.0.1:\(origin.port)")
        #expect(line["tlsVersion"] as? String == "TLSv1.3")
        #expect(line["code"] == nil)
        #expect(try origin.waitForClosed().map(\.applicationBytes) == [0])
        #expect(origin.connections.map(\.isEstablished) == [true])

        let text = try pinproxy("pins", "verify", "--config", try settings.write(to: folder))
        #expect(text.exitCode == 0)
        #expect(text.output.hasPrefix("PASS  api.test:443  pass\n      pin       \(server.pin)\n"))
        #expect(text.output.contains("the key\u{fffd}[31m of today"))
        #expect(!text.output.contains("\u{1b}"))
        #expect(text.output.hasSuffix("\nall 1 passed\n"))
    }

    @Test("one wrong pin fails all; both hosts are shown")
    func mismatch() throws {
        let (good, bad) = (try origin(), try origin())
        var settings = ProxySettings(trusting: pki)
        settings.serve("api.test", server, at: good.port)
        settings.resolve("other.test", to: bad.port)
        settings.pin("other.test", to: .unrelated(9))
        let (finished, lines) = try verify(settings)
        #expect(finished.exitCode == 1)
        #expect(lines.map { $0["host"] as? String } == ["api.test", "other.test"])
        #expect(lines.map { $0["passed"] as? Bool } == [true, false])
        #expect(lines[1]["verdict"] as? String == "fail")
        #expect(lines[1]["code"] as? String == "pin_mismatch")
        #expect(try #require(lines[1]["reason"] as? String).isEmpty == false)
        #expect(try #require(lines[1]["remedy"] as? String).isEmpty == false)
        #expect(lines[1]["matchedPin"] == nil)
        #expect(lines[1]["address"] as? String == "127.0.0.1:\(bad.port)")
        #expect(lines[1]["tlsVersion"] as? String == "TLSv1.3" && lines[1]["cipher"] != nil)
        #expect((lines[1]["offeredPins"] as? [String])?.first == "\(server.pin)")
        #expect(try good.waitForClosed().map(\.applicationBytes) == [0])
        #expect(try bad.waitForClosed().map(\.applicationBytes) == [0])

        // One host alone, and the words for people.
        #expect(try verify(settings, "api.test").finished.exitCode == 0)
        let text = try pinproxy("pins", "verify", "--config", try settings.write(to: folder))
        #expect(text.exitCode == 1)
        #expect(text.output.contains("FAIL  other.test:443  fail\n      reason    pin_mismatch: "))
        #expect(text.output.contains("      server    127.0.0.1:\(bad.port), TLSv1.3, TLS_"), "\(text.output)")
        #expect(text.output.contains("      offered   \(server.pin)\n"), "\(text.output)")
        #expect(text.output.hasSuffix("\n1 of 2 FAILED\n"))
    }

    @Test("a match through a backup pin alone passes with a warning")
    func backupOnly() throws {
        let origin = try origin()
        var settings = ProxySettings(trusting: pki)
        settings.resolve("api.test", to: origin.port)
        settings.pinnedDomains["api.test"] = [
            "pinningMode": "publicKey",
            "pins": [
                ["spki-sha256": PublicKeyPin.unrelated().base64],
                ["spki-sha256": server.pin.base64, "backup": true],
            ] as [[String: Any]],
        ]
        let (finished, lines) = try verify(settings)
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(lines.first?["matchedBackupOnly"] as? Bool == true)
        #expect(lines.first?["warnings"] as? [String] == ["backup_only"])
        let text = try pinproxy("pins", "verify", "--config", try settings.write(to: folder))
        #expect(text.output.contains("only a backup pin matched"))
    }

    @Test("a near end is shown in words, also without colours")
    func nearEnd() throws {
        let now = Int64(Date().timeIntervalSince1970)
        let near = try pki.server(
            CertificateBuilder.server(hosts: ["api.test"], validity: now - 9 * 86_400..<now + 3 * 86_400)
        )
        let origin = try ScriptedOrigin(near) { connection in connection.readToEnd() }
        let formatter = ISO8601DateFormatter()
        formatter.formatOptions = [.withFullDate]
        var settings = ProxySettings(trusting: pki)
        settings.resolve("api.test", to: origin.port)
        let end = formatter.string(from: Date(timeIntervalSinceNow: 8 * 86_400))
        settings.pin("api.test", to: near.pin, with: ["expiration": end])
        let (finished, lines) = try verify(settings)
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(lines.first?["warnings"] as? [String] == ["certificate_near_expiry", "pin_set_near_expiry"])
        #expect(lines.first?["certificateLifetimeLeft"] as? String == "third")
        let text = try pinproxy("pins", "verify", "--config", try settings.write(to: folder))
        #expect(text.output.contains("warning   a certificate of the chain is near its end"))
        #expect(text.output.contains("warning   the pin set is near its end"))
    }

    @Test("a new certificate of four days is not near its end")
    func shortLifetime() throws {
        let now = Int64(Date().timeIntervalSince1970)
        let short = try pki.server(
            CertificateBuilder.server(hosts: ["api.test"], validity: now - 86_400..<now + 3 * 86_400)
        )
        let origin = try ScriptedOrigin(short) { connection in connection.readToEnd() }
        var settings = ProxySettings(trusting: pki)
        settings.serve("api.test", short, at: origin.port)
        let (finished, lines) = try verify(settings)
        #expect(finished.exitCode == 0 && lines.first?["warnings"] == nil, "\(lines)")
        #expect(lines.first?["certificateLifetimeLeft"] == nil && lines.first?["daysToCertificateExpiry"] != nil)
    }

    @Test("pins that will not last are warnings")
    func oneKey() throws {
        let origin = try origin()
        var settings = ProxySettings(trusting: pki)
        settings.resolve("api.test", to: origin.port)
        settings.pinnedDomains["api.test"] = ["allowSinglePin": true, "pins": ["\(server.pin)"]]
        let (finished, lines) = try verify(settings)
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(lines.first?["warnings"] as? [String] == ["pins_one_key"])
        let path = try settings.write(to: folder)
        let check = try pinproxy("check", "--config", path, "--json")
        #expect(check.exitCode == 0 && check.output.contains("\"code\":\"pins_one_key\""), "\(check.output)")
        #expect(try pinproxy("check", "--config", path).errors.contains("warning: "))
    }

    @Test("a domain without a server says how to try a subdomain")
    func parentsAndExcluded() throws {
        var settings = ProxySettings(trusting: pki)
        settings.pin("nowhere.invalid", to: server.pin, with: ["includeSubdomains": true])
        settings.pinnedDomains["free.nowhere.invalid"] = ["excludeFromParentPolicy": true]
        let (finished, lines) = try verify(settings)
        #expect(finished.exitCode == 1)
        #expect(lines.map { $0["host"] as? String } == ["nowhere.invalid"])
        #expect(lines.first?["code"] as? String == "dns_failed")
        #expect(lines.first?["remedy"] as? String == "if it has no server itself, name a host below it")
        let excluded = try verify(settings, "free.nowhere.invalid").finished
        #expect(excluded.exitCode == 64)
        #expect(excluded.errors.contains("excluded from its parent's policy"))
    }

    @Test("report-only pins and expired sets do not pass")
    func acceptedButNotVerified() throws {
        let origin = try origin()
        var settings = ProxySettings(trusting: pki)
        for host in ["api.test", "other.test"] { settings.resolve(host, to: origin.port) }
        settings.pin("api.test", to: .unrelated(9), with: ["enforcePinning": false])
        settings.pin("other.test", to: server.pin, with: ["expiration": "2021-01-01", "onExpiration": "unpinned"])
        let (finished, lines) = try verify(settings)
        #expect(finished.exitCode == 1)
        #expect(lines.map { $0["verdict"] as? String } == ["reportOnly", "expired"])
        #expect(lines.map { $0["passed"] as? Bool } == [false, false])
        #expect(lines.map { $0["code"] as? String } == ["pin_mismatch", "pin_set_expired"])
        #expect(try #require(lines[1]["daysToPinSetExpiry"] as? Int) < 0)
    }

    @Test("the configuration's anchors decide, also in mode none")
    func anchors() throws {
        let origin = try origin()
        var settings = ProxySettings(trusting: try TestPKI("other"))
        settings.serve("api.test", server, at: origin.port)
        let refused = try verify(settings)
        #expect(refused.finished.exitCode == 1)
        #expect(refused.lines.first?["code"] as? String == "certificate_untrusted")
        settings = ProxySettings(trusting: pki)
        settings.resolve("api.test", to: origin.port)
        settings.pinnedDomains["api.test"] = ["pinningMode": "none"]
        let accepted = try verify(settings)
        #expect(accepted.finished.exitCode == 0, "\(accepted.finished.errors)")
        #expect(accepted.lines.first?["verdict"] as? String == "notPinned")
    }

    @Test("unreachable servers, denied hosts and denied addresses fail")
    func unreachable() throws {
        let (descriptor, port) = try TestSocket.reserveRefusingPort()
        defer { close(descriptor) }
        let origin = try origin()
        var settings = ProxySettings(trusting: pki)
        settings.serve("api.test", server, at: port)
        settings.serve("other.test", server, at: origin.port)
        settings.pin("127.0.0.1", to: server.pin, with: ["ports": [Int(origin.port)]])
        settings.members["access"] = ["denyHosts": ["other.test"]]
        let (finished, lines) = try verify(settings)
        #expect(finished.exitCode == 1)
        let codes = Dictionary(uniqueKeysWithValues: lines.map { ($0["host"] as? String, $0["code"] as? String) })
        #expect(codes == ["api.test": "connect_failed", "other.test": "host_denied", "127.0.0.1": "address_denied"])
        #expect(lines.allSatisfy { $0["verdict"] as? String == "unreachable" && $0["passed"] as? Bool == false })
        #expect(origin.connections.isEmpty)
    }

    @Test("a silent server times out after timeouts.connect")
    func timeout() throws {
        let listening = try TestSocket.listen()
        defer { close(listening.descriptor) }
        var settings = ProxySettings(trusting: pki)
        settings.serve("api.test", server, at: listening.port)
        settings.setTimeouts(["connect": "200ms"])
        let (finished, lines) = try verify(settings)
        #expect(finished.exitCode == 1)
        #expect(lines.first?["code"] as? String == "connect_timeout")
    }

    @Test("more hosts than connections are all tried, in order")
    func many() throws {
        let hosts = (100..<180).map { "h\($0).test" }
        let server = try pki.server(
            CertificateBuilder.server(hosts: hosts, validity: TestPKI.validity)
        )
        let origin = try ScriptedOrigin(server) { connection in connection.readToEnd() }
        var settings = ProxySettings(trusting: pki)
        for host in hosts { settings.serve(host, server, at: origin.port) }
        let (finished, lines) = try verify(settings)
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(lines.map { $0["host"] as? String } == hosts)
        #expect(finished.errors.isEmpty)
        #expect(try origin.waitForClosed(hosts.count).map(\.applicationBytes) == hosts.map { _ in 0 })
    }

    @Test("an origin of HTTP/2 alone is verified without a request")
    func http2() throws {
        let received = Monitor<[UInt8]>([])
        let origin = try ScriptedOrigin(server, protocols: ["h2"]) { connection in
            while case let bytes = connection.read(), !bytes.isEmpty { received.with { $0 += bytes } }
        }
        var settings = ProxySettings(trusting: pki)
        settings.serve("api.test", server, at: origin.port)
        settings.hosts["api.test"]?["httpVersion"] = "2"
        let (finished, lines) = try verify(settings)
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(lines.first?["verdict"] as? String == "pass")
        try origin.waitForClosed()
        // Frames behind the preface (RFC 9113, section 4.1): settings and such, never HEADERS (1) or DATA (0).
        var rest = received.with { $0 }.dropFirst("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8.count)
        while rest.count >= 9 {
            let head = Array(rest.prefix(9))
            #expect(head[3] > 1)
            rest = rest.dropFirst(9 + (Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])))
        }
        #expect(rest.isEmpty)
    }

    @Test("a subdomain has its domain's policy; ports are tried one by one")
    func namedHosts() throws {
        let origin = try origin()
        var settings = ProxySettings(trusting: pki)
        settings.resolve("www.api.test", to: origin.port)
        settings.pin("api.test", to: server.pin, with: ["includeSubdomains": true, "ports": [443, 8443]])
        let (finished, lines) = try verify(settings, "WWW.api.test", "www.api.test:443")
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(lines.map { $0["port"] as? Int } == [443, 8443])
        #expect(lines.allSatisfy { $0["host"] as? String == "www.api.test" && $0["domain"] as? String == "api.test" })
        let uncovered = try verify(settings, "www.api.test:444").finished
        #expect(uncovered.exitCode == 64)
        #expect(uncovered.errors.contains("its \"ports\" are 443, 8443"))
        let unknown = try verify(settings, "unknown.test").finished
        #expect(unknown.exitCode == 64)
        #expect(unknown.errors.contains("no pin file of the configuration names unknown.test"))
        #expect(unknown.output.isEmpty)
    }

    @Test("configurations that are missing, bad or without pins end with 66 or 78")
    func configuration() throws {
        #expect(try pinproxy("pins", "verify", "--config", "\(folder.path)/none").exitCode == 66)
        let bad = try folder.write("{ \"version\": 1, ", as: "bad.json")
        #expect(try pinproxy("pins", "verify", "--config", bad).exitCode == 78)
        let (finished, lines) = try verify(ProxySettings(trusting: pki))
        #expect(finished.exitCode == 78)
        #expect(finished.errors.contains("the configuration pins no host"))
        #expect(lines.isEmpty)
    }
}
