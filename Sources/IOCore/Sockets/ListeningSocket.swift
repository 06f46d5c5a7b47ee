// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// A listening descriptor: one for an address, shared by all the loops that accept from it.
///
/// `Sendable` because it is immutable after `init`, and any thread may call accept4(2).
package final class ListeningSocket: Sendable {
    package let descriptor: Int32
    /// The bound address, with the port that the kernel chose for port 0.
    package let address: SocketAddress
    /// The file to remove at the end.
    private let unixPath: String?
    /// Whether the service manager has the socket, too: it listens on when this process stops.
    private let isPassed: Bool

    /// The result of `accept`.
    package enum Accepted {
        case connection(Int32, SocketAddress)
        case wouldBlock
        /// Out of descriptors or memory: wait before the next attempt.
        case exhausted(IOFailure)
    }

    /// Binds and listens.
    ///
    /// - Throws: `IOFailure` with `EADDRINUSE` when another process has the address, whatever its state: no port is
    ///   ever shared between processes. A stale file of a Unix socket is removed first.
    package init(_ wanted: SocketAddress, backlog: Int32 = 4096, mode: UInt32 = 0o660) throws(IOFailure) {
        let family: Int32
        switch wanted.family {
        case .ipv4: family = AF_INET
        case .ipv6: family = AF_INET6
        case .unix:
            family = AF_UNIX
            try Self.removeStale(wanted)
        }
        let created = pinproxy_stream_socket(family)
        guard created >= 0 else { throw IOFailure(code: -created, during: "socket") }
        do throws(IOFailure) {
            if wanted.family != .unix { _ = pinproxy_set_reuse_address(created) }
            if wanted.family == .ipv6 { _ = pinproxy_set_v6_only(created) }
            guard let bound = wanted.withSockaddr({ bind(created, $0, $1) }) else {
                throw IOFailure(code: ENAMETOOLONG, during: "bind")
            }
            guard bound == 0 else { throw IOFailure(code: errno, during: "bind") }
            if wanted.family == .unix { chmod(wanted.path, mode) }
            guard listen(created, backlog) == 0 else { throw IOFailure(code: errno, during: "listen") }
        } catch {
            close(created)
            throw error
        }
        descriptor = created
        isPassed = false
        if wanted.family == .unix {
            address = wanted
            unixPath = wanted.path
        } else {
            address = boundAddress(created) ?? wanted
            unixPath = nil
        }
    }

    /// Adopts a socket of the service manager, which listens already.
    package init(passed descriptor: Int32, _ address: SocketAddress) {
        self.descriptor = descriptor
        self.address = address
        unixPath = nil
        isPassed = true
    }

    deinit {
        close(descriptor)
        if let unixPath { unlink(unixPath) }
    }

    /// Stops listening: new connections are refused, although loops still hold the descriptor. Those to a socket of the
    /// service manager wait for the next process instead.
    package func refuse() {
        guard !isPassed else { return }
        shutdown(descriptor, Int32(SHUT_RD))
        if let unixPath { unlink(unixPath) }
    }

    /// Accepts the next waiting connection.
    package func accept() -> Accepted {
        var storage = sockaddr_storage()
        var length = socklen_t(0)
        let accepted = pinproxy_accept(descriptor, &storage, &length)
        guard accepted >= 0 else {
            let code = -accepted
            return code == EAGAIN || code == EWOULDBLOCK
                ? .wouldBlock : .exhausted(IOFailure(code: code, during: "accept4"))
        }
        let peer = withUnsafePointer(to: &storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { SocketAddress($0, length: length) }
        }
        return .connection(accepted, peer ?? address)
    }

    /// Removes the socket file of a killed process: connect(2) is refused there. A file in use is an error.
    private static func removeStale(_ address: SocketAddress) throws(IOFailure) {
        var status = stat()
        guard lstat(address.path, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFSOCK else { throw IOFailure(code: EEXIST, during: "bind") }
        let probe = pinproxy_stream_socket(AF_UNIX)
        guard probe >= 0 else { throw IOFailure(code: -probe, during: "socket") }
        defer { close(probe) }
        let code = address.withSockaddr { connect(probe, $0, $1) == 0 ? 0 : errno }
        if code == ECONNREFUSED { unlink(address.path) } else { throw IOFailure(code: EADDRINUSE, during: "bind") }
    }
}
