import Foundation
import Testing

/// `docs/caching.md` has a row for every requirement of RFC 9111, each with its tests.
@Suite("The table of RFC 9111's requirements")
struct CachingDocumentTests {
    private static let repository = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private struct Row {
        var section: String
        var level: String
        var tests: [String]
    }

    private let rows: [Row]
    private let tests: Set<String>

    init() throws {
        let page = try String(contentsOf: Self.repository.appending(path: "docs/caching.md"), encoding: .utf8)
        rows = page.matches(of: /(?m)^\| ([^|]*\d) \| ([^|]+) \| [^|]+ \| [^|]+ \| (.*) \|$/).map {
            Row(
                section: String($0.output.1),
                level: String($0.output.2),
                tests: $0.output.3.components(separatedBy: "<br>")
            )
        }
        let folder = Self.repository.appending(path: "Tests/HTTPCachingTests")
        var tests: Set<String> = []
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) where name.hasSuffix(".swift") {
            let source = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
            for match in source.matches(of: /@Test\(\s*"((?:[^"\\]|\\.)*)"/) { tests.insert(String(match.output.1)) }
        }
        self.tests = tests
    }

    @Test("every row names tests, and no test that is gone")
    func named() {
        #expect(rows.count >= 85)
        for row in rows {
            #expect(["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "–"].contains(row.level), "\(row.section)")
            #expect(!row.tests.isEmpty)
            for name in row.tests { #expect(tests.contains(name), "\(row.section) names a test that is gone: \(name)") }
        }
    }

    @Test("every section of RFC 9111 that asks something of a cache has a row")
    func sections() {
        let wanted = [
            "1.2.2", "3", "3.1", "3.2", "3.3", "3.4", "3.5", "4", "4.1", "4.2", "4.2.2", "4.2.3", "4.2.4", "4.3.1",
            "4.3.2", "4.3.3", "4.3.4", "4.3.5", "4.4", "5.1", "5.2", "5.2.1.5", "5.2.1.7", "5.2.2", "5.2.2.2",
            "5.2.2.3",
            "5.2.2.4", "5.2.2.5", "5.2.2.6", "5.2.2.7", "5.2.2.8", "5.2.2.10", "5.2.3", "5.3",
        ]
        let found = Set(rows.map(\.section))
        for section in wanted { #expect(found.contains(section), "\(section)") }
    }

    @Test("every test that bears a section's number is in some row")
    func complete() {
        let named = Set(rows.flatMap(\.tests))
        for test in tests where test.prefixMatch(of: #/\d+(\.\d+)*( \d(\.\d)*)?( and [\d.]+)?: /#) != nil {
            #expect(named.contains(test), "no row names: \(test)")
        }
    }
}
