// SPDX-License-Identifier: Apache-2.0
/// A fact about the pins of a policy that will cause trouble although nothing is wrong today.
package struct PinAdvice: Hashable, Sendable {
    /// A stable code, for programs.
    package let code: String
    package let text: String
    /// The remedy, without a full stop.
    package let remedy: String

    private init(_ code: String, _ text: String, _ remedy: String) {
        self.code = code
        self.text = text
        self.remedy = remedy
    }

    /// Everything that can be known.
    ///
    /// Without a chain an intermediate is recognised by the table or by its certificate among `pinnedCertificates`; a key
    /// that is pinned alone does not say what it is the key of.
    ///
    /// - Parameters:
    ///   - chain: a validated chain of a server, its own certificate first; empty for none.
    ///   - anchors: used unless the policy has anchors of its own.
    ///   - now: seconds since 1970.
    package static func all(
        _ policy: SecurityPolicy,
        chain: [Certificate] = [],
        anchors: TrustAnchors,
        at now: Int64
    ) -> [PinAdvice] {
        guard policy.hasPins else { return [] }
        let configuration = policy.configuration
        let pins =
            configuration.pinningMode == .publicKey
            ? policy.pins : configuration.pinnedCertificates.map { Pin($0.publicKeyPin) }
        let scene = Scene(
            policy: policy,
            pins: pins.filter { $0.scope != .leaf },
            chain: chain,
            anchors: configuration.trustAnchors ?? anchors
        )
        var advice: [PinAdvice] = []
        if configuration.pinningMode == .publicKey, Set(policy.expectedPins).count == 1 {
            advice.append(
                PinAdvice(
                    "pins_one_key",
                    "all pins are of one key: when it is lost or replaced, every request fails",
                    "add a backup pin, or the root set of its CA (authorities)"
                )
            )
        }
        if let intermediate = scene.onlyIntermediate { advice.append(intermediate) }
        advice += scene.leavingRoots + scene.endingRoots(at: now)
        if let staple = scene.missingStaples { advice.append(staple) }
        return advice
    }

    /// The chain, pins and stores that the advice is about.
    private struct Scene {
        let policy: SecurityPolicy
        /// Those that count for CAs.
        let pins: [Pin]
        let chain: [Certificate]
        let anchors: TrustAnchors
        /// The pinned roots that the table has.
        let roots: [(authority: PublicAuthority, root: PublicAuthority.Root)]

        init(policy: SecurityPolicy, pins: [Pin], chain: [Certificate], anchors: TrustAnchors) {
            self.policy = policy
            self.pins = pins
            self.chain = chain
            self.anchors = anchors
            var seen: Set<PublicKeyPin> = []
            roots = pins.compactMap { seen.insert($0.key).inserted ? PublicAuthority.root($0.key) : nil }
        }

        /// An intermediate of a public CA is pinned, and no root.
        var onlyIntermediate: PinAdvice? {
            guard roots.isEmpty, !pins.contains(where: { anchors.holds($0.key) }) else { return nil }
            guard let (name, authority) = pins.lazy.compactMap({ intermediate($0.key) }).first else { return nil }
            return PinAdvice(
                "pin_intermediate",
                "the only pinned CA is \"\(name)\", an intermediate of \(authority.title): CAs change intermediates "
                    + "without notice",
                "pin the CA's root set instead: \"authorities\": [\"\(authority.rawValue)\"]"
            )
        }

        /// The name of a certificate with that key, if it is known as an intermediate of a CA of the table.
        private func intermediate(_ key: PublicKeyPin) -> (String, PublicAuthority)? {
            if let index = chain.dropFirst().firstIndex(where: { $0.publicKeyPin == key }),
                let above = chain[index...].dropFirst().lazy.compactMap({ PublicAuthority.root($0.publicKeyPin) }).first
            {
                return (chain[index].subject, above.authority)
            }
            if let known = PublicAuthority.intermediate(key) { return (known.root.name, known.authority) }
            guard
                let certificate = policy.pinnedCertificates.first(where: {
                    $0.publicKeyPin == key && $0.isCA && !$0.isSelfIssued
                })
            else { return nil }
            let issuer = certificate.issuer
            return PublicAuthority.allCases.first { $0.roots.contains { issuer.hasSuffix("= \($0.name)") } }
                .map { (certificate.subject, $0) }
        }

        /// Pinned roots that are no anchors any more, or will not be for long. As long as a whole set is pinned and one of
        /// its roots is an anchor, the others do not matter.
        var leavingRoots: [PinAdvice] {
            guard !policy.allowInvalidCertificates else { return [] }
            let whole = PublicAuthority.sets(in: pins).filter { $0.pins.contains { anchors.holds($0.key) } }
            return roots.compactMap { authority, root in
                guard !whole.contains(authority), root.state != .new, let pin = root.pin else { return nil }
                let isAnchor = anchors.holds(pin)
                guard root.state == .retired || !isAnchor else { return nil }
                return PinAdvice(
                    "root_leaves_store",
                    isAnchor
                        ? "the pinned root \(root.name) is on its way out of the trust stores"
                        : "the pinned root \(root.name) is no trust anchor here: no chain can end in it",
                    "pin the whole root set of \(authority.title): \"authorities\": [\"\(authority.rawValue)\"]"
                )
            }
        }

        /// Pinned roots that end, unless another root of the set is pinned and lasts.
        func endingRoots(at now: Int64) -> [PinAdvice] {
            roots.compactMap { authority, root in
                guard root.endsSoon(at: now), let last = root.lastDay,
                    !roots.contains(where: { $0.authority == authority && !$0.root.endsSoon(at: now) })
                else { return nil }
                return PinAdvice(
                    "root_ends_soon",
                    "the pinned root \(root.name) ends on \(last)",
                    "pin the whole root set of \(authority.title): \"authorities\": [\"\(authority.rawValue)\"]"
                )
            }
        }

        /// A staple is required, and the server's CA gives none.
        var missingStaples: PinAdvice? {
            guard policy.configuration.requiresStaple, let leaf = chain.first, !leaf.namesOCSPResponder,
                let authority = PublicAuthority(ofChain: chain.map(\.publicKeyPin))
            else { return nil }
            return PinAdvice(
                "staple_impossible",
                "the server's certificate, of \(authority.title), names no OCSP responder: requireStaple cannot pass",
                "do without requireStaple, and name the CA's lists under crlFiles"
            )
        }
    }
}
