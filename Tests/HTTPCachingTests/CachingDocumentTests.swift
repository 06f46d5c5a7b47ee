// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// `docs/develop/cache.md` has a row for every requirement of RFC 9111. The tests of a row bear the section's number.
@Suite("The table of RFC 9111's requirements")
struct CachingDocumentTests {
    private static let repository = Repository.folder

    private struct Row {
        var section: String
        var level: String

        /// As a test's name begins: "4.3.2", "9213 2.1".
        var number: String { section.hasPrefix("RFC ") ? String(section.dropFirst(4)) : section }
    }

    private let rows: [Row]
    private let tests: Set<String>

    init() throws {
        let page = try String(contentsOf: Self.repository.appending(path: "docs/develop/cache.md"), encoding: .utf8)
        rows = page.matches(of: /(?m)^\| ([^|]*\d) \| ([^|]+) \| [^|]+ \| [^|]+ \|$/).map {
            Row(section: String($0.output.1), level: String($0.output.2))
        }
        let folder = Self.repository.appending(path: "Tests/HTTPCachingTests")
        var tests: Set<String> = []
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) where name.hasSuffix(".swift") {
            let source = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
            for match in source.matches(of: /@Test\(\s*"((?:[^"\\]|\\.)*)"/) { tests.insert(String(match.output.1)) }
        }
        self.tests = tests
    }

    /// The sections with which a test's name begins: "4.3.2: …", "5.2.2.4 and 5.2.2.7: …", "9213 2.1: …", "6585: …".
    private static func sections(of test: String) -> [String] {
        let number = #/(\d+(?:\.\d+)*(?: \d(?:\.\d)*)?(?: and [\d.]+)?): /#
        guard let match = test.prefixMatch(of: number) else { return [] }
        return String(match.output.1).components(separatedBy: " and ")
    }

    @Test("every row has tests")
    func named() {
        #expect(rows.count >= 80)
        let numbers = Set(tests.flatMap { Self.sections(of: $0) })
        for row in rows {
            #expect(["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "–"].contains(row.level), "\(row.section)")
            // A test of a short RFC may bear the number without a section.
            let short = row.number.components(separatedBy: " ")[0]
            let isTested = numbers.contains(row.number) || numbers.contains(short)
            #expect(isTested, "no test bears the number \(row.number)")
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

    @Test("every test that bears a section's number has a row of that section")
    func complete() {
        let numbers = Set(rows.flatMap { [$0.number, $0.number.components(separatedBy: " ")[0]] })
        for test in tests {
            for section in Self.sections(of: test) {
                #expect(numbers.contains(section), "no row has the section of: \(test)")
            }
        }
    }
}
