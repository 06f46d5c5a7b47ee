// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore
@testable import ServerTrust

@Suite("Reports on their way to a collector", .onOwnThreads)
struct PinMonitorTests {
    private static let collector = "collector.example"
    private static let pki = try! TestPKI()
    /// Where the domain's reports go, unless a test says otherwise.
    private static let uris = [
        "http://\(collector)/reports?from=test", "http://\(collector)/", "https://\(collector)/",
    ]

    /// A monitor with short times, what it tells, and handshakes that failed.
    private final class Setting: Sendable {
        let monitor: PinMonitor
        let told = Monitor<[String]>([])
        let server: TestServer

        init(
            at origin: ScriptedOrigin,
            pinning pin: PublicKeyPin? = nil,
            file: String? = nil,
            _ change: (inout PinMonitor.Settings) -> Void = { _ in }
        ) throws {
            server = try PinMonitorTests.pki.server("api.example")
            var settings = PinMonitor.Settings()
            settings.reports.backOff = 20
            settings.reports.factor = 1
            change(&settings)
            let told = told
            settings.log = { line, _, _ in told.with { $0.append(line.json) } }
            monitor = try PinMonitor(
                snapshot: try Self.snapshot(at: origin, pinning: pin, file: file, generation: 1),
                settings: settings
            )
        }

        static func snapshot(
            at origin: ScriptedOrigin,
            pinning pin: PublicKeyPin? = nil,
            file: String? = nil,
            reporting uris: [String] = PinMonitorTests.uris,
            generation: Int
        ) throws -> PolicySnapshot {
            var configuration = Configuration()
            var host = HostConfiguration(host: try Host(collector))
            host.resolve = try AddressAndPort(parsing: "127.0.0.1:\(origin.port)")
            configuration.hosts = [host]
            configuration.reports.file = file
            let pinned = try PinFile.load(text: Self.pinFile(pin, reporting: uris), file: "p.json", at: 0).domains
            return PolicySnapshot(
                PolicyParts(
                    configuration: configuration,
                    pinnedDomains: pinned,
                    trustAnchors: PinMonitorTests.pki.anchors
                ),
                generation: generation
            )
        }

        private static func pinFile(_ pin: PublicKeyPin?, reporting uris: [String]) -> String {
            let pins = "\"pins\": [\"\(pin ?? .unrelated(1))\", \"\(PublicKeyPin.unrelated(2))\"]"
            let list = uris.map { "\"\($0)\"" }.joined(separator: ", ")
            let collected = pin == nil ? "" : ", \"\(collector)\": { \(pins) }"
            return """
                { "version": 1, "pinnedDomains": { "api.example": { \(pins), "reportUris": [\(list)] }\(collected) } }
                """
        }

        /// Reports a failed handshake; the number makes it another one.
        func fail(_ number: UInt8 = 2, to uri: String?) throws {
            var configuration = SecurityPolicy.Configuration()
            configuration.domain = try Host("api.example")
            configuration.pinningMode = .publicKey
            configuration.pins = [Pin(.unrelated(1)), Pin(.unrelated(number))]
            configuration.reportUris = try uri.map { [try ReportURI($0)] } ?? []
            let policy = try SecurityPolicy(configuration)
            let evaluation = policy.evaluate(
                chain: server.chain,
                host: try Host("api.example"),
                anchors: PinMonitorTests.pki.anchors
            )
            let trust = ConnectionTrust(
                policy: policy,
                anchors: PinMonitorTests.pki.anchors,
                generation: 1,
                evaluation: evaluation
            )
            monitor.report(trust, port: 443, at: 0)
        }

        /// The count of lost reports, by reason, that was told in the end.
        func losses() -> [String: Int] {
            told.with { $0 }.compactMap { LogLine($0) }.filter { $0.string("event") == "reports_dropped" }
                .reduce(into: [:]) { sums, line in
                    for loss in ReportLoss.allCases {
                        if let count = line.integer(loss.rawValue) { sums[loss.rawValue, default: 0] += count }
                    }
                }
        }
    }

    private static func waitForRequests(_ count: Int, at origin: ScriptedOrigin) throws -> [HTTPMessage] {
        try origin.wait(for: "\(count) reports") { records in
            let requests = records.flatMap(\.requests)
            return requests.count >= count ? requests : nil
        }
    }

    @Test("a collector that is down at first gets the report once")
    func retried() throws {
        let origin = try ScriptedOrigin(nil) { connection in
            guard let request = try connection.readRequest() else { return }
            switch connection.number {
            case 0: connection.close(.reset)
            case 1: try connection.write("HTTP/1.1 503 Later\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            default: try connection.write(OriginResponse.text("taken \(request.target)"))
            }
        }
        let setting = try Setting(at: origin)
        try setting.fail(to: "http://\(Self.collector)/reports?from=test")
        let requests = try Self.waitForRequests(3, at: origin)
        setting.monitor.stop()
        #expect(requests.count == 3 && origin.requests.count == 3)
        for request in requests {
            #expect(request.method == "POST" && request.target == "/reports?from=test")
            #expect(request["Content-Type"] == "application/json" && request["Host"] == Self.collector)
            let body = try #require(LogLine(request.text))
            #expect(body.string("hostname") == "api.example" && body.string("validation-result") == "pin_mismatch")
        }
        #expect(setting.losses().isEmpty)
    }

    @Test("a redirect is not followed, and not requested twice")
    func redirect() throws {
        let origin = try ScriptedOrigin(nil) { _ in
            "HTTP/1.1 307 Elsewhere\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
        }
        let setting = try Setting(at: origin)
        try setting.fail(to: "http://\(Self.collector)/")
        _ = try Self.waitForRequests(1, at: origin)
        try setting.told.wait(for: "the loss") { $0.contains { $0.contains("reports_dropped") } ? true : nil }
        setting.monitor.stop()
        #expect(origin.requests.map(\.target) == ["/"])
        #expect(setting.losses() == ["undelivered": 1])
        #expect(setting.monitor.lostReports == [.undelivered: 1] && setting.monitor.lastLossOfReports != nil)
    }

    @Test("the collector's own pins hold: another key gets no byte")
    func pinnedCollector() throws {
        let server = try Self.pki.server(Self.collector)
        let origin = try ScriptedOrigin(server) { _ in OriginResponse.text("taken") }
        let right = try Setting(at: origin, pinning: server.pin)
        try right.fail(to: "https://\(Self.collector)/")
        #expect(try Self.waitForRequests(1, at: origin).count == 1)
        right.monitor.stop()
        #expect(right.losses().isEmpty)

        let received = origin.applicationBytes
        let wrong = try Setting(at: origin, pinning: .unrelated(9))
        try wrong.fail(to: "https://\(Self.collector)/")
        try wrong.told.wait(for: "the loss") { $0.contains { $0.contains("reports_dropped") } ? true : nil }
        wrong.monitor.stop()
        #expect(wrong.losses() == ["undelivered": 1], "and no report about the report's own failure")
        #expect(origin.applicationBytes == received)
        #expect(origin.connections.count == 2)
    }

    @Test("a stop waits briefly for a collector, then counts what is left")
    func stop() throws {
        let release = Gate()
        let origin = try ScriptedOrigin(nil) { connection in
            _ = try connection.readRequest()
            try release.pass()
        }
        let setting = try Setting(at: origin) { $0.reports.atStop = 100 }
        for number in 2...4 { try setting.fail(UInt8(number), to: "http://\(Self.collector)/") }
        _ = try Self.waitForRequests(1, at: origin)
        setting.monitor.stop()
        release.open()
        #expect(setting.losses() == ["stopped": 3])
    }

    @Test("reports go to the current snapshot's file, and stay known after reloads")
    func replace() throws {
        let folder = try TemporaryFolder()
        let (first, second) = ("\(folder.path)/first.jsonl", "\(folder.path)/second.jsonl")
        let origin = try ScriptedOrigin(nil) { _ in OriginResponse.text("taken") }
        let setting = try Setting(at: origin, file: first)
        try setting.fail(2, to: nil)
        try setting.fail(2, to: nil)
        setting.monitor.replace(try Setting.snapshot(at: origin, file: second, generation: 2))
        try setting.fail(2, to: nil)
        try setting.fail(3, to: nil)
        setting.monitor.stop()
        func lines(_ path: String) throws -> [LogLine] {
            try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").compactMap { LogLine(String($0)) }
        }
        let (before, after) = (try lines(first), try lines(second))
        #expect(before.count == 1 && after.count == 1)
        #expect(before[0]["known-pins"] as? [String] != after[0]["known-pins"] as? [String])
        #expect(origin.connections.isEmpty)
    }

    @Test("79 reports for a collector that is no longer named are dropped")
    func givenUp() throws {
        let release = Gate()
        let origin = try ScriptedOrigin(nil) { connection in
            while try connection.readRequest() != nil {
                try release.pass()
                try connection.write("HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n")
            }
        }
        let setting = try Setting(at: origin)
        for number in 2...3 { try setting.fail(UInt8(number), to: "http://\(Self.collector)/") }
        _ = try Self.waitForRequests(1, at: origin)
        let others = ["https://\(Self.collector)/"]
        setting.monitor.replace(try Setting.snapshot(at: origin, reporting: others, generation: 2))
        // The response must not overtake the snapshot: the loop may find both at once.
        let isReplaced = Latch(count: 1)
        setting.monitor.loop.submit { isReplaced.countDown() }
        isReplaced.wait()
        // A handshake of the former generation.
        try setting.fail(4, to: "http://\(Self.collector)/")
        release.open()
        setting.monitor.stop()
        #expect(origin.requests.count == 1)
        #expect(setting.losses() == ["undelivered": 3])
    }

    @Test("an attempt for a dropped collector ends with the monitor")
    func givenUpAtTheEnd() throws {
        let release = Gate()
        let origin = try ScriptedOrigin(nil) { connection in
            while try connection.readRequest() != nil {
                try release.pass()
                try connection.write("HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n")
            }
        }
        let setting = try Setting(at: origin)
        try setting.fail(to: "http://\(Self.collector)/")
        _ = try Self.waitForRequests(1, at: origin)
        let others = ["https://\(Self.collector)/"]
        setting.monitor.replace(try Setting.snapshot(at: origin, reporting: others, generation: 2))
        setting.monitor.stop()
        #expect(setting.losses() == ["undelivered": 1])
        // The listener is closed: a session that was left behind would keep holding the connection.
        release.open()
        try origin.wait(for: "the end of the connection") { $0.allSatisfy(\.isClosed) ? true : nil }
    }

    @Test("a collector that the rules deny gets nothing, with a message")
    func denied() throws {
        let origin = try ScriptedOrigin(nil) { _ in OriginResponse.text("taken") }
        let text = """
            { "version": 1, "pinnedDomains": { "api.example": {
              "pins": ["\(PublicKeyPin.unrelated(1))", "\(PublicKeyPin.unrelated(2))"],
              "reportUris": ["http://127.0.0.1:\(origin.port)/"]
            } } }
            """
        let parts = PolicyParts(
            configuration: Configuration(),
            pinnedDomains: try PinFile.load(text: text, file: "p.json", at: 0).domains,
            trustAnchors: Self.pki.anchors
        )
        let told = Monitor<[String]>([])
        var settings = PinMonitor.Settings()
        settings.log = { line, _, _ in told.with { $0.append(line.json) } }
        let monitor = try PinMonitor(snapshot: PolicySnapshot(parts, generation: 1), settings: settings)
        let line = try told.wait(for: "the warning") { $0.first.flatMap { LogLine($0) } }
        monitor.stop()
        #expect(line.string("code") == "report_uri_denied")
        #expect(line.string("message")?.contains("access.denyAddresses") == true)
        #expect(origin.connections.isEmpty)
    }

    @Test("an unusable file of reports prevents the start")
    func badFile() throws {
        let origin = try ScriptedOrigin(nil) { _ in OriginResponse.text("taken") }
        #expect(throws: MonitoringFailure.self) { try Setting(at: origin, file: "/nowhere/at/all") }
    }
}
