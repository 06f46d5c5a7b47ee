// SPDX-License-Identifier: Apache-2.0
package import Glibc

/// The address of a socket: an IPv4 or IPv6 address with a port, or a Unix socket's path.
package struct SocketAddress: Hashable, Sendable, CustomStringConvertible {
    package enum Family: UInt8, Sendable { case ipv4, ipv6, unix }

    package let family: Family
    /// The upper half of an IPv6 address, first octet uppermost; an IPv4 address is in its top 32 bits.
    package let upper: UInt64
    /// The lower half of an IPv6 address.
    package let lower: UInt64
    package let port: UInt16
    /// The zone of a link-local IPv6 address.
    package let scope: UInt32
    /// The path of a Unix socket; empty for the nameless end of a connection.
    package let path: String

    /// - Parameter ipv4: the address as a number, first octet uppermost.
    package init(ipv4: UInt32, port: UInt16) {
        family = .ipv4
        upper = UInt64(ipv4) << 32
        lower = 0
        self.port = port
        scope = 0
        path = ""
    }

    package init(ipv6Upper: UInt64, lower: UInt64, port: UInt16, scope: UInt32 = 0) {
        family = .ipv6
        upper = ipv6Upper
        self.lower = lower
        self.port = port
        self.scope = scope
        path = ""
    }

    package init(unixPath: String) {
        family = .unix
        upper = 0
        lower = 0
        port = 0
        scope = 0
        path = unixPath
    }

    /// The same address with another port.
    package func withPort(_ port: UInt16) -> SocketAddress {
        switch family {
        case .ipv4: SocketAddress(ipv4: ipv4, port: port)
        case .ipv6: SocketAddress(ipv6Upper: upper, lower: lower, port: port, scope: scope)
        case .unix: self
        }
    }

    package static func loopback(port: UInt16) -> SocketAddress { SocketAddress(ipv4: 0x7F00_0001, port: port) }

    /// The IPv4 address as a number, first octet uppermost.
    package var ipv4: UInt32 { UInt32(truncatingIfNeeded: upper >> 32) }

    /// A number by which clients are told apart where they share threads: the IPv4 address, or the network of an IPv6 one
    /// (64 bits, which one client may have all to itself).
    package var party: UInt64 { upper ^ UInt64(family.rawValue) }

    /// Makes an address from the result of a system call; nil for other address families.
    package init?(_ address: UnsafePointer<sockaddr>, length: socklen_t) {
        switch Int32(address.pointee.sa_family) {
        case AF_INET where length >= MemoryLayout<sockaddr_in>.size:
            let (number, port) = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                (UInt32(bigEndian: $0.pointee.sin_addr.s_addr), UInt16(bigEndian: $0.pointee.sin_port))
            }
            self.init(ipv4: number, port: port)
        case AF_INET6 where length >= MemoryLayout<sockaddr_in6>.size:
            let (upper, lower, port, scope) = address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { six in
                withUnsafeBytes(of: six.pointee.sin6_addr) { raw in
                    (
                        UInt64(bigEndian: raw.loadUnaligned(as: UInt64.self)),
                        UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self)),
                        UInt16(bigEndian: six.pointee.sin6_port), six.pointee.sin6_scope_id
                    )
                }
            }
            self.init(ipv6Upper: upper, lower: lower, port: port, scope: scope)
        case AF_UNIX:
            self.init(unixPath: "")
        default:
            return nil
        }
    }

    /// Calls `body` with the address as a `sockaddr`; nil when a Unix path is too long for the system.
    package func withSockaddr<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result? {
        switch family {
        case .ipv4:
            var four = sockaddr_in()
            four.sin_family = sa_family_t(AF_INET)
            four.sin_port = port.bigEndian
            four.sin_addr.s_addr = ipv4.bigEndian
            return withUnsafePointer(to: &four) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
        case .ipv6:
            var six = sockaddr_in6()
            six.sin6_family = sa_family_t(AF_INET6)
            six.sin6_port = port.bigEndian
            six.sin6_scope_id = scope
            withUnsafeMutableBytes(of: &six.sin6_addr) { raw in
                raw.storeBytes(of: upper.bigEndian, as: UInt64.self)
                raw.storeBytes(of: lower.bigEndian, toByteOffset: 8, as: UInt64.self)
            }
            return withUnsafePointer(to: &six) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    body($0, socklen_t(MemoryLayout<sockaddr_in6>.size))
                }
            }
        case .unix:
            var unix = sockaddr_un()
            unix.sun_family = sa_family_t(AF_UNIX)
            let bytes = Array(path.utf8)
            let room = MemoryLayout.size(ofValue: unix.sun_path)
            guard bytes.count < room else { return nil }
            withUnsafeMutableBytes(of: &unix.sun_path) { $0.copyBytes(from: bytes) }
            let length = MemoryLayout<sockaddr_un>.size - room + bytes.count + 1
            return withUnsafePointer(to: &unix) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(length)) }
            }
        }
    }

    /// `127.0.0.1:8080`, `[::1]:8080`, or `unix:` and the path.
    package var description: String {
        var buffer = ByteBuffer()
        append(to: &buffer)
        return buffer.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }

    /// Appends the description to a buffer, without a `String` for network addresses.
    package func append(to buffer: inout ByteBuffer) {
        switch family {
        case .ipv4:
            appendDotted(ipv4, to: &buffer)
        case .ipv6:
            buffer.append(UInt8(ascii: "["))
            appendGroups(to: &buffer)
            buffer.append(UInt8(ascii: "]"))
        case .unix:
            buffer.append("unix:")
            buffer.append(text: path)
            return
        }
        buffer.append(UInt8(ascii: ":"))
        buffer.append(decimal: Int(port))
    }

    private func appendDotted(_ number: UInt32, to buffer: inout ByteBuffer) {
        for index: UInt32 in 0..<4 {
            if index > 0 { buffer.append(UInt8(ascii: ".")) }
            buffer.append(decimal: Int(number >> (24 - 8 * index) & 255))
        }
    }

    /// RFC 5952: lower case, the longest run of two or more zero groups as `::`, the first of equals.
    private func appendGroups(to buffer: inout ByteBuffer) {
        if upper == 0, lower >> 32 == 0xFFFF {
            buffer.append("::ffff:")
            appendDotted(UInt32(truncatingIfNeeded: lower), to: &buffer)
            return
        }
        func group(_ index: Int) -> Int {
            Int((index < 4 ? upper >> (48 - 16 * index) : lower >> (112 - 16 * index)) & 0xFFFF)
        }
        var bestStart = -1
        var bestLength = 1
        var start = 0
        while start < 8 {
            var end = start
            while end < 8, group(end) == 0 { end += 1 }
            if end - start > bestLength {
                bestStart = start
                bestLength = end - start
            }
            start = max(end, start + 1)
        }
        var index = 0
        while index < 8 {
            if index == bestStart {
                buffer.append("::")
                index += bestLength
                continue
            }
            if index > 0, index != bestStart + bestLength || bestStart < 0 { buffer.append(UInt8(ascii: ":")) }
            buffer.append(hexadecimal: group(index))
            index += 1
        }
    }
}
