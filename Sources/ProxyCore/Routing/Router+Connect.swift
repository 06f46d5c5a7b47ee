// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// CONNECT: the destinations that a tunnel may have.
extension Router {
    /// Finds the route of a CONNECT: `.tunnel`, `.intercept`, `.requests`, or a refusal. Access rules come first, then the policy
    /// for the host.
    ///
    /// - Parameters:
    ///   - allowHosts: the listener's own rule, in addition to those of `access`.
    ///   - isTLS: whether the client is known to speak TLS, on port 80 too.
    func connectRoute(host: Host, port: UInt16, allowHosts: HostPatternSet, isTLS: Bool = false) -> Route {
        let place = Array(host.authorityText(port: port).utf8)
        func refused(_ problem: Problem) -> Route {
            Route(destination: .refused(problem), isUpgraded: false, rewritesUpgraded: false, logPrefix: place)
        }
        if let refusal = hostRefusal(host, allowHosts) { return refused(refusal) }
        let policy = snapshot.policy(for: host)
        let settings = policy.configuration
        // Invariant 8, whatever the configuration says: pinned hosts have no tunnels, not on another port and not with
        // report-only pins.
        if snapshot.isNamed(host), settings.connect == .tunnel {
            return refused(
                Problem(
                    .connectDenied,
                    "A pin file names \(host), and a tunnel would hide the server's certificate from this proxy. "
                        + Self.alternatives(host)
                )
            )
        }
        switch settings.connect {
        case .deny:
            return refused(
                Problem(
                    .connectDenied,
                    "A tunnel would hide the server's certificate from this proxy, so no pin could be enforced. "
                        + Self.alternatives(host)
                )
            )
        case .tunnel, .intercept:
            break
        }
        // A client that asks for a tunnel to plain HTTP gets what it gets for a URL in absolute form, TLS to a pinned host
        // included: nothing is hidden, and `connectPorts` is about tunnels.
        if settings.connect == .intercept, port == RequestHead.Scheme.http.defaultPort, !isTLS {
            let inside = route(isHTTPS: false, host: host, port: port, allowHosts: allowHosts)
            if case .refused(let problem) = inside.destination { return refused(problem) }
            return Route(
                destination: .requests(InterceptedAuthority(scheme: .http, host: host, port: port)),
                isUpgraded: false,
                rewritesUpgraded: false,
                logPrefix: place,
                rules: inside.rules
            )
        }
        guard snapshot.configuration.access.connectPorts.contains(port) else {
            return refused(
                Problem(
                    .connectDenied,
                    "No tunnel leads to port \(port): access.connectPorts does not have it. Add it there if it should be."
                )
            )
        }
        if settings.connect == .intercept {
            let inside = route(isHTTPS: true, host: host, port: port, allowHosts: allowHosts)
            guard case .origin(let endpoint) = inside.destination else {
                if case .refused(let problem) = inside.destination { return refused(problem) }
                return inside
            }
            return Route(
                destination: .intercept(endpoint),
                isUpgraded: false,
                rewritesUpgraded: false,
                logPrefix: place,
                rules: inside.rules
            )
        }
        if let refusal = unpinnedRefusal(host, port)
            ?? literalRefusal(host, port, policy, exempting: settings.resolve)
        {
            return refused(refusal)
        }
        let endpoint = Endpoint(
            scheme: .http,
            host: host,
            port: port,
            resolve: settings.resolve.map { (Host($0.address), $0.port) },
            policy: SecurityPolicy.unpinned,
            anchors: snapshot.trustAnchors,
            generation: UInt64(snapshot.generation),
            timeouts: timeouts ?? TaskTimeouts(settings.timeouts),
            dialRule: dialRule(policy, exempting: settings.resolve),
            proxy: settings.upstreamProxy?.sessionProxy,
            proxyPolicy: proxyPolicy(policy),
            proxyTLS: proxyTLS(policy),
            connectionLimit: settings.connectionsPerHost.map { max(1, $0 / workers) }
        )
        return Route(
            destination: .tunnel(endpoint),
            isUpgraded: false,
            rewritesUpgraded: false,
            logPrefix: place,
            rules: rules(for: host, port: port, .https)
        )
    }

    /// Describes the alternatives to a CONNECT.
    static func alternatives(_ host: Host) -> String {
        "Send https:// requests in absolute form, ask for http://\(host.authorityText)/ (a pinned host, or one with "
            + "\"upgrade\": true, is reached over TLS), or use a gateway listener."
    }
}
