// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// The domains of all pin files, for the lookup of a host's policy. Immutable once loaded.
public struct PinnedDomains: Sendable {
    /// A domain as a pin file names it.
    public struct Domain: Sendable {
        /// The domain in normal form.
        public let host: Host
        /// Whether the policy covers its subdomains too.
        public let includeSubdomains: Bool
        /// The ports that `policy` covers; `nil` covers every one.
        public let ports: [UInt16]?
        /// The policy for the covered ports; `nil` for a domain that is excluded from its parent's policy.
        public let policy: SecurityPolicy?
        /// The pin file that names the domain.
        public let file: String
    }

    /// The result of a lookup, as one object so that it costs one retain.
    private final class Entry: Sendable {
        let ports: [UInt16]?
        let policy: SecurityPolicy
        let policyOfOtherPorts: SecurityPolicy?

        init(ports: [UInt16]?, policy: SecurityPolicy) {
            self.ports = ports
            self.policy = policy
            policyOfOtherPorts = ports == nil ? nil : policy.forOtherPorts()
        }

        func covers(_ port: UInt16) -> Bool { ports?.contains(port) ?? true }

        func policy(port: UInt16) -> SecurityPolicy {
            guard let policyOfOtherPorts, !covers(port) else { return policy }
            return policyOfOtherPorts
        }
    }

    private struct Place: Sendable {
        /// `nil` for a domain that is excluded from its parent's policy.
        let entry: Entry?
        /// Index in `domains`.
        let index: Int
    }

    private var table = HostTable<Place>()
    /// The domains in the order of the files.
    public private(set) var domains: [Domain] = []
    private var wideDomains: Set<Host> = []

    /// Makes an empty collection: every host is unpinned.
    public init() {}

    /// - Returns: false, and nothing changes, when the host has an entry already.
    mutating func insert(_ domain: Domain) -> Bool {
        let entry = domain.policy.map { Entry(ports: domain.ports, policy: $0) }
        let place = Place(entry: entry, index: domains.count)
        guard table.insert(domain.host, includeSubdomains: domain.includeSubdomains, place) else { return false }
        domains.append(domain)
        if domain.includeSubdomains { wideDomains.insert(domain.host) }
        return true
    }

    /// The policy of a host and port, by the most specific domain: exact, then the longest parent with
    /// `includeSubdomains`.
    ///
    /// - Returns: `nil` when no pin file names the host, or when its domain is excluded from the parent's policy. On a
    ///   port that the domain's `ports` does not list, a policy of mode `none`: the pin file still names the host, so
    ///   that it is never reached without TLS.
    public func policy(host: Host, port: UInt16) -> SecurityPolicy? {
        table.lookup(host)?.entry?.policy(port: port)
    }

    /// The same for a host's bytes in normal form; it allocates nothing.
    ///
    /// - Parameter isName: false for an IP literal.
    package func policy(host bytes: borrowing Span<UInt8>, isName: Bool, port: UInt16) -> SecurityPolicy? {
        table.lookup(bytes: bytes, isName: isName)?.entry?.policy(port: port)
    }

    /// Whether a pin file names the host, in any mode and state and for any ports. Such a host is never reached without
    /// TLS and never tunnelled blind (invariant 8). `SecurityPolicy.isHeldToPins` tells whether pins hold there now.
    ///
    /// - Returns: false also for a domain that is excluded from its parent's policy.
    public func names(_ host: Host) -> Bool { table.lookup(host)?.entry != nil }

    /// Whether a pin file covers the host on that port. False on a port that the domain's `ports` does not list.
    public func covers(host: Host, port: UInt16) -> Bool { table.lookup(host)?.entry?.covers(port) ?? false }

    /// Whether pins decide now which servers are accepted there, by `SecurityPolicy.isHeldToPins`.
    ///
    /// - Parameters:
    ///   - host: in normal form.
    ///   - port: of the connection.
    ///   - now: seconds since 1970.
    package func isHeldToPins(host: Host, port: UInt16, at now: Int64) -> Bool {
        policy(host: host, port: port)?.isHeldToPins(at: now) ?? false
    }

    /// The `ports` of the domain that covers the host; `nil` without a list, and without a policy.
    func ports(of host: Host) -> [UInt16]? { table.lookup(host)?.entry?.ports }

    /// The domain that applies to a host: its own entry (an exclusion too), otherwise that of the longest parent with
    /// `includeSubdomains`.
    package func domain(governing host: Host) -> Domain? { table.lookup(host).map { domains[$0.index] } }

    /// Whether one policy, or one exclusion, covers a domain and the names below it.
    func includesSubdomains(of host: Host) -> Bool { wideDomains.contains(host) }

    /// A copy with one more domain, for a policy that is made and not loaded (the demo's origin).
    ///
    /// - Returns: `nil` when the host has an entry already.
    package func adding(_ policy: SecurityPolicy, host: Host, source: String) -> PinnedDomains? {
        var copy = self
        let domain = Domain(host: host, includeSubdomains: false, ports: nil, policy: policy, file: source)
        return copy.insert(domain) ? copy : nil
    }
}
