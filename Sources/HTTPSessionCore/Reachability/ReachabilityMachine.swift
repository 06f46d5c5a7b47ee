// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// The requests to the kernel, and the status from its replies. A value: an event goes in, actions come out, and the
/// monitor carries them out.
///
/// Each change of the network begins a round of requests. A change during a round begins another one at its end, so
/// that the final status is up to date.
struct ReachabilityMachine {
    typealias Status = NetworkReachabilityStatus

    /// The watched destination.
    enum Target: Equatable, Sendable {
        /// Any address beyond this machine: whether there is a default route over a running link.
        case everything
        case address(IPAddress)
        /// A name, which is looked up in each round.
        case name(String)
    }

    enum Action: Equatable {
        case askLinks(sequence: UInt32)
        case askRoutes(sequence: UInt32)
        case askRoute(IPAddress, sequence: UInt32)
        case resolve(String, sequence: UInt32)
        /// The status has changed since the last report.
        case report(Status)
    }

    private enum Phase: Equatable {
        case idle
        case resolving
        case links
        case routes
        case routeToAddress(Int)
    }

    /// The number of the open request; replies to others are ignored.
    private(set) var sequence: UInt32 = 0
    private let target: Target
    private let isWireless: (String) -> Bool
    private var phase = Phase.idle
    private var hasChanged = false
    private var reported = Status.unknown
    private var addresses: [IPAddress] = []
    private var links: [NetworkLink] = []
    private var defaultRoutes: [NetworkRoute] = []

    /// - Parameter isWireless: whether an interface has an IEEE 802.11 radio.
    init(_ target: Target, isWireless: @escaping (String) -> Bool) {
        self.target = target
        self.isWireless = isWireless
    }

    // MARK: Events

    /// The network may have changed; this is also the first event.
    mutating func networkChanged() -> [Action] {
        guard phase == .idle else {
            hasChanged = true
            return []
        }
        return beginRound()
    }

    /// Replies were lost: the round begins again.
    mutating func repliesLost() -> [Action] {
        phase == .idle ? [] : beginRound()
    }

    /// - Parameter addresses: empty when the name has none, or cannot be looked up now.
    mutating func resolved(_ addresses: [IPAddress], sequence: UInt32) -> [Action] {
        guard phase == .resolving, sequence == self.sequence else { return [] }
        self.addresses = addresses
        return addresses.isEmpty ? finish(.notReachable) : askLinks()
    }

    /// - Parameter message: part of the reply with the number `sequence`.
    mutating func received(_ message: NetlinkMessage) -> [Action] {
        switch (phase, message) {
        case (.links, .link(let link)):
            links.append(link)
            return []
        case (.links, .done):
            return target == .everything ? askRoutes() : askRoute(0)
        case (.routes, .route(let route)):
            if route.isDefault { defaultRoutes.append(route) }
            return []
        case (.routes, .done):
            return finish(assessDefaultRoutes())
        case (.routeToAddress(let index), .route(let route)):
            if let type = connectionType(of: route) { return finish(.reachable(type)) }
            return askRoute(index + 1)
        case (.routeToAddress(let index), .error(let code)) where code != 0:
            return askRoute(index + 1)
        case (.links, .error(let code)) where code != 0, (.routes, .error(let code)) where code != 0:
            return finish(.unknown)
        default:
            return []
        }
    }

    // MARK: Rounds

    private mutating func beginRound() -> [Action] {
        hasChanged = false
        links = []
        defaultRoutes = []
        switch target {
        case .everything:
            return askLinks()
        case .address(let address):
            addresses = [address]
            return askLinks()
        case .name(let name):
            phase = .resolving
            sequence &+= 1
            return [.resolve(name, sequence: sequence)]
        }
    }

    private mutating func askLinks() -> [Action] {
        phase = .links
        sequence &+= 1
        return [.askLinks(sequence: sequence)]
    }

    private mutating func askRoutes() -> [Action] {
        phase = .routes
        sequence &+= 1
        return [.askRoutes(sequence: sequence)]
    }

    private mutating func askRoute(_ index: Int) -> [Action] {
        guard index < addresses.count else { return finish(.notReachable) }
        phase = .routeToAddress(index)
        sequence &+= 1
        return [.askRoute(addresses[index], sequence: sequence)]
    }

    private mutating func finish(_ status: Status) -> [Action] {
        phase = .idle
        var actions: [Action] = []
        if status != reported {
            reported = status
            actions.append(.report(status))
        }
        return hasChanged ? actions + beginRound() : actions
    }

    // MARK: Assessment

    private func assessDefaultRoutes() -> Status {
        let usable = defaultRoutes.sorted { $0.metric < $1.metric }.lazy.compactMap { route in
            self.connectionType(of: route, beyondThisMachine: true)
        }
        return usable.first.map { .reachable($0) } ?? .notReachable
    }

    /// The type of a route's link; nil when it cannot send packets: the kernel keeps routes over links without a
    /// carrier.
    private func connectionType(
        of route: NetworkRoute,
        beyondThisMachine: Bool = false
    ) -> NetworkReachabilityStatus.ConnectionType? {
        guard route.isUnicast, let link = links.first(where: { $0.index == route.link }), link.isRunning,
            !(beyondThisMachine && link.isLoopback)
        else { return nil }
        return link.connectionType(isWireless: isWireless(link.name))
    }
}
