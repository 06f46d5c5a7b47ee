// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// A socket to the kernel's routing (rtnetlink(7)), for notifications of changes or for queries. It belongs to the
/// network namespace of the thread that made it.
package final class NetlinkSocket {
    package let descriptor: Int32
    private var buffer = [UInt8](repeating: 0, count: NetlinkSocket.longestDatagram)

    /// The largest message of the kernel, in reply to dumps.
    private static let longestDatagram = 64 << 10

    package enum Question {
        case links
        case routes
        /// Queries the route to an address: 4 or 16 bytes in network order.
        case route(to: [UInt8])
    }

    package enum Datagram {
        case messages
        case wouldBlock
        /// Whether the kernel has lost messages because the buffer was full: the known state may be wrong.
        case lost
        case failed(IOFailure)
    }

    /// - Parameter watching: whether to receive each change of links, addresses and routes.
    package init(watching: Bool) throws(IOFailure) {
        descriptor = pinproxy_netlink_open(watching ? 1 : 0)
        guard descriptor >= 0 else { throw IOFailure(code: -descriptor, during: "netlink socket") }
    }

    deinit {
        close(descriptor)
    }

    /// - Parameter sequence: the sequence number, which the reply repeats.
    package func ask(_ question: Question, sequence: UInt32) throws(IOFailure) {
        let result =
            switch question {
            case .links: pinproxy_netlink_ask_links(descriptor, sequence)
            case .routes: pinproxy_netlink_ask_routes(descriptor, sequence)
            case .route(let address): pinproxy_netlink_ask_route_to(descriptor, address, address.count, sequence)
            }
        guard result == 0 else { throw IOFailure(code: -result, during: "netlink request") }
    }

    /// Receives one datagram, and passes its messages to `body`.
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
