import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("What tells one policy from another")
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

    @Test("it is the same for the same settings, whatever their order and labels")
    func same() throws {
        let first = try digest()
        #expect(first?.count == 32)
        #expect(try digest { $0.pins.reverse() } == first)
        #expect(try digest { $0.pins[1].isBackup = true } == first)
        #expect(try digest { $0.pins[0].comment = "the new key" } == first)
        #expect(try digest { $0.allowSinglePin = true } == first)
    }

    @Test("it differs with everything that decides who may answer")
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
            { $0.requiresStaple = true },
            { $0.trustAnchors = other.anchors },
            { $0.pinnedCertificates = [server.chain[0]] },
            {
                $0.pinningMode = .none; $0.pins = []; $0.expiration = nil
            },
        ]
        var digests = try changes.map { try digest($0) }
        digests.append(try digest(anchors: other.anchors))
        #expect(!digests.contains(nil))
        // Anchors of the policy's own stand in for the caller's: these two are one policy.
        #expect(Set(digests).count == digests.count - 1)
        #expect(digests[12] == digests.last)
    }

    @Test("after the pin set's last day there is none, or that of a host without pins")
    func expired() throws {
        let end: Int64 = 1_801_440_000
        #expect(try digest(at: end - 1) == digest())
        #expect(try digest(at: end) == nil)
        let unpinned = try digest(at: end) { $0.onExpiration = .unpinned }
        #expect(unpinned != nil)
        #expect(try unpinned != digest(at: end - 1) { $0.onExpiration = .unpinned })
    }

    @Test("what else decides who answers makes another one")
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
