// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// The hosts that a set of pin files protects less than another one, compared by host and port under the policies that
/// apply there.
///
/// Added and removed keys are not a loss: a rotation consists of them. A loss is a change that lets servers without a
/// pinned key pass, and a host that no pin file names any more, because TLS is not even required there.
package struct ProtectionLosses: Sendable {
    /// One requirement that was dropped.
    package struct Loss: Hashable, Sendable {
        package var host: Host
        /// A readable text that begins with the key of the pin file, if there is one.
        package var change: String
    }

    /// The losses in the order of the old files, then of the new ones, without duplicates.
    package let losses: [Loss]

    /// The hosts of `losses`, each once.
    package var hosts: [Host] {
        var seen: Set<Host> = []
        return losses.map(\.host).filter { seen.insert($0).inserted }
    }

    package init(from old: PinnedDomains, to new: PinnedDomains) {
        var losses: [Loss] = []
        var seen: Set<Host> = []
        for domain in old.domains + new.domains where seen.insert(domain.host).inserted {
            let own = Self.changes(at: domain.host, old, new)
            losses += own.map { Loss(host: domain.host, change: $0) }
            // One made-up name represents all names below a domain that have no entry of their own.
            guard domain.host.kind == .name, let below = try? Host("_any.\(domain.host)"), !seen.contains(below) else {
                continue
            }
            // Where both sides treat these names as a parent's, the parent's losses cover them.
            guard domain.includeSubdomains || new.includesSubdomains(of: domain.host) else { continue }
            let lost = Self.changes(at: below, old, new).filter { !own.contains($0) }
            losses += lost.map { Loss(host: domain.host, change: "\($0) (names below it)") }
        }
        self.losses = losses
    }

    private static func changes(at host: Host, _ old: PinnedDomains, _ new: PinnedDomains) -> [String] {
        let (before, after) = (old.ports(of: host), new.ports(of: host))
        let listed = Set((before ?? []) + (after ?? []))
        // One port represents all ports that no list contains.
        let other = (listed.contains(443) ? 1...UInt16.max : 443...443).first { !listed.contains($0) }
        var changes: [String] = []
        for port in listed.sorted() + (other.map { [$0] } ?? []) {
            guard let former = old.policy(host: host, port: port) else { return [] }
            guard let policy = new.policy(host: host, port: port) else { return ["no policy holds for it any more"] }
            let isLeftOut = (before?.contains(port) ?? true) && after.map { !$0.contains(port) } ?? false
            let found = Self.changes(former.configuration, policy.configuration)
            if isLeftOut, former.pinningMode != .none, policy.pinningMode == .none {
                changes.append("ports leaves \(port == other ? "others" : "\(port)") out")
            } else {
                changes += found.filter { !changes.contains($0) }
            }
        }
        return changes
    }

    private static func changes(
        _ old: SecurityPolicy.Configuration,
        _ new: SecurityPolicy.Configuration
    ) -> [String] {
        var changes: [String] = []
        func add(_ isLost: Bool, _ text: String) { if isLost { changes.append(text) } }
        let isPinned = (old.pinningMode != .none, new.pinningMode != .none)
        add(isPinned.0 && !isPinned.1, "pinningMode is none")
        add(isPinned.0 && isPinned.1 && old.enforcePinning && !new.enforcePinning, "enforcePinning is false")
        add(!old.allowInvalidCertificates && new.allowInvalidCertificates, "allowInvalidCertificates is true")
        add(old.validatesDomainName && !new.validatesDomainName, "validatesDomainName is false")
        add(
            isPinned.0 && isPinned.1 && endsSooner(old, new),
            "onExpiration is unpinned, from an earlier day than before"
        )
        for pin in old.forbiddenPins
        where !new.forbiddenPins.contains(where: { $0.key == pin.key && ($0.scope == pin.scope || $0.scope == .any) }) {
            changes.append("forbiddenPins lacks \(pin.key)")
        }
        for pin in new.pins {
            let known = old.pins.filter { $0.key == pin.key }
            add(
                !known.isEmpty && !known.contains { $0.scope == pin.scope || $0.scope == .any },
                "the scope of \(pin.key) is \(pin.scope.rawValue)"
            )
        }
        let (hadLists, hasLists) = (old.hasRevocationLists, new.hasRevocationLists)
        add(hadLists && !hasLists, "revocation has no \(old.fetchesRevocationLists ? "fetch" : "crlFiles")")
        add(
            hadLists && hasLists && old.revocationScope == .chain && new.revocationScope == .leaf,
            "crlScope is leaf"
        )
        add(old.requiresStaple && !new.requiresStaple, "requireStaple is false")
        add(old.minTLSVersion == .tls13 && new.minTLSVersion == .tls12, "minTLSVersion is 1.2")
        add(
            !old.requireGroups.isEmpty
                && (new.requireGroups.isEmpty || !Set(new.requireGroups).isSubset(of: old.requireGroups)),
            new.requireGroups.isEmpty
                ? "requireGroups is empty"
                : "requireGroups is \(new.requireGroups.map(\.rawValue).joined(separator: ", "))"
        )
        add(old.maxChainDepth < new.maxChainDepth, "maxChainDepth is \(new.maxChainDepth)")
        add(
            old.trustAnchors != nil && new.trustAnchors == nil && !new.allowInvalidCertificates,
            "trustAnchors are those of the configuration"
        )
        return changes
    }

    /// Whether the pins now expire (with `unpinned`) where they did not before, or expire earlier.
    private static func endsSooner(
        _ old: SecurityPolicy.Configuration,
        _ new: SecurityPolicy.Configuration
    ) -> Bool {
        guard new.onExpiration == .unpinned, let end = new.expiration else { return false }
        guard old.onExpiration == .unpinned, let former = old.expiration else { return true }
        return end < former
    }
}
