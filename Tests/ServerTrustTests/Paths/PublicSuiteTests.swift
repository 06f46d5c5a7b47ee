// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import Testing

@testable import ServerTrust

/// Public suites of certificate chains, run offline. Their data is not in the repository: two environment variables name
/// the files, and docs/security.md says how to make them.
///
/// - `PINPROXY_BETTERTLS`: the output of BetterTLS's `export-tests`.
/// - `PINPROXY_LIMBO`: `limbo.json` of x509-limbo.
/// - `PINPROXY_AUTHORITIES`: certificates of public CAs in PEM, roots and intermediates.
@Suite("Public suites of certificate chains", .serialized)
struct PublicSuiteTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let betterTLS = environment["PINPROXY_BETTERTLS"]
    private static let limbo = environment["PINPROXY_LIMBO"]
    private static let authorities = environment["PINPROXY_AUTHORITIES"]

    private static func decode<Document: Decodable>(_ type: Document.Type, _ path: String?) throws -> Document {
        try JSONDecoder().decode(type, from: Data(contentsOf: URL(fileURLWithPath: try #require(path))))
    }

    @Test("every chain of BetterTLS is accepted or refused as expected", .enabled(if: betterTLS != nil))
    func everyChainOfBetterTLS() throws {
        let document = try Self.decode(BetterTLS.self, Self.betterTLS)
        let root = try Certificate(der: Array(document.trustRoot))
        let anchors = TrustAnchors(certificates: [root])
        // The suite is made for the moment of its export, which is a day after the first second of every certificate.
        let now = try #require(root.notBefore) + 86_400
        var rows: [String] = []
        for (name, suite) in document.suites.sorted(by: { $0.key < $1.key }) {
            var (strict, lenient) = (Tally(), Tally())
            for testCase in suite.testCases {
                let outcome = Outcome {
                    let chain = try testCase.certificates.map { try Certificate(der: Array($0)) }
                    return SecurityPolicy.unpinned.evaluate(
                        chain: chain,
                        host: try Host(testCase.hostname),
                        anchors: anchors,
                        at: now
                    )
                }
                if testCase.failureIsWarning {
                    lenient.count(outcome, expected: testCase.isGood)
                } else {
                    strict.count(outcome, expected: testCase.isGood)
                    let line = outcome.line("\(name) \(testCase.id)", expected: testCase.isGood, testCase.description)
                    if let line { print(line) }
                }
            }
            #expect(strict.cases > 0, "\(name) is empty")
            #expect(strict.asExpected == strict.cases, "\(name): see the lines above")
            rows.append(strict.row(name))
            // The suite itself accepts either result here: a common name that is the host's, or that a CA excludes.
            if lenient.cases > 0 { rows.append(lenient.row("\(name), either result is right")) }
        }
        #expect(!rows.isEmpty)
        print(Tally.table(rows))
    }

    @Test("the chains of x509-limbo are evaluated, and the differences are listed", .enabled(if: limbo != nil))
    func everyChainOfLimbo() throws {
        let document = try Self.decode(Limbo.self, Self.limbo)
        // The copies of BetterTLS's cases are left to the other test, which knows where either result is right.
        let testCases = document.testcases.filter { $0.group != "bettertls" }.sorted { $0.id < $1.id }
        #expect(!testCases.isEmpty)
        var tallies: [String: Tally] = [:]
        var total = Tally()
        for testCase in testCases {
            guard testCase.isOfServer else {
                tallies[testCase.group, default: Tally()].notRun += 1
                total.notRun += 1
                continue
            }
            let outcome = Outcome { try testCase.evaluation() }
            tallies[testCase.group, default: Tally()].count(outcome, expected: testCase.isGood)
            total.count(outcome, expected: testCase.isGood)
            let features = testCase.features.isEmpty ? nil : testCase.features.joined(separator: ", ")
            if let line = outcome.line(testCase.id, expected: testCase.isGood, features) { print(line) }
        }
        let rows = tallies.sorted { $0.key < $1.key }.map { $0.value.row($0.key) }
        print(Tally.table(rows + [total.row("all")]))
    }

    @Test("no CA certificate in use breaks the profile for public CAs", .enabled(if: authorities != nil))
    func everyAuthority() throws {
        let certificates = try Certificate.certificates(file: try #require(Self.authorities))
        #expect(certificates.count > 100)
        for certificate in certificates {
            let breach = CertificateProfile.breach(ofCA: certificate)
            #expect(breach == nil, "\(certificate.subject) \(breach?.text ?? "")")
        }
    }
}

// MARK: - Results

/// What the policy says about a case. A certificate, list or host that cannot be decoded is a refusal.
private struct Outcome {
    var isAccepted: Bool
    var reason: String

    init(_ evaluate: () throws -> TrustEvaluation) {
        do {
            let evaluation = try evaluate()
            isAccepted = evaluation.isAccepted
            reason = "\(evaluation)"
        } catch {
            isAccepted = false
            reason = "not decoded: \(error)"
        }
    }

    /// The line about a case with another result than the expected one.
    func line(_ id: String, expected: Bool, _ description: String?) -> String? {
        func word(_ isAccepted: Bool) -> String { isAccepted ? "accepted" : "refused" }
        guard isAccepted != expected else { return nil }
        let note = description.map { " [\($0)]" } ?? ""
        return "\(id): expected \(word(expected)), got \(word(isAccepted)): \(reason)\(note)"
    }
}

/// The number of cases by their result.
private struct Tally {
    var cases = 0
    var asExpected = 0
    var wronglyAccepted = 0
    var wronglyRefused = 0
    /// Cases that are no servers' chains; `cases` does not count them.
    var notRun = 0

    mutating func count(_ outcome: Outcome, expected: Bool) {
        cases += 1
        switch (outcome.isAccepted, expected) {
        case (true, false): wronglyAccepted += 1
        case (false, true): wronglyRefused += 1
        default: asExpected += 1
        }
    }

    func row(_ name: String) -> String {
        "| \(name) | \(cases) | \(asExpected) | \(wronglyAccepted) | \(wronglyRefused) | \(notRun) |"
    }

    static func table(_ rows: [String]) -> String {
        let head = [
            "| suite | cases | as expected | accepted, expected refused | refused, expected accepted | not run |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
        ]
        return (head + rows).joined(separator: "\n")
    }
}

// MARK: - Documents

/// The output of BetterTLS's `export-tests`: one root for all cases, chains leaf first, DER in base64.
private struct BetterTLS: Decodable {
    struct Suite: Decodable {
        var testCases: [Case]
    }

    struct Case: Decodable {
        enum Expectation: String, Decodable {
            case accept = "ACCEPT"
            case reject = "REJECT"
        }

        var id: Int
        /// Not in the output of `export-tests` itself.
        var description: String?
        var certificates: [Data]
        var hostname: String
        var expected: Expectation
        /// Whether the other result is no failure.
        var failureIsWarning: Bool

        var isGood: Bool { expected == .accept }
    }

    var trustRoot: Data
    var suites: [String: Suite]
}

/// `limbo.json`; its keys are written as there.
private struct Limbo: Decodable {
    struct Case: Decodable {
        enum Expectation: String, Decodable {
            case success = "SUCCESS"
            case failure = "FAILURE"
        }

        enum Kind: String, Decodable {
            case server = "SERVER"
            case client = "CLIENT"
        }

        struct PeerName: Decodable {
            var value: String
        }

        enum CodingKeys: String, CodingKey {
            case id, features, crls
            case kind = "validation_kind"
            case anchors = "trusted_certs"
            case intermediates = "untrusted_intermediates"
            case leaf = "peer_certificate"
            case time = "validation_time"
            case expected = "expected_result"
            case depth = "max_chain_depth"
            case peer = "expected_peer_name"
        }

        var id: String
        var features: [String]
        var kind: Kind
        var anchors: [String]
        var intermediates: [String]
        var leaf: String
        /// ISO 8601 in UTC, also with a fraction of a second; now without it.
        var time: String?
        var expected: Expectation
        /// None where only the chain counts.
        var peer: PeerName?
        var crls: [String]
        /// None where any length is right.
        var depth: Int?

        var isOfServer: Bool { kind == .server }
        var isGood: Bool { expected == .success }

        /// The first part of the name: `rfc5280` of `rfc5280::nc::permitted-dns-match`.
        var group: String { id.split(separator: ":").first.map(String.init) ?? id }

        /// The roots count as those of public CAs, whose profile the suite is about.
        func evaluation() throws -> TrustEvaluation {
            var configuration = SecurityPolicy.Configuration()
            configuration.validatesDomainName = peer != nil
            if let depth { configuration.maxChainDepth = depth }
            if !crls.isEmpty {
                configuration.revocationLists = try RevocationLists(contents: crls.map { Array($0.utf8) })
            }
            let roots = try anchors.flatMap { try Certificate.certificates(in: Array($0.utf8)) }
            let chain = try ([leaf] + intermediates).flatMap { try Certificate.certificates(in: Array($0.utf8)) }
            return try SecurityPolicy(configuration).evaluate(
                chain: chain,
                host: try Host(peer?.value ?? "example.com"),
                anchors: TrustAnchors(certificates: roots, publicKeys: Set(roots.map(\.publicKeyPin))),
                at: try seconds()
            )
        }

        /// Whole seconds since 1970, as the program's clock has them.
        private func seconds() throws -> Int64? {
            guard let time else { return nil }
            let date = try #require(ISO8601DateFormatter().date(from: "\(time.prefix(19))Z"))
            return Int64(date.timeIntervalSince1970)
        }
    }

    var testcases: [Case]
}
