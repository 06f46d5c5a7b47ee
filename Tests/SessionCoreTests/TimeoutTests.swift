// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("Time limits", .onOwnThreads)
struct TimeoutTests {
    private static func timeouts(_ change: (inout TaskTimeouts) -> Void) -> TaskTimeouts {
        var timeouts = TaskTimeouts()
        change(&timeouts)
        return timeouts
    }

    /// The error of a request, and that it took the limit's time and not another's.
    private func check(
        port: UInt16,
        _ timeouts: TaskTimeouts,
        _ code: SessionError.Code,
        naming limit: String,
        method: HTTPMethod = .get,
        bodyLength: RequestBodyLength = .none,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let session = try TestSession()
        let delegate = RecordingDelegate()
        // The loop's clock stands still between turns: timers count from there.
        let start = session.loop.now
        try session.start(
            delegate,
            TestSession.endpoint(port: port, timeouts: timeouts),
            method,
            bodyLength: bodyLength
        )
        try session.finish(delegate)
        #expect(delegate.error?.code == code, sourceLocation: sourceLocation)
        #expect(delegate.error?.details.contains(limit) == true, sourceLocation: sourceLocation)
        #expect(Clock.monotonic - start >= 100_000_000, sourceLocation: sourceLocation)
        // The metrics count from the start of the task, a moment later than the loop's clock.
        #expect(delegate.metrics.duration >= 50_000, sourceLocation: sourceLocation)
    }

    @Test("a TLS origin that never responds to the hello times out")
    func silentHandshake() throws {
        let (listener, port) = try TestSocket.listen()
        defer { close(listener) }
        let timeouts = Self.timeouts { $0.connect = .milliseconds(100) }
        try check(port: port, timeouts, .connectTimeout, naming: "timeouts.connect")
    }

    @Test("an origin that takes the request and never responds times out")
    func firstByte() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { $0.readToEnd() }
        let timeouts = Self.timeouts { $0.firstByte = .milliseconds(100) }
        try check(port: origin.port, timeouts, .responseTimeout, naming: "timeouts.firstByte")
        #expect(origin.connections.count == 1)
    }

    @Test("a suspended task has no stall, and its total runs on")
    func suspended() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            while try connection.readRequest() != nil { try connection.respond("late") }
        }
        let session = try TestSession()
        let limits = Self.timeouts { $0.stall = .milliseconds(100) }
        let delegate = RecordingDelegate()
        delegate.onResponse = {
            $0.suspend()
            return .allow
        }
        let task = try session.start(delegate, TestSession.endpoint(port: origin.port, timeouts: limits))
        try session.run(until: "the head") { delegate.head != nil }
        let late = session.loop.now + 400_000_000
        try session.run(until: "four times the limit") { session.loop.now > late }
        #expect(!delegate.isComplete && delegate.body.isEmpty)
        task.resume()
        try session.finish(delegate)
        #expect(delegate.error == nil && delegate.text == "late")

        let bounded = RecordingDelegate()
        bounded.onResponse = {
            $0.suspend()
            return .allow
        }
        let total = Self.timeouts { $0.total = .milliseconds(400) }
        try session.start(bounded, TestSession.endpoint(port: origin.port, timeouts: total))
        try session.finish(bounded)
        #expect(bounded.error?.code == .responseTimeout)
        #expect(bounded.error?.details.contains("timeouts.total") == true)
    }

    @Test("an informational head is not the response")
    func informationalOnly() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 103 Early Hints\r\n\r\n")
            connection.readToEnd()
        }
        let timeouts = Self.timeouts { $0.firstByte = .milliseconds(100) }
        try check(port: origin.port, timeouts, .responseTimeout, naming: "timeouts.firstByte")
    }

    @Test(
        "a head that drips without end times out",
        arguments: ["HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 200 OK\r\nX: y\r\n"]
    )
    func drippingHead(beginning: String) throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            _ = try connection.readRequest()
            try connection.write(beginning)
            // Ends when the client has gone.
            while true {
                usleep(10_000)
                try connection.write(beginning.hasSuffix("\n") ? "X: y\r\n" : "y")
            }
        }
        let timeouts = Self.timeouts { $0.firstByte = .milliseconds(100) }
        try check(port: origin.port, timeouts, .responseTimeout, naming: "timeouts.firstByte")
    }

    @Test("informational heads that drip restart firstByte, and the total ends them")
    func drippingHeads() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            _ = try connection.readRequest()
            while true {
                try connection.write("HTTP/1.1 103 Early Hints\r\n\r\n")
                usleep(20_000)
            }
        }
        let timeouts = Self.timeouts {
            $0.firstByte = .seconds(60)
            $0.total = .milliseconds(200)
        }
        try check(port: origin.port, timeouts, .responseTimeout, naming: "timeouts.total")
    }

    @Test("a request body that is not taken times out, despite informational heads")
    func drippingInformational() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            while true {
                try connection.write("HTTP/1.1 103 Early Hints\r\n\r\n")
                usleep(20_000)
            }
        }
        let timeouts = Self.timeouts { $0.stall = .milliseconds(100) }
        try check(
            port: origin.port,
            timeouts,
            .stalled,
            naming: "timeouts.stall",
            method: .post,
            bodyLength: .bytes(10)
        )
    }

    @Test("informational heads over HTTP/2 that drip time out")
    func drippingHTTP2() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            guard let request = try script.nextRequest() else { return }
            while true {
                try script.head(103, stream: request.stream)
                usleep(20_000)
            }
        }
        let session = try TestSession()
        let timeouts = Self.timeouts {
            $0.firstByte = .seconds(60)
            $0.total = .milliseconds(200)
        }
        let delegate = try session.get(
            TestSession.endpoint(port: origin.port, httpVersion: .http2, timeouts: timeouts)
        )
        #expect(delegate.error?.code == .responseTimeout)
    }

    @Test("a body that stalls times out")
    func stalledResponse() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            connection.readToEnd()
        }
        let timeouts = Self.timeouts { $0.stall = .milliseconds(100) }
        try check(port: origin.port, timeouts, .stalled, naming: "timeouts.stall")
    }

    @Test("a request body that stalls times out")
    func stalledRequest() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { $0.readToEnd() }
        let timeouts = Self.timeouts { $0.stall = .milliseconds(100) }
        try check(
            port: origin.port,
            timeouts,
            .stalled,
            naming: "timeouts.stall",
            method: .post,
            bodyLength: .bytes(10)
        )
    }

    @Test("the total ends a task although bytes keep moving")
    func total() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\n\r\n")
            let piece = [UInt8](repeating: 120, count: 1 << 10)
            while true {
                try connection.write(piece)
                usleep(2000)
            }
        }
        let timeouts = Self.timeouts { $0.total = .milliseconds(150) }
        try check(port: origin.port, timeouts, .responseTimeout, naming: "timeouts.total")
    }

    @Test("a total that ends in the connecting phase is a time-out of connecting")
    func totalWhileConnecting() throws {
        let (listener, port) = try TestSocket.listen()
        defer { close(listener) }
        let timeouts = Self.timeouts { $0.total = .milliseconds(100) }
        try check(port: port, timeouts, .connectTimeout, naming: "timeouts.total")
    }

    @Test("a slow body that never stalls for the limit's length is no stall")
    func slowButMoving() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n")
            for _ in 0..<6 {
                usleep(150_000)
                try connection.write("x")
            }
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        let timeouts = Self.timeouts { $0.stall = .milliseconds(700) }
        try session.start(delegate, TestSession.endpoint(port: origin.port, timeouts: timeouts))
        try session.finish(delegate)
        #expect(delegate.error == nil)
        #expect(delegate.text == "xxxxxx")
    }

    @Test("after a time-out the session serves the next task")
    func afterwards() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            while let request = try connection.readRequest() {
                if request.target == "/silence" { connection.readToEnd() } else { try connection.respond() }
            }
        }
        let session = try TestSession()
        let timeouts = Self.timeouts { $0.firstByte = .milliseconds(100) }
        let endpoint = try TestSession.endpoint(port: origin.port, timeouts: timeouts)
        #expect(try session.get(endpoint, target: "/silence").error?.code == .responseTimeout)
        #expect(try session.get(endpoint).text == "hello")
        #expect(origin.connections.count == 2)
    }
}
