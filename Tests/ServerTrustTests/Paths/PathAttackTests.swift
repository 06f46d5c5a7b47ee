// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import TestSupport
import Testing

@Suite("Attacks on the search for paths")
struct PathAttackTests {
    @Test("a pinned CA outside every valid path holds nothing")
    func stuffing() throws {
        var web = CertificateWeb()
        let root = try web.authority("root")
        let pinned = try web.authority("pinned", by: "root")
        let rogue = try web.authority("rogue", by: "root")
        let server = try web.server(by: "rogue")
        for order in [rogue, pinned].orders {
            let stuffed = try CertificateWeb.evaluate([server] + order, anchors: [root], pins: [web.pin("pinned")])
            #expect(stuffed.failure == .pinMismatch, "\(stuffed)")
        }
        // The pinned CA is real, and the one above it is constrained to other names: each path is judged as a whole.
        let constrained = try web.authority("upper", by: "root") { $0.permittedNames = ["other.example"] }
        let free = try web.authority("upper", by: "root")
        let below = try web.authority("pinned", by: "upper")
        let leaf = try web.server(by: "pinned")
        func evaluate(_ chain: [Certificate]) throws -> TrustEvaluation {
            try CertificateWeb.evaluate([leaf] + chain, anchors: [root], pins: [web.pin("pinned")])
        }
        #expect(try evaluate([below, constrained]).failure == .certificateUntrusted)
        for order in [below, constrained, free].orders { #expect(try evaluate(order).verdict == .pass) }
        // Another valid path without the pin does not lend its validity.
        let other = try web.authority("pinned", by: "root", key: "other key")
        #expect(try evaluate([below, constrained, other]).failure == .certificateUntrusted)
    }

    @Test("a path that only an expired CA completes is invalid, pinned or not")
    func expiredCompletion() throws {
        var web = CertificateWeb()
        let (root, other) = (try web.authority("root"), try web.authority("other"))
        let issuing = try web.authority("issuing", by: "other")
        let expired = try web.authority("issuing", by: "root") { $0.notAfter = CertificateWeb.now - 1 }
        let server = try web.server(by: "issuing")
        for order in [issuing, expired].orders {
            let evaluation = try CertificateWeb.evaluate(
                [server] + order,
                anchors: [root, other],
                pins: [web.pin("root")]
            )
            #expect(evaluation.failure == .pinMismatch, "\(evaluation)")
            #expect(
                try CertificateWeb.evaluate([server] + order, anchors: [root, other], pins: [web.pin("other")])
                    .isAccepted
            )
        }
    }

    @Test("a forbidden key refuses the server on a valid path alone")
    func forbidden() throws {
        var web = CertificateWeb()
        let (root, other) = (try web.authority("root"), try web.authority("other"))
        let crossed = [try web.authority("issuing", by: "root"), try web.authority("issuing", by: "other")]
        let server = try web.server(by: "issuing")
        for order in crossed.orders {
            for anchors in [root, other].orders {
                for pins in [[], [web.pin("root")], [web.pin("other")]] {
                    for forbidden in ["root", "other"] where !pins.contains(web.pin(forbidden)) {
                        let evaluation = try CertificateWeb.evaluate(
                            [server] + order,
                            anchors: anchors,
                            pins: pins,
                            forbidden: [web.pin(forbidden)]
                        )
                        #expect(evaluation.failure == .pinForbidden && !evaluation.isAccepted, "\(evaluation)")
                    }
                }
            }
            let passing = try CertificateWeb.evaluate([server] + order, anchors: [root], forbidden: [web.pin("other")])
            #expect(passing.verdict == .notPinned)
        }
    }

    /// CAs of one name and many keys without key identifiers, each signed by the next: only signatures tell them apart.
    private func bush(_ count: Int, _ web: inout CertificateWeb, from first: Int) throws -> [Certificate] {
        try (first..<first + count).map { number in
            try web.authority("bush", by: "bush", key: "bush \(number)", issuerKey: "bush \(number + 1)") {
                $0.writesKeyIdentifiers = false
            }
        }
    }

    @Test("many certificates of one name cost at most the budget, then a refusal")
    func bush() throws {
        var web = CertificateWeb()
        let root = try web.authority("root")
        let sent = try bush(15, &web, from: 0)
        let known = try bush(85, &web, from: 40)
        let server = try web.server(by: "bush", issuerKey: "bush 5") { $0.writesKeyIdentifiers = false }
        let anchors = [root] + known.prefix(40)
        let refused = try CertificateWeb.evaluate(
            [server] + sent,
            anchors: anchors,
            intermediates: Array(known.suffix(45))
        )
        #expect(refused.failure == .certificateUntrusted)
        #expect(refused.reason.contains("more paths than are tried"), "\(refused)")
        // Of its fifteen certificates alone the server has a path, and it is found.
        let out = try web.authority("bush", by: "root", key: "bush 5") { $0.writesKeyIdentifiers = false }
        #expect(try CertificateWeb.evaluate([server, out] + sent.prefix(13), anchors: [root]).verdict == .notPinned)
    }

    @Test("an exhausted budget with forbidden keys is a refusal")
    func budgetAndForbidden() throws {
        var web = CertificateWeb()
        let root = try web.authority("root")
        let sent = try bush(14, &web, from: 0)
        let known = try bush(80, &web, from: 40)
        let out = try web.authority("bush", by: "root", key: "bush 5") { $0.writesKeyIdentifiers = false }
        let server = try web.server(by: "bush", issuerKey: "bush 5") { $0.writesKeyIdentifiers = false }
        func evaluate(_ forbidden: [PublicKeyPin]) throws -> TrustEvaluation {
            try CertificateWeb.evaluate(
                [server, out] + sent,
                anchors: [root, out],
                intermediates: known,
                forbidden: forbidden
            )
        }
        #expect(try evaluate([]).verdict == .notPinned)
        #expect(try evaluate([.unrelated(9)]).failure == .certificateUntrusted)
    }

    @Test("a chain of 300 certificates is evaluated within bounds")
    func longChain() throws {
        var web = CertificateWeb()
        let root = try web.authority("CA 300")
        let chain = try (0..<300).map { try web.authority("CA \($0)", by: "CA \($0 + 1)") }
        let server = try web.server(by: "CA 0")
        let evaluation = try CertificateWeb.evaluate([server] + chain, anchors: [root])
        #expect(evaluation.failure == .certificateUntrusted && evaluation.presentedChain.count <= 64)
    }
}
