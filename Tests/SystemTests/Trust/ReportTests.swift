// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("Reports of failed pins, and warnings about pins", .onOwnThreads)
struct ReportTests {
    private static let collector = "collector.example.net"

    /// The standard error of a program that stops.
    private static func events(_ text: String) -> [LogLine] {
        text.split(separator: "\n").compactMap { LogLine(String($0)) }
    }

    private static func responding() throws -> ScriptedOrigin {
        try ScriptedOrigin(nil) { _ in OriginResponse.text("taken") }
    }

    /// Members of a pin file that lead reports to a collector, which `settings` resolves.
    private static func reporting(
        to collector: ScriptedOrigin,
        scheme: String = "http",
        enforce: Bool,
        in settings: inout ProxySettings
    ) -> [String: Any] {
        settings.resolve(Self.collector, to: collector.port)
        return ["reportUris": ["\(scheme)://\(Self.collector)/r"], "enforcePinning": enforce]
    }

    private static func waitForReports(_ count: Int, at collector: ScriptedOrigin) throws -> [HTTPMessage] {
        try collector.wait(for: "\(count) reports") { records in
            let requests = records.flatMap(\.requests)
            return requests.count >= count ? requests : nil
        }
    }

    @Test("76 and 78 report-only mode passes the request, and reports it once")
    func reportOnly() throws {
        let collector = try Self.responding()
        let folder = try TemporaryFolder()
        let file = "\(folder.path)/reports.jsonl"
        // Each answer ends its connection, so that each request has a handshake of its own.
        let stage = try Stage({ settings in
            settings.pin(
                Stage.host,
                to: .unrelated(7),
                with: Self.reporting(to: collector, enforce: false, in: &settings)
            )
            settings.members["reports"] = ["file": file]
        }) { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        }
        for _ in 0..<3 { #expect(try stage.get().status == 200) }
        let pinning = try stage.proxy.waitForTaskLines(3).map { $0.object("pinning") }
        #expect(pinning.allSatisfy { $0?["verdict"] as? String == "reportOnly" })
        let report = try #require(try Self.waitForReports(1, at: collector).first)
        let finished = try stage.proxy.terminate()
        #expect(finished.exitCode == 0)
        #expect(collector.requests.count == 1)
        #expect(report.method == "POST" && report.target == "/r" && report["Content-Type"] == "application/json")
        let body = try #require(LogLine(report.text))
        #expect(body.string("hostname") == Stage.host && body.integer("port") == 443)
        #expect(body["enforce-pinning"] as? Bool == false && body.string("validation-result") == "pin_mismatch")
        #expect(body["served-certificate-chain"] as? [String] == stage.server.chain.map(\.pem))
        let lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n").map(String.init)
        #expect(lines == [report.text])
        let account = try #require(Self.events(finished.errors).first { $0.string("event") == "pins" })
        #expect(account.integer("handshakes") == 3)
        #expect((account["neverMatched"] as? [String])?.contains("\(PublicKeyPin.unrelated(7))") == true)
    }

    @Test("77 report-only mode blocks a bad chain, without a report")
    func badChain() throws {
        let collector = try Self.responding()
        let stage = try Stage(
            { settings in
                settings.pin(
                    Stage.host,
                    to: .unrelated(7),
                    with: Self.reporting(to: collector, enforce: false, in: &settings)
                )
                settings.anchors = [try! TestPKI("other").root.certificate]
            },
            responding: { _ in OriginResponse.text("secret") }
        )
        let response = try stage.get()
        #expect(response.status == 502 && response.problemCode == "certificate_untrusted")
        #expect(try stage.proxy.terminate().exitCode == 0)
        #expect(stage.origin.applicationBytes == 0)
        #expect(collector.connections.isEmpty)
    }

    @Test("an enforced mismatch is refused and reported, under the collector's pins")
    func enforced() throws {
        let server = try Stage.pki.server(Self.collector)
        let collector = try ScriptedOrigin(server) { _ in OriginResponse.text("taken") }
        let stage = try Stage(
            { settings in
                let members = Self.reporting(to: collector, scheme: "https", enforce: true, in: &settings)
                settings.pin(Stage.host, to: .unrelated(7), with: members)
                settings.pin(Self.collector, to: server.pin)
            },
            responding: { _ in OriginResponse.text("secret") }
        )
        #expect(try stage.get().problemCode == "pin_mismatch")
        let report = try #require(try Self.waitForReports(1, at: collector).first)
        #expect(LogLine(report.text)?["enforce-pinning"] as? Bool == true)
        #expect(try stage.proxy.terminate().exitCode == 0)
        #expect(stage.origin.applicationBytes == 0)
    }

    @Test("a stalled collector delays no request, and losses are counted")
    func stalls() throws {
        let release = Gate()
        let collector = try ScriptedOrigin(nil) { connection in
            _ = try connection.readRequest()
            try release.pass()
        }
        let stage = try Stage(
            { settings in
                settings.pin(
                    Stage.host,
                    to: .unrelated(7),
                    with: Self.reporting(to: collector, enforce: false, in: &settings)
                )
            },
            responding: { request in OriginResponse.text(request.target) }
        )
        #expect(try stage.get("/1").text == "/1")
        _ = try Self.waitForReports(1, at: collector)
        for number in 2...20 { #expect(try stage.get("/\(number)").text == "/\(number)") }
        let finished = try stage.proxy.terminate()
        release.open()
        #expect(finished.exitCode == 0)
        let dropped = Self.events(finished.errors).filter { $0.string("event") == "reports_dropped" }
        #expect(dropped.map { $0.integer("stopped") } == [1])
    }

    @Test("79 a report URI on the pinned host is refused by check")
    func pinnedHost() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: Stage.pki)
        settings.pin(Stage.host, to: .unrelated(7), with: ["reportUris": ["https://\(Stage.host)/r"]])
        let finished = try pinproxy("check", "--config", settings.write(to: folder))
        #expect(finished.exitCode == 78)
        #expect(finished.errors.contains("/pinnedDomains/\(Stage.host)/reportUris/0: "))
        #expect(finished.errors.contains("name a collector"))
    }

    @Test("backup matches and near ends are in events and the log")
    func warnings() throws {
        let formatter = DateFormatter()
        formatter.dateFormat = "yyyy-MM-dd"
        formatter.timeZone = TimeZone(identifier: "UTC")
        formatter.locale = Locale(identifier: "en_US_POSIX")
        let lastDay = formatter.string(from: Date(timeIntervalSinceNow: 10 * 86_400))
        var settings = ProxySettings(trusting: Stage.pki)
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server) { _ in OriginResponse.text("ok") }
        settings.resolve(Stage.host, to: origin.port)
        settings.pinnedDomains[Stage.host] = [
            "expiration": lastDay,
            "pins": [
                "\(PublicKeyPin.unrelated(7))",
                ["spki-sha256": server.pin.base64, "backup": true],
            ],
        ]
        let proxy = try ProxyUnderTest(settings)
        for _ in 0..<2 { #expect(try proxy.get("http://\(Stage.host)/").status == 200) }
        let pinning = try #require(try proxy.waitForTaskLines(2)[0].object("pinning"))
        #expect(pinning["matchedBackupOnly"] as? Bool == true)
        // Midnight may pass between the two.
        #expect([9, 10].contains(pinning["expiresInDays"] as? Int))
        let events = Self.events(try proxy.terminate().errors)
        let expiry = events.filter { $0.string("code") == "pin_set_expiry" }
        #expect(expiry.count == 1 && expiry.first?.string("expiration") == lastDay)
        let backup = events.filter { $0.string("code") == "pin_backup_only" }
        #expect(backup.count == 1 && backup.first?.string("domain") == Stage.host)
        #expect(backup.first?.string("pin") == "\(server.pin)")
        let account = try #require(events.first { $0.string("event") == "pins" })
        #expect((account.object("matched")?["\(server.pin)"] as? Int ?? 0) >= 1)
        #expect(account["neverMatched"] as? [String] == ["\(PublicKeyPin.unrelated(7))"])
    }
}
