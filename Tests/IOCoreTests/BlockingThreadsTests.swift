// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@testable import IOCore

@Suite("Threads for what may block", .onOwnThreads)
struct BlockingThreadsTests {
    @Test("work that blocks one of them holds up no other")
    func blockedThread() async throws {
        let gate = Gate()
        let begun = Monitor(false)
        let blocked = Task(executorPreference: BlockingThreads.shared) {
            begun.with { $0 = true }
            try gate.pass()
        }
        try await eventually("the thread to block") { begun.with { $0 } }
        let done = Monitor(0)
        let quick = (0..<200).map { _ in
            Task(executorPreference: BlockingThreads.shared) { done.with { $0 += 1 } }
        }
        try await eventually("200 others") { done.with { $0 } == 200 }
        gate.open()
        try await blocked.value
        for task in quick { await task.value }
    }

    @Test("thousands of calls at once are each done once")
    func many() async throws {
        let done = Monitor<[Int: Int]>([:])
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<5000 {
                group.addTask(executorPreference: BlockingThreads.shared) {
                    done.with { $0[number, default: 0] += 1 }
                    await Task.yield()
                }
            }
            try await group.waitForAll()
        }
        #expect(done.with { $0.count == 5000 && $0.values.allSatisfy { $0 == 1 } })
    }
}
