// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@Suite("Every load error of pin files")
struct PinFileIssueTests {
    private static let a = "\"\(PublicKeyPin.unrelated(1))\""
    private static let b = "\"\(PublicKeyPin.unrelated(2))\""
    private static let short = "\"sha256/\(String(repeating: "AAAA", count: 10))AA==\""
    /// A second spelling of the pin of 32 zeros, if the decoder accepted it.
    private static let strayBits = "\"sha256/\(String(repeating: "A", count: 42))B=\""
    private static let good = "\"pins\": [\(a), \(b)]"
    private static let none = "\"pinningMode\": \"none\""

    static let documents: [BrokenPinFile] = [
        .file(
            "no version",
            "{ \"pinnedDomains\": { \"a.example\": { \(good) } } }",
            mended: "{ \"version\": 1, \"pinnedDomains\": { \"a.example\": { \(good) } } }",
            at: "",
            "\"version\" is missing"
        ),
        .file(
            "another version",
            "{ \"version\": 2, \"pinnedDomains\": { \"a.example\": { \(good) } } }",
            mended: "{ \"version\": 1, \"pinnedDomains\": { \"a.example\": { \(good) } } }",
            at: "/version",
            "version 2 of the pin file is not known"
        ),
        .file(
            "no domain",
            "{ \"version\": 1, \"pinnedDomains\": {} }",
            mended: "{ \"version\": 1, \"pinnedDomains\": { \"a.example\": { \(good) } } }",
            at: "/pinnedDomains",
            "no domain is named"
        ),
        .file(
            "unknown key at the top",
            "{ \"version\": 1, \"pins\": 1, \"pinnedDomains\": { \"a.b\": { \(good) } } }",
            mended: "{ \"version\": 1, \"pinnedDomains\": { \"a.b\": { \(good) } } }",
            at: "/pins",
            "unknown key \"pins\""
        ),
        .file(
            "duplicate domain (63)",
            "{ \"version\": 1, \"pinnedDomains\": { \"a.b\": { \(good) }, \"a.b\": { \(good) } } }",
            mended: "{ \"version\": 1, \"pinnedDomains\": { \"a.b\": { \(good) }, \"c.b\": { \(good) } } }",
            at: "/pinnedDomains/a.b",
            "duplicate key"
        ),
        .file(
            "duplicate domain in another spelling",
            "{ \"version\": 1, \"pinnedDomains\": { \"a.b\": { \(good) }, \"A.B.\": { \(good) } } }",
            mended: "{ \"version\": 1, \"pinnedDomains\": { \"a.b\": { \(good) }, \"A.C.\": { \(good) } } }",
            at: "/pinnedDomains/A.B.",
            "the domain a.b is named already"
        ),
        .file(
            "duplicate address in another spelling",
            "{ \"version\": 1, \"pinnedDomains\": { \"127.0.0.1\": { \(good) }, \"::ffff:7f00:1\": { \(good) } } }",
            mended:
                "{ \"version\": 1, \"pinnedDomains\": { \"127.0.0.1\": { \(good) }, \"::fffe:7f00:1\": { \(good) } } }",
            at: "/pinnedDomains/::ffff:7f00:1",
            "the domain 127.0.0.1 is named already"
        ),
        .file(
            "a domain that is no object",
            "{ \"version\": 1, \"pinnedDomains\": { \"a.b\": true } }",
            mended: "{ \"version\": 1, \"pinnedDomains\": { \"a.b\": { \(good) } } }",
            at: "/pinnedDomains/a.b",
            "must be an object, is a boolean"
        ),
    ]

    static let names: [BrokenPinFile] = [
        .name(
            "a pattern",
            "*.example.com",
            mended: "example.com",
            "a pattern is no domain",
            "name \"example.com\" with \"includeSubdomains\": true"
        ),
        .name("a port", "example.com:443", mended: "example.com", "a domain has no port"),
        .name("a URL", "https://example.com/", mended: "example.com", "a URL is no domain"),
        .name("an empty label", "a..example", mended: "a.example", "the host has an empty label"),
        .name("a space", "a b.example", mended: "a-b.example", "the host holds the byte 0x20"),
        .name("an empty name", "", mended: "a.example", at: "/pinnedDomains/", "the host is empty"),
        .name("a legacy number", "2130706433", mended: "127.0.0.1", "the host is a number in a legacy form"),
        .name("a short address", "127.1", mended: "127.0.0.1", "the host is a number in a legacy form"),
        .name(
            "no international name",
            "a\\u2024\\u2024b",
            mended: "b\\u00fccher.example",
            at: "/pinnedDomains/a\u{2024}\u{2024}b",
            ""
        ),
        .name(
            "a public suffix with subdomains (65)",
            "co.uk",
            mended: "example.co.uk",
            extra: ", \"includeSubdomains\": true",
            at: "/pinnedDomains/co.uk/includeSubdomains",
            "co.uk is a public suffix"
        ),
        .name(
            "a private section's suffix",
            "github.io",
            mended: "example.github.io",
            extra: ", \"includeSubdomains\": true",
            at: "/pinnedDomains/github.io/includeSubdomains",
            "github.io is a public suffix"
        ),
        .name(
            "a top-level domain",
            "com",
            mended: "corp",
            extra: ", \"includeSubdomains\": true",
            at: "/pinnedDomains/com/includeSubdomains",
            "com is a public suffix"
        ),
        .name(
            "subdomains of an address",
            "192.0.2.1",
            mended: "a.example",
            extra: ", \"includeSubdomains\": true",
            at: "/pinnedDomains/192.0.2.1/includeSubdomains",
            "an IP address has no subdomains"
        ),
    ]

    static let pins: [BrokenPinFile] = [
        .domain("an empty set (58)", "\"pins\": []", mended: good, at: "/pins", "no key is pinned"),
        .domain("no set", "", mended: good, at: "", "no key is pinned"),
        .domain(
            "a pin of 31 bytes (59)",
            "\"pins\": [\(a), \(b), \(short)]",
            mended: good,
            at: "/pins/2",
            "the pin has 31 bytes, not 32"
        ),
        .domain(
            "bad base64 (60)",
            "\"pins\": [\(a), \"sha256/!!!!\"]",
            mended: good,
            at: "/pins/1",
            "the pin is not base64"
        ),
        .domain(
            "base64 of 32 bytes with bits left over (60)",
            "\"pins\": [\(a), \(strayBits)]",
            mended: good,
            at: "/pins/1",
            "the pin is not base64"
        ),
        .domain(
            "base64 without padding",
            "\"pins\": [\(a), \(b.replacing("=\"", with: "\""))]",
            mended: good,
            at: "/pins/1",
            "the pin is not base64"
        ),
        .domain(
            "SHA-1",
            "\"pins\": [\(a), { \"spki-sha256\": \"sha1/AAAA\" }]",
            mended: good,
            at: "/pins/1/spki-sha256",
            "the pin's digest is not SHA-256"
        ),
        .domain(
            "a string without prefix",
            "\"pins\": [\(a), \(b.replacing("sha256/", with: ""))]",
            mended: good,
            at: "/pins/1",
            "begins with \"sha256/\""
        ),
        .domain(
            "one pin enforced (61)",
            "\"pins\": [\(a)]",
            mended: "\"pins\": [\(a)], \"allowSinglePin\": true",
            at: "/pins",
            "only one key is pinned"
        ),
        .domain(
            "one pin given twice",
            "\"pins\": [\(a), { \"spki-sha256\": \(a), \"scope\": \"leaf\" }]",
            mended: "\"pins\": [\(a), { \"spki-sha256\": \(b), \"scope\": \"leaf\" }]",
            at: "/pins",
            "only one key is pinned"
        ),
        .domain(
            "a repeated pin",
            "\"pins\": [\(a), \(b), \(a)]",
            mended: good,
            at: "/pins/2",
            "the pin stands in the list already"
        ),
        .domain(
            "a pin of a wrong type",
            "\"pins\": [\(a), \(b), 7]",
            mended: good,
            at: "/pins/2",
            "a pin is a string or an object, is a number"
        ),
        .domain("pins that are no list", "\"pins\": \(a)", mended: good, at: "/pins", "must be an array, is a string"),
        .domain(
            "a pin without its digest",
            "\"pins\": [\(a), \(b), { \"scope\": \"ca\" }]",
            mended: good,
            at: "/pins/2",
            "\"spki-sha256\" is missing"
        ),
        .domain(
            "an unknown key of a pin",
            "\"pins\": [\(a), { \"spki-sha256\": \(b), \"bakup\": true }]",
            mended: "\"pins\": [\(a), { \"spki-sha256\": \(b), \"backup\": true }]",
            at: "/pins/1/bakup",
            "unknown key \"bakup\"",
            "did you mean \"backup\"?"
        ),
        .domain(
            "an unknown scope",
            "\"pins\": [\(a), { \"spki-sha256\": \(b), \"scope\": \"root\" }]",
            mended: "\"pins\": [\(a), { \"spki-sha256\": \(b), \"scope\": \"ca\" }]",
            at: "/pins/1/scope",
            "unknown value \"root\""
        ),
        .domain(
            "a forbidden pin that is pinned",
            "\(good), \"forbiddenPins\": [\(a)]",
            mended: "\(good), \"forbiddenPins\": [\"\(PublicKeyPin.unrelated(3))\"]",
            at: "/pins/0",
            "the pin is a forbidden one too"
        ),
        .domain(
            "a backup among the forbidden",
            "\(good), \"forbiddenPins\": [{ \"spki-sha256\": \"\(PublicKeyPin.unrelated(3))\", \"backup\": true }]",
            mended: "\(good), \"forbiddenPins\": [{ \"spki-sha256\": \"\(PublicKeyPin.unrelated(3))\" }]",
            at: "/forbiddenPins/0/backup",
            "unknown key \"backup\""
        ),
        .domain(
            "an unknown key (62)",
            "\(good), \"includeSubdomain\": true",
            mended: "\(good), \"includeSubdomains\": true",
            at: "/includeSubdomain",
            "unknown key",
            "did you mean \"includeSubdomains\"?"
        ),
        .domain(
            "a duplicate key",
            "\(good), \"allowSinglePin\": true, \"allowSinglePin\": true",
            mended: "\(good), \"allowSinglePin\": true",
            at: "/allowSinglePin",
            "duplicate key"
        ),
    ]

    static let modes: [BrokenPinFile] = [
        .domain(
            "an unknown mode",
            "\"pinningMode\": \"publickey\", \(good)",
            mended: "\"pinningMode\": \"publicKey\", \(good)",
            at: "/pinningMode",
            "unknown value",
            "did you mean \"publicKey\"?"
        ),
        .domain(
            "none, invalid allowed, name validated",
            "\(none), \"allowInvalidCertificates\": true",
            mended: "\(none), \"allowInvalidCertificates\": true, \"validatesDomainName\": false",
            at: "/allowInvalidCertificates",
            "mode none with invalid certificates allowed"
        ),
        .domain(
            "an unknown authority",
            "\"authorities\": [\"letsencript\"]",
            mended: "\"authorities\": [\"letsencrypt\"]",
            at: "/authorities/0",
            "unknown value \"letsencript\"",
            "did you mean \"letsencrypt\"? Known: \"letsencrypt\", \"google\""
        ),
        .domain(
            "an authority named twice",
            "\"authorities\": [\"amazon\", \"amazon\"]",
            mended: "\"authorities\": [\"amazon\", \"google\"]",
            at: "/authorities/1",
            "the authority stands in the list already"
        ),
        .domain(
            "an authority in mode none",
            "\(none), \"authorities\": [\"amazon\"]",
            mended: "\"authorities\": [\"amazon\"]",
            at: "/authorities",
            "mode none looks at no key",
            "use mode publicKey"
        ),
        .domain(
            "no authority at all",
            "\"authorities\": []",
            mended: "\"authorities\": [\"amazon\"]",
            at: "",
            "no key is pinned"
        ),
        .domain(
            "an authority without the host check",
            "\"validatesDomainName\": false, \(good), \"authorities\": [\"letsencrypt\"]",
            mended: "\(good), \"authorities\": [\"letsencrypt\"]",
            at: "/authorities/0",
            "a CA's pin without the host check"
        ),
        .domain("pins in mode none", "\(none), \(good)", mended: good, at: "/pins", "mode none looks at no pin"),
        .domain(
            "an expiration in mode none",
            "\(none), \"expiration\": \"2090-01-01\"",
            mended: none,
            at: "/expiration",
            "mode none has no pins"
        ),
        .domain(
            "report only in mode none",
            "\(none), \"enforcePinning\": false",
            mended: none,
            at: "/enforcePinning",
            "mode none has no pins"
        ),
        .domain(
            "report only with invalid allowed",
            "\(good), \"enforcePinning\": false, \"allowInvalidCertificates\": true",
            mended: "\(good), \"enforcePinning\": false",
            at: "/enforcePinning",
            "only reporting while invalid"
        ),
        .domain(
            "a CA's pin without the name",
            "\"validatesDomainName\": false, \"pins\": [\(a), { \"spki-sha256\": \(b), \"scope\": \"ca\" }]",
            mended: "\"validatesDomainName\": false, \"pins\": [\(a), { \"spki-sha256\": \(b), \"scope\": \"leaf\" }]",
            at: "/pins/1",
            "a CA's pin without the host check"
        ),
        .domain(
            "certificate without one",
            "\"pinningMode\": \"certificate\"",
            mended: good,
            at: "",
            "no certificate is pinned"
        ),
        .domain(
            "a boolean in quotes",
            "\(good), \"enforcePinning\": \"false\"",
            mended: "\(good), \"enforcePinning\": false",
            at: "/enforcePinning",
            "must be true or false, is a string"
        ),
        .domain("null", "\(good), \"expiration\": null", mended: good, at: "/expiration", "must be a string, is null"),
        .domain(
            "an exclusion with more",
            "\"excludeFromParentPolicy\": true, \(good)",
            mended: "\"excludeFromParentPolicy\": true",
            at: "/pins",
            "excluded from its parent's policy"
        ),
    ]

    static let others: [BrokenPinFile] =
        [
            "2027-1-31", "2027-02-29", "2027-13-01", "2027-00-10", "2027-01-32", "20270131", "2027-01-31Z", "never",
            "1969-12-31", "2027-01-00",
        ].map { date in
            .domain(
                "the date \(date) (36)",
                "\(good), \"expiration\": \"\(date)\"",
                mended: "\(good), \"expiration\": \"2028-02-29\"",
                at: "/expiration",
                "\"\(date)\" is no date"
            )
        } + [
            .domain(
                "onExpiration without a date",
                "\(good), \"onExpiration\": \"deny\"",
                mended: "\(good), \"onExpiration\": \"deny\", \"expiration\": \"2090-01-01\"",
                at: "/onExpiration",
                "without \"expiration\" it never applies"
            ),
            .domain(
                "no port",
                "\(good), \"ports\": []",
                mended: "\(good), \"ports\": [443]",
                at: "/ports",
                "an empty list covers no port"
            ),
            .domain(
                "port 0",
                "\(good), \"ports\": [0]",
                mended: "\(good), \"ports\": [1]",
                at: "/ports/0",
                "0 is out of range"
            ),
            .domain(
                "port 65536",
                "\(good), \"ports\": [443, 65536]",
                mended: "\(good), \"ports\": [443, 65535]",
                at: "/ports/1",
                "65536 is out of range"
            ),
            .domain(
                "a port twice",
                "\(good), \"ports\": [443, 443]",
                mended: "\(good), \"ports\": [443]",
                at: "/ports/1",
                "port 443 stands in the list already"
            ),
            .domain(
                "TLS 1.1",
                "\(good), \"minTLSVersion\": \"1.1\"",
                mended: "\(good), \"minTLSVersion\": \"1.3\"",
                at: "/minTLSVersion",
                "unknown value \"1.1\""
            ),
            .domain(
                "an unknown group",
                "\(good), \"requireGroups\": [\"X448\"]",
                mended: "\(good), \"requireGroups\": [\"X25519\"]",
                at: "/requireGroups/0",
                "unknown value \"X448\""
            ),
            .domain(
                "a chain that is too long",
                "\(good), \"maxChainDepth\": 11",
                mended: "\(good), \"maxChainDepth\": 10",
                at: "/maxChainDepth",
                "11 is out of range"
            ),
            .domain(
                "no group",
                "\(good), \"requireGroups\": []",
                mended: "\(good), \"requireGroups\": [\"P-256\"]",
                at: "/requireGroups",
                "an empty list allows no group"
            ),
            .domain(
                "a group twice",
                "\(good), \"requireGroups\": [\"P-256\", \"P-256\"]",
                mended: "\(good), \"requireGroups\": [\"P-256\", \"P-384\"]",
                at: "/requireGroups/1",
                "the group stands in the list already"
            ),
            .domain(
                "a report URI of another scheme",
                "\(good), \"reportUris\": [\"ftp://r.example/\"]",
                mended: "\(good), \"reportUris\": [\"http://r.example/\"]",
                at: "/reportUris/0",
                "reports go to http and https URIs alone",
                "https://"
            ),
            .domain(
                "a report URI without a scheme",
                "\(good), \"reportUris\": [\"r.example\"]",
                mended: "\(good), \"reportUris\": [\"https://r.example\"]",
                at: "/reportUris/0",
                "\"r.example\" is no http or https URI"
            ),
            .domain(
                "a report URI with a user",
                "\(good), \"reportUris\": [\"https://me:secret@r.example/\"]",
                mended: "\(good), \"reportUris\": [\"https://r.example/\"]",
                at: "/reportUris/0",
                "holds no user or password"
            ),
            .domain(
                "a report URI with a fragment",
                "\(good), \"reportUris\": [\"https://r.example/#a\"]",
                mended: "\(good), \"reportUris\": [\"https://r.example/?a\"]",
                at: "/reportUris/0",
                "has no fragment"
            ),
            .domain(
                "a report URI twice",
                "\(good), \"reportUris\": [\"https://r.example/\", \"https://R.example:443/\"]",
                mended: "\(good), \"reportUris\": [\"https://r.example/\", \"https://r.example/2\"]",
                at: "/reportUris/1",
                "stands in the list already"
            ),
            .domain(
                "a report URI that is no string",
                "\(good), \"reportUris\": [1]",
                mended: "\(good), \"reportUris\": []",
                at: "/reportUris/0",
                "must be a string"
            ),
            .domain(
                "reports about a host without pins",
                "\(none), \"reportUris\": [\"https://r.example/\"]",
                mended: "\(good), \"reportUris\": [\"https://r.example/\"]",
                at: "/reportUris",
                "mode none has no pins to report on"
            ),
            .domain(
                "a report URI on the pinned host (79)",
                "\(good), \"reportUris\": [\"https://api.example.com:8443/r\"]",
                mended: "\(good), \"reportUris\": [\"https://collector.example.com/r\"]",
                at: "/reportUris/0",
                "is a host that these reports are about",
                "name a collector"
            ),
            .domain(
                "a required staple where no chain is validated",
                "\(good), \"allowInvalidCertificates\": true, \"revocation\": { \"requireStaple\": true }",
                mended: "\(good), \"revocation\": { \"requireStaple\": true }",
                at: "/revocation",
                "a staple needs a valid chain",
                "trustAnchors"
            ),
            .domain(
                "a required staple in other words",
                "\(good), \"revocation\": { \"requireStaple\": \"yes\" }",
                mended: "\(good), \"revocation\": { \"requireStaple\": true }",
                at: "/revocation/requireStaple",
                "must be true or false"
            ),
            .domain(
                "revocation that asks for nothing",
                "\(good), \"revocation\": {}",
                mended: "\(good), \"revocation\": { \"requireStaple\": true }",
                at: "/revocation",
                "checks nothing",
                "requireStaple"
            ),
            .domain(
                "revocation without a list",
                "\(good), \"revocation\": { \"crlFiles\": [] }",
                mended: "\(good), \"revocation\": { \"crlFiles\": [], \"requireStaple\": true }",
                at: "/revocation",
                "checks nothing",
                "crlFiles"
            ),
            .domain(
                "lists that are fetched, without a chain",
                "\(good), \"allowInvalidCertificates\": true, \"revocation\": { \"fetch\": true }",
                mended: "\(good), \"revocation\": { \"fetch\": true }",
                at: "/revocation",
                "revocation lists need a valid chain",
                "trustAnchors"
            ),
            .domain(
                "a word where fetch is yes or no",
                "\(good), \"revocation\": { \"fetch\": \"daily\" }",
                mended: "\(good), \"revocation\": { \"fetch\": true }",
                at: "/revocation/fetch",
                "must be true or false"
            ),
            .domain(
                "a scope of no list",
                "\(good), \"revocation\": { \"crlScope\": \"chain\" }",
                mended: "\(good), \"revocation\": { \"crlScope\": \"chain\", \"fetch\": true }",
                at: "/revocation",
                "checks nothing"
            ),
            .domain(
                "revocation that says of each check that there is none",
                "\(good), \"revocation\": { \"fetch\": false, \"crlFiles\": [], \"requireStaple\": false }",
                mended: "\(good), \"revocation\": { \"fetch\": false, \"crlFiles\": [], \"requireStaple\": true }",
                at: "/revocation",
                "checks nothing"
            ),
            .domain(
                "revocation without a staple, and nothing else",
                "\(good), \"revocation\": { \"requireStaple\": false }",
                mended: good,
                at: "/revocation",
                "checks nothing"
            ),
            .domain(
                "an unknown key of revocation",
                "\(good), \"revocation\": { \"crl\": [] }",
                mended: "\(good), \"revocation\": { \"requireStaple\": true }",
                at: "/revocation/crl",
                "unknown key"
            ),
            .domain(
                "no trust anchor",
                "\(good), \"trustAnchors\": { \"system\": false }",
                mended: "\(good), \"trustAnchors\": { \"system\": true }",
                at: "/trustAnchors",
                "no trust anchor at all"
            ),
        ]

    /// 31 bytes are 42 digits and two signs of padding.
    @Test("the pin of scenario 59 has 31 bytes")
    func scenario59() {
        let text = String(Self.short.dropFirst().dropLast())
        #expect(throws: PublicKeyPin.Fault.wrongLength(31)) { try PublicKeyPin(text) }
    }

    @Test(
        "a broken file is refused where it is broken, and loads when mended",
        arguments: documents + names + pins + modes + others
    )
    func brokenAndMended(file: BrokenPinFile) throws {
        let issues = #expect(throws: DocumentIssues.self) {
            _ = try PinFile.load(text: file.broken, file: "p.json", at: 1_800_000_000)
        }
        #expect(issues?.issues.count == 1, "\(issues?.description ?? "")")
        let issue = try #require(issues?.issues.first)
        #expect(issue.pointer == file.pointer)
        #expect(file.message.isEmpty || issue.message.contains(file.message), "\(issue)")
        #expect(issue.remedy.contains(file.remedy) && !issue.remedy.isEmpty)
        #expect(issue.line != nil)
        _ = try PinFile.load(text: file.mended, file: "p.json", at: 1_800_000_000)
    }
}
