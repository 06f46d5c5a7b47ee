// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

/// A server, a policy and a host for an evaluation; each scenario changes one of these.
struct Scenario {
    /// 15 May 2026, 12:00 UTC.
    static let now: Int64 = 1_778_846_400
    static let host = "api.example.com"

    var chain: [Certificate]
    var staple: [UInt8]?
    var anchors: TrustAnchors
    var host = Scenario.host
    var now = Scenario.now
    var configuration = SecurityPolicy.Configuration()

    init(_ server: TestServer, _ pki: TestPKI) {
        chain = server.chain
        anchors = pki.anchors
        configuration.pinningMode = .none
    }

    func evaluation() throws -> TrustEvaluation {
        try SecurityPolicy(configuration)
            .evaluate(chain: chain, staple: staple, host: Host(host), anchors: anchors, at: now)
    }

    /// A copy with one thing changed.
    func with(_ change: (inout Scenario) throws -> Void) rethrows -> Scenario {
        var copy = self
        try change(&copy)
        return copy
    }

    /// A copy in mode `publicKey` with these pins and a pin without a key.
    func pinning(_ pins: Pin...) -> Scenario {
        with {
            $0.configuration.pinningMode = .publicKey
            $0.configuration.pins = pins + [Pin(.unrelated(200))]
        }
    }

    func pinning(_ pin: PublicKeyPin, _ scope: Pin.Scope = .any) -> Scenario { pinning(Pin(pin, scope: scope)) }
}

/// The scenario is refused for its only fault, and passes after the fault is corrected.
func expect(
    _ refused: Scenario,
    _ failure: TrustFailure,
    mended: Scenario,
    _ verdict: TrustEvaluation.Verdict = .pass,
    sourceLocation: SourceLocation = #_sourceLocation
) throws {
    let bad = try refused.evaluation()
    #expect(bad.verdict == .fail, "\(bad)", sourceLocation: sourceLocation)
    #expect(bad.failure == failure, "\(bad)", sourceLocation: sourceLocation)
    #expect(!bad.isAccepted && !bad.isStillGood(at: refused.now), sourceLocation: sourceLocation)
    #expect(!bad.reason.isEmpty && !bad.remedy.isEmpty, sourceLocation: sourceLocation)
    let good = try mended.evaluation()
    #expect(good.verdict == verdict, "\(good)", sourceLocation: sourceLocation)
    #expect(good.failure == nil, sourceLocation: sourceLocation)
    #expect(good.isAccepted && good.isStillGood(at: mended.now), sourceLocation: sourceLocation)
}

@Suite("Scenarios of position and chain shape")
struct ChainScenarioTests {
    let pki: TestPKI
    let server: TestServer
    let base: Scenario

    init() throws {
        pki = try TestPKI()
        server = try pki.server(Scenario.host)
        base = Scenario(server, pki)
    }

    private func pin(_ identity: Identity) -> PublicKeyPin { identity.key.pin }

    // MARK: - Position

    @Test("1 a pin on the leaf matches")
    func leaf() throws {
        try expect(base.pinning(.unrelated(1)), .pinMismatch, mended: base.pinning(server.pin))
    }

    @Test("2 a pin on the intermediate matches")
    func intermediate() throws {
        let other = try TestPKI("other")
        try expect(base.pinning(pin(other.intermediate)), .pinMismatch, mended: base.pinning(pin(pki.intermediate)))
    }

    @Test("3 and 4 a root pin matches, whether the root was sent or not")
    func root() throws {
        let pinned = base.pinning(pin(pki.root))
        let sent = pinned.with { $0.chain.append(pki.root.certificate) }
        try expect(base.pinning(.unrelated(1)), .pinMismatch, mended: pinned)
        #expect(try sent.evaluation().verdict == .pass)
        #expect(try pinned.evaluation().chain.count == 3)
    }

    @Test("5 and 6 the whole chain may be pinned, and one match suffices")
    func several() throws {
        let whole = base.pinning(Pin(server.pin), Pin(pin(pki.intermediate)), Pin(pin(pki.root)))
        #expect(try whole.evaluation().matchedPin == server.pin)
        let among = base.pinning(Pin(.unrelated(1)), Pin(pin(pki.intermediate)), Pin(.unrelated(2)))
        #expect(try among.evaluation().matchedPin == pin(pki.intermediate))
    }

    @Test("7 without a match the report has offered and expected pins")
    func noMatch() throws {
        let report = try base.pinning(.unrelated(1)).evaluation()
        #expect(report.failure == .pinMismatch)
        #expect(report.isChainValidated)
        #expect(report.offeredPins.map(\.pin) == [server.pin, pin(pki.intermediate), pin(pki.root)])
        #expect(report.offeredPins.map(\.subject).first == "CN = api.example.com")
        #expect(report.expectedPins == [.unrelated(1), .unrelated(200)])
        #expect(report.matchedPin == nil)
    }

    @Test("8 a match by the backup alone passes and says so")
    func backup() throws {
        let rotated = base.pinning(Pin(.unrelated(1)), Pin(server.pin, isBackup: true))
        #expect(try rotated.evaluation().verdict == .pass)
        #expect(try rotated.evaluation().matchedBackupOnly)
        let both = base.pinning(Pin(server.pin, isBackup: true), Pin(pin(pki.root)))
        #expect(try both.evaluation().matchedPin == pin(pki.root))
        #expect(try !both.evaluation().matchedBackupOnly)
    }

    @Test("9 a renewed certificate with the same key: publicKey passes, certificate fails")
    func renewed() throws {
        let renewed = try Scenario(pki.renewed(server, hosts: Scenario.host), pki)
        let byCertificate = { (scenario: Scenario) in
            scenario.with {
                $0.configuration.pinningMode = .certificate
                $0.configuration.pinnedCertificates = [server.certificate]
            }
        }
        try expect(byCertificate(renewed), .pinMismatch, mended: byCertificate(base))
        #expect(try renewed.pinning(server.pin).evaluation().verdict == .pass)
    }

    @Test("10 a leaf pin on a CA fails, and so the other way")
    func scopes() throws {
        let ca = pin(pki.intermediate)
        try expect(base.pinning(ca, .leaf), .pinMismatch, mended: base.pinning(ca, .ca))
        try expect(base.pinning(server.pin, .ca), .pinMismatch, mended: base.pinning(server.pin, .leaf))
    }

    // MARK: - Chain shape

    @Test("11 and 14 shuffled order and unrelated extras do no harm")
    func shuffled() throws {
        let other = try TestPKI("other")
        let extra = try other.server("other.example")
        let scenario = base.pinning(pin(pki.intermediate)).with {
            $0.chain = [
                server.certificate, other.intermediate.certificate, pki.root.certificate, extra.certificate,
                pki.intermediate.certificate,
            ]
        }
        #expect(try scenario.evaluation().verdict == .pass)
    }

    @Test("12 a missing intermediate is refused")
    func missingIntermediate() throws {
        let pinned = base.pinning(server.pin)
        try expect(pinned.with { $0.chain.removeLast() }, .certificateUntrusted, mended: pinned)
    }

    @Test("13 a wrong intermediate is refused")
    func wrongIntermediate() throws {
        let pinned = base.pinning(server.pin)
        let other = try TestPKI("other")
        try expect(
            pinned.with { $0.chain[1] = other.intermediate.certificate },
            .certificateUntrusted,
            mended: pinned
        )
    }

    /// A rogue CA that the machine trusts, and a certificate of it for our host.
    private func rogue() throws -> (pki: TestPKI, scenario: Scenario) {
        let rogue = try TestPKI("rogue")
        var scenario = Scenario(try rogue.server(Scenario.host), rogue)
        scenario.anchors = TrustAnchors(certificates: [pki.root.certificate, rogue.root.certificate])
        return (rogue, scenario)
    }

    @Test("15 attack: a rogue CA's chain with the pinned leaf is refused")
    func stuffedLeaf() throws {
        let rogue = try rogue().scenario.with { $0.chain.append(server.certificate) }
        try expect(rogue.pinning(server.pin), .pinMismatch, mended: base.pinning(server.pin))
    }

    @Test("16 attack: a pinned intermediate under the rogue CA's name is refused")
    func stuffedIntermediate() throws {
        let (rogue, scenario) = try rogue()
        var namesake = CertificateBuilder.authority("rogue intermediate", validity: TestPKI.validity)
        namesake.subject = [("CN", "rogue intermediate")]
        let fake = try namesake.certificate(for: pki.intermediate.key, issuer: pki.root)
        #expect(fake.subject == rogue.intermediate.certificate.subject)
        for place in [1, 2] {
            let stuffed = scenario.with { $0.chain.insert(fake, at: place) }
            let pinned = stuffed.pinning(pin(pki.intermediate))
            let report = try pinned.evaluation()
            #expect(report.verdict == .fail, "\(report)")
            // With the pin of the actual issuer the same chain passes: only the pin was the cause.
            #expect(try stuffed.pinning(pin(rogue.intermediate)).evaluation().verdict == .pass)
        }
    }

    /// A chain over a CA of the given shape.
    private func below(_ builder: CertificateBuilder, issuer: Identity? = nil) throws -> Scenario {
        let ca = try builder.identity(issuer: issuer ?? pki.root)
        let leaf = try CertificateBuilder.server(hosts: [Scenario.host], validity: TestPKI.validity).identity(
            issuer: ca
        )
        return base.with { $0.chain = [leaf.certificate, ca.certificate, pki.intermediate.certificate] }
            .pinning(leaf.key.pin)
    }

    @Test("17 a signer without the CA bit is refused")
    func noCABit() throws {
        var builder = CertificateBuilder.authority("no CA", validity: TestPKI.validity)
        builder.isCA = false
        let refused = try below(builder)
        builder.isCA = true
        try expect(refused, .certificateUntrusted, mended: below(builder))
    }

    @Test("18 an exceeded path length is refused")
    func pathLength() throws {
        func scenario(_ length: Int) throws -> Scenario {
            var builder = CertificateBuilder.authority("short", validity: TestPKI.validity)
            builder.pathLength = length
            let upper = try builder.identity(issuer: pki.root)
            return try below(.authority("lower", validity: TestPKI.validity), issuer: upper)
                .with { $0.chain.append(upper.certificate) }
        }
        try expect(scenario(0), .certificateUntrusted, mended: scenario(1))
    }

    @Test("19 a cross-signed intermediate matches a root pin when its path ends there")
    func crossSigned() throws {
        let other = try TestPKI("other")
        let crossed = try CertificateBuilder.authority("pinproxy test intermediate", validity: TestPKI.validity)
            .certificate(for: pki.intermediate.key, issuer: other.root)
        let both = base.with { $0.chain.append(crossed) }
        let overOther = base.with {
            $0.chain[1] = crossed
            $0.anchors = other.anchors
        }
        try expect(overOther.pinning(pin(pki.root)), .pinMismatch, mended: overOther.pinning(pin(other.root)))
        // With both, each root's pin holds where the root is an anchor, in either order.
        try expect(both.pinning(pin(other.root)), .pinMismatch, mended: both.pinning(pin(pki.root)))
        for order in [both, both.with { $0.chain.swapAt(1, 2) }] {
            let trusting = order.with {
                $0.anchors = TrustAnchors(certificates: [pki.root.certificate, other.root.certificate])
            }
            #expect(try trusting.pinning(pin(other.root)).evaluation().verdict == .pass)
            #expect(try trusting.pinning(pin(pki.root)).evaluation().verdict == .pass)
        }
    }

    @Test("20 a configured intermediate is an anchor")
    func intermediateAnchor() throws {
        let other = try TestPKI("other")
        func anchored(_ identity: Identity) -> Scenario {
            base.pinning(pin(pki.intermediate)).with { $0.anchors = TrustAnchors(certificates: [identity.certificate]) }
        }
        try expect(anchored(other.intermediate), .certificateUntrusted, mended: anchored(pki.intermediate))
        #expect(try anchored(pki.intermediate).evaluation().chain.count == 2)
    }

    @Test("21 a chain of more than ten certificates is refused")
    func overLong() throws {
        func scenario(_ between: Int) throws -> Scenario {
            var issuer = pki.root
            var chain: [Certificate] = []
            for number in 0..<between {
                issuer = try CertificateBuilder.authority("level \(number)", validity: TestPKI.validity)
                    .identity(issuer: issuer)
                chain.insert(issuer.certificate, at: 0)
            }
            let leaf = try CertificateBuilder.server(hosts: [Scenario.host], validity: TestPKI.validity)
                .identity(issuer: issuer)
            return base.with { $0.chain = [leaf.certificate] + chain }.pinning(leaf.key.pin)
        }
        try expect(scenario(11), .certificateUntrusted, mended: scenario(10))
    }

    @Test("22 a violated name constraint is refused")
    func nameConstraint() throws {
        var builder = CertificateBuilder.authority("constrained", validity: TestPKI.validity)
        builder.permittedNames = ["example.org"]
        let refused = try below(builder)
        builder.permittedNames = ["example.com"]
        try expect(refused, .certificateUntrusted, mended: below(builder))
        builder.permittedNames = []
        builder.excludedNames = ["api.example.com"]
        #expect(try below(builder).evaluation().failure == .certificateUntrusted)
    }

    @Test("23 a certificate for clients alone is refused")
    func clientOnly() throws {
        func scenario(_ usage: [String]) throws -> Scenario {
            var builder = CertificateBuilder.server(hosts: [Scenario.host], validity: TestPKI.validity)
            builder.extendedKeyUsage = usage
            let server = try pki.server(builder)
            return Scenario(server, pki).pinning(server.pin)
        }
        try expect(scenario(["clientAuth"]), .certificateUntrusted, mended: scenario(["clientAuth", "serverAuth"]))
    }
}
