// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import SessionCore

/// RFC 8441 at the engine: a kept HTTP/2 connection whose server has announced that it takes extended CONNECT.
@Suite("A request for another protocol on a stream of HTTP/2", .onOwnThreads)
struct UpgradeStreamTests {
    /// The first connection is one of HTTP/2: it answers a GET, and is the script's then. Later ones switch, say hello and end.
    private static func origin(_ script: @escaping @Sendable (OriginConnection, HTTP2Script) throws -> Void) throws
        -> ScriptedOrigin
    {
        try ScriptedOrigin(
            try TestPKI.shared.server(TestSession.host),
            protocols: ["h2", "http/1.1"]
        ) { connection in
            guard connection.number == 0 else {
                _ = try connection.readRequestHead()
                try connection.write(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello"
                )
                return
            }
            let http2 = try HTTP2Script(connection)
            // SETTINGS_ENABLE_CONNECT_PROTOCOL.
            try http2.send(.settings, stream: 0, [0, 8, 0, 0, 0, 1])
            guard let request = try http2.nextRequest() else { return }
            try http2.head(204, stream: request.stream, ends: true)
            try script(connection, http2)
        }
    }

    /// Opens the tunnel, and sends back what comes on it.
    private static func echo(_ connection: OriginConnection, _ http2: HTTP2Script) throws {
        guard let request = try http2.nextRequest() else { return }
        try http2.head(200, stream: request.stream)
        while let frame = try http2.next(), frame.kind == .data {
            try http2.send(.data, flags: frame.flags & 1, stream: frame.stream, frame.payload)
        }
    }

    private func start(
        _ session: TestSession,
        _ delegate: RecordingDelegate,
        _ endpoint: Endpoint
    ) throws -> LoopTask {
        var fields = HeaderFields()
        try fields.append(name: "Upgrade", value: "websocket")
        try fields.append(name: "Connection", value: "Upgrade")
        var request = SessionRequest(
            endpoint: endpoint,
            method: .get,
            target: Array("/feed".utf8),
            fields: fields,
            bodyLength: .unknown
        )
        request.isUpgrade = true
        let task = session.manager.dataTask(with: request, delegate: delegate)
        task.resume()
        return task
    }

    private func kept(_ origin: ScriptedOrigin, clock: LoopClock = .system) throws -> (TestSession, Endpoint) {
        let session = try TestSession(clock: clock)
        let endpoint = try TestSession.endpoint(port: origin.port, httpVersion: .http2)
        #expect(try session.get(endpoint).error == nil)
        return (session, endpoint)
    }

    @Test("bytes go both ways, and the ends of both sides are the task's end") func echoed() throws {
        let origin = try Self.origin(Self.echo)
        let (session, endpoint) = try kept(origin)
        let delegate = RecordingDelegate()
        let task = try start(session, delegate, endpoint)
        try session.run(until: "the response") { delegate.head != nil }
        #expect(delegate.head?.status == 200 && delegate.head?.majorVersion == 2)
        let bytes = Array("one".utf8)
        task.send(bytes.span)
        try session.run(until: "the echo") { delegate.text == "one" }
        #expect(!delegate.isComplete)
        task.finishSending()
        try session.finish(delegate)
        #expect(delegate.error == nil && origin.connections.count == 1)
        #expect(delegate.transaction.status == 200 && delegate.transaction.protocolVersion == 20)
        #expect(delegate.transaction.requestBodyBytesSent == 3 && delegate.transaction.responseBodyBytesReceived == 3)
        #expect(session.manager.taskCount == 0)
    }

    @Test("a kept connection of another policy carries no tunnel")
    func otherPolicy() throws {
        let origin = try Self.origin(Self.echo)
        let (session, _) = try kept(origin)
        let other = try TestSession.endpoint(
            port: origin.port,
            httpVersion: .http2,
            policy: .pinning(.unrelated(2)),
            generation: 2
        )
        let delegate = RecordingDelegate()
        _ = try start(session, delegate, other)
        try session.finish(delegate)
        #expect(delegate.error?.code == .pinMismatch && delegate.head == nil)
        session.manager.invalidateSession(cancelingTasks: true)
        session.settle()
        let records = try origin.waitForClosed()
        #expect(records.first?.requestFrames == 1 && records.dropFirst().allSatisfy { $0.applicationBytes == 0 })
    }

    @Test("on a silently dead connection a tunnel moves to HTTP/1.1 after five seconds") func deadConnection() throws {
        let silent = Monitor(false)
        let origin = try Self.origin { connection, _ in
            connection.goDeaf()
            silent.with { $0 = true }
            connection.readToEnd()
        }
        let (session, endpoint) = try kept(origin, clock: .byHand)
        try silent.wait(for: "silence") { $0 ? true : nil }
        let delegate = RecordingDelegate()
        session.loop.advance(by: .milliseconds(1))
        _ = try start(session, delegate, endpoint)
        try SilentConnectionTests.waitForRetransmissions(session, to: origin.port)
        #expect(!delegate.isComplete)
        session.loop.advance(by: .seconds(5))
        try session.finish(delegate)
        #expect(delegate.error == nil && delegate.text == "hello" && delegate.head?.status == 101)
        #expect(origin.connections.count == 2)
    }

    @Test("a session that is replaced in the same turn sends nothing of the tunnel") func replaced() throws {
        let origin = try Self.origin(Self.echo)
        let (session, endpoint) = try kept(origin)
        let delegate = RecordingDelegate()
        _ = try start(session, delegate, endpoint)
        session.manager.retire()
        try session.finish(delegate)
        #expect(delegate.error?.code == .sessionInvalidated)
        session.settle()
        let records = try origin.waitForClosed()
        #expect(records.map(\.requestFrames) == [1])
    }

    @Test("a tunnel outlives an invalidated session, and ends with a cancelled one") func sessionEnds()
        throws
    {
        let origin = try Self.origin(Self.echo)
        let (session, endpoint) = try kept(origin)
        let delegate = RecordingDelegate()
        let task = try start(session, delegate, endpoint)
        try session.run(until: "the response") { delegate.head != nil }
        session.manager.invalidateSession(cancelingTasks: false)
        let bytes = Array("on".utf8)
        task.send(bytes.span)
        try session.run(until: "the echo") { delegate.text == "on" }
        session.manager.invalidateSession(cancelingTasks: true)
        try session.finish(delegate)
        #expect(delegate.error?.code == .cancelled)
    }
}
