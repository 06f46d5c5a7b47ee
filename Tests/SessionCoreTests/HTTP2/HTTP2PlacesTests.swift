// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import SessionCore

/// Places in the pool, and requests that nghttp2 holds back.
@Suite("Connections of HTTP/2 give their slots back", .onOwnThreads)
struct HTTP2PlacesTests {
    private func origin(_ script: @escaping ScriptedOrigin.Script) throws -> ScriptedOrigin {
        try ScriptedOrigin(
            try TestPKI.shared.server(TestSession.host),
            protocols: ["h2", "http/1.1"],
            script: script
        )
    }

    private func endpoint(_ origin: ScriptedOrigin, limit: Int? = nil) throws -> Endpoint {
        try TestSession.endpoint(port: origin.port, httpVersion: .http2, connectionLimit: limit)
    }

    private static func respondToAll(_ connection: OriginConnection) throws {
        let script = try HTTP2Script(connection)
        while let request = try script.nextRequest() { try script.head(204, stream: request.stream, ends: true) }
    }

    @Test("an idle connection whose slot is taken returns it once")
    func replaced() throws {
        let origin = try origin { connection in
            // On a connection of a stream no byte comes.
            try Self.respondToAll(connection)
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin, limit: 1)
        let pool = { session.manager.connections.entry(for: endpoint).pool }
        for _ in 0..<3 {
            #expect(try session.get(endpoint).error == nil)
            let first = RecordingStream()
            let second = RecordingStream()
            let holding = session.open(first, endpoint, [.http1])
            try session.run(until: "the stream") { first.isConnected }
            #expect(pool().activeCount == 1)
            let waiting = session.open(second, endpoint, [.http1])
            session.settle(20)
            #expect(!second.isConnected && pool().waiters.count == 1)
            holding.cancel()
            try session.run(until: "the second stream") { second.isConnected }
            waiting.cancel()
            #expect(pool().isEmpty)
        }
    }

    /// A server that reads nothing before the gate opens, and allows so many streams until then.
    private func holding(
        _ gate: Gate,
        _ counted: Monitor<Int>,
        streamLimit: UInt8
    ) throws -> ScriptedOrigin {
        try origin { connection in
            guard connection.number == 0 else { return try Self.respondToAll(connection) }
            let script = try HTTP2Script(connection, streamLimit: streamLimit)
            try gate.pass()
            try script.send(.settings, stream: 0, [0, 3, 0, 0, 0, 100])
            while let request = try script.nextRequest() {
                counted.with { $0 += 1 }
                try script.head(204, stream: request.stream, ends: true)
            }
        }
    }

    /// So many and so large heads that not all of them go out before the server's settings come.
    private func startMany(_ session: TestSession, _ endpoint: Endpoint) throws -> [(LoopTask, RecordingDelegate)] {
        var fields = HeaderFields()
        // Together more than the buffers of both sockets hold.
        for _ in 0..<4 { try fields.append(name: "x-large", value: String(repeating: "x", count: 60_000)) }
        return try (0..<100).map { _ in
            let delegate = RecordingDelegate()
            return (try session.start(delegate, endpoint, .post, fields: fields), delegate)
        }
    }

    @Test("an unsent request does not leave after its session was retired")
    func retired() throws {
        let gate = Gate()
        defer { gate.open() }
        let counted = Monitor(0)
        // Not all heads go out, because the server does not read.
        let origin = try holding(gate, counted, streamLimit: 100)
        let session = try TestSession()
        let tasks = try startMany(session, endpoint(origin))
        try session.run(until: "requests on a connection") { tasks.allSatisfy { $0.1.calls.contains(.connected) } }
        session.settle(50)
        session.manager.retire()
        let unsent = tasks.count { $0.1.error?.code == .sessionInvalidated }
        #expect(unsent > 0)
        gate.open()
        try session.run(until: "the others") { tasks.allSatisfy(\.1.isComplete) }
        #expect(tasks.count { $0.1.error == nil && $0.1.head?.status == 204 } == 100 - unsent)
        #expect(counted.with { $0 } == 100 - unsent)
    }

    @Test("unsent requests move to another connection when no streams are allowed")
    func lowered() throws {
        let gate = Gate()
        defer { gate.open() }
        let origin = try origin { connection in
            guard connection.number == 0 else { return try Self.respondToAll(connection) }
            let script = try HTTP2Script(connection, streamLimit: 0)
            try gate.pass()
            while let request = try script.nextRequest() { try script.head(204, stream: request.stream, ends: true) }
        }
        let session = try TestSession()
        let tasks = try startMany(session, endpoint(origin))
        let complete = { tasks.count { $0.1.isComplete } }
        try session.run(until: "responses on another connection") { complete() > 0 && origin.connections.count > 1 }
        session.settle(20)
        gate.open()
        try session.run(until: "the others") { complete() == 100 }
        #expect(tasks.allSatisfy { $0.1.error == nil && $0.1.head?.status == 204 })
        // No request was sent twice.
        #expect(tasks.allSatisfy { !$0.0.wasRepeated })
    }

    @Test("requests cancelled before their heads hold no slot")
    func givenUp() throws {
        let gate = Gate()
        defer { gate.open() }
        let origin = try holding(gate, Monitor(0), streamLimit: 100)
        let session = try TestSession()
        let endpoint = try endpoint(origin, limit: 1)
        let tasks = try startMany(session, endpoint)
        try session.run(until: "requests on a connection") { tasks.allSatisfy { $0.1.calls.contains(.connected) } }
        session.settle(50)
        for (task, _) in tasks { task.cancel() }
        // The connection carries nothing, and has no stream free as long as the server does not read: another takes its place.
        let next = RecordingDelegate()
        try session.start(next, endpoint)
        #expect(session.manager.connections.entry(for: endpoint).pool.waiters.isEmpty)
        try session.finish(next)
        #expect(next.error == nil && next.head?.status == 204)
        #expect(origin.connections.count == 2)
    }

    @Test("a silent request leaves the connection to others with moving bytes")
    func oneSilent() throws {
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            guard let long = try script.nextRequest() else { return }
            try script.head(200, stream: long.stream)
            // The second request is never answered; bytes of the first response come meanwhile.
            guard try script.nextRequest() != nil else { return }
            while let frame = try script.next() {
                if frame.kind == .resetStream { break }
                if frame.kind == .headers { try script.head(204, stream: frame.stream, ends: true) }
            }
            while let request = try script.nextRequest() { try script.head(204, stream: request.stream, ends: true) }
        }
        let session = try TestSession()
        let timeouts = TaskTimeouts(firstByte: .milliseconds(300))
        let endpoint = try TestSession.endpoint(
            port: origin.port,
            httpVersion: .http2,
            timeouts: timeouts,
            connectionLimit: 1
        )
        let long = RecordingDelegate()
        let first = try session.start(long, endpoint)
        try session.run(until: "the long response") { long.head != nil }
        let silent = RecordingDelegate()
        try session.start(silent, endpoint)
        try session.run(until: "the silent request") { silent.calls.contains(.connected) }
        // Something of a response comes while it waits.
        #expect(try session.get(endpoint).head?.status == 204)
        try session.finish(silent)
        #expect(silent.error?.code == .responseTimeout)
        #expect(try session.get(endpoint).head?.status == 204)
        #expect(!long.isComplete && origin.connections.count == 1)
        first.cancel()
    }

    @Test("a breach of HTTP/2 is an invalid response, and causes no repetition")
    func violation() throws {
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                if request.stream == 1 {
                    try script.head(204, stream: request.stream, ends: true)
                } else {
                    // A PING of five bytes (RFC 9113, section 6.7).
                    try script.send(.ping, stream: 0, [1, 2, 3, 4, 5])
                }
            }
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        #expect(try session.get(endpoint).error == nil)
        let delegate = try session.get(endpoint)
        #expect(delegate.error?.code == .responseInvalid && delegate.error?.details.contains("HTTP/2") == true)
        #expect(origin.connections.count == 1)
    }

    @Test("a connection without the server's settings is old like any other")
    func noSettings() throws {
        let origin = try origin { connection in
            _ = try HTTP2Script(connection, sendsSettings: false)
            // Not even the client's settings are acknowledged: the first frame of a server has to be SETTINGS.
            connection.readToEnd()
        }
        var configuration = SessionConfiguration()
        configuration.connectionLifetime = .seconds(1)
        let session = try TestSession(configuration)
        let endpoint = try endpoint(origin)
        let first = RecordingDelegate()
        try session.start(first, endpoint)
        try session.run(until: "the first request") { first.calls.contains(.connected) }
        let second = RecordingDelegate()
        try session.start(second, endpoint)
        try session.run(until: "the second request") { second.calls.contains(.connected) }
        #expect(origin.connections.count == 1)
        let old = session.loop.now + 1_100_000_000
        try session.run(until: "the end of the lifetime") { session.loop.now > old }
        let third = RecordingDelegate()
        try session.start(third, endpoint)
        try session.run(until: "the third request") { third.calls.contains(.connected) }
        #expect(origin.connections.count == 2)
        #expect(!first.isComplete && !second.isComplete)
    }

    @Test("a delegate may cancel and start requests while a dial fails")
    func failedDial() throws {
        let (listener, port) = try TestSocket.listen()
        close(listener)
        let origin = try origin(Self.respondToAll)
        let session = try TestSession()
        let refusing = try TestSession.endpoint(port: port, httpVersion: .http2)
        let good = try endpoint(origin, limit: 1)
        let first = RecordingDelegate()
        let second = RecordingDelegate()
        let third = RecordingDelegate()
        try session.start(first, refusing)
        let task = try session.start(second, refusing)
        first.onComplete = { _ in
            task.cancel()
            _ = try? session.start(third, good)
        }
        try session.finish(first, second, third)
        #expect(first.error?.code == .connectFailed && second.error?.code == .cancelled)
        #expect(third.error == nil && third.head?.status == 204)
        #expect(try session.get(good).error == nil)
        #expect(session.manager.connections.entry(for: good).pool.activeCount == 1)
    }

    @Test("requests that waited for a dial leave in order over HTTP/1.1")
    func orderAfterFallback() throws {
        let targets = Monitor<[String]>([])
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), protocols: ["http/1.1"]) {
            connection in
            while let request = try connection.readRequest() {
                targets.with { $0.append(request.target) }
                try connection.write(OriginResponse.text(request.target))
            }
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin, limit: 1)
        // A dial takes 100 of them.
        let delegates = (0..<150).map { _ in RecordingDelegate() }
        for (number, delegate) in delegates.enumerated() { try session.start(delegate, endpoint, target: "/\(number)") }
        try session.run(until: "all responses") { delegates.allSatisfy(\.isComplete) }
        #expect(delegates.allSatisfy { $0.error == nil })
        #expect(targets.with { $0 } == (0..<150).map { "/\($0)" })
    }

    @Test("a request that returns to the pool finds the same host")
    func forgottenPool() throws {
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            while try script.nextRequest() != nil {}
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin, limit: 1)
        let first = RecordingDelegate()
        let second = RecordingDelegate()
        first.mayTrust = { _ in SessionError(.certificateUntrusted, "Not this one.") }
        // The dial has failed, and the second request waits for nothing: so many hosts fill the table.
        first.onComplete = { _ in
            for number in 0..<100 {
                guard let other = try? TestSession.endpoint("host\(number).test", port: 1) else { continue }
                _ = session.manager.connections.entry(for: other)
            }
        }
        try session.start(first, endpoint)
        try session.start(second, endpoint)
        try session.run(until: "the second request") { second.calls.contains(.connected) }
        #expect(first.error?.code == .certificateUntrusted)
        // It goes out on the connection of the second one.
        let third = RecordingDelegate()
        try session.start(third, endpoint)
        try session.run(until: "the third request") { third.calls.contains(.connected) }
        #expect(origin.connections.count == 2)
        #expect(session.manager.connections.entry(for: endpoint).pool.activeCount == 1)
    }

    @Test("an idle connection ends with GOAWAY and close_notify")
    func end() throws {
        let frames = Monitor<[HTTP2Script.Frame.Kind?]>([])
        let notified = Monitor<Bool?>(nil)
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            while let frame = try script.next() {
                frames.with { $0.append(frame.kind) }
                if frame.kind == .headers { try script.head(204, stream: frame.stream, ends: true) }
            }
            let isNotified = connection.receivedCloseNotify
            notified.with { $0 = isNotified }
        }
        let session = try TestSession()
        #expect(try session.get(endpoint(origin)).error == nil)
        session.manager.invalidateSession(cancelingTasks: false)
        try session.run(until: "the end") { notified.with { $0 != nil } }
        #expect(notified.with { $0 } == true && frames.with { $0.last } == .goAway)
    }

    @Test("idle connections count as such, and the oldest excess one closes")
    func idle() throws {
        let ended = Monitor<[Int]>([])
        let origins = try (0..<4).map { number in
            try origin { connection in
                try Self.respondToAll(connection)
                ended.with { $0.append(number) }
            }
        }
        var configuration = SessionConfiguration()
        configuration.connectionPoolSize = 2
        let session = try TestSession(configuration)
        for origin in origins { #expect(try session.get(endpoint(origin)).error == nil) }
        try session.run(until: "the end of two connections") { ended.with { $0.count >= 2 } }
        let first = ended.with { $0.sorted() }
        #expect(first == [0, 1])
        #expect(session.manager.connections.makeRoom())
        try session.run(until: "the end of the oldest") { ended.with { $0.count >= 3 } }
        #expect(ended.with { $0.last } == 2)
        // The connection that is left is used again.
        #expect(try session.get(endpoint(origins[3])).transaction.isReusedConnection)
    }
}
