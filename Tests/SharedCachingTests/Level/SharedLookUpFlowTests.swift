// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SharedCaching

@Suite("The course of a look-up in the shared cache")
struct SharedLookUpFlowTests {
    typealias Flow = SharedLookUpFlow

    private static let millisecond: UInt64 = 1_000_000

    private static func flow(waits: Bool = true, patience: UInt64 = 5000) -> Flow {
        Flow(timeout: 5 * millisecond, patience: patience * millisecond, waits: waits, now: 0)
    }

    /// The replies of a round.
    private static func reply(_ flow: inout Flow, now: UInt64 = 0, isBehind: Bool = false) -> Flow.Action {
        #expect(flow.handle(.hash, now: now) == .none)
        return flow.handle(.count(isBehind: isBehind), now: now)
    }

    /// A flow that waits for another machine from now on.
    private static func waiting(patience: UInt64 = 5000) -> Flow {
        var flow = flow(patience: patience)
        #expect(reply(&flow) == .judge)
        #expect(flow.handle(.judged(.useless), now: 0) == .takeLease)
        #expect(flow.handle(.lease(.others), now: 0) == .none)
        #expect(flow.hasWaited)
        return flow
    }

    @Test("an entry is found with both replies, in any order")
    func found() {
        var flow = Self.flow()
        #expect(flow.wakesAt == 5 * Self.millisecond)
        #expect(flow.handle(.count(isBehind: false), now: 1) == .none)
        #expect(flow.handle(.hash, now: 2) == .judge)
        #expect(flow.handle(.judged(.found), now: 2) == .end(isFound: true, .plain))
        #expect(flow.handle(.time, now: 100 * Self.millisecond) == .none)
    }

    @Test("purges are read before the entry is judged")
    func purges() {
        var flow = Self.flow(waits: false)
        #expect(Self.reply(&flow, isBehind: true) == .catchUp)
        #expect(flow.handle(.caughtUp, now: 0) == .judge)
        #expect(flow.handle(.judged(.useless), now: 0) == .takeLease)
        // It takes the lease, and does not wait for another machine that has it.
        #expect(flow.handle(.lease(.others), now: 0) == .end(isFound: false, .plain))
    }

    @Test("the names of Vary lead to one more question, and chunks to another")
    func furtherQuestions() {
        var flow = Self.flow()
        #expect(Self.reply(&flow) == .judge)
        #expect(flow.handle(.judged(.variants), now: 0) == .askVariant)
        #expect(flow.wakesAt == 5 * Self.millisecond)
        #expect(flow.handle(.hash, now: 1) == .judge)
        #expect(flow.handle(.judged(.foundHead), now: 1) == .askBody)
        #expect(flow.handle(.body(isWhole: true), now: 2) == .end(isFound: true, .plain))
    }

    @Test("names of Vary in the place of a variant are of no use")
    func endlessVariants() {
        var flow = Self.flow(waits: false)
        _ = Self.reply(&flow)
        _ = flow.handle(.judged(.variants), now: 0)
        #expect(flow.handle(.hash, now: 0) == .judge)
        #expect(flow.handle(.judged(.variants), now: 0) == .takeLease)
    }

    @Test("a failure before both replies leaves no ticket, later it does")
    func failures() {
        var flow = Self.flow()
        _ = flow.handle(.hash, now: 0)
        #expect(flow.handle(.failed(.busy), now: 0) == .end(isFound: false, .none))
        #expect(flow.failure == .busy)
        flow = Self.flow()
        #expect(Self.reply(&flow, isBehind: true) == .catchUp)
        #expect(flow.handle(.failed(.closed), now: 0) == .end(isFound: false, .none))
        flow = Self.flow()
        _ = Self.reply(&flow)
        _ = flow.handle(.judged(.foundHead), now: 0)
        #expect(flow.handle(.time, now: 5 * Self.millisecond) == .end(isFound: false, .plain))
        #expect(flow.failure == .timeout)
    }

    @Test("a look-up has no more than its timeout")
    func deadline() {
        var flow = Self.flow()
        #expect(flow.handle(.time, now: 4 * Self.millisecond) == .none)
        _ = flow.handle(.hash, now: 4 * Self.millisecond)
        #expect(flow.handle(.time, now: 5 * Self.millisecond) == .end(isFound: false, .none))
    }

    @Test("a lease that is taken, or may be, is in the ticket")
    func lease() {
        var flow = Self.flow()
        _ = Self.reply(&flow)
        #expect(!flow.isFirstOver)
        #expect(flow.handle(.judged(.useless), now: 3) == .takeLease)
        // The lease is a part of the look-up, and of its time.
        #expect(!flow.isFirstOver && flow.wakesAt == 5 * Self.millisecond)
        #expect(flow.handle(.lease(.own), now: 4) == .end(isFound: false, .leased) && flow.isFirstOver)
        flow = Self.flow()
        _ = Self.reply(&flow)
        _ = flow.handle(.judged(.useless), now: 0)
        #expect(flow.handle(.failed(.timeout), now: 4) == .end(isFound: false, .leased))
    }

    @Test("nobody waits for a response that was not for others, nor without patience")
    func alone() {
        var flow = Self.flow()
        _ = Self.reply(&flow)
        _ = flow.handle(.judged(.useless), now: 0)
        #expect(flow.handle(.lease(.notForOthers), now: 0) == .end(isFound: false, .plain))
        #expect(!flow.hasWaited)
        flow = Self.flow(patience: 0)
        _ = Self.reply(&flow)
        _ = flow.handle(.judged(.useless), now: 0)
        #expect(flow.handle(.lease(.others), now: 0) == .end(isFound: false, .plain))
    }

    @Test("polls come after 10, 20, 40, and then each 50 milliseconds")
    func polls() {
        var flow = Self.waiting()
        var now: UInt64 = 0
        for pause: UInt64 in [10, 20, 40, 50, 50] {
            #expect(flow.wakesAt == now + pause * Self.millisecond)
            #expect(flow.handle(.time, now: flow.wakesAt - 1) == .none)
            now = flow.wakesAt
            #expect(flow.handle(.time, now: now) == .ask(lease: true))
            #expect(flow.wakesAt == now + 5 * Self.millisecond)
            #expect(Self.reply(&flow, now: now) == .none)
            #expect(flow.handle(.lease(.others), now: now) == .judge)
            #expect(flow.handle(.judged(.useless), now: now) == .none)
        }
        now = flow.wakesAt
        _ = flow.handle(.time, now: now)
        _ = flow.handle(.lease(.nobody), now: now)
        #expect(Self.reply(&flow, now: now) == .judge)
        #expect(flow.handle(.judged(.foundHead), now: now + 1) == .askBody)
        #expect(flow.wakesAt == now + 1 + 5 * Self.millisecond)
        #expect(flow.handle(.body(isWhole: true), now: now + 2) == .end(isFound: true, .plain))
    }

    @Test("a lease that is gone is taken during the wait")
    func goneLease() {
        var flow = Self.waiting()
        _ = flow.handle(.time, now: flow.wakesAt)
        _ = flow.handle(.lease(.nobody), now: 1)
        _ = Self.reply(&flow)
        #expect(flow.handle(.judged(.useless), now: 1) == .takeLease)
        #expect(flow.handle(.lease(.others), now: 1) == .none)
        #expect(flow.wakesAt == 1 + 20 * Self.millisecond)
    }

    @Test("the wait ends with patience, and with any failure")
    func patience() {
        var flow = Self.waiting(patience: 15)
        #expect(flow.handle(.time, now: 10 * Self.millisecond) == .ask(lease: true))
        #expect(flow.wakesAt == 15 * Self.millisecond)
        #expect(flow.handle(.time, now: 15 * Self.millisecond) == .end(isFound: false, .plain))
        #expect(flow.failure == nil)
        flow = Self.waiting()
        _ = flow.handle(.time, now: 10 * Self.millisecond)
        #expect(flow.handle(.failed(.busy), now: 10 * Self.millisecond) == .end(isFound: false, .plain))
    }

    @Test("replies that no question of this moment has are ignored")
    func strangeReplies() {
        var flow = Self.flow()
        for event: Flow.Event in [.caughtUp, .judged(.found), .body(isWhole: true)] {
            #expect(flow.handle(event, now: 0) == .none)
        }
        #expect(Self.reply(&flow) == .judge)
        for event: Flow.Event in [.hash, .count(isBehind: true), .lease(.own), .body(isWhole: true)] {
            #expect(flow.handle(event, now: 0) == .none)
        }
    }
}
