// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// The address from which the kernel would connect to another one.
package enum SourceAddress {
    /// A question to the kernel's table of routes: nothing is sent.
    ///
    /// - Returns: nil without a route, or without a descriptor to ask with.
    package static func find(for destination: SocketAddress) -> SocketAddress? {
        let descriptor = pinproxy_datagram_socket(destination.family == .ipv4 ? AF_INET : AF_INET6)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        guard destination.withSockaddr({ connect(descriptor, $0, $1) }) == 0 else { return nil }
        return boundAddress(descriptor)
    }
}
