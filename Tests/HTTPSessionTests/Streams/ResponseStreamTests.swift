// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionCodable
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Bodies that are read while they arrive", .onOwnThreads)
struct ResponseStreamTests {
    private static let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    private static func chunk(_ text: String) -> String { "\(String(text.utf8.count, radix: 16))\r\n\(text)\r\n" }

    /// Answers with these pieces, each in a chunk and a write of its own.
    private func stage(_ pieces: [String], end: String = "0\r\n\r\n") throws -> HTTPStage {
        try HTTPStage { connection in
            while try connection.readRequest() != nil {
                try connection.write(Self.chunked)
                for piece in pieces { try connection.write(Self.chunk(piece)) }
                guard !end.isEmpty else { return }
                try connection.write(end)
            }
        }
    }

    private func all<Items: AsyncSequence>(_ items: Items) async throws -> [Items.Element] {
        var all: [Items.Element] = []
        for try await item in items { all.append(item) }
        return all
    }

    @Test("bodies come as pieces, bytes and lines, whatever the pieces are")
    func sequences() async throws {
        let stage = try stage(["one\ntw", "o\r", "\nthree\r\rf\u{E9}", "\n\nlast"])
        let whole = "one\ntwo\r\nthree\r\rf\u{E9}\n\nlast"
        let stream = try await stage.manager.stream(.get, "text")
        #expect(stream.response.status == 200 && stream.response.url.hasSuffix("/v1/text"))
        #expect(try await all(stream.chunks).flatMap { $0 } == Array(whole.utf8))
        #expect(stream.metrics?.transaction.status == 200)
        #expect(try await all(stage.manager.stream(.get, "text").bytes) == Array(whole.utf8))
        let lines = try await all(stage.manager.stream(.get, "text").lines)
        #expect(lines == ["one", "two", "three", "", "f\u{E9}", "", "last"])
        try await eventually("the end") { stage.manager.activeRequests.isEmpty && stage.manager.session.tasks.isEmpty }
        await stage.end()
    }

    private struct Item: Codable, Sendable, Equatable { var n: Int }

    @Test("JSON Lines come as values; blank lines are skipped, others are errors")
    func decodables() async throws {
        let stage = try stage(["{\"n\":1}\n{\"n\"", ":2}\r\n \n", "{\"n\":3}"])
        #expect(try await all(stage.manager.stream(.get, "items").decodables(Item.self)) == (1...3).map { Item(n: $0) })
        await stage.end()
        let broken = try self.stage(["{\"n\":1}\n{\"n\":\"x\"}\n{\"n\":3}\n"])
        var seen: [Item] = []
        await #expect {
            for try await item in try await broken.manager.stream(.get, "items").decodables(Item.self) {
                seen.append(item)
            }
        } throws: { error in
            guard case .decodingFailed? = (error as? RequestFailure)?.serializationError?.reason else { return false }
            return true
        }
        #expect(seen == [Item(n: 1)])
        await broken.end()
    }

    @Test("text that is no UTF-8, and a line beyond maximumBodySize, end the lines")
    func badLines() async throws {
        let stage = try HTTPStage { connection in
            while let request = try connection.readRequest() {
                let body =
                    request.target.hasSuffix("latin")
                    ? Array("ok\n".utf8) + [0xE9, 0x0A]
                    : patternBytes(0)
                        + [UInt8](repeating: 0x61, count: 300_000)
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n")
                try connection.write(body)
            }
        }
        await #expect { try await all(stage.manager.stream(.get, "latin").lines) } throws: { error in
            guard case .stringDecodingFailed? = (error as? RequestFailure)?.serializationError?.reason else {
                return false
            }
            return true
        }
        // A body may be longer than that, a line not.
        let small = try HTTPStage {
            $0.maximumBodySize = 100_000
        } script: { connection in
            while let request = try connection.readRequest() {
                let line = String(repeating: "a", count: request.target.hasSuffix("short") ? 1000 : 300_000) + "\n"
                try connection.respond(String(repeating: line, count: 300_000 / (line.utf8.count - 1)))
            }
        }
        #expect(try await all(small.manager.stream(.get, "short").lines).count == 300)
        await #expect { try await all(small.manager.stream(.get, "long").lines) } throws: {
            ($0 as? RequestFailure)?.sessionError?.code == .responseTooLarge
        }
        await stage.end()
        await small.end()
    }

    @Test("a slow consumer makes the origin wait, without a time limit")
    func backPressure() async throws {
        let size = 40 << 20
        let piece = patternBytes(1 << 16)
        let limit = TaskTimeouts(firstByte: .milliseconds(150), stall: .milliseconds(150))
        let stage = try HTTPStage {
            $0.timeouts = limit
        } script: { connection in
            while let request = try connection.readRequest() {
                guard request.target.hasSuffix("large") else {
                    // A transfer that stands still, for the time that it takes to fail.
                    try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n1")
                    connection.readToEnd()
                    return
                }
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n")
                for _ in 0..<(size / piece.count) { try connection.write(piece) }
            }
        }
        let stream = try await stage.manager.stream(.get, "large")
        var chunks = stream.chunks.makeAsyncIterator()
        var received = try await chunks.next() ?? []
        for _ in 0..<3 {
            await #expect { try await stage.manager.get("still") } throws: {
                ($0 as? RequestFailure)?.sessionError?.code == .stalled
            }
        }
        // The sockets of both ends hold a few megabytes.
        #expect(stage.origin.connections.map(\.bytesWritten).max() ?? 0 < 20 << 20)
        #expect(stage.manager.session.tasks.first?.countOfBytesReceived ?? 0 < 1 << 20)
        while let chunk = try await chunks.next() { received += chunk }
        var expected: [UInt8] = []
        for _ in 0..<(size / piece.count) { expected += piece }
        #expect(firstDifference(received, expected) == nil)
        await stage.end()
    }

    @Test("a response that validation refuses is an error, and retried like others")
    func validation() async throws {
        let refusing = try HTTPStage(responding: { _ in HTTPStage.status("404 Not Found") })
        await #expect { try await refusing.manager.stream(.get, "x") } throws: { error in
            guard case .unacceptableStatusCode(404)? = (error as? RequestFailure)?.serializationError?.reason else {
                return false
            }
            return true
        }
        #expect(refusing.manager.activeRequests.isEmpty)
        await refusing.end()
        let retrying = try HTTPStage(
            interceptor: Retrier { _, _ in .retry },
            responding: HTTPStage.inTurn([HTTPStage.status("503 Service Unavailable"), OriginResponse.text("good")])
        )
        #expect(try await all(retrying.manager.stream(.get, "x").lines) == ["good"])
        #expect(retrying.origin.requests.count == 2)
        await retrying.end()
    }

    @Test("a body that is cut off throws after its last line")
    func truncated() async throws {
        let origin = try HTTPStage(interceptor: Retrier { _, _ in .retry }) { connection in
            while try connection.readRequest() != nil {
                try connection.write(Self.chunked + Self.chunk("one\ntwo\nthr"))
                return
            }
        }
        var lines: [String] = []
        await #expect {
            for try await line in try await origin.manager.stream(.get, "x").lines { lines.append(line) }
        } throws: { ($0 as? RequestFailure)?.sessionError?.code == .responseTruncated }
        #expect(lines == ["one", "two"] && origin.origin.requests.count == 1)
        await origin.end()
    }

    @Test("leaving a loop, releasing the stream and cancelling the Swift task end the transfer")
    func ends() async throws {
        let stage = try HTTPStage { connection in
            _ = try connection.readRequest()
            try connection.write(Self.chunked + Self.chunk("one\ntwo\n"))
            connection.readToEnd()
        }
        func isOver() async throws {
            try await eventually("the end") {
                stage.manager.activeRequests.isEmpty && stage.origin.connections.allSatisfy(\.isClosed)
            }
        }
        for try await line in try await stage.manager.stream(.get, "x").lines {
            #expect(line == "one")
            break
        }
        try await isOver()
        _ = try await stage.manager.stream(.get, "x")
        try await isOver()
        let count = Monitor(0)
        let reading = beside {
            for try await _ in try await stage.manager.stream(.get, "x").lines { count.with { $0 += 1 } }
        }
        try await eventually("two lines") { count.with { $0 } == 2 }
        reading.cancel()
        await #expect { try await reading.value } throws: {
            ($0 as? RequestFailure)?.sessionError?.code == .cancelled
        }
        try await isOver()
        let stream = try await stage.manager.stream(.get, "x")
        await stage.manager.cancelAllRequests()
        await #expect { try await all(stream.chunks) } throws: {
            ($0 as? RequestFailure)?.sessionError?.code == .cancelled
        }
        await stage.end()
    }

    @Test("a body is read once")
    func once() async throws {
        let stage = try stage(["x\n"])
        let stream = try await stage.manager.stream(.get, "x")
        #expect(try await all(stream.lines) == ["x"])
        await #expect { try await all(stream.lines) } throws: {
            ($0 as? RequestFailure)?.sessionError?.code == .requestInvalid
        }
        await stage.end()
    }

    @Test("values come from the program's own decoder, and its errors are thrown")
    func ownDecoder() async throws {
        struct Refused: Error {}
        struct Counting: DataDecoder {
            func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
                guard bytes.first != UInt8(ascii: "!"), let count = bytes.count as? Value else { throw Refused() }
                return count
            }
        }
        let stage = try stage(["one\nthree\n", "\n!\n"])
        var counts: [Int] = []
        await #expect {
            let stream = try await stage.manager.stream(.get, "x")
            for try await count in stream.decodables(Int.self, decoder: Counting()) { counts.append(count) }
        } throws: { error in
            guard case .decodingFailed(let own)? = (error as? RequestFailure)?.serializationError?.reason else {
                return false
            }
            return own is Refused
        }
        #expect(counts == [3, 5])
        await stage.end()
    }

    private final class Log: EventMonitor {
        let entries = Monitor<[String]>([])
        private func note(_ entry: String) { entries.with { $0.append(entry) } }

        func requestDidResume(_ request: Request) { note("resume") }
        func requestDidFinish(_ request: Request) { note("finish") }
        func request(_ request: Request, didCreate task: SessionTask) { note("task") }
        func request(_ request: Request, didGather metrics: TaskMetrics) {
            note("metrics \(metrics.transaction.status)")
        }
        func request(_ request: Request, didComplete task: SessionTask, with error: SessionError?) {
            note("complete \(error?.code.rawValue ?? "")")
        }
        func requestIsRetrying(_ request: Request) { note("retry \(request.retryCount)") }
    }

    @Test("monitors see a stream's attempts, and an adapter makes each request")
    func monitors() async throws {
        let log = Log()
        let stage = try HTTPStage(
            interceptor: Interceptor(
                adapters: [
                    Adapter { request, subject in
                        var request = request
                        if subject.retryCount > 0 { request.headers["X-Attempt"] = "\(subject.retryCount)" }
                        return request
                    }
                ],
                retriers: [Retrier { request, _ in request.retryCount == 0 ? .retry : .doNotRetry }]
            ),
            monitors: [log],
            responding: { request in
                request["X-Attempt"] == "1" ? OriginResponse.text("good") : HTTPStage.status("503 Service Unavailable")
            }
        )
        #expect(try await all(stage.manager.stream(.get, "x").lines) == ["good"])
        try await eventually("the end") { log.entries.with { $0.last == "finish" } }
        let expected = [
            "resume", "task", "metrics 503", "complete response_invalid", "retry 1", "task", "metrics 200", "complete ",
            "finish",
        ]
        #expect(log.entries.with { $0 } == expected)
        #expect(stage.origin.requests.map { $0["X-Attempt"] } == [nil, "1"])
        await stage.end()
    }
}
