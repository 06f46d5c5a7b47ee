// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// `docs/develop/migration.md` says of every name what there is instead and where that is tested.
@Suite("The tables of those who come from elsewhere")
struct MigrationDocumentTests {
    private static let repository = Repository.folder

    private struct Row {
        var name: String
        var instead: String
        var tests: String
    }

    /// The rows of each section.
    private let sections: [[Row]]
    /// The functions in the file of each suite.
    private let suites: [String: Set<String>]

    /// Read once: each test has a suite of its own.
    private static let read = Result { try (sections(), suites()) }

    init() throws { (sections, suites) = try Self.read.get() }

    private static func sections() throws -> [[Row]] {
        let page = try String(contentsOf: repository.appending(path: "docs/develop/migration.md"), encoding: .utf8)
        // The lines of the chapters are compared by `.ci/chapters`.
        let parts = page.components(separatedBy: "\n## ").filter { !$0.hasPrefix("Alamofire's chapters") }
        return parts.map { section in
            section.split(separator: "\n").compactMap { line in
                guard let match = line.wholeMatch(of: /\| (.*) \| (.*) \| (.*?) ?\|/), match.3 != "tests",
                    match.1 != "---"
                else { return nil }
                return Row(name: String(match.1), instead: String(match.2), tests: String(match.3))
            }
        }
    }

    private static func suites() throws -> [String: Set<String>] {
        var suites: [String: Set<String>] = [:]
        let tests = repository.appending(path: "Tests")
        let files = FileManager.default.enumerator(at: tests, includingPropertiesForKeys: nil)
        while let file = files?.nextObject() as? URL {
            guard file.pathExtension == "swift" else { continue }
            let source = try String(contentsOf: file, encoding: .utf8)
            let functions = Set(source.matches(of: /func ([a-zA-Z0-9]+)/).map { String($0.1) })
            for match in source.matches(of: /(?:struct|class|extension) (\w+Tests)\b/) {
                suites[String(match.1), default: []].formUnion(functions)
            }
        }
        return suites
    }

    @Test("every name has a test, or a reason why there is nothing")
    func complete() {
        #expect(sections.flatMap { $0 }.count >= 180)
        for row in sections.flatMap({ $0 }) where row.tests.trimmingCharacters(in: .whitespaces).isEmpty {
            #expect(row.instead.wholeMatch(of: /(none|not needed)\b.*:.*|.*\bnone (here|is)\b.*/) != nil, "\(row.name)")
        }
    }

    @Test("no test is named that is gone")
    func named() {
        for section in sections {
            // A row that names no suite means those of the rows above it.
            var above: [String] = []
            for row in section {
                var current: [String]?
                for part in row.tests.split(separator: ";") {
                    let own = part.matches(of: /`(\w+Tests)`/).map { String($0.1) }
                    for suite in own { #expect(suites[suite] != nil, "\(suite) of \(row.name)") }
                    above += own
                    if !own.isEmpty { current = own }
                    let names = part.replacing(/`[^`]*`/, with: "")
                    for word in names.split(whereSeparator: { ",:()".contains($0) }) {
                        let name = word.trimmingCharacters(in: .whitespaces)
                        guard name.wholeMatch(of: /[a-z][A-Za-z0-9]+/) != nil else { continue }
                        let isThere = (current ?? above).contains { suites[$0]?.contains(name) == true }
                        #expect(isThere, "\(name) of \(row.name)")
                    }
                }
            }
        }
    }

    @Test("the page about HTTPSession names every package that the libraries need")
    func packages() throws {
        let manifest = try String(contentsOf: Self.repository.appending(path: "Package.swift"), encoding: .utf8)
        let path = "docs/swift/http-session.md"
        let page = try String(contentsOf: Self.repository.appending(path: path), encoding: .utf8)
        let needed = manifest.matches(of: /\.apt\(\["([^"]+)"\]\)/).map { String($0.1) }
        #expect(needed.count >= 10)
        for package in needed + ["pkg-config"] { #expect(page.contains("`\(package)`"), "\(package)") }
    }
}
