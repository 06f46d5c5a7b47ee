// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore
import ServerTrust
import TestSupport
import Testing

/// The variants of a staple: a good one, and others with one fault each.
struct StapleCase: CustomTestStringConvertible, Sendable {
    /// The participants: a PKI, its server, a delegated responder, and another PKI.
    struct Cast: Sendable {
        let pki: TestPKI
        let server: TestServer
        let responder: Identity
        let other: TestPKI

        init() throws {
            pki = try TestPKI()
            server = try pki.server(Scenario.host)
            responder = try Cast.responder(under: pki.intermediate)
            other = try TestPKI("other")
        }

        static func responder(
            under issuer: Identity,
            _ kind: KeyPair.Kind = .p256,
            _ change: (inout CertificateBuilder) -> Void = { _ in }
        ) throws -> Identity {
            var builder = CertificateBuilder(validity: TestPKI.validity)
            builder.subject = [("CN", "responder")]
            builder.extendedKeyUsage = ["OCSPSigning"]
            change(&builder)
            let key = try KeyPair.shared(kind)
            return Identity(certificate: try builder.certificate(for: key, issuer: issuer), key: key)
        }

        /// A good response, from an hour before `now` to an hour after.
        func response(now: Int64 = Scenario.now) -> OCSPResponseBuilder {
            OCSPResponseBuilder(
                server.certificate,
                issuer: pki.intermediate,
                validity: (now - 3600)..<(now + 3600)
            )
        }

        /// The good response, signed by a responder.
        func signed(by signer: Identity, now: Int64 = Scenario.now) -> OCSPResponseBuilder {
            response(now: now).with {
                $0.signer = signer
                $0.sendsSigner = true
            }
        }
    }

    var name: String
    var failure: TrustFailure
    /// A part of the reason.
    var word: String
    /// Makes the staple for the time `now`.
    var make: @Sendable (Cast, _ now: Int64) throws -> [UInt8]?

    var testDescription: String { name }

    init(
        _ name: String,
        _ word: String,
        _ failure: TrustFailure = .stapleMissing,
        _ make: @escaping @Sendable (Cast, _ now: Int64) throws -> [UInt8]?
    ) {
        self.name = name
        self.failure = failure
        self.word = word
        self.make = make
    }

    /// A variant that changes the good response.
    static func changed(
        _ name: String,
        _ word: String,
        _ failure: TrustFailure = .stapleMissing,
        _ change: @escaping @Sendable (inout OCSPResponseBuilder, Cast, _ now: Int64) throws -> Void
    ) -> StapleCase {
        StapleCase(name, word, failure) { cast, now in
            try cast.response(now: now).with { try change(&$0, cast, now) }.der()
        }
    }

    static let refused: [StapleCase] = [
        StapleCase("no staple", "sent no staple") { _, _ in nil },
        StapleCase("an empty one", "sent no staple") { _, _ in [] },
        StapleCase("gibberish", "no OCSP response") { _, _ in Array("gibberish".utf8) },
        StapleCase("a response with a byte more", "no OCSP response") { try $0.response(now: $1).der() + [0] },
        StapleCase("half a response", "no OCSP response") { Array(try $0.response(now: $1).der().dropLast(40)) },
        StapleCase("a certificate", "no OCSP response") { cast, _ in cast.server.certificate.derBytes },
        StapleCase("more than 64 KB", "65537 bytes") { _, _ in [UInt8](repeating: 48, count: 65_537) },
        changed("tryLater", "trylater") { response, _, _ in response.responseStatus = 3 },
        changed("unauthorized", "unauthorized") { response, _, _ in response.responseStatus = 6 },
        changed("revoked", "revoked", .certificateRevoked) { response, _, _ in
            response.singleResponses[0].status = .revoked
        },
        changed("revoked, and out of date", "revoked", .certificateRevoked) { response, _, now in
            response.singleResponses[0].status = .revoked
            response.singleResponses[0].nextUpdate = now - 1000
        },
        changed("good and revoked at once", "revoked", .certificateRevoked) { response, _, _ in
            response.singleResponses.append(response.singleResponses[0])
            response.singleResponses[1].status = .revoked
            response.singleResponses[1].digest = "SHA256"
        },
        changed("unknown", "does not know") { response, _, _ in response.singleResponses[0].status = .unknown },
        changed("of another certificate of the issuer", "another certificate") { response, cast, _ in
            response.singleResponses[0].leaf = try cast.pki.server(Scenario.host).certificate
        },
        changed("about a certificate of another issuer", "not vouched for") { response, cast, now in
            let twin = try cast.other.server(Scenario.host)
            response = OCSPResponseBuilder(
                twin.certificate,
                issuer: cast.other.intermediate,
                validity: (now - 3600)..<(now + 3600)
            )
            response.signer = cast.pki.intermediate
        },
        changed("no answer at all", "not vouched for") { response, _, _ in response.singleResponses = [] },
        changed("out of date", "out of date") { response, _, now in response.singleResponses[0].nextUpdate = now - 300
        },
        changed("not valid yet", "not valid yet") { response, _, now in
            response.singleResponses[0].thisUpdate = now + 301
        },
        changed("without nextUpdate, a day old", "out of date") { response, _, now in
            response.singleResponses[0].thisUpdate = now - 86_400
            response.singleResponses[0].nextUpdate = nil
        },
        changed("an end before its beginning", "no proper times") { response, _, now in
            response.singleResponses[0].thisUpdate = now
            response.singleResponses[0].nextUpdate = now - 1
        },
        changed("good, and once more out of date", "out of date") { response, _, now in
            response.singleResponses.append(response.singleResponses[0])
            response.singleResponses[1].nextUpdate = now - 300
        },
        changed("signed by an unrelated CA", "not vouched for") { response, cast, _ in
            response.signer = cast.other.intermediate
            response.sendsSigner = true
        },
        changed("signed by the server's own key", "not vouched for") { response, cast, _ in
            response.signer = cast.server.identity
            response.sendsSigner = true
        },
        changed("signed by the trusted root above the issuer", "not vouched for") { response, cast, _ in
            response.signer = cast.pki.root
            response.sendsSigner = true
        },
        changed("signed by another key under the issuer's name", "not vouched for") { response, cast, _ in
            response.signer = Identity(
                certificate: try CertificateBuilder.authority("pinproxy test intermediate", validity: TestPKI.validity)
                    .certificate(for: cast.other.intermediate.key, issuer: cast.pki.root),
                key: cast.other.intermediate.key
            )
        },
        StapleCase("a broken signature", "not vouched for") { cast, now in
            var der = try cast.response(now: now).der()
            der[der.count - 1] ^= 1
            return der
        },
        StapleCase("a responder whose certificate is for something else", "not vouched for") { cast, now in
            let responder = try Cast.responder(under: cast.pki.intermediate) { $0.extendedKeyUsage = ["serverAuth"] }
            return try cast.signed(by: responder, now: now).der()
        },
        StapleCase("a responder of the trusted root", "not vouched for") { cast, now in
            try cast.signed(by: Cast.responder(under: cast.pki.root), now: now).der()
        },
        StapleCase("a responder of another CA", "not vouched for") { cast, now in
            try cast.signed(by: Cast.responder(under: cast.other.intermediate), now: now).der()
        },
        StapleCase("a responder below a CA below the issuer", "not vouched for") { cast, now in
            let below = try CertificateBuilder.authority("below", validity: TestPKI.validity)
                .identity(issuer: cast.pki.intermediate)
            var response = try cast.signed(by: Cast.responder(under: below), now: now)
            response.others = [below.certificate]
            return try response.der()
        },
        StapleCase("an expired responder", "not vouched for") { cast, now in
            let responder = try Cast.responder(under: cast.pki.intermediate) { $0.notAfter = now - 1 }
            return try cast.signed(by: responder, now: now).der()
        },
        StapleCase("a responder with a key of 1,024 bits", "not vouched for") { cast, now in
            try cast.signed(by: Cast.responder(under: cast.pki.intermediate, .rsa(bits: 1024)), now: now).der()
        },
        changed("times that are none", "no proper times") { response, _, _ in
            response.singleResponses[0].times = ("XXXXXXXXXXXXXXX", "99999999999999Z")
        },
        changed("a beginning that is no time", "no proper times") { response, _, _ in
            response.singleResponses[0].times = ("               ", "21000101000000Z")
        },
        changed("an end that is no time", "no proper times") { response, _, _ in
            response.singleResponses[0].times = ("20000101000000Z", String(repeating: "9", count: 300))
        },
        changed("more certificates than are read", "more than 16 certificates") { response, cast, _ in
            response.others = Array(repeating: cast.pki.root.certificate, count: 17)
        },
        changed("a certificate that costs much to decode", "not decoded") { response, _, _ in
            response.others = [try CertificateMessageTests.explicitCurve()]
        },
        changed("signed over SHA-1", "too weak") { response, _, _ in response.signatureDigest = "SHA1" },
        changed("a critical extension of the response", "critical extension") { response, _, _ in
            response.hasCriticalExtension = true
        },
        changed("a critical extension of the answer", "critical extension") { response, _, _ in
            response.singleResponses[0].hasCriticalExtension = true
        },
    ]

    /// A few variants, for tests in which each needs a connection.
    static let usual = refused.filter {
        ["no staple", "gibberish", "tryLater", "revoked", "unknown", "out of date", "signed by an unrelated CA"]
            .contains($0.name) || $0.name.hasPrefix("of another certificate")
    }
}

@Suite("Required staples")
struct StapleTests {
    private let cast: StapleCase.Cast
    private let base: Scenario

    init() throws {
        cast = try StapleCase.Cast()
        base = Scenario(cast.server, cast.pki).with { $0.configuration.requiresStaple = true }
    }

    private func stapled(_ response: OCSPResponseBuilder) throws -> Scenario {
        try base.with { $0.staple = try response.der() }
    }

    @Test("81 a staple that is missing, stale, broken or foreign is refused", arguments: StapleCase.refused)
    func refused(variant: StapleCase) throws {
        let refused = try base.with { $0.staple = try variant.make(cast, Scenario.now) }
        let mended = try stapled(cast.response())
        try expect(refused, variant.failure, mended: mended, .notPinned)
        // Other tests may have left errors in this thread's queue.
        ERR_clear_error()
        let report = try refused.evaluation()
        #expect(report.reason.contains(variant.word), "\(report)")
        // The same server passes without the requirement, whatever staple it sends.
        #expect(try refused.with { $0.configuration.requiresStaple = false }.evaluation().verdict == .notPinned)
        #expect(ERR_peek_error() == 0)
    }

    @Test("81 the issuer's and a delegated responder's signatures are both accepted")
    func accepted() throws {
        let delegated = cast.signed(by: cast.responder)
        for response in [cast.response(), delegated, delegated.with { $0.others = [cast.other.root.certificate] }] {
            #expect(try stapled(response).evaluation().verdict == .notPinned)
            let sha256 = response.with { $0.singleResponses[0].digest = "SHA256" }
            #expect(try stapled(sha256).evaluation().verdict == .notPinned)
        }
        // The last second that such a time can say.
        let endless = cast.response().with { $0.singleResponses[0].nextUpdate = 253_402_300_799 }
        #expect(try stapled(endless).evaluation().verdict == .notPinned)
        // A further single response about another certificate does no harm, even if it is out of date.
        let several = try cast.response().with {
            $0.singleResponses.append($0.singleResponses[0])
            $0.singleResponses[0].leaf = try cast.pki.server("b.example.com").certificate
            $0.singleResponses[0].status = .revoked
            $0.singleResponses[0].nextUpdate = Scenario.now - 900
        }
        #expect(try stapled(several).evaluation().verdict == .notPinned)
    }

    @Test(
        "81 every usual kind of responder's key is accepted",
        arguments: [KeyPair.Kind.rsa(bits: 2048), .rsaPSS(bits: 2048), .p256, .p384, .ed25519]
    )
    func keys(kind: KeyPair.Kind) throws {
        let responder = try StapleCase.Cast.responder(under: cast.pki.intermediate, kind)
        try expect(base, .stapleMissing, mended: stapled(cast.signed(by: responder)), .notPinned)
        if case .ed25519 = kind { return }
        let weak = cast.signed(by: responder).with { $0.signatureDigest = "SHA1" }
        #expect(try stapled(weak).evaluation().reason.contains("too weak"))
    }

    @Test("81 the verdict ages with the staple, or after a day without nextUpdate")
    func age() throws {
        let now = Scenario.now
        #expect(try stapled(cast.response()).evaluation().goodUntil == now + 3600 + 300)
        let endless = cast.response().with { $0.singleResponses[0].nextUpdate = nil }
        #expect(try stapled(endless).evaluation().goodUntil == now - 3600 + 86_400)
        // The limits are exact to the second.
        let last = cast.response().with { $0.singleResponses[0].nextUpdate = now - 299 }
        let over = cast.response().with { $0.singleResponses[0].nextUpdate = now - 300 }
        try expect(stapled(over), .stapleMissing, mended: stapled(last), .notPinned)
        #expect(try stapled(last).evaluation().goodUntil == now + 1)
        let early = cast.response().with { $0.singleResponses[0].thisUpdate = now + 301 }
        let first = cast.response().with { $0.singleResponses[0].thisUpdate = now + 300 }
        try expect(stapled(early), .stapleMissing, mended: stapled(first), .notPinned)
        // The earliest end decides.
        let twice = cast.response().with {
            $0.singleResponses.append($0.singleResponses[0])
            $0.singleResponses[1].nextUpdate = now + 60
        }
        #expect(try stapled(twice).evaluation().goodUntil == now + 360)
        let pinned = try stapled(cast.response()).pinning(cast.server.pin).with {
            $0.configuration.expiration = CalendarDate("2026-05-15")
            $0.now = now + 12 * 3600 - 60
            $0.staple = try cast.response(now: now + 12 * 3600 - 60).der()
        }
        #expect(try pinned.evaluation().goodUntil == now + 12 * 3600)
    }

    @Test("81 a required staple is required in every mode that validates a chain")
    func modes() throws {
        let response = try cast.response().der()
        let none = base
        let key = base.pinning(cast.server.pin)
        let nameless = key.with { $0.configuration.validatesDomainName = false }
        let certificate = base.with {
            $0.configuration.pinningMode = .certificate
            $0.configuration.pinnedCertificates = [cast.server.certificate]
        }
        let expired = key.with {
            $0.configuration.expiration = CalendarDate("2026-05-14")
            $0.configuration.onExpiration = .unpinned
        }
        let reporting = base.pinning(.unrelated(1)).with { $0.configuration.enforcePinning = false }
        let cases: [(Scenario, TrustEvaluation.Verdict)] = [
            (none, .notPinned), (key, .pass), (nameless, .pass), (certificate, .pass), (expired, .expired),
            (reporting, .reportOnly),
        ]
        for (scenario, verdict) in cases {
            let refused = try scenario.evaluation()
            #expect(refused.verdict == .fail && refused.failure == .stapleMissing, "\(refused)")
            #expect(try scenario.with { $0.staple = response }.evaluation().verdict == verdict)
        }
        // A good staple does not compensate for a wrong pin, chain or name.
        let stapled = key.with { $0.staple = response }
        try expect(stapled.pinning(.unrelated(1)), .pinMismatch, mended: stapled)
        try expect(stapled.with { $0.host = "b.example.com" }, .certificateHostMismatch, mended: stapled)
        try expect(stapled.with { $0.anchors = cast.other.anchors }, .certificateUntrusted, mended: stapled)
    }

    @Test("81 a server that is a trust anchor has no staple")
    func anchoredLeaf() throws {
        let anchored = try stapled(cast.response()).with {
            $0.chain.removeLast()
            $0.anchors = TrustAnchors(certificates: [cast.server.certificate])
        }
        try expect(
            anchored,
            .stapleMissing,
            mended: anchored.with { $0.anchors = TrustAnchors(certificates: [cast.pki.intermediate.certificate]) },
            .notPinned
        )
        #expect(try anchored.evaluation().reason.contains("trust anchor itself"))
    }

    @Test("81 with invalid certificates allowed no staple can be checked")
    func waivedChain() throws {
        let waived = base.pinning(cast.server.pin).with { $0.configuration.allowInvalidCertificates = true }
        let faults = waived.configuration.faults()
        #expect(faults.map(\.key) == ["revocation"])
        #expect(faults.first?.message.contains("a staple needs a valid chain") == true)
        #expect(waived.with { $0.configuration.requiresStaple = false }.configuration.faults().isEmpty)
    }

    @Test("81 a mutated staple is refused and revokes nothing")
    func mutations() throws {
        // Other tests may have left errors in this thread's queue.
        ERR_clear_error()
        var random = SeededGenerator(seed: 81)
        let good = [
            try cast.response().der(), try cast.signed(by: cast.responder).der(),
            try cast.response().with { $0.singleResponses[0].status = .revoked }.der(),
        ]
        let policy = try SecurityPolicy(base.configuration)
        let host = try Host(Scenario.host)
        for _ in 0..<1500 {
            let original = good[Int(random.next() % UInt64(good.count))]
            var mutated = original
            for _ in 0...(random.next() % 3) where !mutated.isEmpty {
                let place = Int(random.next() % UInt64(mutated.count))
                switch random.next() % 4 {
                case 0: mutated[place] ^= UInt8(1 << (random.next() % 8))
                case 1: mutated[place] = UInt8(truncatingIfNeeded: random.next())
                case 2: mutated.removeLast(Int(random.next() % UInt64(min(mutated.count, 64))))
                default: mutated.insert(UInt8(truncatingIfNeeded: random.next()), at: place)
                }
            }
            guard mutated != original else { continue }
            let report = policy.evaluate(
                chain: base.chain,
                staple: mutated,
                host: host,
                anchors: base.anchors,
                at: base.now
            )
            // Unsigned parts may change (parts of the responder's certificate are irrelevant); signed parts must not.
            #expect(original != good[2] || !report.isAccepted)
            if report.isAccepted { #expect(original == good[1] && report.goodUntil == Scenario.now + 3900) }
        }
        #expect(ERR_peek_error() == 0)
    }
}
