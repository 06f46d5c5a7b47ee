// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import ServerTrust

/// The differences between two policies of one host.
struct PolicyComparison {
    struct Change {
        var text: String
        /// The server has to meet less than before.
        var isWeaker: Bool
    }

    private(set) var changes: [Change] = []
    private let old: SecurityPolicy.Configuration
    private let new: SecurityPolicy.Configuration
    private let isOnBoth: Bool
    /// Whether there is a policy now: without one its settings are not listed as changes.
    private let isThere: Bool

    /// - Parameters:
    ///   - old: the entry that applied to the host; nil for none.
    ///   - new: the entry that applies now.
    init(
        _ old: PinnedDomains.Domain?,
        in oldSet: PinFileSet,
        _ new: PinnedDomains.Domain?,
        in newSet: PinFileSet
    ) {
        self.old = old?.policy?.configuration ?? .init()
        self.new = new?.policy?.configuration ?? .init()
        isThere = new?.policy != nil
        isOnBoth = old?.policy != nil && isThere
        comparePinning(old, new)
        comparePins()
        compareFlags()
        compareExpiration()
        compareReach(old, new)
        compareAnchors(old.flatMap { oldSet.anchors(of: $0) }, new.flatMap { newSet.anchors(of: $0) })
        compareRevocation(
            old.map { oldSet.revocationLists(of: $0) } ?? [],
            new.map { newSet.revocationLists(of: $0) } ?? []
        )
        compareClientCertificate()
        compareReports()
    }

    private mutating func add(_ text: String, weaker: Bool = false) {
        changes.append(Change(text: text, isWeaker: weaker))
    }

    /// Compares a setting with one value on each side.
    private mutating func compare<Value: Equatable>(
        _ name: String,
        _ old: Value,
        _ new: Value,
        weaker: Bool,
        shown: (Value) -> String = { "\($0)" }
    ) {
        guard old != new, isThere || weaker else { return }
        add("\(name): \(shown(old)) → \(shown(new))", weaker: weaker)
    }

    private mutating func comparePinning(_ old: PinnedDomains.Domain?, _ new: PinnedDomains.Domain?) {
        func state(_ domain: PinnedDomains.Domain?) -> String {
            guard let domain else { return "not pinned" }
            return domain.policy?.pinningMode.rawValue ?? "excluded from its parent's policy"
        }
        let (before, after) = (state(old), state(new))
        guard before != after else { return }
        // A host without a policy does not even need TLS.
        let isDropped = old?.policy != nil && new?.policy == nil
        let isNone = self.old.pinningMode != .none && self.new.pinningMode == .none
        add("pinningMode: \(before) → \(after)", weaker: isDropped || isNone)
    }

    // MARK: Pins

    private struct Place: Hashable {
        var key: PublicKeyPin
        var scope: Pin.Scope

        init(_ pin: Pin) {
            key = pin.key
            scope = pin.scope
        }
    }

    private mutating func comparePins() {
        let before = Dictionary(uniqueKeysWithValues: old.pins.map { (Place($0), $0) })
        let after = Dictionary(uniqueKeysWithValues: new.pins.map { (Place($0), $0) })
        for pin in old.pins where after[Place(pin)] == nil { add("- pin \(Self.text(pin))") }
        for pin in new.pins {
            guard let known = before[Place(pin)] else {
                let isWider = pin.scope == .any && old.pins.contains { $0.key == pin.key }
                add("+ pin \(Self.text(pin))", weaker: isWider)
                continue
            }
            if known.isBackup != pin.isBackup {
                add("pin \(Self.text(pin)): \(pin.isBackup ? "is a backup now" : "is no backup any more")")
            }
        }
        let forbiddenBefore = Set(old.forbiddenPins.map(Place.init))
        let forbiddenAfter = Set(new.forbiddenPins.map(Place.init))
        for pin in old.forbiddenPins where !forbiddenAfter.contains(Place(pin)) {
            add("- forbidden pin \(Self.text(pin))", weaker: true)
        }
        for pin in new.forbiddenPins where !forbiddenBefore.contains(Place(pin)) {
            add("+ forbidden pin \(Self.text(pin))")
        }
        compareCertificates("pinned certificate", old.pinnedCertificates, new.pinnedCertificates)
    }

    private static func text(_ pin: Pin) -> String {
        var notes: [String] = []
        if pin.scope != .any { notes.append(pin.scope.rawValue) }
        if pin.isBackup { notes.append("backup") }
        if !pin.comment.isEmpty { notes.append(pin.comment) }
        return notes.isEmpty ? "\(pin.key)" : "\(pin.key) (\(notes.joined(separator: ", ")))"
    }

    private mutating func compareCertificates(_ name: String, _ old: [Certificate], _ new: [Certificate]) {
        for certificate in old where !new.contains(where: { $0.isSame(as: certificate) }) {
            add("- \(name) \(certificate.subject), \(certificate.publicKeyPin)")
        }
        for certificate in new where !old.contains(where: { $0.isSame(as: certificate) }) {
            add("+ \(name) \(certificate.subject), \(certificate.publicKeyPin)")
        }
    }

    // MARK: Settings

    private mutating func compareFlags() {
        func flag(_ name: String, _ value: KeyPath<SecurityPolicy.Configuration, Bool>, weakerWhen weak: Bool?) {
            compare(
                name,
                old[keyPath: value],
                new[keyPath: value],
                weaker: weak == new[keyPath: value] && old[keyPath: value] != weak
            )
        }
        // Report-only pins are more than none.
        let hadPins = old.pinningMode != .none || !old.forbiddenPins.isEmpty
        flag("enforcePinning", \.enforcePinning, weakerWhen: hadPins ? false : nil)
        flag("allowInvalidCertificates", \.allowInvalidCertificates, weakerWhen: true)
        flag("validatesDomainName", \.validatesDomainName, weakerWhen: false)
        flag("allowSinglePin", \.allowSinglePin, weakerWhen: nil)
        compare("minTLSVersion", old.minTLSVersion, new.minTLSVersion, weaker: new.minTLSVersion == .tls12) {
            $0.rawValue
        }
        compare("maxChainDepth", old.maxChainDepth, new.maxChainDepth, weaker: new.maxChainDepth > old.maxChainDepth) {
            "\($0)"
        }
        let (groups, newGroups) = (Set(old.requireGroups), Set(new.requireGroups))
        let isWeaker = !groups.isEmpty && (newGroups.isEmpty || !newGroups.isSubset(of: groups))
        compare("requireGroups", groups, newGroups, weaker: isWeaker) { groups in
            groups.isEmpty ? "none" : groups.map(\.rawValue).sorted().joined(separator: ", ")
        }
    }

    private mutating func compareReports() {
        for uri in old.reportUris where !new.reportUris.contains(uri) { add("- report URI \(uri)") }
        for uri in new.reportUris where !old.reportUris.contains(uri) { add("+ report URI \(uri)") }
    }

    private mutating func compareExpiration() {
        let isUnpinned = new.onExpiration == .unpinned && old.pinningMode != .none
        // A later expiry does not weaken the pins; an earlier one does.
        let endsEarlier = new.expiration.map { end in old.expiration.map { end < $0 } ?? true } ?? false
        compare("expiration", old.expiration, new.expiration, weaker: isUnpinned && endsEarlier) { day in
            day.map { "\($0)" } ?? "never"
        }
        compare("onExpiration", old.onExpiration, new.onExpiration, weaker: isUnpinned) { $0.rawValue }
    }

    /// Compares ports and subdomains.
    private mutating func compareReach(_ old: PinnedDomains.Domain?, _ new: PinnedDomains.Domain?) {
        guard let old, let new else { return }
        if isOnBoth {
            let lost = new.ports.map { ports in old.ports.map { !$0.allSatisfy(ports.contains) } ?? true } ?? false
            compare("ports", old.ports?.sorted(), new.ports?.sorted(), weaker: lost) { ports in
                ports.map { $0.map(String.init).joined(separator: ", ") } ?? "all"
            }
        }
        // Under a parent's entry, the subdomains belong to the parent on both sides.
        guard old.host == new.host else { return }
        let isWeaker = new.policy == nil ? new.includeSubdomains : old.includeSubdomains && old.policy != nil
        if old.includeSubdomains != new.includeSubdomains {
            add("includeSubdomains: \(old.includeSubdomains) → \(new.includeSubdomains)", weaker: isWeaker)
        }
    }

    private typealias Anchors = (system: Bool, certificates: [Certificate])

    private mutating func compareAnchors(_ old: Anchors?, _ new: Anchors?) {
        guard old != nil || new != nil else { return }
        func name(_ anchors: Anchors?) -> String {
            anchors.map { $0.system ? "its own and the system's" : "its own" } ?? "the configuration's"
        }
        compare(
            "trustAnchors",
            name(old),
            name(new),
            weaker: old != nil && (new == nil || old?.system != new?.system && new?.system == true)
        )
        if new != nil { compareCertificates("trust anchor", old?.certificates ?? [], new?.certificates ?? []) }
    }

    private mutating func compareRevocation(_ old: Set<[UInt8]>, _ new: Set<[UInt8]>) {
        if old != new {
            let text = old.isEmpty ? "added" : new.isEmpty ? "removed" : "replaced"
            add("revocation lists: \(text)", weaker: new.isEmpty)
        }
        compare(
            "fetch",
            self.old.fetchesRevocationLists,
            self.new.fetchesRevocationLists,
            weaker: self.old.fetchesRevocationLists && !self.new.fetchesRevocationLists
        )
        compare(
            "requireStaple",
            self.old.requiresStaple,
            self.new.requiresStaple,
            weaker: self.old.requiresStaple && !self.new.requiresStaple
        )
        let isNarrower = self.new.revocationScope == .leaf
        compare("crlScope", self.old.revocationScope, self.new.revocationScope, weaker: isOnBoth && isNarrower) {
            $0.rawValue
        }
    }

    private mutating func compareClientCertificate() {
        compareCertificates(
            "client certificate",
            old.clientCertificate?.certificates ?? [],
            new.clientCertificate?.certificates ?? []
        )
    }
}
