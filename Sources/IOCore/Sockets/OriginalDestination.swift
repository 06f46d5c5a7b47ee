// SPDX-License-Identifier: Apache-2.0
import Glibc

extension StreamSocket {
    /// Where the client of an accepted connection has connected to, before netfilter redirected it here (`SO_ORIGINAL_DST`,
    /// `IP6T_SO_ORIGINAL_DST`). Behind TPROXY, and where nothing is tracked, that is the local address of the socket.
    package var originalDestination: SocketAddress? {
        guard let local = localAddress else { return nil }
        let level = local.family == .ipv6 ? Int32(IPPROTO_IPV6) : Int32(IPPROTO_IP)
        guard local.family != .unix else { return nil }
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        guard getsockopt(descriptor, level, Self.originalDestinationOption, &storage, &length) == 0 else {
            return local
        }
        let found = withUnsafePointer(to: &storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { SocketAddress($0, length: length) }
        }
        return found ?? local
    }

    /// The number is the same in linux/netfilter_ipv4.h and linux/netfilter_ipv6/ip6_tables.h, which Glibc does not have.
    private static let originalDestinationOption: Int32 = 80
}

extension ListeningSocket {
    /// Lets TPROXY give the socket connections to addresses of others (`IP_TRANSPARENT`, ip(7)), which needs CAP_NET_ADMIN or
    /// CAP_NET_RAW. REDIRECT needs neither.
    ///
    /// - Returns: whether the system allows it.
    @discardableResult
    package func takeConnectionsToOthers() -> Bool {
        var on: Int32 = 1
        let size = socklen_t(MemoryLayout<Int32>.size)
        return switch address.family {
        case .ipv4: setsockopt(descriptor, Int32(IPPROTO_IP), Self.transparent, &on, size) == 0
        case .ipv6: setsockopt(descriptor, Int32(IPPROTO_IPV6), Self.transparent6, &on, size) == 0
        case .unix: false
        }
    }

    private static let transparent: Int32 = 19
    private static let transparent6: Int32 = 75
}
