package import HTTPCore
package import ServerTrust

/// The parts of a `PolicySnapshot`: read from files, then possibly changed in memory before the snapshot is made. (The
/// demo adds a host and its pins; a start adds the addresses of its listeners.)
package struct PolicyParts: Sendable {
    package var configuration: Configuration
    package var pinnedDomains: PinnedDomains
    /// The anchors of every domain without its own.
    package var trustAnchors: TrustAnchors
    /// The loaded files of the listeners' `tls`.
    package var tlsMaterial: [ListenerTLS: TLSMaterial] = [:]
    /// The loaded files of `authentication`, for the ways that are open at some listener.
    package var credentials: [AuthenticationConfiguration: ClientCredentials] = [:]
    /// The token of `admin.tokenFile`.
    package var adminToken: AdminToken?
    /// The CA that signs certificates for intercepted origins.
    package var authority: LocalAuthority?
    /// The real addresses of this program's listeners; before they listen, the fixed ports of the configuration.
    package var ownListeners: [AddressAndPort]

    package init(configuration: Configuration, pinnedDomains: PinnedDomains, trustAnchors: TrustAnchors) {
        self.configuration = configuration
        self.pinnedDomains = pinnedDomains
        self.trustAnchors = trustAnchors
        ownListeners = configuration.fixedAddresses
    }
}

/// The settings for one host, found once for a request and then passed by reference.
package final class HostPolicy: Sendable {
    package let configuration: HostConfiguration
    /// nil when requests and responses are forwarded unchanged.
    let hooks: HostHooks?

    init(_ configuration: HostConfiguration) {
        self.configuration = configuration
        hooks = HostHooks(configuration)
    }
}

/// The whole policy at one time: immutable, shared by all threads, and replaced as a whole by a reload.
package final class PolicySnapshot: Sendable {
    /// Increases with each reload; connections belong to one generation (invariant 4).
    package let generation: Int
    /// The parts of this snapshot, for making the next one.
    package let parts: PolicyParts
    package let access: AccessRules
    /// The settings of hosts without an entry.
    package let defaults: HostPolicy
    private let hosts: HostTable<HostPolicy>
    /// The requirements of each listener for its clients, in the order of the configuration.
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
            // The first entry of a host counts; the loader accepts no second one.
            hosts.insert(host, includeSubdomains: entry.includeSubdomains, HostPolicy(entry))
        }
        self.hosts = hosts
    }

    /// A snapshot of the same parts with a change; it has the same generation unless another is given.
    package func changed(generation: Int? = nil, _ change: (inout PolicyParts) -> Void) -> PolicySnapshot {
        var parts = self.parts
        change(&parts)
        return PolicySnapshot(parts, generation: generation ?? self.generation)
    }

    /// Whether a pin file names the host, in any mode: such a host is never reached without TLS and never tunnelled
    /// (invariant 8). Allocates nothing.
    package func isNamed(_ host: Host) -> Bool { parts.pinnedDomains.names(host) }

    /// The entry of the most specific host, or the defaults. Allocates nothing.
    package func policy(for host: Host) -> HostPolicy {
        hosts.lookup(host) ?? defaults
    }

    /// The entry for a host's normal form, as `Host.bytes` holds it.
    package func policy(bytes: borrowing Span<UInt8>, isName: Bool) -> HostPolicy {
        hosts.lookup(bytes: bytes, isName: isName) ?? defaults
    }
}
