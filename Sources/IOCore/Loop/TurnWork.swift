// SPDX-License-Identifier: Apache-2.0
/// The kinds of work that a loop has done in a turn, for the event about a turn that took too long.
///
/// A kind costs its handler one store where its work begins. A turn has the kinds of all its events.
package struct TurnWork: OptionSet, Sendable {
    package let rawValue: UInt16

    @inline(__always)
    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// New connections of clients.
    package static var accept: TurnWork { TurnWork(rawValue: 1 << 0) }
    /// TLS handshakes with clients, origins and proxies.
    package static var handshake: TurnWork { TurnWork(rawValue: 1 << 1) }
    /// HTTP/1.1 from clients.
    package static var request: TurnWork { TurnWork(rawValue: 1 << 2) }
    /// HTTP/1.1 from origins.
    package static var response: TurnWork { TurnWork(rawValue: 1 << 3) }
    /// HTTP/2 from clients and origins.
    package static var frames: TurnWork { TurnWork(rawValue: 1 << 4) }
    /// Tunnels and other protocols.
    package static var relay: TurnWork { TurnWork(rawValue: 1 << 5) }
    /// Responses of name servers.
    package static var name: TurnWork { TurnWork(rawValue: 1 << 6) }
    /// Connections to origins and proxies, before their TLS.
    package static var dial: TurnWork { TurnWork(rawValue: 1 << 7) }
    /// Stored responses.
    package static var cache: TurnWork { TurnWork(rawValue: 1 << 8) }
    package static var timer: TurnWork { TurnWork(rawValue: 1 << 9) }
    /// Work that other threads have handed over.
    package static var message: TurnWork { TurnWork(rawValue: 1 << 10) }
    /// A reload.
    package static var policy: TurnWork { TurnWork(rawValue: 1 << 11) }

    /// The number of kinds.
    static let count = 12

    private static let allNames = [
        "accept", "handshake", "request", "response", "frames", "relay", "name", "dial", "cache", "timer", "message",
        "policy",
    ]

    /// The names of the kinds, for people and programs.
    package var names: [String] {
        Self.allNames.enumerated().filter { contains(TurnWork(rawValue: 1 << UInt16($0.offset))) }.map(\.element)
    }
}
