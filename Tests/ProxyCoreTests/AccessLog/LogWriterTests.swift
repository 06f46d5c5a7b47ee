// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import IOCore
import TestSupport
import Testing

@testable import ProxyCore

@Suite("The log's writer", .onOwnThreads)
struct LogWriterTests {
    /// Reads a pipe to its end on a thread of its own.
    private func read(_ descriptor: Int32) -> Monitor<(bytes: [UInt8], ended: Bool)> {
        let result = Monitor((bytes: [UInt8](), ended: false))
        Thread.detachNewThread {
            var buffer = [UInt8](repeating: 0, count: 256 << 10)
            while true {
                let count = Glibc.read(descriptor, &buffer, buffer.count)
                if count <= 0 { break }
                result.with { $0.bytes += buffer[..<count] }
            }
            close(descriptor)
            result.with { $0.ended = true }
        }
        return result
    }

    private func pipe() throws -> (read: Int32, write: Int32) {
        var ends: [Int32] = [0, 0]
        try #require(Glibc.pipe(&ends) == 0)
        return (ends[0], ends[1])
    }

    @Test("accepted lines are written before the log closes")
    func writesAll() throws {
        let ends = try pipe()
        let writer = try LogWriter(descriptor: ends.write, closing: true)
        let result = read(ends.read)
        for number in 0..<1000 { writer.write(Array("line \(number)\n".utf8), count: 1) }
        writer.close()
        let bytes = try result.wait(for: "the end of the log") { $0.ended ? $0.bytes : nil }
        #expect(String(decoding: bytes, as: UTF8.self) == (0..<1000).map { "line \($0)\n" }.joined())
    }

    @Test("an observer gets every line as JSON, also where the log has text")
    func observer() throws {
        let ends = try pipe()
        let seen = Locked<[UInt8]>([])
        let writer = try LogWriter(
            descriptor: ends.write,
            closing: true,
            text: LogText(hasColours: false),
            observer: { lines in seen.withLock { $0 += lines } }
        )
        let result = read(ends.read)
        for number in 0..<100 { writer.write(Array("{\"event\":\"\(number)\"}\n".utf8), count: 1) }
        writer.close()
        let bytes = try result.wait(for: "the end of the log") { $0.ended ? $0.bytes : nil }
        #expect(!bytes.contains(UInt8(ascii: "{")) && bytes.count { $0 == UInt8(ascii: "\n") } == 100)
        let lines = String(decoding: seen.withLock { $0 }, as: UTF8.self)
        #expect(lines == (0..<100).map { "{\"event\":\"\($0)\"}\n" }.joined())
    }

    @Test("a stopped reader does not delay the end, a slow one gets everything")
    func stuckReader() throws {
        let ends = try pipe()
        let writer = try LogWriter(descriptor: ends.write, closing: true)
        for _ in 0..<4 { writer.write([UInt8](repeating: 65, count: 1 << 20), count: 1) }
        writer.close(patience: .milliseconds(50))
        // A blocked write continues as soon as the reader reads; the descriptor stays open for it.
        let result = read(ends.read)
        try result.wait(for: "all of the log") { $0.bytes.count == 4 << 20 ? true : nil }
        close(ends.write)
        try result.wait(for: "the end of the log") { $0.ended ? true : nil }
    }

    @Test("lines beyond the bound are dropped, counted and reported")
    func drops() throws {
        let ends = try pipe()
        let writer = try LogWriter(descriptor: ends.write, closing: true)
        // One line of 1 MB each: the first fills the pipe and waits, so that nothing is ever taken off the count.
        let lines = (0..<40).map { [UInt8](repeating: UInt8($0) + 65, count: (1 << 20) - 1) + [10] }
        for line in lines { writer.write(line, count: 3) }
        let result = read(ends.read)
        writer.close()
        let bytes = try result.wait(for: "the end of the log") { $0.ended ? $0.bytes : nil }
        let parts = bytes.split(separator: 10)
        let kept = parts.filter { $0.first != UInt8(ascii: "{") }
        #expect(kept.count == 16)
        let isOrdered = zip(kept, lines).allSatisfy { firstDifference(Array($0), Array($1[..<($1.count - 1)])) == nil }
        #expect(isOrdered)
        let notices = parts.compactMap { LogLine(String(decoding: $0, as: UTF8.self)) }
        #expect(notices.count == 1)
        #expect(notices.first?.string("event") == "log_lines_dropped")
        #expect(notices.first?.integer("count") == (40 - 16) * 3)
    }

    @Test("lines that a full disk refuses are counted, and reported at once")
    func fullDisk() throws {
        let told = Monitor([String]())
        let losses = LogLosses()
        let writer = try LogWriter(
            descriptor: open("/dev/full", O_WRONLY | O_CLOEXEC),
            closing: true,
            losses: losses,
            notify: { line in told.with { $0.append(line.json) } }
        )
        writer.write(Array("one\ntwo\n".utf8), count: 2)
        try told.wait(for: "the first telling") { $0.count == 1 ? true : nil }
        for _ in 0..<5 { writer.write(Array("line\n".utf8), count: 1) }
        writer.close()
        #expect(losses.count == 7)
        let lines = told.with { $0 }.compactMap { LogLine($0) }
        #expect(lines.map { $0.string("event") } == ["log_lines_lost", "log_lines_lost"])
        #expect(lines.map { $0.integer("count") } == [2, 5])
        #expect(lines.map { $0.integer("total") } == [2, 7])
        #expect(lines[0].string("message")?.contains("No space left on device (make room") == true)
    }

    @Test("losses are reported once a minute")
    func onceAMinute() {
        let losses = LogLosses()
        let start: UInt64 = 5_000_000_000_000
        #expect(losses.countToReport(at: start) == nil)
        losses.add(3)
        #expect(losses.reportAge(at: start) == nil)
        #expect(losses.countToReport(at: start) == 3)
        #expect(losses.reportAge(at: start + 7_900_000_000) == 7)
        losses.add(4)
        #expect(losses.countToReport(at: start + 59_000_000_000) == nil)
        #expect(losses.wait(at: start + 59_000_000_000) == .seconds(1))
        losses.add(5)
        #expect(losses.countToReport(at: start + 60_000_000_000) == 9)
        losses.add(1)
        #expect(losses.countToReport(at: start + 60_000_000_001, isLast: true) == 1)
        #expect(losses.count == 13)
    }

    @Test("a FIFO without a reader is an error, not a wait")
    func unreadFIFO() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/log"
        try #require(mkfifo(path, 0o600) == 0)
        let failure = #expect(throws: IOFailure.self) { try LogWriter(path: path) }
        #expect(failure?.reason == "no process reads from this FIFO")
        let reader = open(path, O_RDONLY | O_NONBLOCK)
        defer { close(reader) }
        let writer = try LogWriter(path: path)
        writer.write(Array("line\n".utf8), count: 1)
        writer.close()
        var bytes = [UInt8](repeating: 0, count: 10)
        #expect(Glibc.read(reader, &bytes, 10) == 5)
    }

    @Test("a reader that has gone does no harm")
    func readerGone() throws {
        _ = TestSocket.ready
        let ends = try pipe()
        let writer = try LogWriter(descriptor: ends.write, closing: true)
        close(ends.read)
        for _ in 0..<100 { writer.write(Array("line\n".utf8), count: 1) }
        writer.close()
        #expect(fcntl(ends.write, F_GETFD) == -1)
    }
}
