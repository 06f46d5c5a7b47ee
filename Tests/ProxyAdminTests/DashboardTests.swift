// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// `deploy/monitoring/grafana.json` is imported by hand: only this test sees that it names what is there.
@Suite("The dashboard")
struct DashboardTests {
    private static func text(_ path: String) throws -> String {
        try String(contentsOf: Repository.folder.appendingPathComponent(path), encoding: .utf8)
    }

    private func panels() throws -> [[String: Any]] {
        let text = try Self.text("deploy/monitoring/grafana.json")
        let dashboard = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
        return try #require(dashboard["panels"] as? [[String: Any]])
    }

    private func queries() throws -> [String] {
        try panels().flatMap { ($0["targets"] as? [[String: Any]] ?? []).compactMap { $0["expr"] as? String } }
    }

    @Test("its queries name metrics and labels of the page of metrics alone")
    func metrics() throws {
        let page = try Self.text("Sources/ProxyAdmin/MetricsPage.swift")
        let known = Set(page.matches(of: /"((?:pinproxy|process)_[a-z_]+)"/).map { String($0.1) })
        let labels = Set(page.matches(of: #/\("([a-z]+)", /#).map { String($0.1) }).union(["job", "instance", "le"])
        let queries = try queries()
        #expect(queries.count > 30)
        for query in queries {
            for match in query.matches(of: /\b(?:pinproxy|process)_[a-z_]+/) {
                let name = String(match.0)
                let series = name.replacing(/_(bucket|sum|count)$/, with: "")
                #expect(known.contains(name) || known.contains(series), "\(name)")
            }
            for match in query.matches(of: /by \(([^)]*)\)/) {
                for label in match.1.split(separator: ",") {
                    #expect(labels.contains(label.trimmingCharacters(in: .whitespaces)), "\(query)")
                }
            }
            for match in query.matches(of: /([a-z]+)=~?"/) { #expect(labels.contains(String(match.1)), "\(query)") }
        }
    }

    @Test("Prometheus can read each query", .enabled(if: (try? Programs.path(of: "promtool")) != nil))
    func expressions() throws {
        let rules = try queries().enumerated().map { number, query in
            let filled = query.replacing("$__rate_interval", with: "5m").replacing("$job", with: ".*")
                .replacing("$instance", with: ".*")
            return "      - record: panel:\(number)\n        expr: '\(filled)'\n"
        }
        let folder = try TemporaryFolder()
        let text = "groups:\n  - name: dashboard\n    rules:\n\(rules.joined())"
        let file = try folder.write(text, as: "rules.yml")
        let finished = try Programs.run("promtool", ["check", "rules", file])
        #expect(finished.exitCode == 0, "\(finished.output)\(finished.errors)")
    }

    @Test("panels have a number and a title of their own, and do not overlap")
    func places() throws {
        let panels = try panels()
        #expect(Set(panels.compactMap { $0["id"] as? Int }).count == panels.count)
        var taken: Set<[Int]> = []
        for panel in panels {
            let title = try #require(panel["title"] as? String)
            let place = try #require(panel["gridPos"] as? [String: Int])
            let (x, y) = (place["x"] ?? -1, place["y"] ?? -1)
            for column in x..<(x + (place["w"] ?? 0)) {
                for line in y..<(y + (place["h"] ?? 0)) {
                    #expect(taken.insert([column, line]).inserted, "\(title)")
                    #expect(column < 24, "\(title)")
                }
            }
        }
    }
}
