// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import Testing

@testable import SessionCore

@Suite("The clock of a transfer")
struct TransferClockTests {
    private func timeouts(total: TimeSpan? = nil) -> TaskTimeouts {
        var timeouts = TaskTimeouts()
        timeouts.connect = .seconds(1)
        timeouts.firstByte = .seconds(2)
        timeouts.stall = .seconds(3)
        timeouts.spans.total = total
        return timeouts
    }

    private func expiry(_ clock: TransferClock, at now: UInt64) -> TransferClock.Expiry? {
        var clock = clock
        if case .expired(let expiry) = clock.judge(at: now) { return expiry }
        return nil
    }

    private static let second: UInt64 = 1_000_000_000

    @Test("each phase has its own limit, counted from its beginning")
    func phases() {
        let second = Self.second
        var clock = TransferClock(timeouts(), taskStart: 10 * second, now: 10 * second)
        #expect(clock.deadline == 11 * second)
        #expect(expiry(clock, at: 11 * second - 1) == nil)
        #expect(expiry(clock, at: 11 * second)?.phase == .connecting)
        for (phase, limit) in [(TransferClock.Phase.sending, 3), (.waiting, 2), (.receiving, 3)] {
            clock.enter(phase, at: 20 * second)
            #expect(clock.deadline == (20 + UInt64(limit)) * second)
            #expect(expiry(clock, at: clock.deadline - 1) == nil)
            #expect(expiry(clock, at: clock.deadline)?.phase == phase)
            #expect(expiry(clock, at: clock.deadline)?.isTotal == false)
        }
    }

    @Test("a moving byte postpones a stall", arguments: [TransferClock.Phase.sending, .receiving])
    func activity(phase: TransferClock.Phase) {
        let second = Self.second
        var clock = TransferClock(timeouts(), taskStart: 0, now: 0)
        clock.enter(phase, at: second)
        clock.active(at: 3 * second)
        #expect(expiry(clock, at: 5 * second) == nil)
        #expect(clock.deadline == 6 * second)
        #expect(expiry(clock, at: 6 * second)?.limit == .seconds(3))
    }

    @Test(
        "only the final head ends the wait for it",
        arguments: [TransferClock.Phase.waiting, .connecting, .queued]
    )
    func noActivity(phase: TransferClock.Phase) {
        let second = Self.second
        var timeouts = timeouts()
        timeouts.queue = .seconds(2)
        timeouts.connect = .seconds(2)
        var clock = TransferClock(timeouts, taskStart: 0, now: 0)
        clock.enter(phase, at: second)
        clock.active(at: 2 * second)
        #expect(clock.deadline == 3 * second)
        #expect(expiry(clock, at: 3 * second)?.phase == phase)
    }

    @Test("an informational head restarts only the wait for the final one")
    func informational() {
        let second = Self.second
        var clock = TransferClock(timeouts(total: .seconds(50)), taskStart: 0, now: 0)
        clock.enter(.waiting, at: second)
        clock.originIsAlive(at: 2 * second)
        #expect(clock.deadline == 4 * second)
        clock.originIsAlive(at: 49 * second)
        #expect(expiry(clock, at: 50 * second)?.isTotal == true)
        clock.enter(.sending, at: 10 * second)
        clock.originIsAlive(at: 12 * second)
        #expect(clock.deadline == 13 * second)
    }

    @Test("a suspended task has no phase limit, and its total runs on")
    func suspension() {
        let second = Self.second
        for total: TimeSpan? in [nil, .seconds(50)] {
            var clock = TransferClock(timeouts(total: total), taskStart: 0, now: 0)
            clock.enter(.receiving, at: second)
            clock.suspend()
            #expect(clock.deadline == (total == nil ? UInt64.max : 50 * second))
            #expect(expiry(clock, at: 49 * second) == nil)
            clock.enter(.waiting, at: 5 * second)
            clock.active(at: 6 * second)
            #expect(expiry(clock, at: 49 * second) == nil)
            #expect(expiry(clock, at: 50 * second)?.isTotal == (total == nil ? nil : true))
            clock.resume(at: 40 * second)
            #expect(clock.deadline == 42 * second)
            #expect(expiry(clock, at: 42 * second - 1) == nil)
            #expect(expiry(clock, at: 42 * second)?.phase == .waiting)
        }
    }

    @Test("while waiting for the head, the connection is checked every five seconds")
    func looks() {
        let second = Self.second
        for (limit, interval) in [(60, 5 * second), (2, second / 2), (0, second / 10)] {
            var timeouts = timeouts()
            timeouts.firstByte = .seconds(limit)
            timeouts.connect = .seconds(60)
            var clock = TransferClock(timeouts, taskStart: 0, now: 0)
            #expect(clock.nextJudgement == interval && clock.lookInterval == interval)
            guard case .wait(let next) = clock.judge(at: interval) else {
                Issue.record("no look before the request is out")
                continue
            }
            #expect(next == 2 * interval)
            guard limit > 0 else { continue }
            clock.enter(.waiting, at: interval)
            guard case .look = clock.judge(at: 2 * interval) else {
                Issue.record("a look")
                continue
            }
            #expect(clock.nextJudgement == 3 * interval)
            clock.enter(.receiving, at: 2 * interval)
            clock.active(at: 3 * interval)
            // A body that comes needs no looks.
            if case .look = clock.judge(at: 3 * interval) { Issue.record("a look behind the head") }
            #expect(clock.nextJudgement == clock.deadline)
        }
    }

    @Test("checks begin when the request is sent, and pause with its task")
    func looksWhileSending() {
        let second = Self.second
        var timeouts = timeouts()
        timeouts.stall = .seconds(60)
        var clock = TransferClock(timeouts, taskStart: 0, now: 10 * second)
        #expect(clock.nextJudgement == 10 * second + second / 2)
        clock.enter(.sending, at: 10 * second)
        guard case .look = clock.judge(at: 11 * second) else {
            Issue.record("a request that waits for its body is not looked at")
            return
        }
        clock.suspend()
        if case .look = clock.judge(at: 12 * second) { Issue.record("a suspended task is looked at") }
        clock.resume(at: 12 * second)
        guard case .look = clock.judge(at: 13 * second) else {
            Issue.record("a resumed task is not looked at")
            return
        }
    }

    @Test("an expiry has the error of its phase, and says which setting it was")
    func errors() throws {
        let endpoint = Endpoint(
            scheme: .https,
            host: try Host("a.example"),
            port: 443,
            policy: .unpinned,
            anchors: TrustAnchors(certificates: []),
            proxy: SessionProxy(host: try Host("proxy.example"), port: 3128)
        )
        func error(_ phase: TransferClock.Phase, isTotal: Bool, _ stage: ConnectionStage = .connection) -> SessionError
        {
            TransferClock.Expiry(phase: phase, isTotal: isTotal, limit: .seconds(7)).error(endpoint, at: stage)
        }
        for (phase, stage, code, setting) in [
            (TransferClock.Phase.queued, ConnectionStage.lookup, SessionError.Code.limitReached, "timeouts.queue"),
            (.connecting, .lookup, .dnsTimeout, "timeouts.connect"),
            (.connecting, .tunnel, .connectTimeout, "proxy.example:3128 has opened no tunnel"),
            (.connecting, .connection, .connectTimeout, "timeouts.connect"),
            (.waiting, .connection, .responseTimeout, "timeouts.firstByte"),
            (.sending, .connection, .stalled, "timeouts.stall"), (.receiving, .connection, .stalled, "timeouts.stall"),
        ] {
            let error = error(phase, isTotal: false, stage)
            #expect(error.code == code && error.details.contains(setting) && error.details.contains("(7000 ms)"))
        }
        for (phase, code) in [
            (TransferClock.Phase.queued, SessionError.Code.connectTimeout), (.connecting, .connectTimeout),
            (.sending, .responseTimeout), (.waiting, .responseTimeout), (.receiving, .responseTimeout),
        ] {
            let error = error(phase, isTotal: true, .lookup)
            #expect(error.code == code && error.details.contains("timeouts.total (7000 ms)"))
        }
    }

    @Test("the total counts from the task's start and goes before all phases")
    func total() {
        let second = Self.second
        var clock = TransferClock(timeouts(total: .seconds(4)), taskStart: 0, now: 2 * second)
        clock.enter(.receiving, at: 3 * second)
        #expect(clock.deadline == 4 * second)
        clock.active(at: 3 * second + 1)
        #expect(expiry(clock, at: 4 * second)?.isTotal == true)
        #expect(expiry(clock, at: 4 * second - 1) == nil)
        #expect(expiry(clock, at: 60 * second)?.isTotal == true, "both are over")
    }

    @Test("a kept connection that had rested for a second is doubted")
    func doubt() {
        let second = Self.second
        var clock = TransferClock(timeouts(), taskStart: 0, now: 0)
        clock.beginExchange(at: 5 * second)
        #expect(clock.exchangeBegan == 5 * second)
        #expect(clock.doubts(4 * second) && clock.doubts(0))
        #expect(!clock.doubts(4 * second + 1) && !clock.doubts(nil))
        clock.enter(.waiting, at: 9 * second)
        #expect(!clock.doubts(5 * second), "the time of the request itself does not count")
    }
}
