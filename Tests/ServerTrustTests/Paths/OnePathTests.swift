import HTTPCore
import TestSupport
import Testing

@testable import ServerTrust

@Suite("Pins, lists and advice on the paths of a server")
struct OnePathTests {
    private func evaluate(
        _ chain: [Certificate],
        anchors: [Certificate],
        _ change: (inout SecurityPolicy.Configuration) -> Void
    ) throws -> TrustEvaluation {
        var configuration = SecurityPolicy.Configuration()
        change(&configuration)
        return try SecurityPolicy(configuration).evaluate(
            chain: chain,
            host: Host(CertificateWeb.host),
            anchors: TrustAnchors(certificates: anchors),
            at: CertificateWeb.now
        )
    }

    @Test(
        "a pinned certificate counts on a whole path, and else as an anchor of its own, above which nothing is validated"
    )
    func twinOfPinnedCertificate() throws {
        var web = CertificateWeb()
        let (a, r) = (try web.authority("A"), try web.authority("R"))
        let n = try web.authority("N") { $0.excludedNames = ["example.com"] }
        let twin = try web.authority("issuing", by: "A")
        let leaf = try web.server(by: "issuing")
        let byR = try web.authority("issuing", by: "R")
        let byN = try web.authority("issuing", by: "N")
        for (pinned, anchors) in [(byR, [a]), (byN, [a, n])] {
            for order in [pinned, twin].orders {
                let accepted = try evaluate([leaf] + order, anchors: anchors) {
                    $0.pinningMode = .certificate
                    $0.pinnedCertificates = [pinned]
                }
                // The chain that is told is the one to the trust anchors.
                #expect(accepted.verdict == .pass && accepted.chain.last?.isSame(as: a) == true, "\(accepted)")
            }
        }
        // The twin's own path is needed in any case.
        let alone = try evaluate([leaf, byR], anchors: [a]) {
            $0.pinningMode = .certificate
            $0.pinnedCertificates = [byR]
        }
        #expect(alone.failure == .certificateUntrusted, "\(alone)")
        // With its root trusted it is on a path of its own, sent or not, and first or not.
        for sent in [[twin], [byR], [twin, byR], [byR, twin]] {
            for anchors in [[a, r], [r, a]] {
                let accepted = try evaluate([leaf] + sent, anchors: anchors) {
                    $0.pinningMode = .certificate
                    $0.pinnedCertificates = [byR]
                }
                #expect(accepted.verdict == .pass, "\(accepted)")
                #expect(accepted.chain.contains { $0.isSame(as: byR) } && accepted.chain.last?.isSame(as: r) == true)
            }
        }
    }

    @Test("a pinned certificate that its issuer's list revokes does not count, whatever its twin is")
    func revoked() throws {
        var web = CertificateWeb()
        let (a, r) = (try web.authority("A"), try web.authority("R"))
        let twin = try web.authority("issuing", by: "A")
        let pinned = try web.authority("issuing", by: "R")
        let leaf = try web.server(by: "issuing")
        for revoked in [[], [pinned]] {
            var lists: [[UInt8]] = []
            for (name, serials) in [("issuing", []), ("R", revoked), ("A", [])] {
                let builder = RevocationListBuilder(validity: TestPKI.validity, revoked: serials)
                lists.append(Array(try builder.pem(issuer: web.signer(name)).utf8))
            }
            let evaluation = try evaluate([leaf, pinned, twin], anchors: [a, r]) {
                $0.pinningMode = .certificate
                $0.pinnedCertificates = [pinned]
                $0.revocationLists = try? RevocationLists(contents: lists)
                $0.revocationScope = .chain
            }
            #expect((evaluation.verdict == .pass) == revoked.isEmpty, "\(evaluation)")
        }
    }

    @Test("a forbidden key above a pin refuses the server with invalid certificates allowed, too")
    func forbiddenAbovePin() throws {
        var web = CertificateWeb()
        let root = try web.authority("root")
        let issuing = try web.authority("issuing", by: "root")
        let leaf = try web.server(by: "issuing")
        for mode in [SSLPinningMode.publicKey, .certificate] {
            for pinned in [leaf, issuing] {
                for forbidden in [nil, web.pin("root"), web.pin("issuing")] where forbidden != pinned.publicKeyPin {
                    let evaluation = try evaluate([leaf, issuing, root], anchors: [root]) {
                        $0.pinningMode = mode
                        $0.pinnedCertificates = [pinned]
                        $0.allowSinglePin = true
                        $0.allowInvalidCertificates = true
                        $0.forbiddenPins = [forbidden].compactMap { $0 }.map { Pin($0) }
                    }
                    #expect(evaluation.failure == (forbidden == nil ? nil : .pinForbidden), "\(evaluation)")
                }
            }
        }
    }

    @Test("the advice of a mismatch is about certificates that have signed the leaf, not about others that are sent")
    func adviceOfStuffing() throws {
        var web = CertificateWeb()
        let (root, trusted) = (try web.authority("root"), try web.authority("trusted"))
        let pinned = try web.authority("issuing", by: "root")
        let impostor = try web.authority("issuing", by: "trusted", key: "impostor")
        let invented = try web.authority("X", by: "Trust Me")
        let leaf = try web.server(by: "issuing", issuerKey: "impostor")
        let plain = try CertificateWeb.evaluate([leaf, impostor], anchors: [trusted], pins: [web.pin("issuing")])
        for sent in [
            [impostor, pinned], [pinned, impostor], [impostor, invented], [impostor, root, pinned, invented],
        ] {
            let stuffed = try CertificateWeb.evaluate([leaf] + sent, anchors: [trusted], pins: [web.pin("issuing")])
            #expect(stuffed.failure == .pinMismatch)
            #expect(stuffed.reason == plain.reason && stuffed.remedy == plain.remedy, "\(stuffed)")
        }
    }

    @Test("a signature of a curve that is slow takes more of the budget")
    func cost() throws {
        for (kind, cost) in [(KeyPair.Kind.p256, 1), (.rsa(bits: 2048), 1), (.p384, 4), (.p521, 8)] {
            let builder = CertificateBuilder.authority("CA", validity: TestPKI.validity)
            #expect(try builder.certificate(for: KeyPair(kind)).signatureCost == cost)
        }
        var web = CertificateWeb()
        let path = [try web.server(by: "a"), try web.authority("a", by: "root"), try web.authority("root")]
        var budget = PathBuilder.Budget()
        budget.signatures = 3
        #expect(budget.spendValidation(of: path) && budget.signatures == 1)
        #expect(!budget.spendValidation(of: path) && budget.isExceeded)
    }
}
