// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("What a changed set of pin files protects less")
struct ProtectionLossTests {
    private static let now: Int64 = 1_800_000_000
    private static let first = PublicKeyPin.unrelated(1)
    private static let pins = "\"pins\": [\"\(first)\", \"\(PublicKeyPin.unrelated(2))\"]"

    private static func domains(_ text: String) throws -> PinnedDomains {
        guard !text.isEmpty else { return PinnedDomains() }
        let whole = "{ \"version\": 1, \"pinnedDomains\": { \(text) } }"
        return try PinFile.load(text: whole, file: "p.json", at: now).domains
    }

    private static func losses(_ old: String, _ new: String) throws -> [String] {
        ProtectionLosses(from: try domains(old), to: try domains(new)).losses.map { "\($0.host): \($0.change)" }
    }

    struct Change: Sendable, CustomTestStringConvertible {
        var name: String
        /// Members of `api.example.com`.
        var old: String
        var new: String
        /// A word of the only loss.
        var word: String

        var testDescription: String { name }
    }

    private static let changes: [Change] = {
        let none = "\"pinningMode\": \"none\""
        let forbidden = "\(pins), \"forbiddenPins\": [\"\(PublicKeyPin.unrelated(7))\"]"
        let leaf = """
            "pins": [{ "spki-sha256": "\(first)", "scope": "leaf" }, "\(PublicKeyPin.unrelated(2))"]
            """
        return [
            Change(name: "mode none", old: pins, new: none, word: "pinningMode"),
            Change(name: "an exclusion", old: pins, new: "\"excludeFromParentPolicy\": true", word: "no policy"),
            Change(name: "only reported", old: pins, new: "\(pins), \"enforcePinning\": false", word: "enforcePinning"),
            Change(
                name: "invalid allowed",
                old: pins,
                new: "\(pins), \"allowInvalidCertificates\": true",
                word: "allowInvalidCertificates"
            ),
            Change(
                name: "the name waived",
                old: pins,
                new: "\(pins), \"validatesDomainName\": false",
                word: "validatesDomainName"
            ),
            Change(
                name: "unpinned after the end",
                old: "\(pins), \"expiration\": \"2090-01-01\"",
                new: "\(pins), \"expiration\": \"2090-01-01\", \"onExpiration\": \"unpinned\"",
                word: "onExpiration"
            ),
            Change(
                name: "an end that unpins",
                old: pins,
                new: "\(pins), \"expiration\": \"2090-01-01\", \"onExpiration\": \"unpinned\"",
                word: "onExpiration"
            ),
            Change(
                name: "an earlier end that unpins",
                old: "\(pins), \"expiration\": \"2090-01-01\", \"onExpiration\": \"unpinned\"",
                new: "\(pins), \"expiration\": \"2089-01-01\", \"onExpiration\": \"unpinned\"",
                word: "onExpiration"
            ),
            Change(name: "a forbidden key", old: forbidden, new: pins, word: "forbiddenPins"),
            Change(name: "a scope", old: leaf, new: pins, word: "scope"),
            Change(name: "ports", old: pins, new: "\(pins), \"ports\": [443]", word: "ports"),
            Change(
                name: "one of the ports",
                old: "\(pins), \"ports\": [443, 8443]",
                new: "\(pins), \"ports\": [443]",
                word: "ports"
            ),
            Change(
                name: "TLS 1.2",
                old: "\(pins), \"minTLSVersion\": \"1.3\"",
                new: pins,
                word: "minTLSVersion"
            ),
            Change(
                name: "the groups",
                old: "\(pins), \"requireGroups\": [\"X25519\"]",
                new: pins,
                word: "requireGroups is empty"
            ),
            Change(
                name: "one group more",
                old: "\(pins), \"requireGroups\": [\"X25519\"]",
                new: "\(pins), \"requireGroups\": [\"X25519\", \"P-256\"]",
                word: "requireGroups is X25519, P-256"
            ),
            Change(
                name: "a longer chain",
                old: "\(pins), \"maxChainDepth\": 1",
                new: "\(pins), \"maxChainDepth\": 2",
                word: "maxChainDepth is 2"
            ),
            Change(
                name: "lists that are fetched",
                old: "\(pins), \"revocation\": { \"fetch\": true }",
                new: pins,
                word: "revocation has no fetch"
            ),
            Change(
                name: "the staple",
                old: "\(pins), \"revocation\": { \"requireStaple\": true }",
                new: pins,
                word: "requireStaple"
            ),
            Change(
                name: "the staple in mode none",
                old: "\(none), \"revocation\": { \"requireStaple\": true }",
                new: none,
                word: "requireStaple"
            ),
            Change(
                name: "subdomains",
                old: "\(pins), \"includeSubdomains\": true",
                new: pins,
                word: "names below it"
            ),
            Change(
                name: "anchors of its own",
                old: "\(pins), \"trustAnchors\": { \"system\": true }",
                new: pins,
                word: "trustAnchors"
            ),
        ]
    }()

    @Test("a weaker setting is a loss, and the way back is none", arguments: changes)
    func settings(change: Change) throws {
        let (old, new) = ("\"api.example.com\": { \(change.old) }", "\"api.example.com\": { \(change.new) }")
        let losses = try Self.losses(old, new)
        #expect(losses.count == 1, "\(losses)")
        #expect(losses.first?.hasPrefix("api.example.com: ") == true, "\(losses)")
        #expect(losses.first?.contains(change.word) == true, "\(losses)")
        #expect(try Self.losses(new, old) == [])
        #expect(try Self.losses(old, old) == [] && Self.losses(new, new) == [])
    }

    @Test("a domain that is gone is a loss, also the last")
    func gone() throws {
        let (a, b) = ("\"a.example\": { \(Self.pins) }", "\"b.example\": { \"pinningMode\": \"none\" }")
        #expect(try Self.losses("\(a), \(b)", b) == ["a.example: no policy holds for it any more"])
        // Mode none requires TLS for a host.
        #expect(try Self.losses("\(a), \(b)", a) == ["b.example: no policy holds for it any more"])
        #expect(try Self.losses("\(a), \(b)", "").count == 2)
        #expect(try Self.losses("", a) == [])
    }

    @Test("a domain that its parent takes over has the parent's policy")
    func parents() throws {
        func parent(_ more: String) -> String {
            "\"example.com\": { \(Self.pins), \"includeSubdomains\": true \(more) }"
        }
        let child = "\"api.example.com\": { \(Self.pins) }"
        #expect(try Self.losses("\(parent("")), \(child)", parent("")) == [])
        #expect(try Self.losses(child, parent("")) == [])
        #expect(
            try Self.losses(child, parent(", \"enforcePinning\": false")) == [
                "api.example.com: enforcePinning is false"
            ]
        )
        // A new entry below a domain removes its names from the policy of that domain.
        let excluded = "\"old.example.com\": { \"excludeFromParentPolicy\": true }"
        #expect(
            try Self.losses(parent(""), "\(parent("")), \(excluded)")
                == ["old.example.com: no policy holds for it any more"]
        )
        let below = "\"old.example.com\": { \(Self.pins), \"includeSubdomains\": true, \"enforcePinning\": false }"
        #expect(
            try Self.losses(parent(""), "\(parent("")), \(below)") == ["old.example.com: enforcePinning is false"]
        )
    }

    @Test("changed keys are no loss: a rotation is accepted")
    func rotation() throws {
        func file(_ pins: [PublicKeyPin], _ more: String = "") -> String {
            let list = pins.map { "\"\($0)\"" }.joined(separator: ", ")
            return "\"api.example.com\": { \"pins\": [\(list)] \(more) }"
        }
        let (a, b, c) = (PublicKeyPin.unrelated(1), PublicKeyPin.unrelated(2), PublicKeyPin.unrelated(3))
        for (old, new) in [([a, b], [a, b, c]), ([a, b, c], [b, c]), ([a, b], [b, c])] {
            #expect(try Self.losses(file(old), file(new)) == [])
        }
        #expect(try Self.losses(file([a, b]), file([a, b], ", \"expiration\": \"2090-01-01\"")) == [])
        #expect(
            try Self.losses(file([a, b], ", \"expiration\": \"2090-01-01\""), file([a, b])) == []
        )
    }

    @Test("a port that a new list leaves out is named, others together")
    func ports() throws {
        let all = "\"api.example.com\": { \(Self.pins) }"
        let one = "\"api.example.com\": { \(Self.pins), \"ports\": [443] }"
        let two = "\"api.example.com\": { \(Self.pins), \"ports\": [443, 8443] }"
        #expect(try Self.losses(two, one) == ["api.example.com: ports leaves 8443 out"])
        #expect(try Self.losses(all, one) == ["api.example.com: ports leaves others out"])
        #expect(try Self.losses(all, two) == ["api.example.com: ports leaves others out"])
    }
}
