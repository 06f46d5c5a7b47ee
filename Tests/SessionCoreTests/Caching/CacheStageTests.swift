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

    @Test("a refresh without room in the store is received on for its readers")
    func refreshWithoutRoom() throws {
        // Half of it is for bodies that are being received: for one of these, and the next one takes its room.
        let memory = MemoryStore(capacity: 1 << 20, largestBody: 400_000, stall: 0)
        let size = 300_000
        let course = try StageCourse(seed: 1, completesBelow: 0, memory)
        defer { course.close() }
        course.isCalm = true
        try course.request(of: 0)
        course.drain()
        let first = try #require(course.asked.first)
        try course.begin(first, 200, "max-age=0, stale-while-revalidate=5", size, isLengthKnown: true)
        first.sendRest()
        course.drain()
        try course.request(of: 0)
        course.drain()
        #expect(course.counts["refreshes"] == 1 && course.counts["whole"] == 2)
        let refresh = try #require(course.asked.first)
        course.change(0)
        // The stored response may not be served any more.
        course.loop.advance(by: .seconds(10))
        try course.begin(refresh, 200, "max-age=60", size, isLengthKnown: true)
        refresh.send(1000)
        course.drain()
        let reader = try course.request(of: 0)
        course.drain()
        #expect(course.asked.isEmpty, "the response to the refresh is not read along")
        try course.request(of: 1)
        course.drain()
        let other = try #require(course.asked.first)
        try course.begin(other, 200, "max-age=60", size, isLengthKnown: true)
        course.drain()
        refresh.send(1000)
        course.drain()
        refresh.sendRest()
        other.sendRest()
        course.drain()
        #expect(reader.isWhole)
        #expect(course.taskCount == 0)
        // Those to the first request and to the other one: the refresh has lost its room.
        #expect(course.cache.counts.stored == 2)
    }
}
