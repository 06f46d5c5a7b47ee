import Glibc

/// The system's resolver (getaddrinfo(3)). Blocks: never on a loop.
package enum AddressLookup {
    /// The addresses of a name, port 0, in the system's order of preference; empty when there are none or the lookup
    /// fails.
    package static func addresses(of name: String) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(name, nil, &hints, &list) == 0 else { return [] }
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
