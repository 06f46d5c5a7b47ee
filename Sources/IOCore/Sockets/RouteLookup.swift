import CShims
import Glibc

/// What the kernel does with packets to an address, asked of its routing (rtnetlink(7), RTM_GETROUTE) at that moment.
///
/// A list of the machine's addresses that is kept and followed is late by the time that a change takes to be told, and
/// knows nothing of routes that make whole blocks local (`ip route add local …`); the kernel's own answer is what a
/// connection will do. It takes one socket and some microseconds, waits for nobody, and is asked only before a dial.
package enum RouteLookup {
    package enum Destination: Equatable, Sendable {
        /// They stay on this machine: the address is one of its own.
        case thisMachine
        /// They leave it, or go nowhere.
        case elsewhere
        /// The kernel cannot be asked: netlink sockets are forbidden to the process, or descriptors have run out.
        case unknown(IOFailure)
    }

    /// By the routing of the network namespace of the thread that calls.
    ///
    /// - Parameter address: of IPv4 or IPv6; a Unix socket's is this machine's.
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
