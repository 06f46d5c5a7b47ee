// SPDX-License-Identifier: Apache-2.0
import CShims

/// The readiness of a descriptor.
public struct Readiness: OptionSet, Sendable {
    public let rawValue: UInt32
    @inline(__always)
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    package static let readable = Readiness(rawValue: PINPROXY_EVENT_IN)
    package static let writable = Readiness(rawValue: PINPROXY_EVENT_OUT)
    package static let failed = Readiness(rawValue: PINPROXY_EVENT_ERROR)
    /// Both directions have ended: the peer is gone.
    package static let hungUp = Readiness(rawValue: PINPROXY_EVENT_HANGUP)
    /// The peer has ended its side; it may still read.
    package static let peerClosed = Readiness(rawValue: PINPROXY_EVENT_PEER_CLOSED)
    /// Edge-triggered: only changes are reported.
    package static let edge = Readiness(rawValue: UInt32(bitPattern: Int32.min))
    /// After one event nothing more is reported, not even the end, until `modify`.
    package static let oneShot = Readiness(rawValue: 1 << 30)
    /// Only one of the loops that wait for a listener is woken.
    package static let exclusive = Readiness(rawValue: 1 << 28)
}

/// Work that is often put off to the end of a turn. A base class: a closure for each time would be an allocation.
open class EndOfTurnHandler {
    /// Whether this turn calls it.
    var isPlanned = false

    package init() {}

    /// Called on the loop's thread, when no handler is on the stack.
    open func turnEnds() {
        preconditionFailure("a handler answers its events")
    }
}

/// The receiver of a descriptor's events. A base class, so that the call needs no existential.
open class EventHandler {
    package init() {}

    /// Called on the loop's thread.
    open func ready(_ readiness: Readiness) {
        preconditionFailure("a handler answers its events")
    }
}
