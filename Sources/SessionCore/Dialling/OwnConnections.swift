// SPDX-License-Identifier: Apache-2.0
package import IOCore
import Synchronization

/// The connections that this process has made, by both their ends: where the kernel may lead one of them back, it is known by
/// them. Each is noted before anything is sent on it.
///
/// The kernel may change the source port of a connection that it leads back, if an older connection has the same: such a connection is
/// not known, but mostly the next one is, which the proxy makes for it.
///
/// `@unchecked Sendable` because the lock guards the set. It is kept only from `watch` on.
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

    /// The entry of one connection, which is removed with this object.
    final class Note {
        private let ends: Ends

        fileprivate init(_ ends: Ends) {
            self.ends = ends
            OwnConnections.all.lock.withLock { _ = OwnConnections.all.known.insert(ends) }
        }

        deinit { OwnConnections.all.lock.withLock { _ = OwnConnections.all.known.remove(ends) } }
    }

    private let isWatched = Atomic(false)
    private let lock = PosixLock()
    private var known: Set<Ends> = []

    private init() {}

    /// Notes the connections that are made from now on.
    package func watch() { isWatched.store(true, ordering: .relaxed) }

    /// - Parameter peer: the address that the socket is connected to.
    /// - Returns: nil where nothing is noted.
    func note(_ descriptor: Int32, to peer: SocketAddress?) -> Note? {
        guard isWatched.load(ordering: .relaxed), let peer, let local = boundAddress(descriptor) else { return nil }
        return Note(Ends(local, peer))
    }

    /// Whether a connection between these ends is one that this process has made.
    package func contains(from source: SocketAddress, to destination: SocketAddress) -> Bool {
        let ends = Ends(source, destination)
        return lock.withLock { known.contains(ends) }
    }
}
