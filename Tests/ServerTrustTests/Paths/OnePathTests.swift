// SPDX-License-Identifier: Apache-2.0
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

    @Test("a pinned certificate counts on a whole path, else as its own anchor")
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

    @Test("a pinned certificate that its issuer has revoked does not count")
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

    @Test("a forbidden key above a pin refuses, also with invalid certificates allowed")
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

    @Test("the advice of a mismatch names certificates that have signed the leaf")
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

    /// Evaluations with more than one search.
    enum Searches: CaseIterable {
        /// A pinned certificate that no path to the trust anchors holds: there is a second search, up to it.
        case certificate
        /// A candidate for the pinned key that has signed nothing, and the path to the trust anchors that holds the other key.
        case keyAlone
        /// The same server once with the lists that are held, and once without any.
        case lists

        /// Signatures. Each look at all issuers of the leaf verifies one for each of the sixteen keys of their name.
        var cost: Int {
            switch self {
            // The path, a look for forbidden keys, one for the pinned certificate; its path, and a look for forbidden keys.
            case .certificate: 2 + 16 + 16 + 1 + 16
            case .keyAlone: 1 + 16 + 2 + 16
            case .lists: 2 + 16 + 2 + 16
            }
        }
    }

    @Test("all searches for one server share one budget of signatures", arguments: Searches.allCases)
    func wholeBudget(searches: Searches) throws {
        var web = CertificateWeb()
        let root = try web.authority("root")
        let out = try web.authority("bush", by: "root") { $0.writesKeyIdentifiers = false }
        let apart = try web.authority("bush", by: "gone") { $0.writesKeyIdentifiers = false }
        let rogue = try web.authority("bush", key: "rogue") { $0.writesKeyIdentifiers = false }
        let leaf = try web.server(by: "bush") { $0.writesKeyIdentifiers = false }
        // CAs of one name and many keys: only signatures tell which one has signed.
        let others = try (0..<(searches == .keyAlone ? 14 : 15)).map { number in
            try web.authority("bush", by: "bush", key: "bush \(number)", issuerKey: "bush \(number + 1)") {
                $0.writesKeyIdentifiers = false
            }
        }
        var configuration = SecurityPolicy.Configuration()
        configuration.forbiddenPins = [Pin(.unrelated(9))]
        switch searches {
        case .certificate:
            configuration.pinningMode = .certificate
            configuration.pinnedCertificates = [apart]
        case .keyAlone:
            configuration.pinningMode = .publicKey
            configuration.allowInvalidCertificates = true
            configuration.pins = [Pin(rogue.publicKeyPin), Pin(root.publicKeyPin)]
        case .lists: configuration.fetchesRevocationLists = true
        }
        let policy = try SecurityPolicy(configuration)
        let sent = CertificateStack([out] + (searches == .keyAlone ? [rogue] : []) + others)
        func evaluate(_ budget: PathBuilder.Budget) throws -> EvaluationResult {
            try withExtendedLifetime((leaf, sent)) {
                policy.evaluationResult(
                    PresentedChain(leaf: leaf.pointer, untrusted: sent.pointer),
                    host: try Host(CertificateWeb.host),
                    anchors: TrustAnchors(certificates: [root]),
                    at: CertificateWeb.now,
                    budget: budget
                )
            }
        }
        let enough = PathBuilder.Budget(signatures: searches.cost)
        let result = try evaluate(enough)
        // Without the list that it lacks the server is not accepted, but not for its paths.
        let failure: TrustFailure? = searches == .lists ? .certificateRevoked : nil
        #expect(result.failure == failure && !enough.isExceeded, "\(result.reason)")
        #expect(enough.signatures == 0)
        let refused = try evaluate(PathBuilder.Budget(signatures: searches.cost - 1))
        #expect(refused.failure == .certificateUntrusted && refused.verdict == .fail)
        #expect(refused.reason.contains("more paths than are tried"), "\(refused.reason)")
    }

    @Test("a signature of a slow curve costs more of the budget")
    func cost() throws {
        for (kind, cost) in [(KeyPair.Kind.p256, 1), (.rsa(bits: 2048), 1), (.p384, 4), (.p521, 8)] {
            let builder = CertificateBuilder.authority("CA", validity: TestPKI.validity)
            #expect(try builder.certificate(for: KeyPair.shared(kind)).signatureCost == cost)
        }
        var web = CertificateWeb()
        let path = [try web.server(by: "a"), try web.authority("a", by: "root"), try web.authority("root")]
        let budget = PathBuilder.Budget(signatures: 3)
        #expect(budget.spendValidation(of: path) && budget.signatures == 1)
        #expect(!budget.spendValidation(of: path) && budget.isExceeded)
    }
}
