// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCaching
import ServerTrust
import TestSupport
import Testing

@testable import ProxyAdmin
@testable import ProxyCore

@Suite("the rules of alarms", .onOwnThreads)
struct AlarmRulesTests {
    private static let folder = Repository.folder.appendingPathComponent("deploy/monitoring")
    private static let hasPromtool = (try? Programs.path(of: "promtool")) != nil

    private static func text(_ name: String) throws -> String {
        try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)
    }

    @Test("promtool accepts the rules, and they fire as their tests say", .enabled(if: hasPromtool))
    func promtool() throws {
        for (command, file) in [("check", "pinproxy.rules.yml"), ("test", "pinproxy.rules.test.yml")] {
            let finished = try Programs.run("promtool", [command, "rules", file], folder: Self.folder.path)
            #expect(finished.exitCode == 0, "\(finished.output)\(finished.errors)")
        }
    }

    @Test("each rule has severity, summary and a section of the runbook")
    func members() throws {
        let page = Repository.folder.appendingPathComponent("docs/alarms.md")
        let runbook = try String(contentsOf: page, encoding: .utf8)
        let sections = Set(
            runbook.split(separator: "\n").filter { $0.hasPrefix("## ") }
                .map { $0.dropFirst(3).lowercased().replacing(" ", with: "-") }
        )
        let rules = try Self.text("pinproxy.rules.yml").components(separatedBy: "- alert: ").dropFirst()
        #expect(rules.count > 15)
        var used: Set<String> = []
        for rule in rules {
            let name = String(rule.prefix { $0 != "\n" })
            #expect(rule.contains(/severity: (critical|warning)\n/), "\(name)")
            #expect(rule.contains(/summary: "[^"]+"\n/), "\(name)")
            let section = try #require(rule.firstMatch(of: /runbook: docs\/alarms.md#([a-z-]+)\n/), "\(name)").1
            #expect(sections.contains(String(section)), "\(name): \(section)")
            #expect(runbook.contains("`\(name)`"), "\(name)")
            used.insert(String(section))
        }
        #expect(used == sections)
    }

    @Test("the rules name metrics, labels and reasons that exist")
    func metrics() throws {
        let source = Repository.folder.appendingPathComponent("Sources/ProxyAdmin/MetricsPage.swift")
        let page = try String(contentsOf: source, encoding: .utf8)
        let known = Set(page.matches(of: /"((?:pinproxy|process)_[a-z_]+)"/).map { String($0.1) })
        let text = try Self.text("pinproxy.rules.yml")
        let histogram = "pinproxy_loop_turn_seconds"
        for match in text.matches(of: /\b(?:pinproxy|process)_[a-z_]+/) {
            let name = String(match.0)
            #expect(known.contains(name) || [histogram + "_count", histogram + "_bucket"].contains(name), "\(name)")
        }
        let reasons = Set(TrustFailure.allCases.map(\.rawValue))
        var seen: Set<String> = []
        for match in text.matches(of: /reason=~?"([^"]+)"/) {
            seen.formUnion(match.1.split(separator: "|").map(String.init))
        }
        // The end of a pin set is an alarm of its own, by its date.
        #expect(seen == reasons.subtracting(["pin_set_expired"]))
    }
}
