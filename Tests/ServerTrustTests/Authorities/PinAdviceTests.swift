// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

/// The chains are our own up to a certificate of a real root: none of this verifies signatures.
@Suite("Pins that last")
struct PinAdviceTests {
    private static let now: Int64 = 1_795_000_000
    private let pki: TestPKI
    private let server: TestServer
    /// Leaf, intermediate, Root YR as signed by X1, X1: as Let's Encrypt's chains are.
    private let publicChain: [Certificate]
    private let privateChain: [Certificate]
    private let x1 = PublishedCertificates.x1.publicKeyPin

    init() throws {
        pki = try TestPKI()
        server = try pki.server("a.example")
        publicChain = server.chain + [PublishedCertificates.yr, PublishedCertificates.x1]
        privateChain = server.chain + [pki.root.certificate]
    }

    // MARK: Which keys to pin

    private func choice(_ chain: [Certificate], _ place: PinChoice.Place) -> [String]? {
        PinChoice(chain, place).map { choice in
            [choice.pinned, choice.backup].map { $0?.subject ?? "-" } + [choice.authority?.rawValue ?? "-"]
        }
    }

    @Test("advice for public CAs is leaf and root set, for others leaf and root")
    func choices() {
        let (leaf, middle, root) = ("CN = a.example", "CN = pinproxy test intermediate", "CN = pinproxy test root")
        #expect(choice(publicChain, .leaf) == [leaf, "-", "letsencrypt"])
        #expect(choice(publicChain, .intermediate) == [middle, "-", "letsencrypt"])
        #expect(choice(publicChain, .root) == ["-", "-", "letsencrypt"])
        #expect(choice(privateChain, .leaf) == [leaf, root, "-"])
        #expect(choice(privateChain, .intermediate) == [middle, root, "-"])
        #expect(choice(privateChain, .root) == [root, "-", "-"])
        // A chain that ends in the cross-signed root is of the same CA.
        #expect(choice(Array(publicChain.dropLast()), .leaf) == [leaf, "-", "letsencrypt"])
        #expect(choice([server.certificate], .leaf) == [leaf, "-", "-"] && choice([server.certificate], .root) == nil)
        #expect(PinChoice.places(of: Array(privateChain.dropLast())) == [.leaf, .root])
    }

    // MARK: What will not last

    private func codes(
        _ pins: [Pin],
        chain: [Certificate]? = nil,
        anchors: [Certificate] = [PublishedCertificates.x1],
        at now: Int64 = now,
        _ change: (inout SecurityPolicy.Configuration) -> Void = { _ in }
    ) throws -> [String] {
        var configuration = SecurityPolicy.Configuration()
        configuration.pinningMode = .publicKey
        configuration.allowSinglePin = true
        configuration.pins = pins
        change(&configuration)
        return PinAdvice.all(
            try SecurityPolicy(configuration),
            chain: chain ?? publicChain,
            anchors: TrustAnchors(certificates: anchors),
            at: now
        ).map(\.code)
    }

    @Test("a public CA's intermediate as the only CA is a warning")
    func intermediate() throws {
        let leaf = Pin(server.pin, scope: .leaf)
        let middle = Pin(pki.intermediate.key.pin, scope: .ca, isBackup: true)
        #expect(try codes([leaf, middle]) == ["pin_intermediate"])
        #expect(try codes([leaf, Pin(middle.key)]) == ["pin_intermediate"])
        #expect(try codes([leaf, middle, Pin(x1, scope: .ca)]) == [])
        #expect(try codes([leaf, middle] + PublicAuthority.letsencrypt.pins) == [])
        // Of a private CA it is that CA's own matter; as an anchor it is a root.
        #expect(try codes([leaf, middle], chain: privateChain, anchors: [pki.root.certificate]) == [])
        #expect(try codes([leaf, middle], anchors: [pki.intermediate.certificate]) == [])
        // As a leaf's pin it does not count for CAs.
        #expect(try codes([leaf, Pin(pki.intermediate.key.pin, scope: .leaf)]) == [])
    }

    @Test("without a chain an intermediate is known by the table, or by its certificate")
    func knownIntermediate() throws {
        let leaf = Pin(server.pin, scope: .leaf)
        let yr1 = PublishedCertificates.yr1
        #expect(try codes([leaf, Pin(yr1.publicKeyPin)], chain: []) == ["pin_intermediate"])
        #expect(try codes([leaf, Pin(pki.intermediate.key.pin)], chain: []) == [])
        let named = try CertificateBuilder.authority("new intermediate", validity: TestPKI.validity)
            .identity(issuer: CertificateBuilder.authority("GTS Root R4", validity: TestPKI.validity).identity())
        #expect(try codes([leaf], chain: []) { $0.pinnedCertificates = [named.certificate] } == ["pin_intermediate"])
        #expect(
            try codes([], chain: []) {
                $0.pinningMode = .certificate
                $0.pinnedCertificates = [named.certificate]
            } == ["pin_intermediate"]
        )
        #expect(try codes([leaf], chain: []) { $0.pinnedCertificates = [pki.intermediate.certificate] } == [])
    }

    @Test("a pinned root that is no anchor is a warning, unless its set suffices")
    func leavingRoot() throws {
        let leaf = Pin(server.pin, scope: .leaf)
        let root = Pin(x1, scope: .ca)
        #expect(try codes([leaf, root]) == [])
        #expect(try codes([leaf, root], anchors: [PublishedCertificates.x2]) == ["root_leaves_store"])
        let set = PublicAuthority.letsencrypt.pins
        #expect(try codes(set, anchors: [PublishedCertificates.x2]) == [])
        // Those of generation Y are in no store yet, and do not leave one.
        #expect(try codes(set, anchors: [pki.root.certificate]) == ["root_leaves_store", "root_leaves_store"])
        #expect(try codes([leaf, Pin(PublishedCertificates.yr.publicKeyPin)]) == [])
        let retired = try #require(PublicAuthority.digicert.roots.first { $0.state == .retired }?.pin)
        #expect(try codes([leaf, Pin(retired)]) == ["root_leaves_store"])
        #expect(
            try codes([leaf, root], anchors: []) {
                $0.allowInvalidCertificates = true
            } == []
        )
    }

    @Test("a pinned root near its end is a warning, unless its set lasts")
    func endingRoot() throws {
        // Half a year before X1 ends; X2 has five years more.
        let end = try #require(CalendarDate("2035-01-01")).end
        let leaf = Pin(server.pin, scope: .leaf)
        #expect(try codes([leaf, Pin(x1, scope: .ca)], at: end) == ["root_ends_soon"])
        #expect(try codes(PublicAuthority.letsencrypt.pins, at: end) == [])
    }

    @Test("pins of one key are a warning, as is a staple that never comes")
    func others() throws {
        #expect(try codes([Pin(server.pin)]) == ["pins_one_key"])
        #expect(try codes([Pin(server.pin, scope: .leaf), Pin(server.pin, scope: .ca)]) == ["pins_one_key"])
        let pins = [Pin(server.pin, scope: .leaf), Pin(x1)]
        #expect(try codes(pins) { $0.requiresStaple = true } == ["staple_impossible"])
        var builder = CertificateBuilder.server(hosts: ["a.example"], validity: TestPKI.validity)
        builder.ocspResponder = "http://ocsp.example/"
        let leaf = try builder.certificate(for: server.identity.key, issuer: pki.intermediate)
        #expect(try codes(pins, chain: [leaf] + publicChain.dropFirst()) { $0.requiresStaple = true } == [])
        #expect(try codes(pins, chain: privateChain) { $0.requiresStaple = true } == [])
    }

    @Test("a missing staple of a certificate without responder is described so")
    func responder() throws {
        func reason(_ uri: String?) throws -> String {
            var builder = CertificateBuilder.server(hosts: ["a.example"], validity: TestPKI.validity)
            builder.ocspResponder = uri
            let server = try pki.server(builder)
            var configuration = SecurityPolicy.Configuration()
            configuration.requiresStaple = true
            let evaluation = try SecurityPolicy(configuration)
                .evaluate(chain: server.chain, host: Host("a.example"), anchors: pki.anchors, at: Self.now)
            #expect(evaluation.failure == .stapleMissing)
            return "\(evaluation)"
        }
        #expect(try reason(nil).contains("its certificate names no OCSP responder"))
        let other = try reason("http://ocsp.example/")
        #expect(!other.contains("responder to get one") && other.contains("switch OCSP stapling on"), "\(other)")
    }
}
