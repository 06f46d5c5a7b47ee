// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SharedCaching

@Suite("A breaker spares a server that fails")
struct CircuitBreakerTests {
    private static let second: UInt64 = 1_000_000_000
    private static let start: UInt64 = 7_000_000_000_000

    /// A breaker in an object, because `#expect` takes no mutating call.
    private final class Bench {
        private var breaker = CircuitBreaker()

        var isOpen: Bool { breaker.isOpen }
        func allows(now: UInt64) -> Bool { breaker.allows(now: now) }
        func succeeded() { breaker.succeeded() }
        func failed(now: UInt64) { breaker.failed(now: now) }
    }

    private static func opened(at now: UInt64 = start) -> Bench {
        let breaker = Bench()
        for _ in 0..<5 { breaker.failed(now: now) }
        return breaker
    }

    @Test("five failures in a row open it, four do not")
    func opens() {
        let breaker = Bench()
        for _ in 0..<4 {
            breaker.failed(now: Self.start)
            #expect(!breaker.isOpen)
            #expect(breaker.allows(now: Self.start))
        }
        breaker.failed(now: Self.start)
        #expect(breaker.isOpen)
        #expect(!breaker.allows(now: Self.start))
    }

    @Test("a success begins the count anew")
    func successResets() {
        let breaker = Bench()
        for _ in 0..<100 {
            for _ in 0..<4 { breaker.failed(now: Self.start) }
            breaker.succeeded()
        }
        #expect(!breaker.isOpen)
        #expect(breaker.allows(now: Self.start))
    }

    @Test("after a second one probe goes, and a success closes it")
    func probeSucceeds() {
        let breaker = Self.opened()
        #expect(!breaker.allows(now: Self.start + Self.second - 1))
        #expect(breaker.allows(now: Self.start + Self.second))
        #expect(!breaker.allows(now: Self.start + Self.second))
        #expect(breaker.isOpen)
        breaker.succeeded()
        #expect(!breaker.isOpen)
        #expect(breaker.allows(now: Self.start + Self.second))
        // The five are counted anew.
        for _ in 0..<4 { breaker.failed(now: Self.start + Self.second) }
        #expect(!breaker.isOpen)
    }

    @Test("each failed probe doubles the wait, up to thirty seconds")
    func waitDoubles() {
        let breaker = Self.opened()
        var now = Self.start
        for wait in [1, 2, 4, 8, 16, 30, 30, 30] as [UInt64] {
            #expect(!breaker.allows(now: now + wait * Self.second - 1))
            now += wait * Self.second
            #expect(breaker.allows(now: now))
            breaker.failed(now: now)
            #expect(breaker.isOpen)
        }
    }

    @Test("a success sets the wait back to a second")
    func waitBeginsAnew() {
        let breaker = Self.opened()
        var now = Self.start + Self.second
        #expect(breaker.allows(now: now))
        breaker.failed(now: now)
        now += 2 * Self.second
        #expect(breaker.allows(now: now))
        breaker.succeeded()
        for _ in 0..<5 { breaker.failed(now: now) }
        #expect(!breaker.allows(now: now + Self.second - 1))
        #expect(breaker.allows(now: now + Self.second))
    }

    @Test("a probe without a result has failed after five seconds")
    func probeIsLost() {
        let breaker = Self.opened()
        let probe = Self.start + Self.second
        #expect(breaker.allows(now: probe))
        #expect(!breaker.allows(now: probe + 5 * Self.second - 1))
        // The wait of two seconds counts from then.
        #expect(!breaker.allows(now: probe + 5 * Self.second))
        #expect(!breaker.allows(now: probe + 7 * Self.second - 1))
        #expect(breaker.allows(now: probe + 7 * Self.second))
    }

    @Test("a lost probe that is noticed late does not lengthen the wait")
    func probeIsLostLongAgo() {
        let breaker = Self.opened()
        #expect(breaker.allows(now: Self.start + Self.second))
        #expect(breaker.allows(now: Self.start + 3600 * Self.second))
        #expect(!breaker.allows(now: Self.start + 3600 * Self.second))
    }

    @Test("results of earlier commands change nothing while it is open")
    func lateResults() {
        let breaker = Self.opened()
        breaker.succeeded()
        #expect(breaker.isOpen)
        for _ in 0..<100 { breaker.failed(now: Self.start + Self.second / 2) }
        #expect(breaker.allows(now: Self.start + Self.second))
    }
}
