import IOCore

/// Whether the workers' loops go round. Each is asked to answer, and one that has not for a long time is stuck: nothing
/// but a restart will help it.
///
/// `@unchecked Sendable`: `loops` is immutable, `book` is touched behind `lock` alone.
final class LoopPulse: @unchecked Sendable {
    private let loops: [EventLoop]
    private let lock = PosixLock()
    private var book: PulseBook

    init(_ loops: [EventLoop]) {
        self.loops = loops
        book = PulseBook(count: loops.count)
    }

    /// Whether all of them have answered what they were asked, or may still do so in time. Asks those anew that have:
    /// who wants to know must come again.
    func check(at now: UInt64 = Clock.monotonic) -> Bool {
        let (isAlive, asked) = lock.withLock { (book.isAlive(at: now), book.ask(at: now)) }
        for index in asked {
            loops[index].submit { [self] in lock.withLock { book.answered(index) } }
        }
        return isAlive
    }
}

/// Who was asked and has not answered. A value; times are nanoseconds that only grow.
struct PulseBook {
    /// No turn of a loop takes this long, unless it never ends.
    static let patience: UInt64 = 10_000_000_000

    /// When each was asked that owes an answer.
    private var pending: [UInt64?]

    init(count: Int) {
        pending = Array(repeating: nil, count: count)
    }

    func isAlive(at now: UInt64) -> Bool {
        for index in pending.indices {
            if let asked = pending[index], now > asked, now - asked > Self.patience { return false }
        }
        return true
    }

    /// Asks everyone that owes no answer.
    ///
    /// - Returns: who that is.
    mutating func ask(at now: UInt64) -> [Int] {
        let asked = pending.indices.filter { pending[$0] == nil }
        for index in asked { pending[index] = now }
        return asked
    }

    mutating func answered(_ index: Int) { pending[index] = nil }
}
