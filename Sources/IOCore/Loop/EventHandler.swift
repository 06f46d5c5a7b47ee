import CShims

/// What a descriptor is ready for.
public struct Readiness: OptionSet, Sendable {
    public let rawValue: UInt32
    @inline(__always)
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    package static let readable = Readiness(rawValue: PINPROXY_EVENT_IN)
    package static let writable = Readiness(rawValue: PINPROXY_EVENT_OUT)
    package static let failed = Readiness(rawValue: PINPROXY_EVENT_ERROR)
    /// Both directions are over: the peer is gone.
    package static let hungUp = Readiness(rawValue: PINPROXY_EVENT_HANGUP)
    /// The peer has said all it will say; it may still listen.
    package static let peerClosed = Readiness(rawValue: PINPROXY_EVENT_PEER_CLOSED)
    /// Only changes are told, not states.
    package static let edge = Readiness(rawValue: UInt32(bitPattern: Int32.min))
    /// Of all the loops that wait for a listener, one is woken.
    package static let exclusive = Readiness(rawValue: 1 << 28)
}

/// Whoever is told that a descriptor is ready. A class to inherit from, so that the call is a plain one.
open class EventHandler {
    package init() {}

    /// Called on the loop's thread.
    open func ready(_ readiness: Readiness) {
        preconditionFailure("a handler answers its events")
    }
}
