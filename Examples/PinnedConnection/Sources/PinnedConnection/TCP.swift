// SPDX-License-Identifier: Apache-2.0
import Glibc

enum TCP {
    /// A connected socket, blocking.
    static func connect(host: String, port: UInt16) throws -> Int32 {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, "\(port)", &hints, &list)
        guard code == 0 else { throw Fault(description: "\(host): \(String(cString: gai_strerror(code)))") }
        defer { freeaddrinfo(list) }
        var reason = "no address"
        var next = list
        while let address = next?.pointee {
            let descriptor = socket(address.ai_family, address.ai_socktype | Int32(SOCK_CLOEXEC.rawValue), 0)
            if descriptor >= 0, Glibc.connect(descriptor, address.ai_addr, address.ai_addrlen) == 0 {
                return descriptor
            }
            reason = String(cString: strerror(errno))
            if descriptor >= 0 { close(descriptor) }
            next = address.ai_next
        }
        throw Fault(description: "\(host):\(port): \(reason)")
    }

    struct Fault: Error, CustomStringConvertible {
        var description: String
    }
}
