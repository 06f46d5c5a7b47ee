// SPDX-License-Identifier: Apache-2.0

/// The status at a time; `reachable` has the type of link.
public enum NetworkReachabilityStatus: Sendable, Hashable {
    /// The type of link that sends packets.
    public enum ConnectionType: Sendable, Hashable {
        /// A cable, or a link that the kernel treats as one, for example that of a virtual machine or a container.
        case ethernet
        /// A wireless network (IEEE 802.11).
        case wifi
        /// A modem: a mobile network, or a dial-up connection.
        case cellular
        /// The machine itself, tunnels, and all other types.
        case other
    }

    /// There is no listener, or the status is not known yet.
    case unknown
    /// There is no route; for a name, also when it has no address.
    case notReachable
    /// There is a route, over that type of link.
    case reachable(ConnectionType)
}
