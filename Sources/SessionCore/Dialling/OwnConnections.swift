// SPDX-License-Identifier: Apache-2.0
import CShims
package import IOCore
import Synchronization

/// The connections that this process has made, by both their ends: where the kernel may lead one of them back, it is known by
/// them. Each is noted before anything is sent on it.
///
/// The kernel may change the source port of a connection that it redirects, if an older connection has the same. One of this process that
/// is led back so is not known, but mostly the next one is, which the proxy makes for it. A client's may get a port that one of this
/// process has: but on that one bytes have come, or it has ended, and on one that is led back nobody has sent anything yet.
///
/// `@unchecked Sendable` because the lock guards the table. It is kept only from `watch` on.
package final class OwnConnections: @unchecked Sendable {
    package static let all = OwnConnections()

    fileprivate struct Ends: Hashable {
        let source: SocketAddress
        let destination: SocketAddress

        /// Without the zones of link-local addresses, which are not named everywhere.
        init(_ source: SocketAddress, _ destination: SocketAddress) {
            self.source = Self.plain(source)
            self.destination = Self.plain(destination)
        }

        private static func plain(_ address: SocketAddress) -> SocketAddress {
            guard address.family == .ipv6, address.scope != 0 else { return address }
            return SocketAddress(ipv6Upper: address.upper, lower: address.lower, port: address.port)
        }
    }

    /// The entry of one connection, which is removed with this object, before the socket is closed.
    final class Note {
        private let ends: Ends
        private let descriptor: Int32

        fileprivate init(_ ends: Ends, _ descriptor: Int32) {
            self.ends = ends
            self.descriptor = descriptor
            OwnConnections.all.lock.withLock { OwnConnections.all.known[ends] = descriptor }
        }

        deinit {
            OwnConnections.all.lock.withLock {
                // The port of one that was reset is another one's before this one is closed.
                if OwnConnections.all.known[ends] == descriptor { OwnConnections.all.known[ends] = nil }
            }
        }
    }

    private let isWatched = Atomic(false)
    private let lock = PosixLock()
    private var known: [Ends: Int32] = [:]

    private init() {}

    /// Notes the connections that are made from now on.
    package func watch() { isWatched.store(true, ordering: .relaxed) }

    /// - Parameter peer: the address that the socket is connected to.
    /// - Returns: nil where nothing is noted.
    func note(_ descriptor: Int32, to peer: SocketAddress?) -> Note? {
        guard isWatched.load(ordering: .relaxed), let peer, let local = boundAddress(descriptor) else { return nil }
        return Note(Ends(local, peer), descriptor)
    }

    /// Whether a connection between these ends, on which nothing has been sent to the source, is one that this process has made.
    package func contains(from source: SocketAddress, to destination: SocketAddress) -> Bool {
        let ends = Ends(source, destination)
        // The socket is open as long as it is noted.
        return lock.withLock { known[ends].map { pinproxy_received_bytes($0) == 0 } ?? false }
    }
}
