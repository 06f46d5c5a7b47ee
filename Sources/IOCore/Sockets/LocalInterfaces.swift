import CShims
import Glibc

/// The addresses of this machine's network interfaces, with port 0 (getifaddrs(3)).
package enum LocalInterfaces {
    package static var addresses: [SocketAddress] {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return [] }
        defer { freeifaddrs(list) }
        var found: [SocketAddress] = []
        var entry = list
        while let current = entry {
            if let address = current.pointee.ifa_addr,
                let known = SocketAddress(address, length: socklen_t(MemoryLayout<sockaddr_storage>.size)),
                known.family != .unix
            {
                found.append(known)
            }
            entry = current.pointee.ifa_next
        }
        return found
    }
}
