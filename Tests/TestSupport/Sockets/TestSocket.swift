// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// Plain blocking sockets for tests. Every call has the tests' time limit.
package enum TestSocket {
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
        /// errno
        package let code: Int32

        package init(_ call: String) {
            code = errno
            description = "\(call): \(String(cString: strerror(errno)))"
        }
    }

    /// A write to a closed connection must return an error and not kill the process with SIGPIPE.
    package static let ready: Bool = {
        Glibc.signal(SIGPIPE, SIG_IGN)
        // A long backlog for the tests with thousands of connections.
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(7), &limit)
        limit.rlim_cur = min(limit.rlim_max, 16_384)
        setrlimit(__rlimit_resource_t(7), &limit)
        return true
    }()

    /// A listening socket on a free port of 127.0.0.1.
    package static func listen() throws -> (descriptor: Int32, port: UInt16) {
        _ = ready
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Failure("socket") }
        var address = loopback(0)
        let bound = withAddress(&address) { bind(descriptor, $0, $1) }
        guard bound == 0, Glibc.listen(descriptor, 4096) == 0 else {
            defer { close(descriptor) }
            throw Failure("listen")
        }
        return (descriptor, try port(of: descriptor))
    }

    /// Listening sockets on one free port of 127.0.0.1 and of ::1: a name with two addresses.
    package static func listenOnBoth() throws -> (ipv4: Int32, ipv6: Int32, port: UInt16) {
        let (ipv4, ipv6, port) = try listen(with: AF_INET6, SOCK_STREAM) { descriptor, port in
            var one: Int32 = 1
            setsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, &one, socklen_t(MemoryLayout<Int32>.size))
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_addr = in6addr_loopback
            address.sin6_port = port.bigEndian
            return withAddress(&address) { bind(descriptor, $0, $1) } == 0 && Glibc.listen(descriptor, 4096) == 0
        }
        return (ipv4, ipv6, port)
    }

    /// A listening socket and one for datagrams, on one free port of 127.0.0.1: a name server.
    package static func listenWithDatagrams() throws -> (listener: Int32, datagrams: Int32, port: UInt16) {
        let (listener, datagrams, port) = try listen(with: AF_INET, SOCK_DGRAM) { descriptor, port in
            var address = loopback(port)
            return withAddress(&address) { bind(descriptor, $0, $1) } == 0
        }
        return (listener, datagrams, port)
    }

    /// Listening sockets on one free port of 127.0.0.1, 127.0.0.2 and so on: a name with several addresses.
    package static func listenOnSeveral(_ count: Int) throws -> (descriptors: [Int32], port: UInt16) {
        for _ in 0..<100 {
            let (first, port) = try listen()
            var descriptors = [first]
            while descriptors.count < count {
                let next = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
                var address = loopback(port)
                address.sin_addr.s_addr = UInt32(0x7F00_0001 + descriptors.count).bigEndian
                guard next >= 0, withAddress(&address, { bind(next, $0, $1) }) == 0, Glibc.listen(next, 4096) == 0
                else {
                    if next >= 0 { close(next) }
                    break
                }
                descriptors.append(next)
            }
            if descriptors.count == count { return (descriptors, port) }
            for descriptor in descriptors { close(descriptor) }
        }
        throw Failure("find a port that is free at several addresses")
    }

    /// Has the system drop what else comes for a listening socket: its queue is full, and nobody accepts.
    ///
    /// - Returns: the connection that fills it.
    package static func dropSYNs(at listener: Int32) throws -> Int32 {
        guard Glibc.listen(listener, 0) == 0 else { throw Failure("listen") }
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let named = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(listener, $0, &length) }
        }
        guard named == 0 else { throw Failure("getsockname") }
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Failure("socket") }
        return try finish(descriptor, withAddress(&address) { Glibc.connect(descriptor, $0, $1) })
    }

    /// A listening socket, and another socket on a port of the same number. A port that is free for the one may be taken for the
    /// other; then the next is tried.
    ///
    /// - Parameter bound: binds the other; false with errno.
    private static func listen(
        with family: Int32,
        _ kind: __socket_type,
        _ bound: (_ descriptor: Int32, _ port: UInt16) -> Bool
    ) throws -> (Int32, Int32, UInt16) {
        for _ in 0..<100 {
            let (listener, port) = try listen()
            let other = socket(family, Int32(kind.rawValue | SOCK_CLOEXEC.rawValue), 0)
            if other >= 0, bound(other, port) { return (listener, other, port) }
            let isTaken = errno == EADDRINUSE
            let failure = Failure("bind a second socket")
            close(listener)
            if other >= 0 { close(other) }
            guard isTaken else { throw failure }
        }
        throw Failure("find a port that is free for two sockets")
    }

    /// A reserved port on 127.0.0.1 without a listener: connections to it are refused. A program that sets SO_REUSEADDR, as
    /// servers do, can listen there while the port is reserved, and nobody else is given it.
    package static func reserveRefusingPort() throws -> (descriptor: Int32, port: UInt16) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Failure("socket") }
        var one: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
        var address = loopback(0)
        guard withAddress(&address, { bind(descriptor, $0, $1) }) == 0 else { throw Failure("bind") }
        return (descriptor, try port(of: descriptor))
    }

    package static func connect(port: UInt16, receiveBuffer: Int32? = nil) throws -> Int32 {
        _ = ready
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Failure("socket") }
        if var receiveBuffer {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, socklen_t(MemoryLayout<Int32>.size))
        }
        var address = loopback(port)
        return try finish(descriptor, withAddress(&address) { Glibc.connect(descriptor, $0, $1) })
    }

    package static func connect(unixPath: String) throws -> Int32 {
        _ = ready
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Failure("socket") }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(unixPath.utf8)
        precondition(bytes.count < MemoryLayout.size(ofValue: address.sun_path), "\(unixPath) is too long")
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        return try finish(descriptor, withAddress(&address) { Glibc.connect(descriptor, $0, $1) })
    }

    private static func finish(_ descriptor: Int32, _ result: Int32) throws -> Int32 {
        guard result == 0 else {
            defer { close(descriptor) }
            throw Failure("connect")
        }
        setTimeouts(descriptor)
        return descriptor
    }

    /// Sets the time limit of later reads and writes.
    package static func setTimeouts(_ descriptor: Int32, seconds: Int = Int(Patience.seconds)) {
        var time = timeval(tv_sec: seconds, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, size)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &time, size)
    }

    /// Closes so that the peer gets a reset.
    package static func reset(_ descriptor: Int32) {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<linger>.size))
        close(descriptor)
    }

    private static func loopback(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = port.bigEndian
        return address
    }

    private static func port(of descriptor: Int32) throws -> UInt16 {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        guard result == 0 else { throw Failure("getsockname") }
        return UInt16(bigEndian: address.sin_port)
    }

    private static func withAddress<Address, Result>(
        _ address: inout Address,
        _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<Address>.size))
            }
        }
    }
}
