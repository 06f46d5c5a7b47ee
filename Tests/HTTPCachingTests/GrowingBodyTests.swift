// SPDX-License-Identifier: Apache-2.0
import Foundation
import IOCore
import Synchronization
import TestSupport
import Testing

@testable import HTTPCaching

/// A body that many threads read while one receives it.
@Suite("A body that is read while it is received", .onOwnThreads)
struct GrowingBodyTests {
    private static let bytes = patternBytes(600_000)

    private func body(capacity: Int = 1 << 20, length: Int? = nil) -> GrowingBody {
        GrowingBody(in: MemoryStore(capacity: 2 * capacity, largestBody: 1, stall: 3600), keeps: true, length: length)
    }

    /// What one reading gives, with a word for each end.
    private func read(_ reader: GrowingReader, at position: Int, wake: @escaping @Sendable () -> Void = {}) -> String {
        switch reader.read(at: position, atMost: 1000, wake: wake) {
        case .bytes(let bytes): String(decoding: bytes, as: UTF8.self)
        case .file: "file"
        case .wait: "wait"
        case .end: "end"
        case .broken: "broken"
        }
    }

    @Test("a reader gets what has arrived, waits for more, and is woken once")
    func waiting() throws {
        let body = body()
        let reader = try #require(body.makeReader())
        let wakes = Atomic<Int>(0)
        #expect(read(reader, at: 0, wake: { wakes.add(1, ordering: .relaxed) }) == "wait")
        body.append(Array("ab".utf8).span)
        body.append(Array("cd".utf8).span)
        #expect(wakes.load(ordering: .relaxed) == 1)
        #expect(read(reader, at: 0) == "abcd")
        #expect(read(reader, at: 4, wake: { wakes.add(1, ordering: .relaxed) }) == "wait")
        #expect(body.complete()?.bytes == Array("abcd".utf8))
        #expect(wakes.load(ordering: .relaxed) == 2)
        #expect(read(reader, at: 4) == "end")
        // Another one may come as long as the body is there.
        let late = try #require(body.makeReader(at: 2))
        #expect(read(late, at: 2) == "cd")
    }

    @Test("a reader is notified once, and at once if it waits already")
    func notice() throws {
        let body = body()
        let notices = Atomic<Int>(0)
        body.whenRead { notices.add(1, ordering: .relaxed) }
        let reader = try #require(body.makeReader() as GrowingReader?)
        #expect(notices.load(ordering: .relaxed) == 1)
        body.whenRead { notices.add(1, ordering: .relaxed) }
        #expect(notices.load(ordering: .relaxed) == 2, "the one that is there already counts")
        reader.close()
    }

    @Test("a failure breaks off after the received bytes, and is never an end")
    func failing() throws {
        let body = body()
        let reader = try #require(body.makeReader())
        body.append(Array("ab".utf8).span)
        body.fail()
        #expect(read(reader, at: 0) == "ab")
        #expect(read(reader, at: 2) == "broken")
        #expect(body.makeReader() == nil)
    }

    @Test("when memory has dropped it, readers keep what they need, and none begins")
    func outOfMemory() throws {
        let body = body(capacity: 3)
        let reader = try #require(body.makeReader())
        let pieces = ["abc", "def"].map { Array($0.utf8) }
        let isWhole = pieces.map { body.append($0.span) }
        #expect(isWhole == [true, false])
        #expect(body.makeReader() != nil, "everything is still there for the first one")
        #expect(read(reader, at: 0) == "abcdef")
        #expect(read(reader, at: 6) == "wait")
        body.append(Array("g".utf8).span)
        #expect(body.makeReader() == nil)
        #expect(read(reader, at: 6) == "g")
        #expect(body.complete()?.bytes == nil)
        #expect(read(reader, at: 7) == "end")
    }

    @Test("without readers, nothing is kept of a body that memory has given up")
    func nobody() {
        let body = body(capacity: 3)
        for _ in 0..<10 { body.append(Array("abc".utf8).span) }
        #expect(body.makeReader() == nil && !body.hasReaders)
        #expect(!body.holdsOrigin {})
    }

    @Test("the origin waits for the slowest reader, and is told once to go on")
    func caughtUp() throws {
        let body = body(capacity: 3)
        let readers = try (0..<2).map { _ in try #require(body.makeReader() as GrowingReader?) }
        body.append(Self.bytes.span)
        let resumed = Atomic<Int>(0)
        #expect(body.isFullForReaders)
        let isHeld = body.holdsOrigin { resumed.add(1, ordering: .relaxed) }
        #expect(isHeld)
        func readAll(_ reader: GrowingReader) {
            var position = 0
            while position < Self.bytes.count,
                case .bytes(let piece) = reader.read(at: position, atMost: 50_000, wake: {})
            {
                position += piece.count
            }
        }
        readAll(readers[0])
        #expect(resumed.load(ordering: .relaxed) == 0)
        readAll(readers[1])
        #expect(resumed.load(ordering: .relaxed) == 1 && !body.isFullForReaders)
    }

    /// Receives a body, and waits where it is told to.
    private static func receive(_ body: GrowingBody, _ random: inout SeededGenerator) {
        var position = 0
        while position < bytes.count {
            let end = min(bytes.count, position + Int.random(in: 1...20_000, using: &random))
            body.append(Array(bytes[position..<end]).span)
            position = end
            let room = Latch(count: 1)
            if body.holdsOrigin({ room.countDown() }) { room.wait() }
            if Int.random(in: 0..<50, using: &random) == 0 { body.leaveMemory() }
        }
    }

    @Test("a thousand readers on many threads read at any pace and may leave", arguments: [true, false])
    func thousand(isKnown: Bool) throws {
        let body = body(length: isKnown ? Self.bytes.count : nil)
        let wrong = Atomic<Int>(0)
        let whole = Atomic<Int>(0)
        let ready = Latch(count: 4)
        let over = Latch(count: 5)
        for number in 0..<4 {
            Thread.detachNewThread {
                var random = SeededGenerator(seed: UInt64(number + 1))
                var open = (0..<250).map { _ in (reader: body.makeReader(), position: 0) }
                ready.countDown()
                while !open.isEmpty {
                    let index = Int.random(in: open.indices, using: &random)
                    guard let reader = open[index].reader, Int.random(in: 0..<200, using: &random) > 0 else {
                        open.remove(at: index)
                        continue
                    }
                    let count = Int.random(in: 1...60_000, using: &random)
                    switch reader.read(at: open[index].position, atMost: count, wake: {}) {
                    case .bytes(let bytes):
                        let range = open[index].position..<open[index].position + bytes.count
                        let isSame = firstDifference(bytes, Array(Self.bytes[range])) == nil
                        if !isSame { wrong.add(1, ordering: .relaxed) }
                        open[index].position = range.upperBound
                    case .wait: sched_yield()
                    case .end:
                        let isWhole = open[index].position == Self.bytes.count
                        if isWhole { whole.add(1, ordering: .relaxed) } else { wrong.add(1, ordering: .relaxed) }
                        open.remove(at: index)
                    case .file, .broken:
                        wrong.add(1, ordering: .relaxed)
                        open.remove(at: index)
                    }
                }
                over.countDown()
            }
        }
        Thread.detachNewThread {
            var random = SeededGenerator(seed: 99)
            ready.wait()
            Self.receive(body, &random)
            _ = body.complete()
            over.countDown()
        }
        over.wait()
        #expect(wrong.load(ordering: .relaxed) == 0)
        #expect(whole.load(ordering: .relaxed) > 100)
        #expect(!body.hasReaders)
    }
}
