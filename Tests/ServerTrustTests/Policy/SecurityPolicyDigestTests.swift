// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("The digest of a policy")
struct SecurityPolicyDigestTests {
    private static let now: Int64 = 1_790_000_000
    private let pki: TestPKI
    private let server: TestServer
    private var base = SecurityPolicy.Configuration()

    init() throws {
        pki = try TestPKI()
        server = try pki.server(CertificateBuilder.server(hosts: ["api.example.com"], validity: TestPKI.validity))
        base.pinningMode = .publicKey
        base.pins = [Pin(server.pin), Pin(.unrelated())]
        base.expiration = CalendarDate("2027-01-31")
    }

    private func digest(
        at now: Int64 = now,
        anchors: TrustAnchors? = nil,
        _ change: (inout SecurityPolicy.Configuration) throws -> Void = { _ in }
    ) throws -> [UInt8]? {
        var configuration = base
        try change(&configuration)
        return SecurityPolicyDigest(try SecurityPolicy(configuration), anchors: anchors ?? pki.anchors).bytes(at: now)
    }

    @Test("equal settings have one digest, whatever their order and labels")
    func same() throws {
        let first = try digest()
        #expect(first?.count == 32)
        #expect(try digest { $0.pins.reverse() } == first)
        #expect(try digest { $0.pins[1].isBackup = true } == first)
        #expect(try digest { $0.pins[0].comment = "the new key" } == first)
        #expect(try digest { $0.allowSinglePin = true } == first)
    }

    @Test("every setting that decides about servers changes the digest")
    func different() throws {
        let other = try TestPKI()
        let changes: [(inout SecurityPolicy.Configuration) throws -> Void] = [
            { _ in },
            { $0.pins.append(Pin(.unrelated(7))) },
            { $0.pins[0].scope = .leaf },
            { $0.forbiddenPins = [Pin(.unrelated(8))] },
            { $0.expiration = CalendarDate("2027-02-01") },
            { $0.expiration = nil },
            { $0.onExpiration = .unpinned },
            { $0.enforcePinning = false },
            { $0.validatesDomainName = false },
            { $0.allowInvalidCertificates = true },
            { $0.minTLSVersion = .tls13 },
            { $0.requireGroups = [.x25519] },
            { $0.requireGroups = [.x25519, .p256] },
            { $0.requiresStaple = true },
            { $0.fetchesRevocationLists = true },
            { $0.trustAnchors = other.anchors },
            { $0.pinnedCertificates = [server.chain[0]] },
            {
                $0.pinningMode = .none; $0.pins = []; $0.expiration = nil
            },
        ]
        var digests = try changes.map { try digest($0) }
        digests.append(try digest(anchors: other.anchors))
        #expect(!digests.contains(nil))
        // The policy's own anchors replace the caller's: both policies are equal.
        #expect(Set(digests).count == digests.count - 1)
        #expect(digests[15] == digests.last)
    }

    private func lists(_ revoked: [Certificate], signedBy issuers: [Identity]? = nil) throws -> RevocationLists {
        try RevocationLists(
            contents: (issuers ?? [pki.root]).map {
                Array(try RevocationListBuilder(validity: TestPKI.validity, revoked: revoked).pem(issuer: $0).utf8)
            }
        )
    }

    @Test("a new revocation list changes the digest, its order does not")
    func revocationLists() throws {
        let other = try TestPKI()
        let old = try lists([])
        let new = try lists([server.chain[0]])
        #expect(old.count == new.count && old.earliestNextUpdate == new.earliestNextUpdate)
        let digests = try [nil, old, new, try lists([], signedBy: [pki.root, other.root])].map { lists in
            try digest { $0.revocationLists = lists }
        }
        #expect(Set(digests).count == digests.count)
        let contents = try [pki.root, other.root].map {
            Array(try RevocationListBuilder(validity: TestPKI.validity).pem(issuer: $0).utf8)
        }
        let one = try RevocationLists(contents: contents)
        let two = try RevocationLists(contents: contents.reversed())
        #expect(try digest { $0.revocationLists = one } == digest { $0.revocationLists = two })
        #expect(
            try digest { $0.revocationLists = one }
                != digest {
                    $0.revocationLists = one
                    $0.revocationScope = .chain
                }
        )
    }

    /// The role of each setting in the digest. A new setting has to be added to one of the two lists: does it decide
    /// which servers are accepted?
    @Test("each setting is known to change the digest, or to concern reports alone")
    func everySetting() throws {
        let other = try TestPKI()
        let lists = try lists([])
        let domain = try Host("example.com")
        let client = try other.server("client.example.com")
        let identity = try ClientIdentity(
            certificate: Array(client.chainPEM.utf8),
            privateKey: Array(client.privateKeyPEM.utf8)
        )
        let counts: [String: (inout SecurityPolicy.Configuration) -> Void] = [
            "pinningMode": {
                $0.pinningMode = .none
                $0.pins = []
                $0.expiration = nil
            },
            "allowInvalidCertificates": { $0.allowInvalidCertificates = true },
            "validatesDomainName": { $0.validatesDomainName = false },
            "pins": { $0.pins.append(Pin(.unrelated(7))) },
            "pinnedCertificates": { $0.pinnedCertificates = [other.root.certificate] },
            "forbiddenPins": { $0.forbiddenPins = [Pin(.unrelated(8))] },
            "expiration": { $0.expiration = nil },
            "onExpiration": { $0.onExpiration = .unpinned },
            "enforcePinning": { $0.enforcePinning = false },
            "minTLSVersion": { $0.minTLSVersion = .tls13 },
            "requireGroups": { $0.requireGroups = [.p384] },
            "trustAnchors": { $0.trustAnchors = other.anchors },
            "maxChainDepth": { $0.maxChainDepth = 9 },
            "intermediates": { $0.intermediates = [other.intermediate.certificate] },
            "clientCertificate": { $0.clientCertificate = identity },
            "revocationLists": { $0.revocationLists = lists },
            "requiresStaple": { $0.requiresStaple = true },
            "fetchesRevocationLists": { $0.fetchesRevocationLists = true },
        ]
        let says: [String: (inout SecurityPolicy.Configuration) -> Void] = [
            "domain": { $0.domain = domain },
            "includesSubdomains": { $0.includesSubdomains = true },
            "allowSinglePin": { $0.allowSinglePin = true },
            "reportUris": { $0.reportUris = [] },
            // Without lists it has no effect; with lists the test above covers it.
            "revocationScope": { $0.revocationScope = .chain },
        ]
        let names = Mirror(reflecting: base).children.compactMap(\.label)
        #expect(Set(names) == Set(counts.keys).union(says.keys))
        let pin = Mirror(reflecting: base.pins[0]).children.compactMap(\.label)
        // The first two count; the others are labels.
        #expect(Set(pin) == ["key", "scope", "isBackup", "comment"])
        let unchanged = try digest()
        for (name, change) in counts { #expect(try digest(change) != unchanged, "\(name)") }
        for (name, change) in says { #expect(try digest(change) == unchanged, "\(name)") }
    }

    @Test("after the pin set's last day the digest is that without pins")
    func expired() throws {
        let end: Int64 = 1_801_440_000
        #expect(try digest(at: end - 1) == digest())
        #expect(try digest(at: end) == nil)
        let unpinned = try digest(at: end) { $0.onExpiration = .unpinned }
        #expect(unpinned != nil)
        #expect(try unpinned != digest(at: end - 1) { $0.onExpiration = .unpinned })
    }

    @Test("other decisive facts change the digest")
    func context() throws {
        let policy = try SecurityPolicy(base)
        func digest(_ context: String) -> [UInt8]? {
            SecurityPolicyDigest(policy, anchors: pki.anchors, context: Array(context.utf8)).bytes(at: Self.now)
        }
        #expect(digest("") == digest(""))
        #expect(digest("") != digest("192.0.2.1:443"))
    }

    @Test("a set of anchors has one digest, in whatever order they come")
    func anchors() throws {
        let other = try TestPKI()
        let one = TrustAnchors(certificates: [pki.root.certificate, other.root.certificate])
        let two = TrustAnchors(certificates: [other.root.certificate, pki.root.certificate])
        #expect(one.digest == two.digest && one.digest != pki.anchors.digest)
    }
}
