// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// The client's end of a TCP connection over loopback, which is a socket of this machine: the kernel says whose it is, to
/// everybody (sock_diag(7)).
///
/// A query takes one socket and some microseconds, and never blocks.
package struct LoopbackClient: Equatable, Sendable {
    /// The two ends of the client's socket. IPv4 addresses in their IPv6 form are IPv4 addresses.
    struct Ends: Equatable, Sendable {
        var source: SocketAddress
        var destination: SocketAddress
    }

    /// A socket, as the kernel describes it.
    struct Row: Equatable, Sendable {
        var ends: Ends
        var state: Int32
        var inode: UInt32
        var user: UInt32
        /// The state of the accepted socket, read after the rest.
        var ownState: Int32
        /// Whether the accepted socket belongs to the network namespace that was asked.
        var isOfSameNetwork: Bool
    }

    /// The user whose process made the socket.
    package let user: UInt32

    /// Asks the kernel about an accepted connection; nil when it is not one over loopback, or when the kernel does not say for
    /// certain.
    package init?(of accepted: borrowing StreamSocket) {
        guard let remote = peerAddress(accepted.descriptor), let local = accepted.localAddress else { return nil }
        let ends = Ends(source: remote.unmapped, destination: local.unmapped)
        guard ends.source.isLoopback, ends.destination.isLoopback else { return nil }
        guard case .found(let row) = Self.ask(accepted.descriptor, ends) else { return nil }
        self.init(row, ends)
    }

    /// Decides from what the kernel has found.
    ///
    /// - The kernel may find another socket, such as a listener at the client's port: both ends are compared.
    /// - A socket that its process has closed belongs to nobody, and its row says user 0. Who connects, sends a request and
    ///   closes would be root. The inode is read after the user, and is 0 from the moment on when the socket has no owner.
    /// - A client that has gone leaves its port to the next one: the accepted connection is looked at last, and where it still
    ///   lives no other socket can have had its ends meanwhile.
    init?(_ row: Row, _ ends: Ends) {
        let isConnected = [PINPROXY_TCP_ESTABLISHED, PINPROXY_TCP_FIN_WAIT1, PINPROXY_TCP_FIN_WAIT2].contains(row.state)
        let isAlive = row.ownState == PINPROXY_TCP_ESTABLISHED || row.ownState == PINPROXY_TCP_CLOSE_WAIT
        guard row.ends == ends, isConnected, isAlive, row.inode != 0, row.isOfSameNetwork else { return nil }
        user = row.user
    }

    private enum Answer {
        case found(Row)
        case failed(IOFailure)
    }

    private static func ask(_ accepted: Int32, _ ends: Ends) -> Answer {
        let source = ends.source.octets
        let destination = ends.destination.octets
        var end = pinproxy_client_end()
        let code = pinproxy_client_end(
            accepted,
            source.count,
            source,
            ends.source.port,
            destination,
            ends.destination.port,
            &end
        )
        guard code == 0 else { return .failed(IOFailure(code: -code, during: "netlink socket diagnostics")) }
        func address(_ octets: [UInt8], port: UInt16) -> SocketAddress {
            SocketAddress(octets: octets, port: port).unmapped
        }
        let length = Int(end.length)
        let found = withUnsafeBytes(of: &end.source) { Array($0.prefix(length)) }
        let other = withUnsafeBytes(of: &end.destination) { Array($0.prefix(length)) }
        return .found(
            Row(
                ends: Ends(
                    source: address(found, port: end.source_port),
                    destination: address(other, port: end.destination_port)
                ),
                state: Int32(end.state),
                inode: end.inode,
                user: end.user,
                ownState: Int32(end.own_state),
                isOfSameNetwork: end.same_network != 0
            )
        )
    }

    /// Why the kernel cannot be asked; nil when it can. To be called before a loop asks: for the first question the kernel may load
    /// a module, for which the caller waits.
    package static func fault() -> String? {
        do throws(IOFailure) {
            // A listener is found by its own address alone.
            let listener = try ListeningSocket(.loopback(port: 0), backlog: 1)
            let ends = Ends(source: listener.address, destination: .loopback(port: 0))
            switch ask(listener.descriptor, ends) {
            case .failed(let failure): return "\(failure)"
            case .found(let row) where row.ends.source != listener.address || row.inode == 0:
                return "it finds another socket"
            case .found(let row) where !row.isOfSameNetwork:
                return "it does not say to which network a socket belongs (Linux 5.14 does)"
            case .found: return nil
            }
        } catch {
            return "\(error)"
        }
    }
}

extension SocketAddress {
    /// An IPv4 address for an IPv6 address that is one (RFC 4291, section 2.5.5.2).
    fileprivate var unmapped: SocketAddress {
        guard family == .ipv6, upper == 0, lower >> 32 == 0xFFFF else { return self }
        return SocketAddress(ipv4: UInt32(truncatingIfNeeded: lower), port: port)
    }

    fileprivate var isLoopback: Bool {
        switch family {
        case .ipv4: ipv4 >> 24 == 127
        case .ipv6: upper == 0 && lower == 1
        case .unix: false
        }
    }

    /// The address in network order.
    fileprivate var octets: [UInt8] {
        let halves = [upper.bigEndian, lower.bigEndian].flatMap { withUnsafeBytes(of: $0) { Array($0) } }
        return family == .ipv4 ? Array(halves.prefix(4)) : halves
    }

    fileprivate init(octets: [UInt8], port: UInt16) {
        var halves: [UInt64] = [0, 0]
        for (index, octet) in octets.prefix(16).enumerated() {
            halves[index / 8] |= UInt64(octet) << UInt64(56 - 8 * (index % 8))
        }
        if octets.count == 4 {
            self.init(ipv4: UInt32(truncatingIfNeeded: halves[0] >> 32), port: port)
        } else {
            self.init(ipv6Upper: halves[0], lower: halves[1], port: port)
        }
    }
}
