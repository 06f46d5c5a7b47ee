// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import ProxyConfiguration
package import ServerTrust

/// The settings for one host, found once for a request and then passed by reference.
package final class HostPolicy: Sendable {
    package let configuration: HostConfiguration
    /// nil when requests and responses are forwarded unchanged.
    let hooks: HostHooks?
    /// What an endpoint of its hosts has of `resolve`; nil for an entry of one host, too.
    let commonResolve: (host: Host, port: UInt16)?
    /// A look at the proxy itself copies it.
    let hasUpstreamProxy: Bool
    /// What the routes of all its hosts have in common; nil for an entry of one host. Entries may be very many.
    let common: CommonTerms?

    init(_ configuration: HostConfiguration) {
        self.configuration = configuration
        hooks = HostHooks.make(configuration)
        hasUpstreamProxy = configuration.upstreamProxy != nil
        let isOfMany = configuration.host == nil || configuration.includeSubdomains
        common = isOfMany ? CommonTerms() : nil
        commonResolve = isOfMany ? configuration.resolve.map { (Host($0.address), $0.port) } : nil
    }
}

extension ConfigurationLoader.Outcome {
    /// The policy of the files, for what looks at it without serving; nil when there is any issue.
    package func makeSnapshot() -> PolicySnapshot? { parts.map { PolicySnapshot($0, generation: 1) } }
}

/// The whole policy at one time: immutable, shared by all threads, and replaced as a whole by a reload.
package final class PolicySnapshot: Sendable {
    /// Increases with each reload; connections belong to one generation (invariant 4).
    package let generation: Int
    /// The parts that the snapshot was made of.
    package let parts: PolicyParts
    package let access: AccessRules
    /// The settings of hosts without an entry.
    package let defaults: HostPolicy
    /// A look at the settings of the cache copies them.
    let hasCache: Bool
    /// nil when `access` alone decides which requests may be sent.
    package let requests: RequestRules?
    private let hosts: HostTable<HostPolicy>
    /// The requirements of each listener for its clients, in the order of the configuration.
    let security: [ListenerSecurity]

    package var configuration: Configuration { parts.configuration }
    package var pinnedDomains: PinnedDomains { parts.pinnedDomains }
    package var trustAnchors: TrustAnchors { parts.trustAnchors }

    /// - Parameter former: the policy before a reload.
    package init(_ parts: PolicyParts, generation: Int, following former: PolicySnapshot? = nil) {
        self.generation = generation
        self.parts = parts
        access = AccessRules(parts.configuration.access, ownListeners: parts.ownListeners)
        defaults = HostPolicy(parts.configuration.defaults)
        hasCache = parts.configuration.cache != nil
        requests = parts.configuration.requests.map { RequestRules($0, following: former?.requests) }
        security = parts.configuration.listeners.map { parts.security(of: $0) }
        var hosts = HostTable<HostPolicy>()
        for entry in parts.configuration.hosts {
            guard let host = entry.host else { continue }
            // The first entry of a host counts; the loader accepts no second one.
            hosts.insert(host, includeSubdomains: entry.includeSubdomains, HostPolicy(entry))
        }
        self.hosts = hosts
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
