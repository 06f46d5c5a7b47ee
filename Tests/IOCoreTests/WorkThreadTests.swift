// SPDX-License-Identifier: Apache-2.0
import Foundation
import IOCore
import TestSupport
import Testing

@Suite("Work threads", .onOwnThreads)
struct WorkThreadTests {
    @Test("work runs in the order of calls, on one other thread")
    func workIsDoneInOrder() throws {
        let thread = WorkThread(name: "work")
        defer { thread.stop() }
        let done = Monitor<[Int]>([])
        for number in 0..<100 { #expect(thread.submit { done.with { $0.append(number) } }) }
        let order = try done.wait(for: "the work") { $0.count == 100 ? $0 : nil }
        #expect(order == Array(0..<100))
    }

    @Test("a stopped thread accepts no work, whether it had started or not", arguments: [true, false])
    func stoppedThreadAcceptsNothing(hasStarted: Bool) throws {
        let thread = WorkThread(name: "work")
        let done = Monitor<Int>(0)
        if hasStarted {
            #expect(thread.submit { done.with { $0 += 1 } })
            try done.wait(for: "the work") { $0 == 1 ? true : nil }
        }
        thread.stop()
        thread.stop()
        #expect(!thread.submit { done.with { $0 += 1 } })
        #expect(done.with { $0 } == (hasStarted ? 1 : 0))
    }

    @Test("a thread without references ends, with all that its work captured")
    func unusedThreadEnds() async throws {
        final class Captured: Sendable {}
        let name = "work-unused"
        weak var captured: Captured?
        do {
            let thread = WorkThread(name: name)
            let object = Captured()
            captured = object
            let done = Monitor(false)
            thread.submit {
                _ = object
                done.with { $0 = true }
            }
            try done.wait(for: "the work") { $0 ? true : nil }
        }
        try await eventually("the end of the thread") { !Self.isRunning(name) }
        #expect(captured == nil)
    }

    @Test("a thread's niceness is as chosen, and changes no other's")
    func nice() throws {
        let own = Self.niceValue
        let found = Monitor<[Int32]>([])
        for nice in [0, 10] as [Int32] {
            let thread = WorkThread(name: "work", nice: nice)
            defer { thread.stop() }
            thread.submit { found.with { $0.append(Self.niceValue) } }
            try found.wait(for: "the work") { $0.count == (nice == 0 ? 1 : 2) ? true : nil }
        }
        #expect(found.with { $0 } == [own, min(19, own + 10)] && Self.niceValue == own)
    }

    /// The calling thread's.
    private static var niceValue: Int32 { getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0) }

    private static func isRunning(_ name: String) -> Bool {
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
        return threads.contains {
            // A thread that has ended meanwhile has no file.
            (try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)) == name + "\n"
        }
    }
}
