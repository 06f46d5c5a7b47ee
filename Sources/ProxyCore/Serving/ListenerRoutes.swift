// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import SessionCore

/// The routes of the requests of one listener, in one worker, and what it requires of its clients.
final class ListenerRoutes {
    let configuration: ListenerConfiguration
    let isGateway: Bool
    /// Whether clients come by redirection, and know of no proxy.
    var isTransparent: Bool { redirected != nil }
    /// The position of the listener in the configuration.
    let index: Int
    /// The listener's requirements for its clients.
    private(set) var security: ListenerSecurity
    private let ownNames: OwnNames
    private var router: Router
    private var routes = RouteCache()
    private var connectRoutes = RouteCache()
    /// nil for other listeners.
    private var redirected: RedirectedRoutes?
    private var gatewayRoute: Route?
    /// Whether pages of other sites may use the gateway.
    private var servesBrowsers = false

    /// The result of routing a request.
    enum Decision {
        case route(Route)
        /// The request is for the proxy itself.
        case own
        // Indirect: every request would copy the room for it.
        indirect case refused(Problem, Route?)
    }

    init(_ configuration: ListenerConfiguration, index: Int, under generation: Generation) {
        self.index = index
        security = generation.snapshot.security[index]
        router = generation.router
        self.configuration = configuration
        isGateway = configuration.mode == .gateway
        var names = [configuration.upstream?.host].compactMap { $0 } + configuration.allowedHosts
        // What clients of one address have connected to needs no system call.
        if case .address(let bound) = configuration.endpoint, !bound.address.isUnspecified {
            names.append(Host(bound.address))
        }
        ownNames = OwnNames(hosts: names)
        adopt(generation)
    }

    /// Uses another policy from now on.
    func adopt(_ generation: Generation) {
        security = generation.snapshot.security[index]
        router = generation.router
        routes = RouteCache()
        connectRoutes = RouteCache()
        if configuration.mode == .transparent { redirected = RedirectedRoutes(configuration, router) }
        guard let upstream = configuration.upstream else { return }
        gatewayRoute = generation.router.route(to: upstream)
        servesBrowsers = generation.snapshot.policy(for: upstream.host).configuration.browsers
    }

    /// Routes a client's request.
    ///
    /// - Parameter localAddress: that of the client's connection, for a gateway whose Host may be an address.
    @inline(__always)
    func route(for head: borrowing RequestHead, localAddress: @autoclosure () -> SocketAddress?) -> Decision {
        if head.method.isPurge { return .refused(Problem.purgeOnProxyPort, nil) }
        if head.method == .connect { return connect(head) }
        if isGateway { return gateway(head, localAddress()) }
        // RFC 9110, section 9.3.7. For a gateway the request is meant for its upstream.
        if case .asterisk = head.form { return .own }
        return forward(head)
    }

    /// Routes a request on a redirected connection: by its Host, and by the port that the client has connected to.
    func route(for head: borrowing RequestHead, from redirection: Redirection) -> Decision {
        if let refusal = redirection.refusal { return .refused(refusal, nil) }
        if head.method.isPurge { return .refused(Problem.purgeOnProxyPort, nil) }
        guard redirected != nil else { return .refused(Problem(.internal, "The listener is not transparent."), nil) }
        let port = redirection.original.port
        guard let host = head.host else {
            return .refused(
                Problem(.requestInvalid, "The request names no host. Send it with Host, in HTTP/1.1."),
                nil
            )
        }
        if redirection.isTLS, head.method == .connect {
            return decision(redirected!.connect(to: host, port: port, from: redirection.original))
        }
        guard head.form == .origin || head.form == .asterisk else {
            return .refused(
                Problem(
                    .requestInvalid,
                    "This listener takes connections that were redirected to it, whose clients know of no proxy: the request line has the path alone. "
                        + "Let a client that has a proxy setting use a listener of mode forward, or take the setting out."
                ),
                nil
            )
        }
        if let named = head.explicitPort, named != port {
            return .refused(
                Problem(
                    .misdirectedRequest,
                    "The client has connected to port \(port), and the request's Host is for port \(named)."
                ),
                nil
            )
        }
        return decision(redirected!.request(isHTTPS: false, to: host, port: port, from: redirection.original))
    }

    /// Routes a request inside a CONNECT: it may only go to the host and port of the CONNECT.
    ///
    /// - Parameter redirection: of a connection without a CONNECT of its client's own.
    func route(
        for head: borrowing RequestHead,
        inside authority: InterceptedAuthority,
        from redirection: Redirection? = nil
    ) -> Decision {
        if head.method.isPurge { return .refused(Problem.purgeOnProxyPort, nil) }
        if head.method == .connect {
            return .refused(Problem(.connectDenied, "A CONNECT inside of a CONNECT leads nowhere."), nil)
        }
        guard authority.isNamed(by: head) else {
            return .refused(
                Problem(
                    .misdirectedRequest,
                    "The \(redirection == nil ? "CONNECT was" : "client's TLS is") for \(authority.host.authorityText(port: authority.port)), and the request is for something else."
                ),
                nil
            )
        }
        let isHTTPS = authority.scheme == .https
        if let redirection, redirected != nil {
            return decision(
                redirected!.request(
                    isHTTPS: isHTTPS,
                    to: authority.host,
                    port: authority.port,
                    from: redirection.original
                )
            )
        }
        // The request may name no host at all, in HTTP/1.0.
        let host = authority.host.bytes
        if let known = routes.lookup(isHTTPS: isHTTPS, host: host.span, port: authority.port) { return decision(known) }
        let route = router.route(
            isHTTPS: isHTTPS,
            host: authority.host,
            port: authority.port,
            allowHosts: configuration.allowHosts
        )
        routes.insert(route, isHTTPS: isHTTPS, host: host.span, port: authority.port)
        return decision(route)
    }

    /// Host and port as the client of a gateway wrote them; empty for others.
    func clientAuthority(of head: borrowing RequestHead) -> [UInt8] {
        guard isGateway, let index = head.fields.first(.host) else { return [] }
        return Array(copying: head.fields.value(at: index))
    }

    private func forward(_ head: borrowing RequestHead) -> Decision {
        guard case .absolute = head.form, let scheme = head.scheme, let port = head.port else {
            return .refused(
                Problem(
                    .requestInvalid,
                    "This is a forward proxy: the request line must hold the whole URL (GET http://host/path). "
                        + "Point the client at it with http_proxy, or use a gateway listener for requests without one."
                ),
                nil
            )
        }
        let isHTTPS = if case .https = scheme { true } else { false }
        if let known = routes.lookup(isHTTPS: isHTTPS, host: head.hostBytes, port: port) { return decision(known) }
        guard let host = head.host else {
            return .refused(Problem(.requestInvalid, "The request names no host."), nil)
        }
        let route = router.route(
            isHTTPS: isHTTPS,
            host: host,
            port: port,
            allowHosts: configuration.allowHosts
        )
        routes.insert(route, isHTTPS: isHTTPS, host: head.hostBytes, port: port)
        return decision(route)
    }

    /// Routes a request that follows a redirect: under the same rules as a client's request, evaluated each time.
    func route(toHop origin: Origin, under router: Router) -> Route {
        if isGateway, let upstream = configuration.upstream, origin.scheme == .https, origin.host == upstream.host,
            origin.port == upstream.port
        {
            return router.route(to: upstream)
        }
        return router.route(
            isHTTPS: origin.scheme == .https,
            host: origin.host,
            port: origin.port,
            allowHosts: configuration.allowHosts
        )
    }

    private func decision(_ route: Route) -> Decision {
        if case .refused(let problem) = route.destination { return .refused(problem, route) }
        return .route(route)
    }

    private func gateway(
        _ head: borrowing RequestHead,
        _ localAddress: @autoclosure () -> SocketAddress?
    ) -> Decision {
        guard let gatewayRoute, let upstream = configuration.upstream else {
            return .refused(Problem(.internal, "The gateway has no upstream."), nil)
        }
        // A request of HTTP/1.0 may have no Host, and is for this listener then. No web page can make one: browsers always send
        // Host, and it is theirs whose names may have been made to lead here.
        guard head.hostKind == nil || ownNames.contains(head, localAddress: localAddress()) else {
            // In absolute-form the client takes it for a proxy.
            let details =
                head.form == .absolute
                ? "This listener is a gateway to \(upstream.host), and no proxy for other hosts. "
                    + "Let the program use a listener of mode forward as its proxy."
                : "The names of this gateway are its own address, localhost, \(upstream.host) and its allowedHosts; the request's Host is another. "
                    + "Add the name to allowedHosts if clients may use it."
            return .refused(Problem(.misdirectedRequest, details), nil)
        }
        if !servesBrowsers {
            let site = RequestingSite(head)
            if site.isOther { return .refused(Problem(site, at: upstream.host), gatewayRoute) }
        }
        return decision(gatewayRoute)
    }

    private func connect(_ head: borrowing RequestHead) -> Decision {
        guard let port = head.port else { return .refused(Problem(.requestInvalid, "The CONNECT names no port."), nil) }
        if let known = connectRoutes.lookup(isHTTPS: false, host: head.hostBytes, port: port) { return decision(known) }
        guard let host = head.host else {
            return .refused(Problem(.requestInvalid, "The request names no host."), nil)
        }
        guard !isGateway else {
            return .refused(
                Problem(.connectDenied, "This listener is a gateway: send it the requests themselves, not a CONNECT."),
                nil
            )
        }
        let route = router.connectRoute(
            host: host,
            port: port,
            allowHosts: configuration.allowHosts
        )
        connectRoutes.insert(route, isHTTPS: false, host: head.hostBytes, port: port)
        return decision(route)
    }
}
