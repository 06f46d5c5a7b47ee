// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// The listening sockets that a service manager has opened for this process (sd_listen_fds(3)): descriptors from 3 on.
///
/// A value that is used once, at the start, by one thread: `take` gives a descriptor away, and those that nobody takes
/// are closed with the process.
package struct PassedSockets {
    package struct Socket: Equatable, Sendable {
        package let descriptor: Int32
        /// The name of the socket unit, or its `FileDescriptorName`.
        package let name: String
        /// nil for what is no listening stream socket.
        package let address: SocketAddress?
    }

    /// The sockets that nothing has taken.
    package private(set) var left: [Socket]

    /// No sockets.
    package static var none: PassedSockets { PassedSockets(left: []) }

    private init(left: [Socket]) { self.left = left }

    /// The first of the descriptors.
    private static let first: Int32 = 3
    private static let most: Int32 = 1024

    /// - Parameter variable: looks up LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES.
    package init(variable: (String) -> String? = { name in getenv(name).map { String(cString: $0) } }) {
        left = []
        // The variables of another process: they were inherited.
        guard variable("LISTEN_PID") == "\(getpid())", let count = variable("LISTEN_FDS").flatMap({ Int32($0) }),
            count > 0, count <= Self.most
        else { return }
        let names = (variable("LISTEN_FDNAMES") ?? "").split(separator: ":", omittingEmptySubsequences: false)
        for index in 0..<count {
            let descriptor = Self.first + index
            let name = Int(index) < names.count ? String(names[Int(index)]) : "unknown"
            left.append(Socket(descriptor: descriptor, name: name, address: Self.address(of: descriptor)))
        }
    }

    /// Gives the socket with an address away, ready for a loop.
    package mutating func take(_ address: SocketAddress) -> Int32? {
        guard let index = left.firstIndex(where: { $0.address == address }) else { return nil }
        let descriptor = left.remove(at: index).descriptor
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        return descriptor
    }

    private static func address(of descriptor: Int32) -> SocketAddress? {
        guard option(SO_ACCEPTCONN, of: descriptor) == 1,
            option(SO_TYPE, of: descriptor) == Int32(SOCK_STREAM.rawValue)
        else { return nil }
        let bound = boundAddress(descriptor)
        return bound?.family == .unix ? unixPath(of: descriptor).map { SocketAddress(unixPath: $0) } : bound
    }

    private static func option(_ name: Int32, of descriptor: Int32) -> Int32? {
        var value: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(descriptor, SOL_SOCKET, name, &value, &length) == 0 ? value : nil
    }

    /// nil for a socket without a file.
    private static func unixPath(of descriptor: Int32) -> String? {
        var address = sockaddr_un()
        var length = socklen_t(MemoryLayout<sockaddr_un>.size)
        let code = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        guard code == 0 else { return nil }
        let path = withUnsafeBytes(of: address.sun_path) { Array($0.prefix { $0 != 0 }) }
        return path.isEmpty ? nil : String(validating: path, as: UTF8.self)
    }
}
