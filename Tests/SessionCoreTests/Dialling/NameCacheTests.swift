// SPDX-License-Identifier: Apache-2.0
import IOCore
import Testing

@testable import SessionCore

@Suite("Results of name lookups")
struct NameCacheTests {
    private static let found = NameAnswer.success([SocketAddress(ipv4: 0x7F00_0001, port: 0)])
    private static let failure = NameAnswer.failure(NameFailure(reason: .unknown, words: "none"))

    private func lifetime(of answer: NameAnswer, _ seconds: UInt64) -> UInt64 {
        var cache = NameCache()
        cache.keep(answer, for: "a", lifetime: seconds, at: 5)
        return (0...400).first { cache.answer(for: "a", at: 5 + $0 * 1_000_000_000) == nil } ?? .max
    }

    @Test("a result lasts its time to live, within bounds; a failure a second")
    func lifetimes() {
        #expect(lifetime(of: Self.found, 0) == 1)
        #expect(lifetime(of: Self.found, 7) == 7)
        #expect(lifetime(of: Self.found, 300) == 300)
        #expect(lifetime(of: Self.found, 100_000) == 300)
        #expect(lifetime(of: Self.failure, 100) == 1)
    }

    @Test("a later result replaces an earlier one")
    func replaced() {
        var cache = NameCache()
        cache.keep(Self.failure, for: "a", lifetime: 0, at: 0)
        cache.keep(Self.found, for: "a", lifetime: 10, at: 0)
        #expect(cache.answer(for: "a", at: 1) == Self.found)
        #expect(cache.answer(for: "b", at: 1) == nil)
    }

    @Test("above 1,024 names, ended results go first, then the one that ends next")
    func full() {
        var cache = NameCache()
        for number in 0..<1024 {
            cache.keep(Self.found, for: "\(number)", lifetime: number == 500 ? 10 : 20, at: 0)
        }
        cache.keep(Self.found, for: "0", lifetime: 30, at: 0)
        #expect(cache.count == 1024 && cache.answer(for: "500", at: 1) != nil)
        cache.keep(Self.found, for: "new", lifetime: 25, at: 1)
        #expect(cache.count == 1024)
        #expect(cache.answer(for: "500", at: 1) == nil && cache.answer(for: "new", at: 1) != nil)
        cache.keep(Self.found, for: "newer", lifetime: 25, at: 20_000_000_000)
        #expect(cache.count == 3)
    }
}

@Suite("The names that are looked up at a time")
struct NameQueueTests {
    private static let second: UInt64 = 1_000_000_000

    private func full(_ queue: inout NameQueue, at now: UInt64 = 0) {
        for number in 0..<64 { #expect(queue.add("silent\(number)", at: now) == [.start("silent\(number)")]) }
    }

    @Test("at most 64 lookups run at once; the next begins when one ends")
    func limit() {
        var queue = NameQueue()
        full(&queue)
        #expect(queue.nextStep() == nil)
        #expect(queue.add("next", at: 1) == [])
        #expect(queue.add("last", at: 1) == [])
        #expect(queue.nextStep() == Self.second)
        #expect(queue.remove("silent7", at: 2) == [.start("next")])
        #expect(queue.remove("last", at: 2) == [])
        #expect(queue.remove("silent8", at: 2) == [] && queue.runningCount == 63)
    }

    @Test("a lookup that is silent for a second gives way to a waiting one")
    func eviction() {
        var queue = NameQueue()
        full(&queue)
        #expect(queue.add("next", at: Self.second - 1) == [])
        #expect(queue.proceed(at: Self.second - 1) == [])
        #expect(queue.proceed(at: Self.second) == [.stop("silent0"), .start("next")])
        // Without waiting: the others are silent, too.
        #expect(queue.add("other", at: Self.second) == [.stop("silent1"), .start("other")])
        #expect(queue.runningCount == 64)
    }

    @Test("silent names restart in half of the slots, after new names")
    func silentShare() {
        var queue = NameQueue()
        full(&queue)
        for number in 0..<40 { _ = queue.add("fresh\(number)", at: Self.second) }
        // 24 silent and 40 fresh ones run, 40 silent ones wait.
        for number in 0..<32 { #expect(queue.remove("fresh\(number)", at: Self.second) == []) }
        #expect(queue.runningCount == 32)
        #expect(queue.remove("fresh32", at: Self.second) == [.start("silent0")])
        #expect(queue.add("new", at: Self.second) == [.start("new")])
        #expect(queue.remove("silent1", at: Self.second) == [])
        #expect(queue.remove("new", at: Self.second) == [])
        #expect(queue.remove("fresh33", at: Self.second) == [.start("silent2")])
    }

    @Test("a name that leaves and comes again is last, and only once")
    func again() {
        var queue = NameQueue()
        full(&queue)
        _ = queue.add("a", at: 1)
        _ = queue.add("b", at: 1)
        _ = queue.remove("a", at: 1)
        _ = queue.add("a", at: 1)
        #expect(queue.remove("silent0", at: 2) == [.start("b")])
        #expect(queue.remove("silent1", at: 2) == [.start("a")])
        #expect(queue.remove("silent2", at: 2) == [])
        for name in ["a", "b"] { _ = queue.remove(name, at: 3) }
        for number in 0..<64 { #expect(queue.remove("silent\(number)", at: 3) == []) }
        #expect(queue.isEmpty)
    }

    @Test("ten thousand names that come and go leave nothing behind")
    func many() {
        var queue = NameQueue()
        for number in 0..<10_000 { _ = queue.add("\(number)", at: UInt64(number) * 1_000_000) }
        for number in (0..<10_000).reversed() { _ = queue.remove("\(number)", at: 20 * Self.second) }
        #expect(queue.isEmpty && queue.nextStep() == nil)
        #expect(queue.ticketCount < 200)
    }

    @Test("names that are stopped and leave while others run leave no ticket behind")
    func tickets() {
        var queue = NameQueue()
        for number in 0..<10_000 {
            let now = UInt64(number) * Self.second
            _ = queue.add("\(number)", at: now)
            if number >= 64 { _ = queue.remove("\(number - 64)", at: now) }
        }
        #expect(queue.ticketCount < 400, "\(queue.ticketCount)")
    }
}
