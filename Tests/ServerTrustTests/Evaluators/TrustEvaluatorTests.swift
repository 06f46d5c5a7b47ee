// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("Evaluators under Alamofire's names")
struct TrustEvaluatorTests {
    private let pki: TestPKI
    private let server: TestServer
    private let host: Host

    init() throws {
        pki = try TestPKI()
        server = try pki.server(Scenario.host)
        host = try Host(Scenario.host)
    }

    private func trust(_ chain: [Certificate]) -> PresentedTrust {
        PresentedTrust(chain: chain, anchors: pki.anchors, time: Scenario.now)
    }

    private func selfSigned(_ name: String = Scenario.host, expired: Bool = false) throws -> Certificate {
        var builder = CertificateBuilder.server(hosts: [name], validity: TestPKI.validity)
        if expired { builder.notAfter = Scenario.now - 1 }
        return try builder.identity().certificate
    }

    private func verdicts(
        _ evaluator: some ServerTrustEvaluating,
        _ chain: [Certificate]
    ) throws -> [TrustEvaluation.Verdict] {
        try evaluator.evaluate(trust(chain), forHost: host).map(\.verdict)
    }

    /// The code of an evaluator's refusal; nil when it accepts.
    private func failure(_ evaluator: some ServerTrustEvaluating, _ chain: [Certificate]) -> TrustFailure? {
        do throws(ServerTrustError) {
            try evaluator.evaluate(trust(chain), forHost: host)
            return nil
        } catch {
            guard case .refused(let report) = error else { return nil }
            #expect("\(error)".hasPrefix("fail: "))
            return report.failure
        }
    }

    @Test("the default evaluator checks chain and host; without the host nobody is identified")
    func defaultEvaluator() throws {
        let other = try pki.server("other.example").chain
        #expect(try verdicts(DefaultTrustEvaluator(), server.chain) == [.notPinned])
        #expect(failure(DefaultTrustEvaluator(), other) == .certificateHostMismatch)
        #expect(failure(DefaultTrustEvaluator(), [try selfSigned()]) == .certificateUntrusted)
        #expect(try verdicts(DefaultTrustEvaluator(validateHost: false), other) == [.unverified])
        #expect(failure(DefaultTrustEvaluator(validateHost: false), [try selfSigned()]) == .certificateUntrusted)
    }

    @Test("pinned certificates are searched in the validated chain, beside chain and host")
    func pinnedCertificates() throws {
        let evaluator = try PinnedCertificatesTrustEvaluator(certificates: [server.certificate])
        let otherKey = try pki.server(Scenario.host).chain
        #expect(try verdicts(evaluator, server.chain) == [.pass])
        #expect(failure(evaluator, otherKey) == .pinMismatch)
        // The certificate is sent, but is not on the path.
        #expect(failure(evaluator, otherKey + [server.certificate]) == .pinMismatch)
        let alone = try selfSigned()
        #expect(failure(try PinnedCertificatesTrustEvaluator(certificates: [alone]), [alone]) == .certificateUntrusted)
    }

    @Test("a self-signed server passes if its certificate is pinned, current and for the host")
    func selfSignedCertificates() throws {
        func evaluator(_ certificate: Certificate, validateHost: Bool = true) throws
            -> PinnedCertificatesTrustEvaluator
        {
            try .init(
                certificates: [certificate],
                acceptSelfSignedCertificates: true,
                validateHost: validateHost
            )
        }
        let alone = try selfSigned()
        #expect(try verdicts(evaluator(alone), [alone]) == [.pass])
        #expect(failure(try evaluator(alone), [try selfSigned()]) == .pinMismatch)
        let expired = try selfSigned(expired: true)
        #expect(failure(try evaluator(expired), [expired]) == .certificateExpired)
        let otherName = try selfSigned("other.example")
        #expect(failure(try evaluator(otherName), [otherName]) == .certificateHostMismatch)
        #expect(try verdicts(evaluator(otherName, validateHost: false), [otherName]) == [.pass])
    }

    @Test("without the default validation a chain must still lead to a pinned certificate")
    func certificatesAlone() throws {
        let unknown = try TestPKI("unknown")
        let evaluator = try PinnedCertificatesTrustEvaluator(
            certificates: [unknown.intermediate.certificate],
            performDefaultValidation: false
        )
        #expect(try verdicts(evaluator, unknown.server(Scenario.host).chain) == [.pass])
        // Alamofire would find the pinned certificate among those sent.
        let stuffed = [try selfSigned(), unknown.intermediate.certificate]
        #expect(failure(evaluator, stuffed) == .pinMismatch)
    }

    @Test("pinned keys are searched in the validated chain, beside chain and host")
    func publicKeys() throws {
        let evaluator = try PublicKeysTrustEvaluator(keys: [pki.intermediate.key.pin, .unrelated()])
        #expect(try verdicts(evaluator, server.chain) == [.pass])
        let unknown = try TestPKI("unknown").server(Scenario.host)
        #expect(failure(evaluator, unknown.chain) == .certificateUntrusted)
        let wrong = try PublicKeysTrustEvaluator(keys: [.unrelated(1), .unrelated(2)])
        #expect(failure(wrong, server.chain) == .pinMismatch)
        let other = try pki.server("other.example").chain
        #expect(failure(evaluator, other) == .certificateHostMismatch)
        // Without the host check a pinned CA would accept every name of that CA.
        let nameless = try PublicKeysTrustEvaluator(
            keys: [pki.intermediate.key.pin, .unrelated()],
            validateHost: false
        )
        #expect(failure(nameless, other) == .pinMismatch)
    }

    @Test("without the default validation the pinned key and the host still count")
    func keysAlone() throws {
        let alone = try selfSigned()
        let expired = try selfSigned(expired: true)
        let otherName = try selfSigned("other.example")
        let evaluator = try PublicKeysTrustEvaluator(
            keys: [alone, expired, otherName].map(\.publicKeyPin),
            performDefaultValidation: false
        )
        #expect(try verdicts(evaluator, [alone]) == [.pass])
        #expect(try verdicts(evaluator, [expired]) == [.pass])
        #expect(failure(evaluator, [otherName]) == .certificateHostMismatch)
        #expect(failure(evaluator, [try selfSigned(), alone]) == .pinMismatch)
    }

    @Test("contradictions in the parameters are thrown when the evaluator is made")
    func contradictions() throws {
        func faults(_ make: () throws(SecurityPolicy.Faults) -> any ServerTrustEvaluating) -> [String] {
            do throws(SecurityPolicy.Faults) {
                _ = try make()
                return []
            } catch {
                return error.faults.map(\.key)
            }
        }
        let lists = try revocation(revoked: [])
        #expect(
            faults { () throws(SecurityPolicy.Faults) in try PinnedCertificatesTrustEvaluator(certificates: []) }
                == ["pinnedCertificates"]
        )
        #expect(faults { () throws(SecurityPolicy.Faults) in try PublicKeysTrustEvaluator(keys: []) } == ["pins"])
        #expect(
            faults { () throws(SecurityPolicy.Faults) in try PublicKeysTrustEvaluator(keys: [server.pin]) } == ["pins"]
        )
        #expect(
            faults { () throws(SecurityPolicy.Faults) in
                try PublicKeysTrustEvaluator(keys: [server.pin], allowSinglePin: true)
            }.isEmpty
        )
        for validateHost in [true, false] {
            let keys = faults { () throws(SecurityPolicy.Faults) in
                try RevocationTrustEvaluator(
                    revocationLists: lists,
                    performDefaultValidation: false,
                    validateHost: validateHost
                )
            }
            #expect(keys.contains("revocation"))
        }
    }

    private func revocation(revoked: [Certificate], until end: Int64? = nil) throws -> RevocationLists {
        let validity = TestPKI.validity.lowerBound..<(end ?? TestPKI.validity.upperBound)
        let list = RevocationListBuilder(validity: validity, revoked: revoked)
        return try RevocationLists(contents: [Array(list.pem(issuer: pki.intermediate).utf8)])
    }

    @Test("a revoked certificate is refused, also one that no current list covers")
    func revoked() throws {
        func evaluator(_ lists: RevocationLists, _ scope: RevocationLists.Scope = .leaf) throws
            -> RevocationTrustEvaluator
        { try .init(revocationLists: lists, scope: scope) }
        let good = try revocation(revoked: [])
        #expect(try verdicts(evaluator(good), server.chain) == [.notPinned])
        let bad = try revocation(revoked: [server.certificate])
        #expect(failure(try evaluator(bad), server.chain) == .certificateRevoked)
        let stale = try revocation(revoked: [], until: Scenario.now - 1)
        #expect(failure(try evaluator(stale), server.chain) == .certificateRevoked)
        // There is no list of the root for the intermediate.
        #expect(failure(try evaluator(good, .chain), server.chain) == .certificateRevoked)
    }

    @Test("without revocation the revocation evaluator refuses what the default one refuses")
    func revocationBesideTheRest() throws {
        let lists = try revocation(revoked: [])
        let evaluator = try RevocationTrustEvaluator(revocationLists: lists)
        let nameless = try RevocationTrustEvaluator(revocationLists: lists, validateHost: false)
        let other = try pki.server("other.example").chain
        #expect(failure(evaluator, other) == .certificateHostMismatch)
        #expect(try verdicts(nameless, other) == [.unverified])
        var builder = CertificateBuilder.server(hosts: [Scenario.host], validity: TestPKI.validity)
        builder.notAfter = Scenario.now - 1
        let expired = try pki.server(builder).chain
        let unknown = try TestPKI("unknown").server(Scenario.host).chain
        for evaluator in [evaluator, nameless] {
            #expect(failure(evaluator, expired) == .certificateExpired)
            #expect(failure(evaluator, [try selfSigned()]) == .certificateUntrusted)
            #expect(failure(evaluator, unknown) == .certificateUntrusted)
            // The intermediate was not sent, so that the issuer of the list is unknown.
            #expect(failure(evaluator, [server.certificate]) == .certificateUntrusted)
        }
        // A revoked certificate is refused without a check of the name too, with either scope.
        let revoked = try revocation(revoked: [server.certificate])
        for scope in RevocationLists.Scope.allCases {
            let evaluator = try RevocationTrustEvaluator(revocationLists: revoked, scope: scope, validateHost: false)
            #expect(failure(evaluator, server.chain) == .certificateRevoked)
        }
    }

    @Test("a certificate with several names is valid for each of them alone")
    func severalNames() throws {
        let server = try pki.server("a.example", "b.example", "*.c.example")
        let evaluators: [any ServerTrustEvaluating] = [
            DefaultTrustEvaluator(), try PinnedCertificatesTrustEvaluator(certificates: [server.certificate]),
            try PublicKeysTrustEvaluator(keys: [server.pin, .unrelated()]),
            try RevocationTrustEvaluator(revocationLists: revocation(revoked: [])),
        ]
        func refusal(_ evaluator: any ServerTrustEvaluating, _ name: String) throws -> TrustFailure? {
            let host = try Host(name)
            do throws(ServerTrustError) {
                try evaluator.evaluate(trust(server.chain), forHost: host)
                return nil
            } catch {
                guard case .refused(let report) = error else { return .pinForbidden }
                return report.failure
            }
        }
        for evaluator in evaluators {
            for host in ["a.example", "b.example", "x.c.example"] {
                #expect(try refusal(evaluator, host) == nil, "\(host)")
            }
            for host in ["c.example", "x.a.example", "x.y.c.example", "d.example"] {
                #expect(try refusal(evaluator, host) == .certificateHostMismatch, "\(host)")
            }
        }
    }

    @Test("one of several pinned certificates in the validated chain is enough")
    func severalPinnedCertificates() throws {
        let spare = try pki.server(Scenario.host)
        let unknown = try TestPKI("unknown")
        func evaluator(_ certificates: Certificate..., validation: Bool = true) throws
            -> PinnedCertificatesTrustEvaluator
        { try .init(certificates: certificates, performDefaultValidation: validation) }
        let ofBoth = try evaluator(spare.certificate, server.certificate)
        #expect(try verdicts(ofBoth, server.chain) == [.pass])
        #expect(try verdicts(ofBoth, spare.chain) == [.pass])
        #expect(failure(ofBoth, try pki.server(Scenario.host).chain) == .pinMismatch)
        // A leaf together with a CA of another tree.
        let mixed = try evaluator(unknown.intermediate.certificate, server.certificate)
        #expect(try verdicts(mixed, server.chain) == [.pass])
        #expect(failure(mixed, try unknown.server(Scenario.host).chain) == .certificateUntrusted)
        let alone = try evaluator(unknown.intermediate.certificate, server.certificate, validation: false)
        #expect(try verdicts(alone, unknown.server(Scenario.host).chain) == [.pass])
        #expect(try verdicts(alone, server.chain) == [.pass])
        #expect(failure(alone, spare.chain + [server.certificate]) == .pinMismatch)
    }

    @Test("81 a required staple is required, and lists beside it count too")
    func staple() throws {
        func verdict(_ evaluator: RevocationTrustEvaluator, staple: [UInt8]?) throws -> TrustEvaluation {
            var trust = trust(server.chain)
            trust.staple = staple
            return try evaluator.evaluate(trust, forHost: host)[0]
        }
        func refusal(_ evaluator: RevocationTrustEvaluator, staple: [UInt8]?) -> TrustFailure? {
            let error = #expect(throws: ServerTrustError.self) { try verdict(evaluator, staple: staple) }
            guard case .refused(let report) = error else { return nil }
            return report.failure
        }
        let validity = (Scenario.now - 60)..<(Scenario.now + 60)
        let good = OCSPResponseBuilder(server.certificate, issuer: pki.intermediate, validity: validity)
        let revoked = good.with { $0.singleResponses[0].status = .revoked }
        let alone = try RevocationTrustEvaluator(requireStaple: true)
        #expect(try verdict(alone, staple: good.der()).verdict == .notPinned)
        #expect(try verdict(alone, staple: good.der()).goodUntil == Scenario.now + 60 + 300)
        #expect(try verdict(alone, staple: good.der()).lapse(at: Scenario.now + 359) == nil)
        #expect(try verdict(alone, staple: good.der()).lapse(at: Scenario.now + 360) == .stapleMissing)
        #expect(refusal(alone, staple: nil) == .stapleMissing)
        #expect(refusal(alone, staple: try revoked.der()) == .certificateRevoked)
        let both = try RevocationTrustEvaluator(
            revocationLists: revocation(revoked: [server.certificate]),
            requireStaple: true
        )
        #expect(refusal(both, staple: try good.der()) == .certificateRevoked)
        // An evaluator of revocation needs a source.
        let nothing = #expect(throws: SecurityPolicy.Faults.self) { try RevocationTrustEvaluator() }
        #expect(nothing?.faults.map(\.key) == ["revocation"])
    }

    @Test("every part of a composite has to accept")
    func composite() throws {
        let keys = try PublicKeysTrustEvaluator(keys: [server.pin, .unrelated()])
        let wrong = try PublicKeysTrustEvaluator(keys: [.unrelated(1), .unrelated(2)])
        let lists = try RevocationTrustEvaluator(revocationLists: revocation(revoked: []))
        let both = CompositeTrustEvaluator(evaluators: [lists, keys])
        #expect(try verdicts(both, server.chain) == [.notPinned, .pass])
        for evaluators: [any ServerTrustEvaluating] in [[lists, wrong], [wrong, DisabledTrustEvaluator()]] {
            #expect(failure(CompositeTrustEvaluator(evaluators: evaluators), server.chain) == .pinMismatch)
        }
        let nested = CompositeTrustEvaluator(evaluators: [both, CompositeTrustEvaluator(evaluators: [wrong])])
        #expect(failure(nested, server.chain) == .pinMismatch)
    }

    @Test("an evaluator without policies refuses, as does an empty chain")
    func nothing() throws {
        let empty = CompositeTrustEvaluator(evaluators: [])
        let hidden = CompositeTrustEvaluator(evaluators: [DisabledTrustEvaluator(), empty])
        for evaluator in [empty, hidden] {
            let error = #expect(throws: ServerTrustError.self) {
                try evaluator.evaluate(trust(server.chain), forHost: host)
            }
            guard case .noPolicies(host) = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
        }
        let error = #expect(throws: ServerTrustError.self) {
            try DisabledTrustEvaluator().evaluate(trust([]), forHost: host)
        }
        guard case .noCertificates(host) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test("the disabled evaluator accepts any server, and identifies none")
    func disabled() throws {
        #expect(DisabledTrustEvaluator().policies.map(\.isUnverified) == [true])
        #expect(try verdicts(DisabledTrustEvaluator(), [selfSigned("other.example", expired: true)]) == [.unverified])
    }
}
