// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The system's resolver (getaddrinfo(3)). Blocks: never on a loop.
package enum AddressLookup {
    /// The addresses of a name, port 0, in the system's order of preference; empty when there are none or the lookup
    /// fails.
    package static func addresses(of name: String) -> [SocketAddress] {
        (try? find(name)) ?? []
    }

    /// Why a lookup has failed.
    package struct Failure: Error {
        /// Whether the resolver says that the name has no address.
        package let isUnknown: Bool
        /// gai_strerror(3)
        package let words: String
    }

    /// The same, with the reason of a failure.
    package static func find(_ name: String) throws(Failure) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let result = getaddrinfo(name, nil, &hints, &list)
        guard result == 0 else {
            throw Failure(
                // EAI_NODATA is an extension of GNU, -5.
                isUnknown: result == EAI_NONAME || result == -5,
                words: String(cString: gai_strerror(result))
            )
        }
        defer { freeaddrinfo(list) }
        var found: [SocketAddress] = []
        var entry = list
        while let current = entry {
            if let address = current.pointee.ai_addr,
                let known = SocketAddress(address, length: current.pointee.ai_addrlen)
            {
                found.append(known)
            }
            entry = current.pointee.ai_next
        }
        return found
    }
}
