// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import TestSupport
import Testing

/// The results of a policy for servers that differ from a good one in one property.
private struct Findings {
    enum Check: String, CaseIterable {
        case chain
        case name
        case dates
        case pin
    }

    /// The conditions that refuse the server.
    var checked: [Check] = []
    /// The conditions that are only reported.
    var told: [Check] = []
    /// The good server's.
    var verdict: TrustEvaluation.Verdict
    var failure: TrustFailure?
    /// Whether a pinned CA makes a server acceptable.
    var countsAuthorities = false
    /// A server without any valid property: no path, another host's name, expired, another key.
    var acceptsAnybody: Bool

    var isAccepted: Bool { verdict != .fail }

    var text: String {
        let code = failure.map { " (`\($0.rawValue)`)" } ?? ""
        guard isAccepted else { return "refused\(code)" }
        var parts = checked.map { check in
            check == .pin ? "pin (\(countsAuthorities ? "any place" : "leaf"))" : check.rawValue
        }
        if told.contains(.pin), failure == nil {
            parts.append("pin only told (\(countsAuthorities ? "any place" : "leaf"))")
        }
        return "\(parts.isEmpty ? "**nothing**" : parts.joined(separator: ", ")) → `\(verdict.rawValue)`\(code)"
    }
}

/// The servers of the table.
private struct Servers {
    let pki: TestPKI
    /// The servers by their fault, each with the certificate that is pinned for it.
    let flawed: [(flaw: Findings.Check, chain: [Certificate], pinned: Certificate)]
    let good: TestServer
    let nobody: Certificate

    init() throws {
        pki = try TestPKI()
        good = try pki.server(Scenario.host)
        let unknown = try TestPKI("unknown").server(Scenario.host)
        let otherName = try pki.server("other.example")
        var builder = CertificateBuilder.server(hosts: [Scenario.host], validity: TestPKI.validity)
        builder.notAfter = Scenario.now - 1
        let expired = try pki.server(builder)
        let otherKey = try pki.server(Scenario.host)
        flawed = [
            (.chain, unknown.chain, unknown.certificate), (.name, otherName.chain, otherName.certificate),
            (.dates, expired.chain, expired.certificate), (.pin, otherKey.chain, good.certificate),
        ]
        var stranger = CertificateBuilder.server(hosts: ["other.example"], validity: TestPKI.validity)
        stranger.notAfter = Scenario.now - 1
        nobody = try stranger.identity().certificate
    }
}

/// A combination of the settings.
private struct Combination {
    var mode: SSLPinningMode
    var allowInvalid: Bool
    var validatesName: Bool
    var enforces: Bool
    var onExpiration: SecurityPolicy.Configuration.OnExpiration

    static let all: [Combination] = SSLPinningMode.allCases.flatMap { mode in
        [false, true].flatMap { allowInvalid in
            [true, false].flatMap { validatesName in
                [true, false].flatMap { enforces in
                    SecurityPolicy.Configuration.OnExpiration.allCases.map {
                        Combination(
                            mode: mode,
                            allowInvalid: allowInvalid,
                            validatesName: validatesName,
                            enforces: enforces,
                            onExpiration: $0
                        )
                    }
                }
            }
        }
    }

    /// Mode `none` with every check explicitly switched off: the only way to check nothing.
    var waivesEverything: Bool { mode == .none && allowInvalid && !validatesName }

    func configuration(pinning pinned: Certificate, until expiration: CalendarDate?) -> SecurityPolicy.Configuration {
        var configuration = SecurityPolicy.Configuration()
        configuration.pinningMode = mode
        configuration.allowInvalidCertificates = allowInvalid
        configuration.validatesDomainName = validatesName
        configuration.enforcePinning = enforces
        configuration.onExpiration = onExpiration
        switch mode {
        case .none: break
        case .certificate: configuration.pinnedCertificates = [pinned]
        case .publicKey: configuration.pins = [Pin(pinned.publicKeyPin), Pin(.unrelated(200))]
        }
        // Mode none has no pins that could expire.
        if mode != .none { configuration.expiration = expiration }
        return configuration
    }

    /// The results of the evaluator itself.
    func findings(_ servers: Servers, until expiration: CalendarDate?) throws -> Findings {
        func judge(_ chain: [Certificate], pinning pinned: Certificate) throws -> TrustEvaluation {
            try SecurityPolicy(configuration(pinning: pinned, until: expiration))
                .evaluate(
                    chain: chain,
                    host: Host(Scenario.host),
                    anchors: servers.pki.anchors,
                    at: Scenario.now
                )
        }
        let good = try judge(servers.good.chain, pinning: servers.good.certificate)
        let nobody = try judge([servers.nobody], pinning: servers.good.certificate)
        var findings = Findings(verdict: good.verdict, failure: good.failure, acceptsAnybody: nobody.isAccepted)
        for (flaw, chain, pinned) in servers.flawed {
            switch try judge(chain, pinning: pinned).verdict {
            case .fail: findings.checked.append(flaw)
            case .reportOnly: findings.told.append(flaw)
            default: break
            }
        }
        let authority = try judge(servers.good.chain, pinning: servers.pki.intermediate.certificate)
        findings.countsAuthorities = authority.verdict == .pass
        return findings
    }
}

/// `docs/pin-modes.md` is generated from the evaluator's results.
///
/// `PINPROXY_WRITE_DOCS=1 swift test --filter PinModesDocumentTests` regenerates the page.
@Suite("The table of every combination of the modes' settings")
struct PinModesDocumentTests {
    private let servers: Servers
    private let held = CalendarDate("2026-05-15")
    private let over = CalendarDate("2026-05-14")

    init() throws { servers = try Servers() }

    private static let page = Repository.folder.appending(path: "docs/pin-modes.md")

    /// What the page says of a combination: while its pins hold, and after `expiration`.
    private func results(_ combination: Combination) throws -> (held: String, over: String) {
        let faults = combination.configuration(pinning: servers.good.certificate, until: held).faults()
        guard faults.isEmpty else {
            let keys = Set(faults.map(\.key)).sorted().map { "`\($0)`" }
            return ("load error: " + keys.joined(separator: ", "), "–")
        }
        let findings = try combination.findings(servers, until: held).text
        return (findings, combination.mode == .none ? "–" : try combination.findings(servers, until: over).text)
    }

    /// A row for both values of `onExpiration`, which make no difference while the pins hold.
    private func row(_ combination: Combination) throws -> String {
        var other = combination
        other.onExpiration = .unpinned
        let (denied, unpinned) = (try results(combination), try results(other))
        #expect(denied.held == unpinned.held, "\(combination)")
        let cells = [
            "`\(combination.mode.rawValue)`", "\(combination.allowInvalid)", "\(combination.validatesName)",
            "\(combination.enforces)", denied.held, denied.over, unpinned.over,
        ]
        return "| " + cells.joined(separator: " | ") + " |\n"
    }

    private func rows() throws -> [String] {
        try Combination.all.filter { $0.onExpiration == .deny }.map { try row($0) }
    }

    private func text() throws -> String {
        let head = """
            # Pinning modes: each combination of settings

            *What exactly is checked for each combination of settings?*

            Five [settings of a domain](pin-files.md#keys-of-a-domain) decide what a server has to prove. A test makes this
            table with servers that have one flaw each. A server that lacks one of these conditions is refused:

            | word | condition |
            | --- | --- |
            | chain | the chain is valid to the trust anchors |
            | name | the certificate is for the host, and no CA of the verified chain has name constraints that exclude the \
            host |
            | dates | the certificate is within its validity |
            | pin (any place) | a pinned key or certificate is in the verified chain: the server's own, or a CA's |
            | pin (leaf) | the server's own certificate is a pinned one, or has a pinned key: a CA's does not count |
            | pin only told | the same, but a server without it is accepted with the verdict `reportOnly` |

            The verdict after the arrow is that of a server that fulfils all conditions. A file with a `load error` is
            refused: the named keys contradict each other. If a pin is checked and the chain is not, the path has to be
            [valid up to the pin](pin-files.md#modes).

            Only mode `none` with `allowInvalidCertificates: true` and `validatesDomainName: false` accepts a server without
            a check of chain or pin; its verdict is `unverified`. Mode `none` has no `expiration`.


            """
        let table = """
            | `pinningMode` | `allowInvalidCertificates` | `validatesDomainName` | `enforcePinning` | while the pins hold \
            | after `expiration`, `onExpiration: deny` | `unpinned` |
            | --- | --- | --- | --- | --- | --- | --- |

            """
        return try head + table + rows().joined()
    }

    @Test("docs/pin-modes.md is what the evaluator says")
    func page() throws {
        let made = try text()
        if ProcessInfo.processInfo.environment["PINPROXY_WRITE_DOCS"] == "1" {
            try made.write(to: Self.page, atomically: true, encoding: .utf8)
        }
        let written = try String(contentsOf: Self.page, encoding: .utf8)
        #expect(written == made, "the page is out of date: PINPROXY_WRITE_DOCS=1 writes it anew")
    }

    @Test("there are 48 combinations, all different")
    func combinations() throws {
        let rows = try rows()
        #expect(Combination.all.count == 48 && rows.count == 24 && Set(rows).count == 24)
    }

    @Test("no combination accepts a wholly unchecked server, unless all is waived")
    func nothingUnchecked() throws {
        var waived = 0
        for combination in Combination.all {
            guard combination.configuration(pinning: servers.good.certificate, until: held).faults().isEmpty else {
                #expect(throws: SecurityPolicy.Faults.self) { try combination.findings(servers, until: held) }
                continue
            }
            for expiration in [held, over] {
                let findings = try combination.findings(servers, until: expiration)
                guard !combination.waivesEverything else {
                    waived += 1
                    #expect(findings.verdict == .unverified && findings.acceptsAnybody)
                    continue
                }
                #expect(!findings.acceptsAnybody, "\(combination)")
                let proves = findings.checked.contains(.chain) || findings.checked.contains(.pin)
                #expect(proves || !findings.isAccepted, "\(combination)")
                // Without a name only the server's own key identifies it.
                if !findings.checked.contains(.name), findings.verdict == .pass {
                    #expect(!findings.countsAuthorities, "\(combination)")
                }
            }
        }
        // Both values of onExpiration, each evaluated twice.
        #expect(waived == 4)
    }
}
