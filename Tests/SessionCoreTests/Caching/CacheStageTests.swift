// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import IOCore
import TestSupport
import Testing

@testable import SessionCore

@Suite("The cache's stage")
struct CacheStageTests {
    @Test("under random events each receiver gets one whole response", arguments: 1...6 as ClosedRange<UInt64>)
    func course(seed: UInt64) throws {
        let course = try StageCourse(seed: seed, completesBelow: seed % 2 == 0 ? 4000 : 0)
        defer { course.close() }
        for _ in 0..<1500 { try course.step() }
        try course.settle()
        #expect(course.receivers.isEmpty, "a response has no end")
        #expect(course.taskCount == 0, "a task has no end")
        #expect(course.waitingCount == 0)
        for what in ["whole", "failed", "from the store", "relayed", "304", "refreshes", "left"] {
            #expect(course.counts[what] ?? 0 > 0, "no course was like that: \(what)")
        }
    }

    @Test("a response whose suspended receiver leaves is received to its end")
    func leftWhileHeld() throws {
        let course = try StageCourse(seed: 1, completesBelow: 4000)
        defer { course.close() }
        course.isCalm = true
        let receiver = try course.request(of: 0)
        course.drain()
        let reply = try #require(course.asked.first)
        try course.begin(reply, 200, "max-age=60", 5000, isLengthKnown: true)
        reply.send(4000)
        course.drain()
        receiver.change(.hold)
        receiver.change(.leave)
        reply.sendRest()
        course.drain()
        #expect(course.taskCount == 0 && course.cache.counts.stored == 1)
    }
}
