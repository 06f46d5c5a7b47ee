// SPDX-License-Identifier: Apache-2.0
/// Decides whether a server is asked: after some failures in a row it is not, for a time that doubles with each failed probe.
///
/// A value: events go in with their times, in nanoseconds of a monotonic clock.
struct CircuitBreaker {
    private static let failuresToOpen = 5
    private static let shortestWait: UInt64 = 1_000_000_000
    private static let longestWait: UInt64 = 30_000_000_000
    /// A probe whose result has not come by then has failed: its command may have been lost on the way to the server.
    private static let longestProbe: UInt64 = 5_000_000_000

    private enum State {
        case closed(failures: Int)
        case open(until: UInt64, wait: UInt64)
        /// One command is under way, after so long a wait.
        case probing(until: UInt64, wait: UInt64)
    }

    private var state = State.closed(failures: 0)

    /// Whether the server is of no use as far as is known. Still true while it is probed.
    var isOpen: Bool {
        if case .closed = state { false } else { true }
    }

    /// Whether a command may go. While it is open it allows one probe when its time is over.
    mutating func allows(now: UInt64) -> Bool {
        if case .probing(let end, _) = state, now >= end { failed(now: end) }
        switch state {
        case .closed: return true
        case .probing: return false
        case .open(let end, let wait):
            guard now >= end else { return false }
            state = .probing(until: now &+ Self.longestProbe, wait: wait)
            return true
        }
    }

    mutating func succeeded() {
        // A reply to a command from before the failures says nothing new about the server.
        if case .open = state { return }
        state = .closed(failures: 0)
    }

    mutating func failed(now: UInt64) {
        switch state {
        case .closed(let failures):
            state =
                failures + 1 < Self.failuresToOpen
                ? .closed(failures: failures + 1)
                : .open(until: now &+ Self.shortestWait, wait: Self.shortestWait)
        case .probing(_, let wait):
            let next = min(2 * wait, Self.longestWait)
            state = .open(until: now &+ next, wait: next)
        // Commands that were sent before still fail.
        case .open: break
        }
    }
}
