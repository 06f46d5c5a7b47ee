// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Server-sent events", .onOwnThreads)
struct ServerSentEventTests {
    private static func events(_ text: String) -> [ServerSentEvent] {
        var splitter = LineSplitter()
        var parser = ServerSentEventParser()
        var events: [ServerSentEvent] = []
        // Byte for byte: no end of a line may depend on where a piece ends.
        for byte in Array(text.utf8) {
            splitter.append([byte])
            while let line = splitter.next() { if let event = parser.didReceiveLine(line) { events.append(event) } }
        }
        return events
    }

    @Test("events are read as the standard's examples say")
    func format() {
        #expect(Self.events("data: YHOO\ndata: +2\ndata: 10\n\n") == [ServerSentEvent(data: "YHOO\n+2\n10")])
        #expect(
            Self.events(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n")
                == [ServerSentEvent(data: "first event", id: "1"), ServerSentEvent(data: "second event")]
        )
        #expect(Self.events("data\n\ndata\ndata\n\ndata:") == [ServerSentEvent(data: ""), ServerSentEvent(data: "\n")])
        #expect(
            Self.events("data:test\r\n\r\ndata: test\r\r") == [
                ServerSentEvent(data: "test"), ServerSentEvent(data: "test"),
            ]
        )
        #expect(
            Self.events("\u{FEFF}event: add\ndata: x\n\nevent: lost\n\ndata: y\n\n")
                == [ServerSentEvent(event: "add", data: "x"), ServerSentEvent(data: "y")]
        )
        #expect(
            Self.events("id: a\u{0}b\nid: ok\nid: a\u{1}\nfield: x\n\ndata: d\n\n") == [
                ServerSentEvent(data: "d", id: "ok")
            ]
        )
    }

    @Test("the time between connections is written in digits alone")
    func retry() {
        var parser = ServerSentEventParser()
        _ = parser.didReceiveLine(Array("retry: 1500".utf8))
        #expect(parser.retry == .milliseconds(1500))
        for text in ["retry:", "retry: -1", "retry: 1.5", "retry: 99999999999999999999999"] {
            _ = parser.didReceiveLine(Array(text.utf8))
            #expect(parser.retry == .milliseconds(1500))
        }
        let events = Self.events("data: a\n\nretry: 20\ndata: b\n\ndata: c\n\n")
        #expect(events.map(\.retry) == [nil, .milliseconds(20), .milliseconds(20)])
    }

    @Test("the server's reconnection time is reported, also after the last event")
    func readableRetry() async throws {
        let stage = try stage([
            Self.head + "Content-Length: 30\r\n\r\ndata: a\n\nretry: 7000\nid: last\n\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
        ])
        var events = stage.manager.events("x", reconnection: Self.quick).makeAsyncIterator()
        #expect(try await events.next()?.retry == nil)
        #expect(try await events.next() == nil)
        #expect(events.retry == .milliseconds(7000) && events.lastEventID == "last")
        await stage.end()
    }

    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    private static let quick = ServerSentEvents.Reconnection(delay: .milliseconds(1), maximumDelay: .milliseconds(2))

    /// Each connection of the origin has one answer of these, complete or cut.
    private func stage(_ responses: [String]) throws -> HTTPStage {
        let left = Monitor(responses)
        return try HTTPStage { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.write(left.with { $0.count > 1 ? $0.removeFirst() : $0[0] })
        }
    }

    @Test("events continue on a new connection, with the last ID, until a 204")
    func reconnection() async throws {
        let stage = try stage([
            Self.head + "\r\nid: 1\ndata: a\n\nid: 2\ndata: b\n\ndata: cut o",
            Self.head + "Content-Length: 500\r\n\r\nid: 3\nretry: 1\ndata: c\n\nid: 4\n\n",
            "",
            "HTTP/1.1 204 No Content\r\n\r\n",
        ])
        var seen: [String] = []
        for try await event in stage.manager.events("updates", reconnection: Self.quick) {
            seen.append("\(event.id) \(event.data)")
        }
        #expect(seen == ["1 a", "2 b", "3 c"])
        let requests = stage.origin.requests
        #expect(requests.map { $0["Last-Event-ID"] ?? "-" } == ["-", "2", "4", "4"])
        #expect(requests.allSatisfy { $0["Accept"] == "text/event-stream" && $0["Cache-Control"] == "no-store" })
        await stage.end()
    }

    @Test("another status or content type is an error; the last allowed failure is none")
    func failures() async throws {
        for (response, status) in [
            ("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", 500),
            ("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1\r\n\r\nx", 200),
        ] {
            let stage = try stage([response])
            await #expect {
                for try await _ in stage.manager.events("updates", reconnection: Self.quick) {}
            } throws: { ($0 as? RequestFailure)?.response?.response.status == status }
            #expect(stage.origin.requests.count == 1)
            await stage.end()
        }
        var bounded = Self.quick
        bounded.maximumFailures = 2
        let cut = try stage([""])
        await #expect { for try await _ in cut.manager.events("x", reconnection: bounded) {} } throws: {
            ($0 as? RequestFailure)?.sessionError?.code == .responseTruncated
        }
        #expect(cut.origin.requests.count == 3)
        await cut.end()
        let single = try stage([Self.head + "Content-Length: 9\r\n\r\ndata: x\n\n"])
        var count = 0
        for try await _ in single.manager.events("x", reconnection: .none) { count += 1 }
        #expect(count == 1 && single.origin.requests.count == 1)
        await single.end()
    }

    @Test("the wait grows after each failure, up to a bound")
    func delays() {
        let reconnection = ServerSentEvents.Reconnection(delay: .seconds(3), maximumDelay: .seconds(20))
        #expect((1...5).map { reconnection.delay(after: $0, wanted: nil) } == [3, 6, 12, 20, 20].map { .seconds($0) })
        #expect(reconnection.delay(after: 1, wanted: .milliseconds(10)) == .milliseconds(10))
        #expect(reconnection.delay(after: 1, wanted: .seconds(1_000_000_000)) == .seconds(20))
    }

    @Test("events of one response are a sequence; cancelling ends the wait to reconnect")
    func oneResponse() async throws {
        let stage = try stage([Self.head + "Content-Length: 18\r\n\r\ndata: x\n\ndata: y\n\n"])
        var seen: [String] = []
        for try await event in try await stage.manager.stream(.get, "x").events { seen.append(event.data) }
        #expect(seen == ["x", "y"])
        let count = Monitor(0)
        let reading = beside {
            let slow = ServerSentEvents.Reconnection(delay: .seconds(900), maximumDelay: .seconds(900))
            for try await _ in stage.manager.events("x", reconnection: slow) { count.with { $0 += 1 } }
        }
        try await eventually("both events") { count.with { $0 } == 2 }
        reading.cancel()
        await #expect { try await reading.value } throws: { ($0 as? RequestFailure)?.sessionError?.code == .cancelled }
        await stage.end()
    }
}
