// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// A threat model that names a missing test would claim coverage that does not exist.
@Suite("The threat model's names")
struct ThreatModelDocumentTests {
    private static let repository = Repository.folder

    private let page: String

    init() throws {
        page = try String(contentsOf: Self.repository.appending(path: "docs/threat-model.md"), encoding: .utf8)
    }

    @Test("every test file of the threat model exists")
    func files() {
        let names = Set(page.matches(of: /`(Tests\/[^`]+)`/).map { String($0.output.1) })
        #expect(names.count > 20)
        for name in names.sorted() {
            #expect(FileManager.default.fileExists(atPath: Self.repository.appending(path: name).path), "\(name)")
        }
    }

    @Test("every invariant of the security page has its row, and no other")
    func invariants() throws {
        let security = try String(contentsOf: Self.repository.appending(path: "docs/security.md"), encoding: .utf8)
        let stated = security.matches(of: /(?m)^(\d+)\. \*\*/).map { String($0.output.1) }
        let covered = page.matches(of: /(?m)^\| (\d+) \|/).map { String($0.output.1) }
        #expect(!stated.isEmpty && covered == stated)
    }

    @Test("every invariant names its tests, and scenarios are tested in named files")
    func cover() throws {
        let rows = page.matches(of: /(?m)^\| (\d+) \| .* \| (.*) \|$/)
        #expect(rows.count == 20)
        for row in rows {
            let files = row.output.2.matches(of: /`(Tests\/[^`]+)`(?: \(([\d, –]+)\))?/)
            #expect(!files.isEmpty, "\(row.output.1)")
            for file in files {
                let path = String(file.output.1)
                let tested = try scenarios(Self.repository.appending(path: path))
                for number in Self.numbers(file.output.2 ?? "", range: "–") {
                    #expect(tested.contains(number), "\(path) has no test of scenario \(number)")
                }
            }
        }
    }

    /// The numbers at the beginning of the test names in a file.
    private func scenarios(_ file: URL) throws -> Set<Int> {
        let source = try String(contentsOf: file, encoding: .utf8)
        let names = source.matches(of: #/@Test\(\s*"(\d+(?:(?:, | and | to )\d+)*) /#)
        return Set(names.flatMap { Self.numbers($0.output.1, range: " to ") })
    }

    private static func numbers(_ text: Substring, range: String) -> [Int] {
        text.replacingOccurrences(of: " and ", with: ", ").components(separatedBy: ", ").flatMap { part -> [Int] in
            let ends = part.components(separatedBy: range).compactMap { Int($0) }
            guard let first = ends.first, let last = ends.last, first <= last else { return [] }
            return Array(first...last)
        }
    }
}
