// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import Foundation
import HTTPCore
import StrictJSON
import TestSupport
import Testing

@testable import ServerTrust

@Suite("The table of public CAs")
struct PublicAuthorityTests {
    @Test("every row has a key with days and a source, or a reason", arguments: PublicAuthority.allCases)
    func rows(authority: PublicAuthority) {
        for root in authority.roots + authority.intermediates {
            #expect(!root.source.isEmpty && !root.name.isEmpty)
            #expect((root.pin == nil) == (root.state == .unverified), "\(root.name)")
            guard root.pin != nil else { continue }
            #expect(root.firstDay.map { first in root.lastDay.map { first < $0 } ?? false } ?? false, "\(root.name)")
        }
        // The set alone satisfies the rule of two pins.
        #expect(Set(authority.pins.map(\.key)).count >= 2)
        #expect(
            authority.pins.allSatisfy { $0.scope == .ca && !$0.isBackup && $0.comment.contains(authority.rawValue) }
        )
        let left = authority.roots.filter { $0.pinOfSet == nil }
        #expect(left.allSatisfy { $0.state == .retired || $0.state == .unverified })
        #expect(authority.unverified.allSatisfy { $0.pinOfSet == nil })
    }

    @Test("no key is in the table twice, and each is found by itself")
    func keys() {
        let rows = PublicAuthority.allCases.flatMap { authority in
            (authority.roots + authority.intermediates).compactMap(\.pin)
        }
        #expect(Set(rows).count == rows.count)
        for authority in PublicAuthority.allCases {
            for root in authority.roots {
                guard let pin = root.pin else { continue }
                #expect(PublicAuthority.root(pin)?.authority == authority)
                #expect(PublicRoots.contains(pin), "\(root.name)")
            }
        }
        #expect(PublicAuthority.root(.unrelated()) == nil && PublicAuthority.intermediate(.unrelated()) == nil)
    }

    private static let bundle = "/etc/ssl/certs/ca-certificates.crt"

    @Test(
        "the rows agree with this machine's trust store",
        .enabled(if: FileManager.default.fileExists(atPath: bundle))
    )
    func store() throws {
        var found = 0
        for certificate in try Certificate.certificates(file: Self.bundle) {
            let name = certificate.subject
            for root in PublicAuthority.allCases.flatMap(\.roots) {
                // A root of the store with the name of a row has its key; one with its key has its days.
                if name.hasSuffix("CN = \(root.name)") { #expect(root.pin == certificate.publicKeyPin, "\(name)") }
                guard root.pin == certificate.publicKeyPin else { continue }
                found += 1
                let (begin, end) = (try #require(certificate.notBefore), try #require(certificate.notAfter))
                #expect(root.firstDay.map { ($0.end - 86_400..<$0.end).contains(begin) } == true, "\(name)")
                #expect(root.lastDay.map { ($0.end - 86_400..<$0.end).contains(end) } == true, "\(name)")
            }
        }
        // Stores drop roots; half of the table is in each that is supported.
        #expect(found >= 20)
    }

    @Test("the roots of generation Y have Let's Encrypt's published keys, signed by older roots")
    func generationY() throws {
        func row(_ name: String) -> PublicAuthority.Root? {
            PublicAuthority.letsencrypt.roots.first { $0.name == name }
        }
        for (name, certificate, signer) in [
            ("ISRG Root YR", PublishedCertificates.yr, PublishedCertificates.x1),
            ("ISRG Root YE", PublishedCertificates.ye, PublishedCertificates.x2),
        ] {
            #expect(row(name)?.pin == certificate.publicKeyPin)
            #expect(PublicAuthority.root(signer.publicKeyPin)?.root.state == .trusted)
            #expect(X509_verify(certificate.pointer, X509_get0_pubkey(signer.pointer)) == 1)
        }
        let known = try #require(PublicAuthority.intermediate(PublishedCertificates.yr1.publicKeyPin))
        #expect(known.root.name == "Let's Encrypt YR1" && known.authority == .letsencrypt)
        #expect(X509_verify(PublishedCertificates.yr1.pointer, X509_get0_pubkey(PublishedCertificates.yr.pointer)) == 1)
    }

    @Test("a root is near its end with a tenth of its lifetime left")
    func ends() throws {
        let root = try #require(PublicAuthority.letsencrypt.roots.first)
        let (first, last) = (try #require(root.firstDay), try #require(root.lastDay))
        let tenth = (last.end - first.end) / 10
        #expect(!root.endsSoon(at: last.end - tenth) && root.endsSoon(at: last.end - tenth + 1))
        #expect(root.endsSoon(at: last.end + 1) && root.endsSoon(at: .max) && !root.endsSoon(at: .min))
    }

    // MARK: In pin files

    private func load(_ body: String) throws -> (policy: SecurityPolicy, warnings: [String]) {
        let loaded = try PinFile.load(
            text: "{ \"version\": 1, \"pinnedDomains\": { \"a.example\": { \(body) } } }",
            file: "p.json",
            at: 1_795_000_000
        )
        let policy = try #require(loaded.domains.policy(host: Host("a.example"), port: 443))
        return (policy, loaded.warnings.map { "\($0.pointer) \($0.message)" })
    }

    @Test("an authority pins the keys of its set with scope ca, as ordinary pins")
    func loaded() throws {
        let (policy, warnings) = try load("\"authorities\": [\"letsencrypt\"]")
        #expect(warnings == [] && policy.configuration.pins == PublicAuthority.letsencrypt.pins)
        #expect(policy.configuration.pins.count == 4)
        let both = try load(
            "\"pins\": [\"\(PublicKeyPin.unrelated())\"], \"authorities\": [\"letsencrypt\", \"amazon\"]"
        )
        #expect(both.policy.configuration.pins.count == 1 + 4 + 5)
        #expect(PublicAuthority.sets(in: both.policy.configuration.pins) == [.letsencrypt, .amazon])
        // A root that is pinned by hand as well stands there once, with the file's words; as a leaf it is another pin.
        let x1 = PublishedCertificates.x1.publicKeyPin
        let twice = try load("\"pins\": [\"\(x1)\"], \"authorities\": [\"letsencrypt\"]").policy
        #expect(twice.configuration.pins.filter { $0.key == x1 } == [Pin(x1)] && twice.configuration.pins.count == 4)
        let leaf = "{ \"spki-sha256\": \"\(x1.base64)\", \"scope\": \"leaf\" }"
        #expect(
            try load("\"pins\": [\(leaf)], \"authorities\": [\"letsencrypt\"]").policy.configuration.pins.count == 5
        )
    }

    @Test("a root with an unverified key is a warning, and pins nothing")
    func unverified() throws {
        let (policy, warnings) = try load("\"authorities\": [\"microsoft\"]")
        #expect(policy.configuration.pins == PublicAuthority.microsoft.pins && policy.configuration.pins.count == 2)
        #expect(warnings.count == 2)
        #expect(warnings.allSatisfy { $0.hasPrefix("/pinnedDomains/a.example/authorities/0 the key of Microsoft TLS") })
    }

    @Test("the digest of a policy covers the keys of the set")
    func digest() throws {
        let anchors = TrustAnchors(certificates: [])
        func digest(_ configuration: SecurityPolicy.Configuration) throws -> [UInt8]? {
            SecurityPolicyDigest(try SecurityPolicy(configuration), anchors: anchors).bytes(at: 0)
        }
        let pinned = try load("\"authorities\": [\"letsencrypt\"]").policy.configuration
        var spelled = SecurityPolicy.Configuration()
        spelled.pinningMode = .publicKey
        spelled.pins = PublicAuthority.letsencrypt.pins
        #expect(try digest(pinned) == digest(spelled))
        spelled.pins.removeLast()
        #expect(try digest(pinned) != digest(spelled))
    }

    @Test("requireStaple with a CA without OCSP is a warning when the file is read")
    func staples() throws {
        func warnings(_ authority: String, _ members: String = "") throws -> [String] {
            try load("\"authorities\": [\"\(authority)\"], \"revocation\": { \"requireStaple\": true }").warnings
        }
        #expect(try warnings("letsencrypt").contains { $0.contains("Let's Encrypt has no OCSP any more") })
        #expect(try warnings("amazon") == [])
    }
}
