// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import ProxyCore

@Suite("When revocation lists are fetched")
struct ListScheduleTests {
    private static let minute: Int64 = 60_000
    private static let hour = 60 * minute

    private func schedule(_ change: (inout ListFetchLimits) -> Void = { _ in }) -> ListSchedule<String> {
        var limits = ListFetchLimits()
        change(&limits)
        return ListSchedule(every: 6 * Self.hour, limits: limits)
    }

    @Test("a list that a connection needs is fetched at once, two together")
    func wanted() {
        var schedule = schedule()
        #expect(schedule.nextDue == nil && schedule.next(at: 0) == nil)
        for key in ["a", "b", "c"] { #expect(schedule.want(key, at: 0) == .wait) }
        #expect(schedule.nextDue == .min)
        #expect(schedule.next(at: 0) == "a" && schedule.next(at: 0) == "b" && schedule.next(at: 0) == nil)
        #expect(schedule.nextDue == nil)
        // Whoever comes later waits for the same fetch.
        #expect(schedule.want("a", at: 1) == .wait)
        schedule.didFetch("a", at: 1, remaining: 24 * Self.hour, chance: 0.5)
        #expect(schedule.next(at: 1) == "c" && schedule.next(at: 1) == nil)
    }

    @Test("a list is renewed after the interval, or two thirds of its time")
    func renewal() {
        for (remaining, chance, due) in [
            (24 * Self.hour, 0.5, 6 * Self.hour), (24 * Self.hour, 0, 6 * Self.hour / 10 * 9),
            (24 * Self.hour, 1, 6 * Self.hour / 10 * 11), (3 * Self.hour, 1, 2 * Self.hour), (10, 1, Self.minute),
            (-5, 1, Self.minute), (Int64.max, 0.5, 6 * Self.hour),
        ] {
            var schedule = schedule()
            _ = schedule.want("a", at: 0)
            _ = schedule.next(at: 0)
            schedule.didFetch("a", at: 1000, remaining: remaining, chance: chance)
            let next = 1000 + due
            #expect(abs((schedule.nextDue ?? 0) - next) <= 2, "\(remaining) \(chance)")
            #expect(schedule.next(at: next - 10) == nil && schedule.next(at: next + 10) == "a")
        }
        var loaded = schedule()
        _ = loaded.want("a", at: 0)
        _ = loaded.next(at: 0)
        loaded.didLoad("a", at: 0)
        #expect(loaded.nextDue == Self.minute)
    }

    @Test("after failures the wait doubles, and a connection shortens it")
    func failures() throws {
        var schedule = schedule()
        _ = schedule.want("a", at: 0)
        var now: Int64 = 0
        var waits: [Int64] = []
        for _ in 0..<30 {
            #expect(schedule.next(at: now) == "a")
            schedule.didFail("a", at: now, fault: "no route")
            let due = try #require(schedule.nextDue)
            waits.append((due - now) / Self.minute)
            now = due
        }
        #expect(waits.prefix(10) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 360] && waits.last == 360)
        _ = schedule.next(at: now)
        schedule.didFail("a", at: now, fault: "no route")
        let refused = schedule.want("a", at: now + 1)
        guard case .refuse(let fault) = refused else { return #expect(Bool(false), "\(refused)") }
        #expect(fault.contains("no route") && fault.contains("60 s"), "\(fault)")
        #expect(schedule.want("a", at: now + Self.minute) == .wait)
        #expect(schedule.next(at: now + Self.minute) == "a")
        // Another policy may let it in.
        schedule.didFail("a", at: now + Self.minute, fault: "denied")
        schedule.retryAll()
        #expect(schedule.want("a", at: now + Self.minute) == .wait)
    }

    @Test("a needed list comes before those that are merely due")
    func order() {
        var schedule = schedule { $0.atOnce = 1 }
        for key in ["a", "b"] {
            _ = schedule.want(key, at: 0)
            _ = schedule.next(at: 0)
            schedule.didFetch(key, at: 0, remaining: 10, chance: 0)
        }
        _ = schedule.want("c", at: Self.hour)
        #expect(schedule.next(at: Self.hour) == "c")
        schedule.didFail("c", at: Self.hour, fault: "")
        #expect(schedule.next(at: Self.hour) == "a")
    }

    @Test("a failed list makes room for a new one, a held one does not")
    func bounds() {
        var schedule = schedule { $0.known = 2 }
        for key in ["a", "b"] {
            _ = schedule.want(key, at: 0)
            _ = schedule.next(at: 0)
        }
        guard case .refuse = schedule.want("c", at: 0) else { return #expect(Bool(false)) }
        schedule.didFail("a", at: 0, fault: "")
        schedule.didFetch("b", at: 0, remaining: Self.hour, chance: 0)
        #expect(schedule.want("c", at: 1) == .wait)
        #expect(!schedule.contains("a") && schedule.contains("b") && schedule.count == 2)
        guard case .refuse = schedule.want("d", at: 1) else { return #expect(Bool(false)) }
        // What is not held, and that nobody wants any more, is forgotten; not while it is fetched.
        #expect(schedule.unwanted(since: 2) { $0 == "b" } == ["c"])
        #expect(schedule.next(at: 2) == "c")
        #expect(schedule.unwanted(since: 2) { $0 == "b" } == [])
        schedule.forget(["b", "c"])
        #expect(schedule.contains("c") && !schedule.contains("b"))
    }
}
