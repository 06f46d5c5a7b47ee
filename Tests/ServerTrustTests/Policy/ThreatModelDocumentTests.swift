import Foundation
import Testing

/// A threat model that names a test which is gone would claim a cover that nobody has.
@Suite("What the threat model names")
struct ThreatModelDocumentTests {
    private static let repository = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private let page: String

    init() throws {
        page = try String(contentsOf: Self.repository.appending(path: "docs/threat-model.md"), encoding: .utf8)
    }

    @Test("every test file that the threat model names is there")
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
}
