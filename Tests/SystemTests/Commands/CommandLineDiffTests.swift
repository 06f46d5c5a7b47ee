// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("Command line: pins diff", .onOwnThreads)
struct CommandLineDiffTests {
    private let folder: TemporaryFolder
    private static let spare = "\(PublicKeyPin.unrelated(99))"

    init() throws { folder = try TemporaryFolder() }

    /// A domain in mode `publicKey` with two pins.
    private static func domain(_ members: [String: Any] = [:]) -> [String: Any] {
        ["pinningMode": "publicKey", "pins": ["\(PublicKeyPin.unrelated(1))", spare]].merging(members) { $1 }
    }

    private func write(_ domains: [String: [String: Any]], as name: String) throws -> String {
        let json = try JSONSerialization.data(withJSONObject: ["version": 1, "pinnedDomains": domains])
        return try folder.write(bytes: Array(json), as: name)
    }

    private func diff(
        _ old: [String: [String: Any]],
        _ new: [String: [String: Any]]
    ) throws -> Programs.Finished {
        try pinproxy("pins", "diff", write(old, as: "old.json"), write(new, as: "new.json"))
    }

    @Test("equal policies have no difference, whatever their files and order")
    func same() throws {
        let one = Self.domain(["ports": [443, 8443], "comment": "one"])
        let two = Self.domain([
            "ports": [8443, 443],
            "pins": [["spki-sha256": Self.spare, "comment": "spare"], "\(PublicKeyPin.unrelated(1))"] as [Any],
        ])
        _ = try write(["a.test": one, "b.test": Self.domain()], as: "old/all.json")
        _ = try write(["B.test.": Self.domain()], as: "new/1.json")
        _ = try write(["a.test": two], as: "new/2.json")
        let finished = try pinproxy("pins", "diff", "\(folder.path)/old", "\(folder.path)/new")
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(finished.output == "no difference\n")
    }

    @Test("changed domains and pins are shown, with comments and dates")
    func changes() throws {
        let (first, second) = (PublicKeyPin.unrelated(1), PublicKeyPin.unrelated(2))
        func pins(_ key: PublicKeyPin, _ comment: String) -> [Any] {
            [["spki-sha256": key.base64, "scope": "leaf", "comment": comment], Self.spare]
        }
        let finished = try diff(
            [
                "gone.test": Self.domain(),
                "api.test": Self.domain(["pins": pins(first, "of\u{1b} 2026"), "expiration": "2098-12-31"]),
            ],
            [
                "new.test": Self.domain(["enforcePinning": false]),
                "api.test": Self.domain(["pins": pins(second, "of 2027"), "expiration": "2099-12-31"]),
            ]
        )
        #expect(finished.exitCode == 1, "\(finished.errors)")
        #expect(
            finished.output == """
                ~ api.test
                    - pin \(first) (leaf, of\u{fffd} 2026)
                    + pin \(second) (leaf, of 2027)
                    expiration: 2098-12-31 → 2099-12-31
                - gone.test
                    WEAKER: pinningMode: publicKey → not pinned
                    - pin \(first)
                    - pin \(Self.spare)
                + new.test
                    pinningMode: not pinned → publicKey
                    + pin \(first)
                    + pin \(Self.spare)
                    enforcePinning: true → false

                1 added, 1 removed, 1 changed
                1 change WEAKENS what is asked of servers

                """
        )
    }

    /// A change of one domain, and the line that must be marked one way and not the other.
    struct Weakening: Sendable, CustomTestStringConvertible {
        var before: String
        var after: String
        var line: String
        var testDescription: String { line }
    }

    @Test(
        "a change that weakens is marked, its reversal is not",
        arguments: [
            Weakening(
                before: "",
                after: #""enforcePinning": false"#,
                line: "enforcePinning: true → false"
            ),
            Weakening(
                before: "",
                after: #""allowInvalidCertificates": true"#,
                line: "allowInvalidCertificates: false → true"
            ),
            Weakening(
                before: "",
                after: #""validatesDomainName": false"#,
                line: "validatesDomainName: true → false"
            ),
            Weakening(
                before: #""includeSubdomains": true"#,
                after: "",
                line: "includeSubdomains: true → false"
            ),
            Weakening(
                before: #""expiration": "2098-01-01""#,
                after: #""expiration": "2098-01-01", "onExpiration": "unpinned""#,
                line: "onExpiration: deny → unpinned"
            ),
            Weakening(
                before: #""expiration": "2099-01-01", "onExpiration": "unpinned""#,
                after: #""expiration": "2098-01-01", "onExpiration": "unpinned""#,
                line: "expiration: 2099-01-01 → 2098-01-01"
            ),
            Weakening(before: "", after: #""ports": [443]"#, line: "ports: all → 443"),
            Weakening(
                before: #""ports": [443, 8443]"#,
                after: #""ports": [443]"#,
                line: "ports: 443, 8443 → 443"
            ),
            Weakening(before: #""requireGroups": ["P-256"]"#, after: "", line: "requireGroups: P-256 → none"),
            Weakening(before: #""maxChainDepth": 1"#, after: "", line: "maxChainDepth: 1 → 10"),
            Weakening(before: #""minTLSVersion": "1.3""#, after: "", line: "minTLSVersion: 1.3 → 1.2"),
            Weakening(
                before: #""revocation": { "requireStaple": true }"#,
                after: "",
                line: "requireStaple: true → false"
            ),
            Weakening(
                before: #""revocation": { "crlScope": "chain", "requireStaple": true }"#,
                after: #""revocation": { "requireStaple": true }"#,
                line: "crlScope: chain → leaf"
            ),
        ]
    )
    func weakening(change: Weakening) throws {
        func file(_ member: String, _ name: String) throws -> String {
            let pins = #""pins": ["\#(PublicKeyPin.unrelated(1))", "\#(Self.spare)"]"#
            let body = [#""pinningMode": "publicKey""#, pins, member].filter { !$0.isEmpty }.joined(separator: ", ")
            return try folder.write(#"{ "version": 1, "pinnedDomains": { "api.test": { \#(body) } } }"#, as: name)
        }
        let (before, after) = (try file(change.before, "before.json"), try file(change.after, "after.json"))
        let weaker = try pinproxy("pins", "diff", before, after)
        #expect(weaker.exitCode == 1, "\(weaker.errors)")
        #expect(weaker.output.contains("    WEAKER: \(change.line)\n"), "\(weaker.output)")
        #expect(weaker.output.hasSuffix("\n1 change WEAKENS what is asked of servers\n"))
        let back = try pinproxy("pins", "diff", after, before)
        #expect(back.exitCode == 1, "\(back.errors)")
        #expect(back.output.hasPrefix("~ api.test\n"))
        #expect(!back.output.contains("WEAK"), "\(back.output)")
    }

    @Test("mode none, an exclusion, a wider scope or a lost forbidden pin weakens")
    func weakerPins() throws {
        let (first, bad) = (PublicKeyPin.unrelated(1), PublicKeyPin.unrelated(7))
        let pinned = ["api.test": Self.domain()]
        let none = try diff(pinned, ["api.test": ["pinningMode": "none"]])
        #expect(none.output.contains("    WEAKER: pinningMode: publicKey → none\n"))
        let excluded = try diff(
            ["api.test": Self.domain(["includeSubdomains": true])],
            ["api.test": ["excludeFromParentPolicy": true, "includeSubdomains": true]]
        )
        #expect(
            excluded.output.contains("    WEAKER: pinningMode: publicKey → excluded from its parent's policy\n"),
            "\(excluded.errors)"
        )
        let leaf = Self.domain(["pins": [["spki-sha256": first.base64, "scope": "leaf"], Self.spare] as [Any]])
        let wider = try diff(["api.test": leaf], pinned)
        #expect(wider.output.contains("    WEAKER: + pin \(first)\n"))
        let forbidden = try diff(["api.test": Self.domain(["forbiddenPins": ["\(bad)"]])], pinned)
        #expect(forbidden.output.contains("    WEAKER: - forbidden pin \(bad)\n"), "\(forbidden.errors)")
    }

    @Test("a subdomain is compared with its parent domain's policy")
    func parent() throws {
        let parent = ["test.example": Self.domain(["includeSubdomains": true])]
        let child = parent.merging(["api.test.example": Self.domain(["enforcePinning": false])]) { $1 }
        let added = try diff(parent, child)
        #expect(
            added.output.hasPrefix(
                "+ api.test.example, held to the policy of test.example so far\n    WEAKER: enforcePinning: true → false\n"
            ),
            "\(added.output)"
        )
        let removed = try diff(child, parent)
        #expect(removed.output.hasPrefix("- api.test.example, held to the policy of test.example from now on\n"))
        #expect(!removed.output.contains("WEAK"))
    }

    @Test("trust anchors are compared by certificate, not by file name")
    func anchors() throws {
        let (one, other) = (try TestPKI("one"), try TestPKI("other"))
        try folder.write(one.root.certificate.pem, as: "one.pem")
        try folder.write(bytes: one.root.certificate.derBytes, as: "same.der")
        try folder.write(other.root.certificate.pem, as: "other.pem")
        func pins(_ file: String) -> [String: [String: Any]] {
            ["api.test": Self.domain(["trustAnchors": ["system": false, "files": [file]]])]
        }
        #expect(try diff(pins("one.pem"), pins("same.der")).exitCode == 0)
        let replaced = try diff(pins("one.pem"), pins("other.pem"))
        #expect(replaced.exitCode == 1)
        #expect(replaced.output.contains("    - trust anchor CN = one root, "))
        #expect(replaced.output.contains("    + trust anchor CN = other root, "))
        let dropped = try diff(pins("one.pem"), ["api.test": Self.domain()])
        #expect(dropped.output.contains("    WEAKER: trustAnchors: its own → the configuration's\n"))
    }

    @Test("revocation lists are compared by contents, and dropping one weakens")
    func revocationLists() throws {
        let pki = try TestPKI()
        let revoked = try pki.server("api.test").certificate
        for (name, builder) in [
            ("one.crl", RevocationListBuilder(validity: TestPKI.validity)),
            ("two.crl", RevocationListBuilder(validity: TestPKI.validity, revoked: [revoked])),
        ] {
            let pem = try builder.pem(issuer: pki.intermediate)
            try folder.write(pem, as: name)
            try folder.write(pem, as: "same-\(name)")
        }
        func pins(_ file: String) -> [String: [String: Any]] {
            ["api.test": Self.domain(["revocation": ["crlFiles": [file]]])]
        }
        #expect(try diff(pins("one.crl"), pins("same-one.crl")).exitCode == 0)
        let replaced = try diff(pins("one.crl"), pins("two.crl"))
        #expect(replaced.output.hasPrefix("~ api.test\n    revocation lists: replaced\n"), "\(replaced.errors)")
        let dropped = try diff(pins("one.crl"), ["api.test": Self.domain()])
        #expect(dropped.output.contains("    WEAKER: revocation lists: removed\n"))
    }

    @Test("a changed client certificate is shown, and weakens nothing")
    func clientCertificate() throws {
        let pki = try TestPKI()
        for name in ["one", "two"] {
            _ = try pki.server("\(name).client").write(to: folder, name: name)
        }
        let first = try String(contentsOfFile: "\(folder.path)/one.pem", encoding: .utf8)
        try folder.write(first, as: "same.pem")
        func pins(_ certificate: String, _ key: String) -> [String: [String: Any]] {
            ["api.test": Self.domain(["clientCertificate": ["certificate": certificate, "key": key]])]
        }
        let none = ["api.test": Self.domain()]
        #expect(try diff(pins("one.pem", "one.key"), pins("same.pem", "one.key")).exitCode == 0)
        let replaced = try diff(pins("one.pem", "one.key"), pins("two.pem", "two.key"))
        #expect(replaced.exitCode == 1)
        #expect(replaced.output.contains("    - client certificate CN = one.client, sha256/"), "\(replaced.output)")
        #expect(replaced.output.contains("    + client certificate CN = two.client, sha256/"))
        // The intermediate that both send is the same.
        #expect(!replaced.output.contains("intermediate"))
        let added = try diff(none, pins("one.pem", "one.key"))
        #expect(added.output.contains("    + client certificate CN = one.client, "))
        let gone = try diff(pins("one.pem", "one.key"), none)
        #expect(gone.output.contains("    - client certificate CN = one.client, "))
        for finished in [replaced, added, gone] { #expect(!finished.output.contains("WEAK")) }
    }

    @Test("a new or lost domain is shown with staple and list scope")
    func revocationOfDomains() throws {
        let strict = [
            "api.test": Self.domain(["revocation": ["requireStaple": true, "crlScope": "chain"] as [String: Any]])
        ]
        let other = ["b.test": Self.domain()]
        let added = try diff(other, strict.merging(other) { $1 })
        #expect(added.output.contains("    requireStaple: false → true\n"), "\(added.output)")
        #expect(added.output.contains("    crlScope: leaf → chain\n") && !added.output.contains("WEAK"))
        let gone = try diff(strict.merging(other) { $1 }, other)
        #expect(gone.output.contains("    WEAKER: requireStaple: true → false\n"), "\(gone.output)")
    }

    @Test("a missing file ends with 66, a bad one with 78")
    func badFiles() throws {
        let good = try write(["api.test": Self.domain()], as: "good.json")
        let bad = try write(["api.test": ["pinningMode": "publicKey", "wrong": 1]], as: "bad.json")
        #expect(try pinproxy("pins", "diff", good, "\(folder.path)/none").exitCode == 66)
        let finished = try pinproxy("pins", "diff", good, bad)
        #expect(finished.exitCode == 78)
        #expect(finished.output.isEmpty)
        #expect(finished.errors.contains("/pinnedDomains/api.test/wrong: unknown key"))
        #expect(finished.errors.contains("2 errors in the pin files"))
    }
}
