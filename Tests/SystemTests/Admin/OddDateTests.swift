// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

/// The dates of a certificate are what the server writes: nothing that shows them may end for what they are.
@Suite("Certificates with invalid dates", .onOwnThreads)
struct OddDateTests {
    private static let pinned = "pinned.example.com"
    private static let shown = "shown.example.com"
    private static let collector = "collector.example.net"

    private func get(_ path: String, from proxy: ProxyUnderTest) throws -> HTTPMessage {
        try proxy.exchange("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
    }

    private func object(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any], "\(text)")
    }

    @Test("the proxy refuses such servers, and its documents stay readable", arguments: OddDates.allCases)
    func documents(_ dates: OddDates) throws {
        let server = try dates.server(Self.pinned, Self.shown)
        let origin = try ScriptedOrigin(server) { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.write("HTTP/1.1 204 N\r\nConnection: close\r\n\r\n")
        }
        let collector = try ScriptedOrigin(nil) { _ in OriginResponse.text("taken") }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["admin"] = ["address": "127.0.0.1:0"]
        settings.resolve(Self.pinned, to: origin.port)
        settings.resolve(Self.collector, to: collector.port)
        // Valid in itself or not, the chain is not asked for an anchor: the pins fail, and that is reported.
        settings.pin(
            Self.pinned,
            to: .unrelated(9),
            with: ["allowInvalidCertificates": true, "reportUris": ["http://\(Self.collector)/r"]]
        )
        // The server's own key is pinned, and nothing else is asked: the dates do not count.
        settings.resolve(Self.shown, to: origin.port)
        settings.pin(Self.shown, to: server.pin, with: ["allowInvalidCertificates": true])
        let proxy = try ProxyUnderTest(settings)
        #expect(try proxy.get("http://\(Self.pinned)/").status == 502)
        #expect(try proxy.get("http://\(Self.shown)/").status == 204)
        let report = try collector.wait(for: "a report") { $0.flatMap(\.requests).first }
        #expect(try object(String(decoding: report.body, as: UTF8.self))["served-certificate-chain"] != nil)
        // Workers hand in what they saw once a second.
        let policy = try Patience.poll(for: "both handshakes") { () -> HTTPMessage? in
            let policy = try get("/policy", from: proxy)
            return policy.text.components(separatedBy: "\"lastHandshake\"").count == 3 ? policy : nil
        }
        let domains = try #require(try object(policy.text)["domains"] as? [[String: Any]])
        for domain in domains {
            let last = try #require(domain["lastHandshake"] as? [String: Any])
            #expect((last["certificateExpiresInDays"] != nil) == dates.hasEnd, "\(dates): \(last)")
            #expect((last["certificateEndUnreadable"] as? Bool ?? false) == !dates.hasEnd, "\(dates): \(last)")
        }
        for path in ["/tasks", "/tasks.har", "/metrics", "/config", "/reloads", "/live", "/"] {
            #expect(try get(path, from: proxy).status == 200, "\(dates): \(path)")
        }
        #expect(try proxy.get("http://\(Self.pinned)/").status == 502, "still there")
        #expect(try proxy.terminate().exitCode == 0)
    }

    @Test("pins show and pins verify say what is wrong with them", arguments: OddDates.allCases)
    func commands(_ dates: OddDates) throws {
        let folder = try TemporaryFolder()
        let server = try dates.server(Self.pinned)
        let origin = try ScriptedOrigin(server) { connection in connection.readToEnd() }
        let anchors = try folder.write(Stage.pki.root.certificate.pem, as: "anchors.pem")
        let connect = ["--connect", "127.0.0.1:\(origin.port)", "--anchors", anchors]
        let text = try pinproxy(["pins", "show", Self.pinned] + connect)
        #expect(text.exitCode == 77, "\(dates): \(text.exitCode) \(text.errors)")
        #expect(text.output.contains("not a time") == (!dates.hasBegin || !dates.hasEnd), "\(dates): \(text.output)")
        #expect(!text.output.contains("\u{1b}[2J"))
        let shown = try object(try pinproxy(["pins", "show", Self.pinned, "--json"] + connect).output)
        let sent = try #require((shown["sent"] as? [[String: Any]])?.first)
        #expect((sent["notAfter"] != nil) == dates.hasEnd, "\(dates): \(sent)")
        let codes = (shown["warnings"] as? [[String: Any]] ?? []).compactMap { $0["code"] as? String }
        #expect(codes.contains("certificate_date_unreadable") == (!dates.hasBegin || !dates.hasEnd), "\(codes)")

        for pin in [server.pin, .unrelated(9)] {
            var settings = ProxySettings(trusting: Stage.pki)
            settings.resolve(Self.pinned, to: origin.port)
            settings.pin(Self.pinned, to: pin, with: ["allowInvalidCertificates": true])
            let path = try settings.write(to: folder)
            let verified = try pinproxy(["pins", "verify", "--config", path])
            #expect(verified.exitCode == (pin == server.pin ? 0 : 1), "\(dates): \(verified.output)\(verified.errors)")
            #expect(verified.output.contains("cannot be read") == !dates.hasEnd, "\(dates): \(verified.output)")
            let line = try object(try pinproxy(["pins", "verify", "--json", "--config", path]).output)
            #expect((line["daysToCertificateExpiry"] != nil) == dates.hasEnd, "\(dates): \(line)")
        }
    }

    @Test("ca show says which date of a local CA cannot be read")
    func authorityReport() throws {
        for dates in [OddDates.noEnd, .noBegin, .year9999, .year0000] {
            let folder = try TemporaryFolder()
            var builder = CertificateBuilder.authority("local CA", validity: TestPKI.validity)
            dates.apply(to: &builder)
            _ = try folder.write(try builder.identity().certificate.pem, as: "pinproxy-ca.pem")
            let shown = try pinproxy("ca", "show", "--dir", folder.path)
            #expect(shown.exitCode == 0, "\(dates): \(shown.exitCode) \(shown.errors)")
            #expect(
                shown.output.contains("NOT A TIME") == !(dates.hasBegin && dates.hasEnd),
                "\(dates): \(shown.output)"
            )
        }
    }

    @Test("a listener's certificate or local CA with such a date is an error", arguments: [false, true])
    func ownCertificates(_ isAuthority: Bool) throws {
        for (dates, isGood) in [(nil, true), (OddDates.noEnd, false), (.noBegin, false)] {
            let folder = try TemporaryFolder()
            var builder =
                isAuthority
                ? CertificateBuilder.authority("local CA", validity: TestPKI.validity)
                : CertificateBuilder.server(hosts: ["localhost"], validity: TestPKI.validity)
            dates?.apply(to: &builder)
            let identity = try builder.identity()
            let certificate = try folder.write(identity.certificate.pem, as: "own.pem")
            let key = try folder.write(identity.key.privateKeyPEM, as: "own.key")
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key)
            var settings = ProxySettings(trusting: Stage.pki)
            if isAuthority {
                settings.members["interception"] = ["certificate": certificate, "key": key]
            } else {
                settings.listeners.append([
                    "mode": "forward", "address": "127.0.0.1:0", "tls": ["certificate": certificate, "key": key],
                ])
            }
            let checked = try pinproxy(["check", "--config", try settings.write(to: folder)])
            #expect((checked.exitCode == 0) == isGood, "\(String(describing: dates)): \(checked.errors)")
            #expect(checked.errors.contains("is not a time") == !isGood, "\(checked.errors)")
        }
    }
}
