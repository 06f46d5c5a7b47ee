// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// The scenarios in which pinning has to work, with the numbers that tests refer to.
private enum ScenarioCatalogue {
    static let groups: [(name: String, scenarios: [String])] = [
        (
            "Position",
            [
                "a pin on the leaf", "on the intermediate", "on the root, which was sent", "on the root, which was not",
                "the whole chain pinned", "a match among unrelated pins", "no match",
                "only the backup matches (rotated key)",
                "a renewed certificate with the same key: `publicKey` passes, `certificate` fails",
                "a `leaf` pin that names a CA fails",
            ]
        ),
        (
            "Chain shape",
            [
                "shuffled order", "a missing intermediate", "a wrong intermediate", "unrelated extras",
                "an extra pinned leaf in the sent chain (attack)",
                "an extra pinned intermediate with the name of the rogue CA (attack)", "a signer without the CA bit",
                "path length exceeded", "cross-signed, two roots", "an intermediate as anchor", "an over-long chain",
                "a name constraint violated", "a certificate for clients only",
            ]
        ),
        (
            "Keys",
            [
                "RSA-2048", "RSA-3072 and 4096", "P-256", "P-384 and P-521", "Ed25519",
                "RSA-PSS and rsaEncryption differ in their pins", "RSA-1024 or SHA-1 (security level)",
            ]
        ),
        (
            "Time",
            [
                "an expired leaf", "not yet valid", "an expired intermediate", "the pin set expired yesterday",
                "it expires today (UTC)", "a malformed date",
            ]
        ),
        (
            "Names",
            [
                "a wrong host", "a wildcard", "a wildcard against two labels", "an IPv4 name", "an IPv6 name",
                "a common name only", "no names", "a URI name that looks like a DNS name", "an embedded NUL",
                "upper case", "a trailing dot", "U-label and A-label", "the suffix trick `evilexample.com`",
                "exact before parent", "an excluded subdomain", "another port",
            ]
        ),
        (
            "Modes",
            [
                "self-signed and pinned, invalid allowed and not", "self-signed, not pinned",
                "every cell of mode × `allowInvalidCertificates` × `validatesDomainName`",
                "invalid allowed, wrong host", "a private CA",
            ]
        ),
        (
            "Configuration",
            [
                "an empty set", "a pin of 31 bytes", "bad base64", "one pin enforced", "an unknown key",
                "a duplicate domain", "PEM, DER, several in one PEM, gibberish, a private key", "a public suffix",
            ]
        ),
        (
            "Connection",
            [
                "TLS 1.2 ticket and session-ID resumption after a tightened policy", "the same with TLS 1.3",
                "reuse of a kept connection after a reload", "two hosts, one address, one certificate, h2",
                "a redirect to another host", "a redirect to http", "CONNECT to a pinned host",
                "the server's certificate rotates between connections", "a reload with a broken file",
                "zero request bytes at the origin on failure",
            ]
        ),
        (
            "Reports and revocation",
            [
                "report-only passes and reports", "report-only with a bad chain blocks",
                "identical reports once", "a report URI on the pinned host", "revoked by a list",
                "a staple that is missing or stale",
            ]
        ),
    ]

    static let count = groups.reduce(0) { $0 + $1.scenarios.count }
}

/// A test, or a case of a data-driven one, that names scenarios.
private struct ScenarioTest: Hashable, Comparable {
    var file: String
    var name: String

    /// As the page has it.
    var text: String { "`\(file)`" }

    static func < (one: ScenarioTest, other: ScenarioTest) -> Bool {
        (one.file, one.name) < (other.file, other.name)
    }
}

/// `docs/develop/pin-scenarios.md` lists the tests of each scenario: every scenario has a test, and every listed test exists.
///
/// `PINPROXY_WRITE_DOCS=1 swift test --filter PinScenariosDocumentTests` regenerates the page.
@Suite("The index of the scenarios of pinning")
struct PinScenariosDocumentTests {
    private static let repository = Repository.folder
    private static let page = repository.appending(path: "docs/develop/pin-scenarios.md")

    private let tests: [Int: [ScenarioTest]]

    /// Found once: each test has a suite of its own.
    private static let found = Result { try find() }

    init() throws { tests = try Self.found.get() }

    /// The numbers with which a test's name begins ("24 to 28 …", "46 and 47 …") or a case's ends ("… (58)").
    private static func numbers(of name: String, isCase: Bool) -> [Int] {
        if isCase {
            guard name.hasSuffix(")"), let match = name.firstMatch(of: /\((\d+)\)$/), let number = Int(match.output.1)
            else { return [] }
            return [number]
        }
        guard let first = name.utf8.first, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first) else { return [] }
        // "64 MB …", "50 reloads …" and "32 threads …" count something.
        guard name.prefixMatch(of: #/\d+ (?:[KMG]B|reloads|requests|clients|threads) /#) == nil,
            let match = name.prefixMatch(of: #/(\d+)(?:(, \d+)* (and|to) (\d+))? /#)
        else { return [] }
        let listed = match.output.0.matches(of: /\d+/).compactMap { Int($0.output) }
        if match.output.3 == "to", let first = listed.first, let last = listed.last, first < last {
            return Array(first...last)
        }
        return listed
    }

    private static func find() throws -> [Int: [ScenarioTest]] {
        var found: [Int: Set<ScenarioTest>] = [:]
        for folder in ["ServerTrustTests", "SessionCoreTests", "HTTPSessionTests", "ProxyCoreTests", "SystemTests"] {
            let root = repository.appending(path: "Tests/\(folder)")
            let files =
                FileManager.default.enumerator(at: root, includingPropertiesForKeys: nil)?
                .compactMap { $0 as? URL } ?? []
            for file in files where file.pathExtension == "swift" {
                let source = try String(contentsOf: file, encoding: .utf8)
                let path = String(file.path.dropFirst(repository.path.count + 1))
                for match in source.matches(of: /(@Test|\.domain|\.file|\.name)\(\s*"((?:[^"\\]|\\.)*)"/) {
                    let name = String(match.output.2)
                    for number in numbers(of: name, isCase: match.output.1 != "@Test") {
                        guard (1...ScenarioCatalogue.count).contains(number) else { continue }
                        let shown = name.replacing(/\\\((\w+)\)/) { "(\($0.output.1))" }
                        found[number, default: []].insert(ScenarioTest(file: path, name: shown))
                    }
                }
            }
        }
        return found.mapValues { $0.sorted() }
    }

    /// The files with tests of a scenario, each once.
    private func files(_ number: Int) -> [String] {
        Set(tests[number, default: []].map(\.text)).sorted()
    }

    private func text() -> String {
        var text = """
            # Pin scenarios

            *Which situations is pinning tested in, and where?*

            The situations in which pinning has to hold, and those in which the pinning of other programs failed. Each
            test has one possible cause of refusal; the same set-up without that cause passes in the same test. A test's
            name begins with the scenario's number (`9 a renewed …`); a case of a table ends with it (`… (58)`).

            A test writes this page, and fails if a scenario has no test, or none in a file named here:
            `PINPROXY_WRITE_DOCS=1 swift test --filter PinScenariosDocumentTests`.

            """
        var number = 0
        for group in ScenarioCatalogue.groups {
            text += "\n## \(group.name)\n\n| | scenario | tests |\n| --- | --- | --- |\n"
            for scenario in group.scenarios {
                number += 1
                let named = files(number).joined(separator: ", ")
                text += "| \(number) | \(scenario) | \(named) |\n"
            }
        }
        return text
    }

    @Test("a number that counts something is no scenario's number")
    func counts() {
        for name in [
            "1 MB in records of odd sizes arrives", "64 MB with a restart", "50 reloads in a row",
            "32 threads make tasks",
        ] {
            #expect(Self.numbers(of: name, isCase: false).isEmpty, "\(name)")
        }
        #expect(Self.numbers(of: "50 exact before parent", isCase: false) == [50])
        #expect(Self.numbers(of: "24 to 26 keys", isCase: false) == [24, 25, 26])
    }

    @Test("every scenario has a test with its number")
    func complete() {
        #expect(ScenarioCatalogue.count == 81)
        for number in 1...ScenarioCatalogue.count {
            #expect(tests[number]?.isEmpty == false, "no test bears the number \(number)")
        }
    }

    @Test("docs/develop/pin-scenarios.md has a row for every scenario, and files with its test")
    func page() throws {
        if ProcessInfo.processInfo.environment["PINPROXY_WRITE_DOCS"] == "1" {
            try text().write(to: Self.page, atomically: true, encoding: .utf8)
        }
        let written = try String(contentsOf: Self.page, encoding: .utf8)
        let rows = written.matches(of: /(?m)^\| (\d+) \| .* \| (.*) \|$/)
        #expect(rows.compactMap { Int($0.output.1) } == Array(1...ScenarioCatalogue.count))
        for row in rows {
            let number = Int(row.output.1) ?? 0
            let known = files(number)
            for name in String(row.output.2).components(separatedBy: ", ") {
                #expect(known.contains(name), "\(number) is not tested in \(name)")
            }
        }
    }
}
