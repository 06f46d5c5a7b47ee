// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import IOCore
import ProxyConfiguration

/// The names of a listener (invariant 16). A name that an attacker's DNS resolves to this machine is not one of them.
package struct OwnNames {
    /// Further names besides `localhost` and the address that the client has connected to.
    let hosts: [Host]

    package init(hosts: [Host]) { self.hosts = hosts }

    package func contains(_ head: borrowing RequestHead, localAddress: @autoclosure () -> SocketAddress?) -> Bool {
        guard let kind = head.hostKind else { return false }
        if head.hostBytes.equals("localhost") { return true }
        for host in hosts where head.hostBytes.equals(host.bytes.span) { return true }
        guard kind != .name, let local = localAddress().flatMap({ AddressAndPort($0) }) else { return false }
        return head.hostBytes.equals(Host(local.address).bytes.span)
    }
}
