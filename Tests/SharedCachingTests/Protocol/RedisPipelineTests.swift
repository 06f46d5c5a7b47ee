// SPDX-License-Identifier: Apache-2.0
import IOCore
import Testing

@testable import SharedCaching

@Suite("A connection's commands: their order, times and bounds")
struct RedisPipelineTests {
    private static let ms: UInt64 = 1_000_000
    private static let second: UInt64 = 1_000_000_000
    private static let ping = RedisCommand("PING")

    /// A pipeline, and what its completions have been told.
    private final class Bench {
        var pipeline = RedisPipeline()
        var told: [String] = []

        @discardableResult
        func add(_ name: String, by deadline: UInt64, unsentBytes: Int = 0, _ command: RedisCommand = ping) -> Bool {
            pipeline.add(command, by: deadline, unsentBytes: unsentBytes) { [unowned self] in
                told.append("\(name) \($0)")
            }
        }

        func write(at now: UInt64) -> Int {
            var buffer = ByteBuffer()
            pipeline.write(to: &buffer, at: now)
            return buffer.count / RedisPipelineTests.ping.encoded().count
        }

        func reply(_ number: Int) { pipeline.takeReplied()?(.success(.integer(number))) }

        func expire(at now: UInt64) {
            for completion in pipeline.takeLate(at: now) { completion(.failure(.timeout)) }
        }
    }

    private static func success(_ name: String, _ number: Int) -> String {
        "\(name) \(RedisResult.success(.integer(number)))"
    }
    private static func timeout(_ name: String) -> String { "\(name) \(RedisResult.failure(.timeout))" }

    @Test("replies belong to commands in their order")
    func order() {
        let bench = Bench()
        for name in ["a", "b", "c"] { bench.add(name, by: Self.second) }
        #expect(!bench.pipeline.expectsReply && bench.pipeline.hasWaiting)
        #expect(bench.write(at: 0) == 3)
        #expect(bench.pipeline.expectsReply && !bench.pipeline.hasWaiting)
        for number in 1...3 { bench.reply(number) }
        #expect(bench.told == [Self.success("a", 1), Self.success("b", 2), Self.success("c", 3)])
        #expect(bench.pipeline.isEmpty && !bench.pipeline.expectsReply)
        #expect(bench.pipeline.nextDeadline == nil)
    }

    @Test("a command whose time is over before it is written is never written")
    func lateBeforeWritten() {
        let bench = Bench()
        bench.add("a", by: 10 * Self.ms)
        bench.add("b", by: 20 * Self.ms)
        #expect(bench.pipeline.nextDeadline == 10 * Self.ms)
        bench.expire(at: 10 * Self.ms - 1)
        #expect(bench.told.isEmpty)
        bench.expire(at: 10 * Self.ms)
        #expect(bench.told == [Self.timeout("a")])
        #expect(bench.pipeline.nextDeadline == 20 * Self.ms)
        #expect(bench.write(at: 11 * Self.ms) == 1)
        bench.reply(1)
        #expect(bench.told == [Self.timeout("a"), Self.success("b", 1)])
        #expect(!bench.pipeline.isLost(at: .max))
    }

    @Test("the late reply to a written command is skipped")
    func lateAfterWritten() {
        let bench = Bench()
        bench.add("a", by: 10 * Self.ms)
        bench.add("b", by: Self.second)
        #expect(bench.write(at: 0) == 2)
        bench.expire(at: 10 * Self.ms)
        bench.expire(at: 11 * Self.ms)
        #expect(bench.told == [Self.timeout("a")])
        bench.reply(1)
        #expect(bench.told.count == 1)
        bench.reply(2)
        #expect(bench.told == [Self.timeout("a"), Self.success("b", 2)])
        #expect(bench.pipeline.isEmpty)
        #expect(!bench.pipeline.isLost(at: .max))
    }

    @Test("two seconds of silence with a reply overdue lose the server")
    func silence() {
        let bench = Bench()
        let start = 1_000 * Self.second
        bench.add("a", by: start + 5 * Self.ms)
        _ = bench.write(at: start)
        #expect(bench.pipeline.nextDeadline == start + 5 * Self.ms)
        // Nothing is overdue before.
        #expect(!bench.pipeline.isLost(at: .max))
        bench.expire(at: start + 5 * Self.ms)
        #expect(bench.pipeline.nextDeadline == start + 2 * Self.second)
        #expect(!bench.pipeline.isLost(at: start + 2 * Self.second - 1))
        #expect(bench.pipeline.isLost(at: start + 2 * Self.second))
        bench.pipeline.noteReceipt(at: start + Self.second)
        #expect(!bench.pipeline.isLost(at: start + 2 * Self.second))
        #expect(bench.pipeline.isLost(at: start + 3 * Self.second))
    }

    @Test("the silence before a command does not count")
    func silenceBefore() {
        let bench = Bench()
        bench.add("a", by: 5 * Self.ms)
        _ = bench.write(at: 0)
        bench.pipeline.noteReceipt(at: Self.ms)
        bench.reply(1)
        let later = 3_600 * Self.second
        bench.add("b", by: later + 5 * Self.ms)
        _ = bench.write(at: later)
        bench.expire(at: later + 5 * Self.ms)
        #expect(!bench.pipeline.isLost(at: later + 5 * Self.ms))
        // A command behind it does not prolong it.
        bench.add("c", by: later + 10 * Self.second)
        _ = bench.write(at: later + Self.second)
        #expect(bench.pipeline.isLost(at: later + 2 * Self.second))
    }

    @Test("sixty-five overdue replies lose the server, sixty-four do not")
    func overdue() {
        let bench = Bench()
        for index in 0..<65 { bench.add("\(index)", by: index < 64 ? 1 : 2) }
        _ = bench.write(at: 0)
        bench.expire(at: 1)
        #expect(!bench.pipeline.isLost(at: 1))
        bench.expire(at: 2)
        #expect(bench.pipeline.isLost(at: 2))
        bench.reply(1)
        #expect(!bench.pipeline.isLost(at: 2))
        #expect(bench.told.count == 65)
    }

    @Test("there are at most 1024 commands, waiting and written")
    func commandBound() {
        let bench = Bench()
        for index in 0..<1_000 { #expect(bench.add("\(index)", by: index < 10 ? 1 : 2)) }
        _ = bench.write(at: 0)
        for index in 1_000..<1_024 { #expect(bench.add("\(index)", by: 2)) }
        #expect(!bench.add("more", by: 2))
        // Overdue ones keep their places.
        bench.expire(at: 1)
        #expect(!bench.add("more", by: 2))
        bench.reply(0)
        #expect(bench.add("more", by: 2))
        #expect(!bench.add("more", by: 2))
    }

    @Test("at most 16 MB wait, here and in the stream")
    func byteBound() {
        let bench = Bench()
        let large = RedisCommand("SET", [UInt8](repeating: 1, count: 1 << 20))
        for _ in 0..<15 { #expect(bench.add("large", by: 1, large)) }
        #expect(!bench.add("large", by: 1, large))
        #expect(bench.add("small", by: 1))
        #expect(!bench.add("small", by: 1, unsentBytes: 1 << 20))
        bench.expire(at: 1)
        #expect(bench.add("large", by: 1, unsentBytes: 1 << 20, large))
        #expect(!bench.add("huge", by: 1, RedisCommand("SET", [UInt8](repeating: 1, count: 16 << 20))))
        var buffer = ByteBuffer()
        bench.pipeline.write(to: &buffer, at: 0)
        #expect(bench.add("huge", by: 1, RedisCommand("SET", [UInt8](repeating: 1, count: 15 << 20))))
    }

    @Test("the end takes all commands in their order, but not those that know")
    func end() {
        let bench = Bench()
        bench.add("a", by: 1)
        bench.add("b", by: 2)
        _ = bench.write(at: 0)
        bench.add("c", by: 2)
        bench.expire(at: 1)
        for completion in bench.pipeline.takeAll() { completion(.failure(.closed)) }
        let closed = RedisResult.failure(.closed)
        #expect(bench.told == [Self.timeout("a"), "b \(closed)", "c \(closed)"])
        #expect(bench.pipeline.isEmpty)
    }

    @Test("a long course keeps the order, and little memory")
    func longCourse() {
        let bench = Bench()
        var sent = 0
        var replied = 0
        for round in 0..<5_000 {
            for _ in 0..<(round % 7) { if bench.add("\(sent)", by: .max) { sent += 1 } }
            _ = bench.write(at: UInt64(round))
            for _ in 0..<(round % 11) where bench.pipeline.expectsReply {
                bench.reply(replied)
                #expect(bench.told.popLast() == Self.success("\(replied)", replied))
                replied += 1
            }
        }
        while bench.pipeline.expectsReply {
            bench.reply(replied)
            replied += 1
        }
        #expect(sent == replied && sent > 10_000)
        #expect(bench.pipeline.isEmpty)
    }
}
