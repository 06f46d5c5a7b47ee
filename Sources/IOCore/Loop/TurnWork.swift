/// The kinds of work that a loop has done in a turn, for the event about a turn that took too long.
///
/// A kind costs its handler one store where its work begins. A turn has the kinds of all its events.
package struct TurnWork: OptionSet, Sendable {
    package let rawValue: UInt16

    @inline(__always)
    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// New connections of clients.
    package static let accept = TurnWork(rawValue: 1 << 0)
    /// TLS handshakes with clients, origins and proxies.
    package static let handshake = TurnWork(rawValue: 1 << 1)
    /// HTTP/1.1 from clients.
    package static let request = TurnWork(rawValue: 1 << 2)
    /// HTTP/1.1 from origins.
    package static let response = TurnWork(rawValue: 1 << 3)
    /// HTTP/2 from clients and origins.
    package static let frames = TurnWork(rawValue: 1 << 4)
    /// Tunnels and other protocols.
    package static let relay = TurnWork(rawValue: 1 << 5)
    /// What name servers have sent.
    package static let name = TurnWork(rawValue: 1 << 6)
    /// Connections to origins and proxies, before their TLS.
    package static let dial = TurnWork(rawValue: 1 << 7)
    /// Stored responses.
    package static let cache = TurnWork(rawValue: 1 << 8)
    package static let timer = TurnWork(rawValue: 1 << 9)
    /// What other threads have handed over.
    package static let message = TurnWork(rawValue: 1 << 10)
    /// A reload.
    package static let policy = TurnWork(rawValue: 1 << 11)

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
