// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Notices workers whose loops do not run any more: such a program has to be restarted.
///
/// `@unchecked Sendable`: `loops` is immutable, `checks` is touched behind `lock` alone.
final class LoopWatchdog: @unchecked Sendable {
    private let loops: [EventLoop]
    private let lock = PosixLock()
    private var checks: LoopChecks

    init(_ loops: [EventLoop]) {
        self.loops = loops
        checks = LoopChecks(count: loops.count)
    }

    /// Whether no loop has left a check without response for too long. Starts a new check of each loop that has responded
    /// to its last one, so that a stuck loop is noticed by a later call.
    ///
    /// - Parameter patience: the nanoseconds that a check may be without response, at most `LoopChecks.patience`.
    func check(at now: UInt64 = Clock.monotonic, patience: UInt64 = LoopChecks.patience) -> Bool {
        let (isAlive, started) = lock.withLock {
            (checks.isAlive(at: now, patience: min(patience, LoopChecks.patience)), checks.start(at: now))
        }
        for index in started {
            loops[index].submit { [self] in lock.withLock { checks.didRespond(index) } }
        }
        return isAlive
    }
}

/// The checks that loops have not responded to yet. A value; times are nanoseconds that only grow.
struct LoopChecks {
    /// No turn of a loop takes this long, unless it never ends.
    static let patience: UInt64 = 10_000_000_000

    /// The start of each loop's pending check; nil when the loop has responded.
    private var pending: [UInt64?]

    init(count: Int) {
        pending = Array(repeating: nil, count: count)
    }

    func isAlive(at now: UInt64, patience: UInt64 = Self.patience) -> Bool {
        for index in pending.indices {
            if let started = pending[index], now > started, now - started > patience { return false }
        }
        return true
    }

    /// Starts a check of each loop that has none pending.
    ///
    /// - Returns: the indices of these loops.
    mutating func start(at now: UInt64) -> [Int] {
        let idle = pending.indices.filter { pending[$0] == nil }
        for index in idle { pending[index] = now }
        return idle
    }

    mutating func didRespond(_ index: Int) { pending[index] = nil }
}
