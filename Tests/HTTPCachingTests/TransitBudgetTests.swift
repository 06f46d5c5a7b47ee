// SPDX-License-Identifier: Apache-2.0
import IOCore
import TestSupport
import Testing

@testable import HTTPCaching

@Suite("The room for bodies that are on their way")
struct TransitBudgetTests {
    private let budget = TransitBudget(capacity: 1000 << 10, patience: 10)

    /// The revoked shares.
    private final class Losses: Sendable {
        let names = Locked<[String]>([])
        var all: [String] { names.withLock { $0 } }
    }

    private let losses = Losses()

    private func begin(_ name: String, _ length: Int?, now: UInt64) -> TransitBudget.Share? {
        let losses = losses
        return budget.begin(length: length.map { $0 << 10 }, now: now) { losses.names.withLock { $0.append(name) } }
    }

    @Test("a known length takes its room at once and returns it at the end")
    func known() throws {
        let one = try #require(begin("one", 600, now: 0))
        #expect(begin("two", 500, now: 0) == nil)
        let two = try #require(begin("two", 400, now: 0))
        #expect(begin("three", nil, now: 0) == nil)
        #expect(budget.consume(400 << 10, for: two, now: 0))
        budget.end(one)
        budget.end(one)
        #expect(budget.used == 400 << 10)
        budget.end(two)
        #expect(budget.used == 0)
    }

    @Test("a body without a length takes room as it arrives")
    func unknown() throws {
        let one = try #require(begin("one", nil, now: 0))
        let two = try #require(begin("two", nil, now: 0))
        #expect(budget.consume(600 << 10, for: one, now: 0) && budget.used == 600 << 10)
        #expect(!budget.consume(500 << 10, for: two, now: 0))
        budget.end(two)
        #expect(budget.used == 600 << 10)
    }

    @Test("a stalled body loses its room when another needs it, the longest first")
    func standing() throws {
        let one = try #require(begin("one", 400, now: 0))
        let two = try #require(begin("two", 400, now: 1))
        let moving = try #require(begin("moving", 200, now: 0))
        #expect(budget.consume(64 << 10, for: moving, now: 9))
        // It is too early; later all stalled shares together are not sufficient.
        #expect(begin("new", 300, now: 9) == nil)
        #expect(begin("new", 900, now: 12) == nil)
        #expect(losses.all == [])
        let new = try #require(begin("new", 300, now: 12))
        #expect(losses.all == ["one"])
        #expect(!budget.consume(1, for: one, now: 12) && budget.consume(1, for: two, now: 12))
        budget.end(one)
        #expect(budget.used == 900 << 10)
        for share in [two, moving, new] { budget.end(share) }
        #expect(budget.used == 0)
    }

    @Test("a trickling body counts as stalled")
    func trickling() throws {
        let one = try #require(begin("one", 1000, now: 0))
        for now in 1..<12 { #expect(budget.consume(100, for: one, now: UInt64(now))) }
        #expect(begin("new", 1, now: 12) != nil)
        #expect(losses.all == ["one"])
    }

    @Test("lengths whose sum overflows are too large, and no trap")
    func greatestLengths() throws {
        let budget = TransitBudget(capacity: .max, patience: 10)
        let one = try #require(budget.begin(length: .max, now: 0) {})
        #expect(budget.begin(length: .max, now: 0) {} == nil && budget.begin(length: nil, now: 0) {} == nil)
        // It has stood still, and gives its room to the next.
        let two = try #require(budget.begin(length: .max, now: 20) {})
        #expect(!budget.consume(1, for: one, now: 20) && budget.used == .max)
        budget.end(two)
        #expect(budget.used == 0)
    }
}
