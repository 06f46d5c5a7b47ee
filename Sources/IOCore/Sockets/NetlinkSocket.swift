import CShims
import Glibc

/// A socket to the kernel's routing (rtnetlink(7)): it tells of changes, or answers questions. It sees the network
/// namespace of the thread that made it.
package final class NetlinkSocket {
    package let descriptor: Int32
    private var buffer = [UInt8](repeating: 0, count: NetlinkSocket.longestDatagram)

    /// The kernel's answers to dumps are at most this long.
    private static let longestDatagram = 64 << 10

    package enum Question {
        case links
        case routes
        /// Which way packets to an address go: 4 or 16 bytes in network order.
        case route(to: [UInt8])
    }

    package enum Datagram {
        case messages
        case wouldBlock
        /// The kernel had more to tell than there was room for: what is known may be wrong.
        case lost
        case failed(IOFailure)
    }

    /// - Parameter watching: whether it is told of each change of links, addresses and routes.
    package init(watching: Bool) throws(IOFailure) {
        descriptor = pinproxy_netlink_open(watching ? 1 : 0)
        guard descriptor >= 0 else { throw IOFailure(code: -descriptor, during: "netlink socket") }
    }

    deinit {
        close(descriptor)
    }

    /// - Parameter sequence: what the answer bears.
    package func ask(_ question: Question, sequence: UInt32) throws(IOFailure) {
        let result =
            switch question {
            case .links: pinproxy_netlink_ask_links(descriptor, sequence)
            case .routes: pinproxy_netlink_ask_routes(descriptor, sequence)
            case .route(let address): pinproxy_netlink_ask_route_to(descriptor, address, address.count, sequence)
            }
        guard result == 0 else { throw IOFailure(code: -result, during: "netlink request") }
    }

    /// Takes one datagram, whose messages `body` reads.
    package func receive(_ body: (borrowing Span<UInt8>) -> Void) -> Datagram {
        let count = buffer.withUnsafeMutableBytes { pinproxy_netlink_receive(descriptor, $0.baseAddress, $0.count) }
        switch Int32(-count) {
        case EAGAIN: return .wouldBlock
        case ENOBUFS, EMSGSIZE: return .lost
        case 1...: return .failed(IOFailure(code: Int32(-count), during: "netlink answer"))
        default:
            let received = buffer
            body(received.span.extracting(0..<count))
            return .messages
        }
    }
}
