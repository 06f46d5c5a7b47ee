// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@Suite("Which policy applies to a host")
struct PinnedDomainsTests {
    private static let a = "\"\(PublicKeyPin.unrelated(1))\""
    private static let b = "\"\(PublicKeyPin.unrelated(2))\""
    private static let pins = "\"pins\": [\(a), \(b)]"
    private static let now: Int64 = 1_800_000_000

    private func load(_ domains: String) throws -> PinFile.Loaded {
        try PinFile.load(text: "{ \"version\": 1, \"pinnedDomains\": { \(domains) } }", file: "p.json", at: Self.now)
    }

    private func domain(_ domains: PinnedDomains, _ host: String, port: UInt16 = 443) throws -> String? {
        let policy = try domains.policy(host: Host(host), port: port)
        let bytes = try Host(host).bytes
        let kind = try Host(host).kind
        #expect(domains.policy(host: bytes.span, isName: kind == .name, port: port) === policy)
        return policy?.domain?.description
    }

    @Test("named host, covered port and current pins are three questions")
    func questions() throws {
        let domains = try load(
            """
            "example.com": { \(Self.pins), "includeSubdomains": true },
            "out.example.com": { "excludeFromParentPolicy": true },
            "ports.test": { \(Self.pins), "ports": [443] },
            "reported.test": { \(Self.pins), "enforcePinning": false },
            "none.test": { "pinningMode": "none" },
            "unpinned.test": { \(Self.pins), "expiration": "2027-01-31", "onExpiration": "unpinned" },
            "denied.test": { \(Self.pins), "expiration": "2027-01-31" },
            "lapsed.test": { \(Self.pins), "expiration": "2027-01-31", "enforcePinning": false }
            """
        ).domains
        let lastDay: Int64 = 1_801_439_999
        for (host, port, names, covers, holds, holdsLater) in [
            ("example.com", 443, true, true, true, true), ("a.example.com", 8443, true, true, true, true),
            ("out.example.com", 443, false, false, false, false), ("other.test", 443, false, false, false, false),
            ("ports.test", 443, true, true, true, true), ("ports.test", 444, true, false, false, false),
            ("reported.test", 443, true, true, false, false), ("none.test", 443, true, true, false, false),
            ("unpinned.test", 443, true, true, true, false), ("denied.test", 443, true, true, true, true),
            ("lapsed.test", 443, true, true, false, false),
        ] as [(String, UInt16, Bool, Bool, Bool, Bool)] {
            let name = try Host(host)
            #expect(domains.names(name) == names, "\(host)")
            #expect(domains.covers(host: name, port: port) == covers, "\(host):\(port)")
            #expect(domains.isHeldToPins(host: name, port: port, at: lastDay) == holds, "\(host):\(port)")
            #expect(domains.isHeldToPins(host: name, port: port, at: lastDay + 1) == holdsLater, "\(host):\(port)")
        }
    }

    @Test("the domain that decides about a host is found, also an excluded one")
    func governing() throws {
        let domains = try load(
            """
            "example.com": { \(Self.pins), "includeSubdomains": true },
            "deep.example.com": { \(Self.pins) },
            "out.example.com": { "excludeFromParentPolicy": true, "includeSubdomains": true }
            """
        ).domains
        for (host, domain) in [
            ("example.com", "example.com"), ("a.b.example.com", "example.com"),
            ("deep.example.com", "deep.example.com"),
            ("x.deep.example.com", "example.com"), ("out.example.com", "out.example.com"),
            ("x.out.example.com", "out.example.com"), ("evilexample.com", nil), ("com", nil), ("192.0.2.1", nil),
        ] as [(String, String?)] {
            #expect(try domains.domain(governing: Host(host))?.host.description == domain, "\(host)")
        }
    }

    @Test("50 the exact domain comes first, then the longest parent")
    func mostSpecific() throws {
        let domains = try load(
            """
            "example.com": { \(Self.pins), "includeSubdomains": true },
            "api.example.com": { \(Self.pins) },
            "eu.example.com": { \(Self.pins), "includeSubdomains": true }
            """
        ).domains
        #expect(try domain(domains, "example.com") == "example.com")
        #expect(try domain(domains, "www.example.com") == "example.com")
        #expect(try domain(domains, "api.example.com") == "api.example.com")
        #expect(try domain(domains, "v1.api.example.com") == "example.com")
        #expect(try domain(domains, "a.b.eu.example.com") == "eu.example.com")
        #expect(try domain(domains, "example.org") == nil)
        #expect(try domain(domains, "com") == nil)
    }

    @Test("49 a host that only ends like a domain is not below it")
    func suffix() throws {
        let domains = try load("\"example.com\": { \(Self.pins), \"includeSubdomains\": true }").domains
        #expect(try domain(domains, "evilexample.com") == nil)
        #expect(try domain(domains, "evil.example.com") == "example.com")
        #expect(try domain(domains, "example.com.evil") == nil)
    }

    @Test("51 an excluded domain leaves its parent; its subdomains do on request")
    func excluded() throws {
        func domains(_ extra: String) throws -> PinnedDomains {
            try load(
                """
                "example.com": { \(Self.pins), "includeSubdomains": true },
                "old.example.com": { "excludeFromParentPolicy": true \(extra) }
                """
            ).domains
        }
        let alone = try domains("")
        #expect(try domain(alone, "old.example.com") == nil)
        #expect(try domain(alone, "a.old.example.com") == "example.com")
        #expect(try domain(domains(", \"includeSubdomains\": true"), "a.old.example.com") == nil)
    }

    @Test("52 on an unlisted port chain and host are checked")
    func ports() throws {
        let domains = try load(
            "\"a.example\": { \(Self.pins), \"ports\": [443, 8443], \"minTLSVersion\": \"1.3\", \"requireGroups\": [\"X25519\"], \"maxChainDepth\": 2 }"
        ).domains
        let host = try Host("a.example")
        #expect(domains.policy(host: host, port: 443)?.pinningMode == .publicKey)
        #expect(domains.policy(host: host, port: 8443)?.pinningMode == .publicKey)
        let other = try #require(domains.policy(host: host, port: 9443))
        #expect(other.pinningMode == .none && other.validatesDomainName && !other.allowInvalidCertificates)
        #expect(other.domain == host)
        #expect(other.configuration.minTLSVersion == .tls13)
        #expect(other.configuration.requireGroups == [.x25519])
        #expect(other.configuration.maxChainDepth == 2)
    }

    @Test("52 a forbidden key is refused on unlisted ports, too")
    func forbiddenOnOtherPorts() throws {
        let pki = try TestPKI()
        let server = try pki.server("a.example")
        func verdict(_ forbidden: String, port: UInt16) throws -> TrustEvaluation? {
            let domains = try load(
                """
                "a.example": { "pins": [\(Self.a), "\(server.pin)"], "ports": [443], "forbiddenPins": [\(forbidden)],
                               "reportUris": ["https://reports.example/"] }
                """
            ).domains
            let host = try Host("a.example")
            return domains.policy(host: host, port: port)?
                .evaluate(chain: server.chain, host: host, anchors: pki.anchors, at: Self.now)
        }
        let forbidden = "\"\(pki.intermediate.key.pin)\""
        #expect(try verdict(forbidden, port: 443)?.failure == .pinForbidden)
        #expect(try verdict(forbidden, port: 8443)?.failure == .pinForbidden)
        #expect(try verdict("", port: 8443)?.verdict == .notPinned)
    }

    @Test("46 to 48 upper case, trailing dot and U-labels are one name")
    func spellings() throws {
        let domains = try load("\"API.Example.COM.\": { \(Self.pins) }, \"Bücher.example\": { \(Self.pins) }").domains
        #expect(try domain(domains, "api.example.com") == "api.example.com")
        #expect(try domain(domains, "api.EXAMPLE.com.") == "api.example.com")
        #expect(try domain(domains, "xn--bcher-kva.example") == "xn--bcher-kva.example")
    }

    @Test("letters that IDNA 2003 replaced stay themselves, as in browsers (UTS #46)")
    func deviations() throws {
        let domains = try load("\"faß.example\": { \(Self.pins) }").domains
        #expect(try domain(domains, "xn--fa-hia.example") == "xn--fa-hia.example")
        #expect(try domain(domains, "fass.example") == nil)
    }

    @Test("a U-label and its A-label are one domain")
    func sameName() {
        let issues = #expect(throws: DocumentIssues.self) {
            try load("\"bücher.example\": { \(Self.pins) }, \"xn--bcher-kva.example\": { \(Self.pins) }")
        }
        #expect(issues?.issues.count == 1)
    }

    @Test("addresses are compared as addresses")
    func addresses() throws {
        let domains = try load("\"192.0.2.1\": { \(Self.pins) }, \"2001:DB8:0::1\": { \(Self.pins) }").domains
        #expect(try domain(domains, "192.0.2.1") == "192.0.2.1")
        #expect(try domain(domains, "[2001:db8::0001]") == "2001:db8::1")
        #expect(try domain(domains, "a.192.0.2.1.example") == nil)
    }

    @Test("a new policy joins the loaded ones, unless its host is named")
    func adding() throws {
        let domains = try load("\"a.example\": { \(Self.pins) }").domains
        let policy = try SecurityPolicy.pinning(.unrelated(3))
        let more = try #require(domains.adding(policy, host: try Host("demo.localhost"), source: "demo"))
        #expect(more.policy(host: try Host("demo.localhost"), port: 443) === policy)
        #expect(more.domains.count == 2)
        #expect(domains.adding(policy, host: try Host("a.example"), source: "demo") == nil)
    }

    // MARK: - Whole folders

    @Test("every *.json of a folder is loaded in order, and hidden files are not")
    func folder() throws {
        let folder = try TemporaryFolder()
        try folder.write(PinFileText.pinning("b.example", to: .unrelated(7)), as: "2.json")
        try folder.write(PinFileText.pinning("a.example", to: .unrelated(8)), as: "1.json")
        try folder.write("not JSON", as: ".hidden.json")
        try folder.write("not JSON", as: "README.md")
        let loaded = try PinFile.load(path: folder.path, at: Self.now)
        #expect(loaded.files.map { $0.split(separator: "/").last } == ["1.json", "2.json"])
        #expect(loaded.domains.domains.map(\.host.description) == ["a.example", "b.example"])
        #expect(loaded.domains.domains[0].file.hasSuffix("/1.json"))
    }

    @Test("a domain in two files is refused, with both places")
    func acrossFiles() throws {
        let folder = try TemporaryFolder()
        try folder.write(PinFileText.pinning("a.example", to: .unrelated(8)), as: "1.json")
        try folder.write(PinFileText.pinning("A.example", to: .unrelated(8)), as: "2.json")
        let issues = #expect(throws: DocumentIssues.self) { try PinFile.load(path: folder.path, at: Self.now) }
        let issue = try #require(issues?.issues.first)
        #expect(issues?.issues.count == 1)
        #expect(issue.file.hasSuffix("/2.json") && issue.pointer == "/pinnedDomains/A.example")
        #expect(issue.message.contains("/1.json: /pinnedDomains/a.example"))
    }

    @Test("the errors of all files are reported at once")
    func allAtOnce() throws {
        let folder = try TemporaryFolder()
        try folder.write("{ \"version\": 1", as: "1.json")
        try folder.write("{ \"version\": 2, \"pinnedDomain\": {} }", as: "2.json")
        let issues = #expect(throws: DocumentIssues.self) { try PinFile.load(path: folder.path, at: Self.now) }
        #expect(issues?.issues.count == 4, "\(issues?.description ?? "")")
    }

    @Test("a folder without pin files, and one that does not exist, are refused")
    func emptyFolder() throws {
        let folder = try TemporaryFolder()
        let empty = #expect(throws: DocumentIssues.self) { try PinFile.load(path: folder.path, at: Self.now) }
        #expect(empty?.issues.first?.message == "no pin file (*.json) in this folder")
        let absent = #expect(throws: DocumentIssues.self) { try PinFile.load(path: folder.path + "/x", at: Self.now) }
        #expect(absent?.issues.first?.message.contains("No such file") == true)
    }

    // MARK: - Warnings

    @Test("unidentified servers and reporting are warnings, ordinary ones are not")
    func warnings() throws {
        let loaded = try load(
            """
            "a.example": { "pinningMode": "none", "allowInvalidCertificates": true, "validatesDomainName": false },
            "b.example": { "pinningMode": "none", "validatesDomainName": false },
            "c.example": { \(Self.pins), "enforcePinning": false },
            "d.example": { \(Self.pins) }
            """
        )
        #expect(
            loaded.warnings.map(\.pointer) == [
                "/pinnedDomains/a.example/allowInvalidCertificates", "/pinnedDomains/b.example/validatesDomainName",
                "/pinnedDomains/c.example/enforcePinning",
            ]
        )
    }

    @Test(
        "a pin set within 30 days of its end is a warning",
        arguments: [
            (31 * 86_400, ""), (30 * 86_400, "holds until 2027-01-31"), (1, "holds until 2027-01-31"),
            (0, "held until 2027-01-31"), (-86_400, "held until 2027-01-31"),
        ]
    )
    func expiring(left: Int64, message: String) throws {
        let end = try #require(CalendarDate("2027-01-31")).end
        let loaded = try PinFile.load(
            text: """
                { "version": 1, "pinnedDomains": { "a.example": { \(Self.pins), "expiration": "2027-01-31" } } }
                """,
            file: "p.json",
            at: end - left
        )
        #expect(loaded.warnings.count == (message.isEmpty ? 0 : 1))
        #expect(loaded.warnings.allSatisfy { $0.message.contains(message) && $0.pointer.hasSuffix("/expiration") })
    }

    @Test("everything in a pin file loads with its meaning")
    func wholeFile() throws {
        let policy = try #require(
            try load(
                """
                "api.example.com": {
                  "comment": "the API", "ports": [443], "includeSubdomains": false, "pinningMode": "publicKey",
                  "allowInvalidCertificates": false, "validatesDomainName": true,
                  "pins": [ { "spki-sha256": \(Self.a), "scope": "leaf", "comment": "2026 key" },
                            { "spki-sha256": "\(PublicKeyPin.unrelated(2).base64)", "backup": true } ],
                  "pinnedCertificates": [], "forbiddenPins": ["\(PublicKeyPin.unrelated(9))"],
                  "expiration": "2030-01-31", "onExpiration": "unpinned", "enforcePinning": true,
                  "allowSinglePin": false, "reportUris": ["https://r.example.net/"], "minTLSVersion": "1.3",
                  "requireGroups": ["P-384", "X25519"], "maxChainDepth": 0,
                  "revocation": { "crlFiles": [], "crlScope": "leaf", "requireStaple": true, "fetch": false }
                },
                "legacy.example.com": { "comment": "no TLS", "excludeFromParentPolicy": true }
                """
            ).domains.policy(host: Host("api.example.com"), port: 443)
        )
        #expect(
            policy.configuration.pins == [
                Pin(.unrelated(1), scope: .leaf, comment: "2026 key"), Pin(.unrelated(2), isBackup: true),
            ]
        )
        #expect(policy.configuration.forbiddenPins == [Pin(.unrelated(9))])
        #expect(policy.configuration.expiration?.description == "2030-01-31")
        #expect(policy.configuration.onExpiration == .unpinned)
        #expect(policy.configuration.minTLSVersion == .tls13)
        #expect(policy.configuration.requireGroups == [.p384, .x25519])
        #expect(policy.configuration.maxChainDepth == 0)
        #expect(policy.configuration.trustAnchors == nil && policy.configuration.revocationLists == nil)
    }
}
