// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// The rules of the wire by number, with the reaction to each and its status.
private enum RuleCatalogue {
    static let groups: [(name: String, rules: [(what: String, response: String)])] = [
        (
            "The request line",
            [
                ("a line that ends with LF alone", "400"), ("a CR without LF", "400"),
                ("one empty line before the request; two", "skipped; 400"),
                ("white space before the request line or the first field", "400"),
                ("several spaces or a TAB between the parts", "400"), ("no target", "400"), ("HTTP/0.9", "400"),
                ("another major version; no version at all", "505; 400"),
                ("a method that is no token; too long; unknown", "400; 501; forwarded"),
                ("a target that is too long", "414"),
                ("a control character, or a byte above 0x7E, in the target", "400"),
                ("`#` in the target", "400"), ("`*` without OPTIONS", "400"),
                ("CONNECT without host and port, and these with another method", "400"),
                ("user information in target or Host", "400"), ("a scheme other than http and https", "400"),
            ]
        ),
        (
            "Host",
            [
                ("HTTP/1.1 without Host", "400"), ("more than one Host, even if equal", "400"),
                ("a comma, a path or anything but host and port", "400"),
                ("a Host that differs from the absolute target", "400; else made anew"),
            ]
        ),
        (
            "Fields",
            [
                ("white space before the colon", "400"), ("a field over two lines", "400"),
                ("an empty or invalid name, no colon", "400"), ("NUL or a control character in a value", "400"),
                ("a head that is too large, too many fields", "431"),
                ("`Transfer_Encoding`, `Content_Length`", "400"),
            ]
        ),
        (
            "Where a body ends",
            [
                ("Content-Length and Transfer-Encoding", "400"),
                ("two lengths, or a list of them, even if equal", "400"),
                ("a length that is no plain number, or overflows", "400"), ("a length with leading zeros", "400"),
                ("Transfer-Encoding twice", "400"), ("a final coding that is not chunked; an unknown one", "400; 501"),
                ("chunked twice, parameters, odd white space, empty members", "400"),
                ("Transfer-Encoding in HTTP/1.0", "400"),
                ("a body with GET, HEAD or OPTIONS", "read to its end"),
                ("a body that breaks off", "400; broken off for the origin"),
                ("a body over the limit; a slow head or body", "413; 408"),
            ]
        ),
        (
            "Chunks",
            [
                ("a size that is not hexadecimal digits alone", "400"), ("a size that overflows", "400"),
                ("a bare CR or LF behind size, data or trailer", "400"),
                ("no CRLF behind the data, or more data than the size", "400"),
                ("extensions: malformed or too long; valid", "400; dropped"),
                (
                    "trailers: malformed; too many or too large; framing, routing, authentication; others",
                    "400; 431; dropped; forwarded apart"
                ),
            ]
        ),
        (
            "Forwarding",
            [
                ("hop-by-hop fields, and what Connection names", "stay behind"),
                ("Via; our own name in it", "added; 508"), ("TRACE; Max-Forwards of OPTIONS", "405; counted down"),
                ("Proxy-Authorization", "stays behind"),
                ("an expectation that is unknown; `100-continue`", "417; the origin decides"),
                ("1xx answers", "relayed, not to HTTP/1.0"), ("answers to HEAD, 204, 304", "no body"),
                ("pipelined requests", "answered in order"), ("Upgrade without its Connection token", "ignored"),
                ("bodies; an answer without Date", "unchanged; one is added"),
            ]
        ),
        (
            "Origins",
            [
                ("an answer with bad framing", "502; its connection dropped"),
                ("an answer that breaks off", "broken off for the client"),
                ("no name, no connection, a wrong pin; time; policy", "502; 504; 403; each with Proxy-Status"),
                ("a kept connection that turned out dead", "again, once, if idempotent and nothing has gone or come"),
            ]
        ),
    ]

    static let count = groups.reduce(0) { $0 + $1.rules.count }
}

/// A test, or a row of a table of cases, that names rules.
private struct RuleTest: Hashable, Comparable {
    var file: String
    var name: String

    /// As the page has it.
    var text: String { "`\(file)`" }
    var isThroughProxy: Bool { file.hasPrefix("Tests/SystemTests/") }

    static func < (one: RuleTest, other: RuleTest) -> Bool { (one.file, one.name) < (other.file, other.name) }
}

/// `docs/develop/wire-rules.md` lists the tests of each rule, for the parser alone and through a running proxy.
///
/// `PINPROXY_WRITE_DOCS=1 swift test --filter WireRulesDocumentTests` regenerates the page.
@Suite("The index of the rules of the wire")
struct WireRulesDocumentTests {
    private static let repository = Repository.folder
    private static let page = repository.appending(path: "docs/develop/wire-rules.md")

    private let tests: [Int: [RuleTest]]

    init() throws { tests = try Self.find() }

    /// The numbers with which a test's name begins: "rule 4: …", "rules 1 and 2: …", "rules 1 to 3: …".
    private static func numbers(of name: String) -> [Int] {
        guard let match = name.prefixMatch(of: #/rules? (\d+)(?: (and|to) (\d+))?: /#), let first = Int(match.output.1)
        else { return [] }
        guard let last = match.output.3.flatMap({ Int($0) }), first < last else { return [first] }
        return match.output.2 == "to" ? Array(first...last) : [first, last]
    }

    private static func find() throws -> [Int: [RuleTest]] {
        var found: [Int: Set<RuleTest>] = [:]
        for folder in ["HTTPCoreTests", "SessionCoreTests", "HTTPSessionTests", "ProxyCoreTests", "SystemTests"] {
            let root = repository.appending(path: "Tests/\(folder)")
            let files =
                FileManager.default.enumerator(at: root, includingPropertiesForKeys: nil)?
                .compactMap { $0 as? URL } ?? []
            for file in files where file.pathExtension == "swift" {
                let source = try String(contentsOf: file, encoding: .utf8)
                let path = String(file.path.dropFirst(repository.path.count + 1))
                for match in source.matches(of: /@Test\(\s*"((?:[^"\\]|\\.)*)"/) {
                    let name = String(match.output.1)
                    for number in numbers(of: name) {
                        found[number, default: []].insert(RuleTest(file: path, name: name))
                    }
                }
                // Rows of the tables in the system tests.
                for match in source.matches(of: /\.rule\(\s*(\d+),\s*"((?:[^"\\]|\\.)*)"/) {
                    guard let number = Int(match.output.1) else { continue }
                    found[number, default: []].insert(RuleTest(file: path, name: String(match.output.2)))
                }
            }
        }
        return found.mapValues { $0.sorted() }
    }

    private func tests(of rule: Int, throughProxy: Bool) -> [RuleTest] {
        tests[rule, default: []].filter { $0.isThroughProxy == throughProxy }
    }

    /// The files of tests, each once.
    private func files(_ tests: [RuleTest]) -> [String] {
        Set(tests.map(\.text)).sorted()
    }

    private func text() -> String {
        var text = """
            # Where each rule of the wire is tested

            *Which test fails if a rule of HTTP is broken?*

            The rules are those of [http.md](../http.md). Each is tested by itself, on the values that parse, frame and
            serialise (rules 50, 55 and 57 at the library's transfers), and through a running proxy, between a client that
            sends exactly these bytes and an origin that records what it receives. What is refused in its head never
            reaches the origin; a fault in a body breaks the message off there.

            A test's name begins with the rule's number (`rule 4: …`); a case of a table has it (`.rule(4, …)`). A test
            writes this page, and fails if a rule has no test, or none in a file named here:
            `PINPROXY_WRITE_DOCS=1 swift test --filter WireRulesDocumentTests`.

            | rules | by itself | through the proxy |
            | --- | --- | --- |

            """
        var rows: [(first: Int, last: Int, columns: [String])] = []
        for number in 1...RuleCatalogue.count {
            let columns = [false, true].map { throughProxy in
                files(tests(of: number, throughProxy: throughProxy)).joined(separator: ", ")
            }
            if let last = rows.indices.last, rows[last].columns == columns {
                rows[last].last = number
            } else {
                rows.append((first: number, last: number, columns: columns))
            }
        }
        for row in rows {
            let numbers = row.first == row.last ? "\(row.first)" : "\(row.first) to \(row.last)"
            text += "| \(numbers) | \(row.columns[0]) | \(row.columns[1]) |\n"
        }
        return text
    }

    @Test("every rule has a test by itself, and one through the proxy")
    func complete() {
        #expect(RuleCatalogue.count == 57)
        for number in 1...RuleCatalogue.count {
            #expect(!tests(of: number, throughProxy: false).isEmpty, "rule \(number) is not tested by itself")
            #expect(!tests(of: number, throughProxy: true).isEmpty, "rule \(number) is not tested through the proxy")
        }
    }

    @Test("docs/develop/wire-rules.md has a row for every rule, and files with its test")
    func page() throws {
        if ProcessInfo.processInfo.environment["PINPROXY_WRITE_DOCS"] == "1" {
            try text().write(to: Self.page, atomically: true, encoding: .utf8)
        }
        let written = try String(contentsOf: Self.page, encoding: .utf8)
        var numbers: [Int] = []
        for row in written.matches(of: /(?m)^\| (\d+)(?: to (\d+))? \| (.+) \| (.+) \|$/) {
            let first = Int(row.output.1) ?? 0
            let last = row.output.2.flatMap { Int($0) } ?? first
            for number in first...max(first, last) {
                numbers.append(number)
                for (throughProxy, column) in [(false, row.output.3), (true, row.output.4)] {
                    let known = files(tests(of: number, throughProxy: throughProxy))
                    for name in String(column).components(separatedBy: ", ") {
                        #expect(known.contains(name), "\(number) is not tested in \(name)")
                    }
                }
            }
        }
        #expect(numbers == Array(1...RuleCatalogue.count))
    }
}
