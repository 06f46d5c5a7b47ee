// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import IOCore
import ProxyConfiguration
package import ServerTrust
package import SessionCore

/// Finds the destination of an authority under one policy snapshot, or the reason why it may not be reached.
package struct Router: Sendable {
    let snapshot: PolicySnapshot

    /// Replaces the timeouts of the hosts' entries.
    let timeouts: TaskTimeouts?
    /// The number of workers, which share the limits of the process.
    let workers: Int

    package init(snapshot: PolicySnapshot, timeouts: TaskTimeouts? = nil, workers: Int = 1) {
        self.snapshot = snapshot
        self.timeouts = timeouts
        self.workers = workers
    }

    /// The endpoint for a request of the proxy's own, under the rules for its clients' requests.
    package func endpoint(_ origin: Origin) -> Result<Endpoint, Problem> {
        let isHTTPS = origin.scheme == .https
        switch route(isHTTPS: isHTTPS, host: origin.host, port: origin.port, allowHosts: .any).destination {
        case .origin(let endpoint), .tunnel(let endpoint), .intercept(let endpoint): return .success(endpoint)
        case .requests: return .failure(Problem(.internal, "A request of the proxy's own leads to a CONNECT."))
        case .refused(let problem): return .failure(problem)
        }
    }

    /// The endpoint for a server that the configuration itself names, as a receiver of spans, likewise. One that is written as an IP
    /// literal is intended, even on loopback.
    func endpoint(named origin: Origin) -> Result<Endpoint, Problem> {
        guard let address = origin.host.address else { return endpoint(origin) }
        if let refusal = hostRefusal(origin.host, .any) { return .failure(refusal) }
        let policy = snapshot.policy(for: origin.host)
        let isUpgraded = origin.scheme != .https && wouldUpgrade(origin.host, policy)
        let route = route(
            secure: origin.scheme == .https || isUpgraded,
            isUpgraded: isUpgraded,
            host: origin.host,
            port: isUpgraded && origin.port == 80 ? 443 : origin.port,
            policy: policy,
            exemption: policy.configuration.resolve ?? AddressAndPort(address, origin.port)
        )
        switch route.destination {
        case .origin(let endpoint): return .success(endpoint)
        case .refused(let problem): return .failure(problem)
        case .tunnel, .intercept, .requests:
            return .failure(Problem(.internal, "A server of the proxy's own is behind a tunnel."))
        }
    }

    /// The endpoint for fetching a revocation list, which goes without TLS: `unpinnedHosts` does not count, because the issuer has signed
    /// the list.
    func listEndpoint(_ origin: Origin) -> Result<Endpoint, Problem> {
        let (host, port) = (origin.host, origin.port)
        if let refusal = hostRefusal(host, .any) { return .failure(refusal) }
        if snapshot.isNamed(host) {
            return .failure(
                Problem(.hostDenied, "\(host) may not be reached without TLS, because a pin file names it.")
            )
        }
        let policy = snapshot.policy(for: host)
        let resolve = policy.configuration.resolve
        if policy.configuration.upgrade {
            return .failure(
                Problem(.hostDenied, "\(host) may not be reached without TLS, because its entry says \"upgrade\".")
            )
        }
        if let refusal = literalRefusal(host, port, policy, exempting: resolve) { return .failure(refusal) }
        return .success(endpoint(secure: false, host: host, port: port, policy: policy, exemption: resolve))
    }

    /// The endpoint for a TLS connection to a host and port, or the reason why the proxy makes none.
    package func endpoint(host: Host, port: UInt16) -> Result<Endpoint, Problem> {
        switch route(isHTTPS: true, host: host, port: port, allowHosts: .any).destination {
        case .origin(let endpoint), .tunnel(let endpoint), .intercept(let endpoint): .success(endpoint)
        case .requests: .failure(Problem(.internal, "A request of the proxy's own leads to a CONNECT."))
        case .refused(let problem): .failure(problem)
        }
    }

    /// The endpoint for looking at a server's chain: the way to it that the proxy takes, with the anchors that hold for it, and no
    /// pins. `unpinnedHosts` does not count, because this is how a host gets its pins.
    package func probeEndpoint(
        host: Host,
        port: UInt16,
        httpVersion: Endpoint.HTTPVersion,
        profile: TLSProfile?
    ) -> Result<Endpoint, Problem> {
        let policy = snapshot.policy(for: host)
        let resolve = policy.configuration.resolve
        if let refusal = hostRefusal(host, .any) { return .failure(refusal) }
        if let refusal = literalRefusal(host, port, policy, exempting: resolve) { return .failure(refusal) }
        let own = snapshot.pinnedDomains.policy(host: host, port: port)?.configuration.trustAnchors
        return .success(
            endpoint(
                secure: true,
                host: host,
                port: port,
                policy: policy,
                exemption: resolve,
                probe: (httpVersion, profile ?? policy.configuration.tlsProfile, own ?? snapshot.trustAnchors)
            )
        )
    }

    /// Finds the route of a forward listener's request.
    ///
    /// - Parameters:
    ///   - isHTTPS: the scheme in the client's request.
    ///   - allowHosts: the listener's own rule, in addition to those of `access`.
    func route(isHTTPS: Bool, host: Host, port: UInt16, allowHosts: HostPatternSet) -> Route {
        if let refusal = hostRefusal(host, allowHosts) {
            return refused(refusal, isHTTPS: isHTTPS, host: host, port: port)
        }
        let policy = snapshot.policy(for: host)
        // Rule 8: a host in a pin file is never reached without TLS, on any port.
        let isUpgraded = !isHTTPS && wouldUpgrade(host, policy)
        let secure = isHTTPS || isUpgraded
        let originPort = isUpgraded && port == 80 ? 443 : port
        return route(
            secure: secure,
            isUpgraded: isUpgraded,
            host: host,
            port: originPort,
            policy: policy,
            exemption: policy.configuration.resolve
        )
    }

    /// The route of a gateway listener: TLS to its upstream.
    func route(to upstream: ListenerConfiguration.Upstream) -> Route {
        let policy = snapshot.policy(for: upstream.host)
        if let refusal = hostRefusal(upstream.host, .any) {
            return refused(refusal, isHTTPS: true, host: upstream.host, port: upstream.port)
        }
        return route(
            secure: true,
            isUpgraded: false,
            host: upstream.host,
            port: upstream.port,
            policy: policy,
            exemption: policy.configuration.resolve ?? upstream.exemption
        )
    }

    private func route(
        secure: Bool,
        isUpgraded: Bool,
        host: Host,
        port: UInt16,
        policy: HostPolicy,
        exemption: AddressAndPort?
    ) -> Route {
        if let refusal = unpinnedRefusal(host, port) {
            return refused(refusal, isHTTPS: secure, host: host, port: port)
        }
        if let refusal = literalRefusal(host, port, policy, exempting: exemption) {
            return refused(refusal, isHTTPS: secure, host: host, port: port)
        }
        let endpoint = endpoint(secure: secure, host: host, port: port, policy: policy, exemption: exemption)
        return Route(
            destination: .origin(endpoint),
            isUpgraded: isUpgraded,
            rewritesUpgraded: policy.configuration.rewriteUpgraded,
            addsVia: policy.configuration.via == .on,
            logPrefix: Self.prefix(isHTTPS: secure, host: host, port: port),
            hooks: policy.hooks,
            cache: snapshot.hasCache
                ? CacheTerms(policy, endpoint, isUsual: !isUpstreamProxy(host, port, policy), snapshot) : nil,
            rules: rules(for: host, port: port, secure ? .https : .http)
        )
    }

    private func endpoint(
        secure: Bool,
        host: Host,
        port: UInt16,
        policy: HostPolicy,
        exemption: AddressAndPort?,
        probe: (version: Endpoint.HTTPVersion, profile: TLSProfile, anchors: TrustAnchors)? = nil
    ) -> Endpoint {
        let usualVersion = secure && policy.configuration.httpVersion == .http2 ? Endpoint.HTTPVersion.http2 : .http1
        let pinned = probe == nil ? snapshot.pinnedDomains.policy(host: host, port: port) : nil
        // These two kinds have a way of their own; every other endpoint has that of the entry's other hosts.
        let common = probe == nil && !isUpstreamProxy(host, port, policy) ? policy.common : nil
        let known = common?.placeDigest(isHTTPS: secure)
        let endpoint = Endpoint(
            scheme: secure ? .https : .http,
            host: host,
            port: port,
            resolve: policy.commonResolve ?? policy.configuration.resolve.map { (Host($0.address), $0.port) },
            httpVersion: probe?.version ?? usualVersion,
            policy: pinned ?? SecurityPolicy.unpinned,
            anchors: probe?.anchors ?? snapshot.trustAnchors,
            generation: UInt64(snapshot.generation),
            timeouts: timeouts ?? TaskTimeouts(policy.configuration.timeouts),
            dialRule: dialRule(policy, exempting: exemption),
            // The way to an HTTPS proxy itself does not lead through it: `pins verify` looks at its pins, too. The others have
            // none, and their own rules decide who reaches them through them.
            proxy: !policy.hasUpstreamProxy || isUpstreamProxy(host, port, policy)
                ? nil : policy.configuration.upstreamProxy?.sessionProxy,
            proxyPolicy: proxyPolicy(policy),
            tls: TLSSettings(
                profile: probe?.profile ?? policy.configuration.tlsProfile,
                serverName: policy.configuration.tlsServerName
            ),
            proxyTLS: proxyTLS(policy),
            connectionLimit: policy.configuration.connectionsPerHost.map { max(1, $0 / workers) },
            placeDigest: known
        )
        if let common, known == nil { common.setPlaceDigest(endpoint.placeDigest, isHTTPS: secure) }
        return endpoint
    }

    /// Whether the host is the HTTPS proxy that requests to it would go through.
    private func isUpstreamProxy(_ host: Host, _ port: UInt16, _ policy: HostPolicy) -> Bool {
        guard policy.hasUpstreamProxy, let proxy = policy.configuration.upstreamProxy else { return false }
        return proxy.kind == .https && proxy.host == host && proxy.port == port
    }

    /// The rules about requests to an origin, or to what is behind a tunnel.
    func rules(for host: Host, port: UInt16, _ scheme: RequestHead.Scheme) -> HostRules? {
        snapshot.requests?.rules(for: host, port: port, defaultPort: scheme.defaultPort)
    }

    /// The refusal of a host that no pin file names, or that one names for other ports only.
    func unpinnedRefusal(_ host: Host, _ port: UInt16) -> Problem? {
        guard snapshot.configuration.unpinnedHosts == .deny,
            !snapshot.pinnedDomains.covers(host: host, port: port)
        else { return nil }
        if snapshot.isNamed(host) {
            return Problem(
                .unpinnedDenied,
                "The \"ports\" of \(host) in the pin files leave out \(port), and unpinnedHosts is \"deny\". "
                    + "Add the port to \"ports\" if the pins hold there, or set unpinnedHosts to \"allow\"."
            )
        }
        return Problem(
            .unpinnedDenied,
            "No pin file names \(host) and unpinnedHosts is \"deny\". "
                + "Add the host to a pin file (pinproxy pins show \(host) helps), or set unpinnedHosts to \"allow\"."
        )
    }

    /// Evaluates the address of an IP literal when its route is found: a pooled connection is not dialled again.
    func literalRefusal(
        _ host: Host,
        _ port: UInt16,
        _ policy: HostPolicy,
        exempting exemption: AddressAndPort?
    ) -> Problem? {
        guard policy.configuration.resolve == nil, let address = host.address else { return nil }
        let rules = snapshot.access
        let verdict = rules.evaluate(address, port: port, exempting: exemption)
        guard verdict != .allowed else { return nil }
        return Problem(
            .addressDenied,
            "\(host.authorityText(port: port)) may not be dialled: \(rules.describe(verdict)). Change access.denyAddresses if it should be."
        )
    }

    /// The address rules in the form for a session. Behind an upstream proxy the dialled address is the proxy's, and
    /// only the address in the configuration is exempt.
    func dialRule(
        _ policy: HostPolicy,
        exempting exemption: AddressAndPort?
    ) -> @Sendable (SocketAddress) -> DialRefusal? {
        // Not all of `access`: its parts are retained and released for each route.
        let rules = snapshot.access.addresses
        let proxy = policy.hasUpstreamProxy ? policy.configuration.upstreamProxy : nil
        let exemption = proxy.map(\.literal) ?? exemption
        return { address in
            guard let dialled = AddressAndPort(address) else { return DialRefusal(rule: "not an IP address") }
            let verdict = rules.evaluate(dialled.address, port: dialled.port, exempting: exemption)
            return verdict == .allowed ? nil : DialRefusal(rule: rules.describe(verdict))
        }
    }

    /// The policy for the host and port of an HTTPS proxy: that of a pin file, or chain and host.
    func proxyPolicy(_ policy: HostPolicy) -> SecurityPolicy {
        guard policy.hasUpstreamProxy, let proxy = policy.configuration.upstreamProxy, proxy.kind == .https else {
            return .unpinned
        }
        return snapshot.pinnedDomains.policy(host: proxy.host, port: proxy.port) ?? .unpinned
    }

    /// The settings for TLS to an HTTPS proxy, which are those for its own host.
    func proxyTLS(_ policy: HostPolicy) -> TLSSettings {
        guard policy.hasUpstreamProxy, let proxy = policy.configuration.upstreamProxy, proxy.kind == .https else {
            return TLSSettings()
        }
        let own = snapshot.policy(for: proxy.host).configuration
        return TLSSettings(profile: own.tlsProfile, serverName: own.tlsServerName)
    }

    func hostRefusal(_ host: Host, _ allowHosts: HostPatternSet) -> Problem? {
        let verdict = snapshot.access.evaluate(host)
        if verdict != .allowed {
            return Problem(
                .hostDenied,
                "\(host) may not be reached: \(snapshot.access.describe(verdict)). Change access in the configuration if it should be."
            )
        }
        if !allowHosts.contains(host) {
            return Problem(
                .hostDenied,
                "\(host) may not be reached through this listener: its allowHosts does not take the host in."
            )
        }
        return nil
    }

    private func refused(_ problem: Problem, isHTTPS: Bool, host: Host, port: UInt16) -> Route {
        Route(
            destination: .refused(problem),
            isUpgraded: false,
            rewritesUpgraded: false,
            logPrefix: Self.prefix(isHTTPS: isHTTPS, host: host, port: port)
        )
    }

    private static func prefix(isHTTPS: Bool, host: Host, port: UInt16) -> [UInt8] {
        var prefix: [UInt8] = []
        prefix.reserveCapacity(host.bytes.count + 16)
        prefix.append(contentsOf: (isHTTPS ? "https://" : "http://").utf8)
        host.appendAuthority(to: &prefix)
        if port != (isHTTPS ? 443 : 80) { prefix += Array(":\(port)".utf8) }
        return prefix
    }
}

extension TaskTimeouts {
    init(_ timeouts: Timeouts) {
        self.init()
        spans.connect = .milliseconds(timeouts.connect.count)
        spans.queue = .milliseconds(timeouts.queue.count)
        spans.firstByte = .milliseconds(timeouts.firstByte.count)
        spans.stall = .milliseconds(timeouts.stall.count)
        spans.total = timeouts.total.map { .milliseconds($0.count) }
    }
}

extension Router {
    /// Whether plain http requests for that host are sent over TLS.
    func wouldUpgrade(_ host: Host) -> Bool { wouldUpgrade(host, snapshot.policy(for: host)) }

    private func wouldUpgrade(_ host: Host, _ policy: HostPolicy) -> Bool {
        policy.configuration.upgrade || snapshot.isNamed(host)
    }
}
