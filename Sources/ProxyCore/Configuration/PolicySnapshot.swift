package import HTTPCore
package import ServerTrust

/// What a `PolicySnapshot` is made of: read from files, then perhaps changed in memory (the demo adds a host and its
/// pins, a start adds the addresses that its listeners got) before the snapshot is made.
package struct PolicyParts: Sendable {
    package var configuration: Configuration
    package var pinnedDomains: PinnedDomains
    /// The anchors of every domain that has none of its own.
    package var trustAnchors: TrustAnchors
    /// What the listeners' `tls` name.
    package var tlsMaterial: [ListenerTLS: TLSMaterial] = [:]
    /// What `authentication` names, for the ways that are open at some listener.
    package var credentials: [AuthenticationConfiguration: ClientCredentials] = [:]
    /// Signs what clients are shown in the place of intercepted origins.
    package var authority: LocalAuthority?
    /// Where this program really listens; until it does, what the configuration says of fixed ports.
    package var ownListeners: [AddressAndPort]

    package init(configuration: Configuration, pinnedDomains: PinnedDomains, trustAnchors: TrustAnchors) {
        self.configuration = configuration
        self.pinnedDomains = pinnedDomains
        self.trustAnchors = trustAnchors
        ownListeners = configuration.fixedAddresses
    }
}

/// What holds for one request's host, found once and then passed along by reference.
package final class HostPolicy: Sendable {
    package let configuration: HostConfiguration
    /// nil where requests and answers are forwarded as they are.
    let hooks: HostHooks?

    init(_ configuration: HostConfiguration) {
        self.configuration = configuration
        hooks = HostHooks(configuration)
    }
}

/// The whole policy at one time: immutable, shared by all threads, and replaced whole by a reload.
package final class PolicySnapshot: Sendable {
    /// Counts up with each reload; connections belong to one generation (invariant 4).
    package let generation: Int
    /// What it was made of, to make the next one from.
    package let parts: PolicyParts
    package let access: AccessRules
    /// What holds for a host without an entry.
    package let defaults: HostPolicy
    private let hosts: HostTable<HostPolicy>
    /// What each listener demands of its clients, in the order of the configuration.
    let security: [ListenerSecurity]

    package var configuration: Configuration { parts.configuration }
    package var pinnedDomains: PinnedDomains { parts.pinnedDomains }
    package var trustAnchors: TrustAnchors { parts.trustAnchors }

    package init(_ parts: PolicyParts, generation: Int) {
        self.generation = generation
        self.parts = parts
        access = AccessRules(parts.configuration.access, ownListeners: parts.ownListeners)
        defaults = HostPolicy(parts.configuration.defaults)
        security = parts.configuration.listeners.map { ListenerSecurity($0, parts) }
        var hosts = HostTable<HostPolicy>()
        for entry in parts.configuration.hosts {
            guard let host = entry.host else { continue }
            // The first entry of a host counts; the loader lets no second one through.
            hosts.insert(host, includeSubdomains: entry.includeSubdomains, HostPolicy(entry))
        }
        self.hosts = hosts
    }

    /// A snapshot of the same parts with a change, of the same generation unless another is given.
    package func changed(generation: Int? = nil, _ change: (inout PolicyParts) -> Void) -> PolicySnapshot {
        var parts = self.parts
        change(&parts)
        return PolicySnapshot(parts, generation: generation ?? self.generation)
    }

    /// Whether a pin file names the host, in whatever mode: it is never reached without TLS and never tunnelled
    /// (invariant 8). Allocates nothing.
    package func isNamed(_ host: Host) -> Bool { parts.pinnedDomains.names(host) }

    /// The entry of the most specific host, or the defaults. Allocates nothing.
    package func policy(for host: Host) -> HostPolicy {
        hosts.lookup(host) ?? defaults
    }

    /// The same for a host's normal form, as `Host.bytes` holds it.
    package func policy(bytes: borrowing Span<UInt8>, isName: Bool) -> HostPolicy {
        hosts.lookup(bytes: bytes, isName: isName) ?? defaults
    }
}
