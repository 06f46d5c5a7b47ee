// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import SessionCore

/// A connection that the kernel has redirected to a transparent listener. An object, since all other connections have none.
final class Redirection: Sendable {
    /// The address that the client has connected to.
    let original: AddressAndPort
    /// Why nothing of it is served; nil for most.
    let refusal: Problem?
    /// The client has begun with TLS: until that is intercepted, the only request is the CONNECT that stands for its hello.
    let isTLS: Bool

    init(original: AddressAndPort, refusal: Problem?, isTLS: Bool) {
        self.original = original
        self.refusal = refusal
        self.isTLS = isTLS
    }
}

/// The routes of a transparent listener: by what the client names, and by the address that it has connected to.
struct RedirectedRoutes {
    private let router: Router
    private let allowHosts: HostPatternSet
    private let rule: ListenerConfiguration.OriginalDestination
    private var requests = RouteCache()
    private var connects = RouteCache()

    init(_ listener: ListenerConfiguration, _ router: Router) {
        self.router = router
        allowHosts = listener.allowHosts
        rule = listener.originalDestination
    }

    mutating func request(isHTTPS: Bool, to host: Host, port: UInt16, from original: AddressAndPort) -> Route {
        let key = key(host, original)
        if let known = requests.lookup(isHTTPS: isHTTPS, host: key.span, port: port) { return known }
        let named = router.route(isHTTPS: isHTTPS, host: host, port: port, allowHosts: allowHosts)
        let route = place(named, original)
        requests.insert(route, isHTTPS: isHTTPS, host: key.span, port: port)
        return route
    }

    /// The route of the CONNECT that stands for a hello.
    mutating func connect(to host: Host, port: UInt16, from original: AddressAndPort) -> Route {
        let key = key(host, original)
        if let known = connects.lookup(isHTTPS: true, host: key.span, port: port) { return known }
        let named = router.connectRoute(host: host, port: port, allowHosts: allowHosts, isTLS: true)
        let route = place(named, original)
        connects.insert(route, isHTTPS: true, host: key.span, port: port)
        return route
    }

    private func place(_ route: Route, _ original: AddressAndPort) -> Route {
        switch rule {
        case .verify: router.place(route, at: original.address)
        case .ignore: route
        }
    }

    /// The host and, where it counts, the original address. No host has a slash.
    private func key(_ host: Host, _ original: AddressAndPort) -> [UInt8] {
        switch rule {
        case .verify: host.bytes + [UInt8(ascii: "/")] + original.address.networkOrder
        case .ignore: host.bytes
        }
    }
}

extension Router {
    /// The route with the address that the client has connected to as the only one that is dialled. That the address is one of the
    /// host's is found out before it is dialled, where the host is a name; address rules decide about it here and then.
    func place(_ route: Route, at address: IPAddress) -> Route {
        switch route.destination {
        case .origin(let endpoint): place(route, endpoint, at: address) { .origin($0) }
        case .tunnel(let endpoint): place(route, endpoint, at: address) { .tunnel($0) }
        case .intercept(let endpoint): place(route, endpoint, at: address) { .intercept($0) }
        case .requests, .refused: route
        }
    }

    private func place(
        _ route: Route,
        _ endpoint: Endpoint,
        at address: IPAddress,
        _ make: (Endpoint) -> Route.Destination
    ) -> Route {
        let settings = snapshot.policy(for: endpoint.host).configuration
        if let own = settings.resolve?.address ?? endpoint.host.address {
            return own == address ? route : route.to(.refused(Self.misdirected(endpoint.host, own, address)))
        }
        let verdict = snapshot.access.evaluate(address, port: endpoint.port)
        guard verdict == .allowed else {
            let place = AddressAndPort(address, endpoint.port)
            return route.to(
                .refused(
                    Problem(
                        .addressDenied,
                        "\(place), which the client has connected to for \(endpoint.host), may not be dialled: \(snapshot.access.describe(verdict)). Change access.denyAddresses if it should be."
                    )
                )
            )
        }
        return route.to(make(endpoint.at(address)))
    }

    private static func misdirected(_ host: Host, _ own: IPAddress, _ original: IPAddress) -> Problem {
        let cause = host.address == nil ? "the \"resolve\" of \(host) is \(own)" : "its request is for \(own)"
        return Problem(
            .misdirectedRequest,
            "The client has connected to \(original), and \(cause). Let the listener have \"originalDestination\": \"ignore\" if the name should decide."
        )
    }
}
