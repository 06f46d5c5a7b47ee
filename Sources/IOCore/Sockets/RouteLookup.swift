// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// The kernel's current route for packets to an address (rtnetlink(7), RTM_GETROUTE).
///
/// A maintained list of the machine's addresses would be late after a change, and would not include routes that make
/// whole blocks local (`ip route add local …`). The kernel's reply is exactly what a connection will use. A query takes
/// one socket and some microseconds, never blocks, and is made only before a connection.
package enum RouteLookup {
    package enum Destination: Equatable, Sendable {
        /// The packets stay on this machine: the address is one of its own.
        case thisMachine
        /// The packets leave the machine, or are unroutable.
        case elsewhere
        /// The query failed: the process must not use netlink sockets, or is out of descriptors.
        case unknown(IOFailure)
    }

    /// Queries the routes of the calling thread's network namespace.
    ///
    /// - Parameter address: an IPv4 or IPv6 address; a Unix socket is always on this machine.
    package static func destination(of address: SocketAddress) -> Destination {
        let type: Int32
        switch address.family {
        case .ipv4:
            var bytes = address.ipv4.bigEndian
            type = pinproxy_netlink_route_type(&bytes, 4)
        case .ipv6:
            var bytes = (address.upper.bigEndian, address.lower.bigEndian)
            type = pinproxy_netlink_route_type(&bytes, 16)
        case .unix:
            return .thisMachine
        }
        if type < 0 { return .unknown(IOFailure(code: -type, during: "netlink route")) }
        return type == PINPROXY_ROUTE_LOCAL || type == PINPROXY_ROUTE_ANYCAST ? .thisMachine : .elsewhere
    }
}
