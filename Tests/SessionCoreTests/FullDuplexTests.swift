// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

/// Remote calls, whose requests and responses go on at the same time, and the connections that they share with other requests.
@Suite("HTTP/2 in both directions at once", .onOwnThreads)
struct FullDuplexTests {
    /// An origin that plays a part of HTTP/2 on each connection, with that connection's number.
    private func origin(
        protocols: [String] = ["h2"],
        _ play: @escaping @Sendable (HTTP2Script, Int) throws -> Void
    ) throws -> ScriptedOrigin {
        let numbers = Monitor(0)
        return try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), protocols: protocols) { connection in
            let number = numbers.with { number in
                defer { number += 1 }
                return number
            }
            try play(try HTTP2Script(connection), number)
        }
    }

    /// Answers every request with its stream's number.
    private static func respondToAll(_ script: HTTP2Script) throws {
        while let request = try script.nextRequest() {
            try script.head(200, stream: request.stream)
            try script.body("\(request.stream)", stream: request.stream)
        }
    }

    private func endpoint(
        _ origin: ScriptedOrigin,
        policy: SecurityPolicy = .unpinned,
        timeouts: TaskTimeouts = TaskTimeouts()
    ) throws -> Endpoint {
        try TestSession.endpoint(port: origin.port, httpVersion: .http2, policy: policy, timeouts: timeouts)
    }

    private var callFields: HeaderFields {
        var fields = HeaderFields()
        fields.append(.contentType, "application/grpc")
        return fields
    }

    private func start(
        _ session: TestSession,
        _ endpoint: Endpoint,
        _ delegate: RecordingDelegate,
        _ method: HTTPMethod = .get,
        bodyLength: RequestBodyLength = .none
    ) throws -> LoopTask {
        try session.start(delegate, endpoint, method, fields: callFields, bodyLength: bodyLength)
    }

    private func get(_ session: TestSession, _ endpoint: Endpoint) throws -> RecordingDelegate {
        let delegate = RecordingDelegate()
        _ = try start(session, endpoint, delegate)
        try session.finish(delegate)
        return delegate
    }

    @Test("a response streams while the request goes on, and both have trailers")
    func bothDirections() throws {
        let origin = try origin { script, _ in
            guard let request = try script.nextRequest() else { return }
            try script.head(200, stream: request.stream)
            while let frame = try script.next() {
                if frame.kind == .headers {
                    // The request's trailers.
                    try script.send(
                        .headers,
                        flags: 5,
                        stream: frame.stream,
                        [0x00, 5] + Array("check".utf8) + [1, 49]
                    )
                    while try script.next() != nil {}
                    return
                }
                try script.send(.data, stream: frame.stream, Array("re:".utf8) + frame.payload)
            }
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        let task = try start(session, endpoint(origin), delegate, .post, bodyLength: .unknown)
        for (number, word) in ["one", "two", "three"].enumerated() {
            task.send(Array(word.utf8).span)
            let sofar = ["re:one", "re:onere:two", "re:onere:twore:three"][number]
            try session.run(until: "the answer to \(word)") { delegate.text == sofar }
        }
        var trailers = HeaderFields()
        try trailers.append(name: "Grpc-Probe", value: "1")
        task.finishSending(trailers: trailers)
        try session.finish(delegate)
        #expect(delegate.error == nil)
        #expect(delegate.trailers.list.map(\.name) == ["check"])
        #expect(delegate.head?.majorVersion == 2)
        let transaction = delegate.transaction
        #expect(transaction.protocolVersion == 20)
        #expect(transaction.requestBodyBytesSent == 11)
        #expect(transaction.responseBodyBytesReceived == 20)
        #expect(transaction.connection?.evaluation?.verdict == .notPinned)
        #expect(transaction.secureConnectionEnd > 0 && transaction.requestStart >= transaction.connectEnd)
        #expect(transaction.responseStart < transaction.requestEnd)
    }

    @Test("requests share a connection, each with the verdict on it")
    func shared() throws {
        let origin = try origin { script, _ in try Self.respondToAll(script) }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        let delegates = (0..<10).map { _ in RecordingDelegate() }
        for delegate in delegates { _ = try start(session, endpoint, delegate) }
        for delegate in delegates {
            try session.finish(delegate)
            #expect(delegate.error == nil && !delegate.text.isEmpty)
        }
        #expect(Set(delegates.map(\.text)).count == 10)
        #expect(try get(session, endpoint).transaction.isReusedConnection)
        #expect(origin.connections.count == 1)
        // An equal endpoint has it too; one of another generation has not.
        #expect(try get(session, self.endpoint(origin)).error == nil)
        #expect(origin.connections.count == 1)
        let later = try TestSession.endpoint(port: origin.port, httpVersion: .http2, generation: 2)
        #expect(try get(session, later).error == nil)
        #expect(origin.connections.count == 2)
    }

    @Test("an idle HTTP/2 connection closes when a waiting stream needs its slot")
    func placeOfIdle() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), protocols: ["h2"]) { connection in
            if connection.number == 0 {
                try Self.respondToAll(try HTTP2Script(connection))
            } else {
                connection.readToEnd()
            }
        }
        var configuration = SessionConfiguration()
        configuration.connectionsPerHost = 1
        let session = try TestSession(configuration)
        let endpoint = try endpoint(origin)
        #expect(try get(session, endpoint).error == nil)
        let delegate = RecordingStream()
        let stream = session.open(delegate, endpoint)
        try session.run(until: "the stream's connection") { delegate.isConnected }
        stream.cancel()
        #expect(origin.connections.count == 2)
    }

    @Test("a request that needs HTTP/1.1 uses it alone: the next uses HTTP/2")
    func http11Required() throws {
        let origin = try ScriptedOrigin(
            try TestPKI.shared.server(TestSession.host),
            protocols: ["h2", "http/1.1"]
        ) { connection in
            guard connection.number == 0 else {
                while try connection.readRequest() != nil { try connection.respond("over HTTP/1.1") }
                return
            }
            let script = try HTTP2Script(connection)
            guard let request = try script.nextRequest() else { return }
            try script.send(.resetStream, stream: request.stream, [0, 0, 0, 13])
            try Self.respondToAll(script)
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        #expect(try get(session, endpoint).text == "over HTTP/1.1")
        #expect(try get(session, endpoint).head?.majorVersion == 2)
    }

    @Test("a wrong pin fails every waiting request, and the origin gets nothing")
    func wrongPin() throws {
        let origin = try origin { script, _ in try Self.respondToAll(script) }
        let session = try TestSession()
        let policy = try SecurityPolicy.pinning(PublicKeyPin.unrelated(7))
        let endpoint = try endpoint(origin, policy: policy)
        let delegates = (0..<3).map { _ in RecordingDelegate() }
        for delegate in delegates { _ = try start(session, endpoint, delegate, .post, bodyLength: .unknown) }
        for delegate in delegates {
            try session.finish(delegate)
            #expect(delegate.error?.code == .pinMismatch)
            #expect(!delegate.calls.contains(.connected))
            let transaction = delegate.transaction
            #expect(transaction.connection?.remoteAddress == .loopback(port: origin.port))
            #expect(transaction.connection?.tlsVersion?.description == "TLSv1.3")
            #expect(transaction.secureConnectionStart > 0)
            #expect(transaction.secureConnectionEnd >= transaction.secureConnectionStart)
            #expect(transaction.connectEnd == transaction.secureConnectionEnd && transaction.requestStart < 0)
        }
        #expect(origin.applicationBytes == 0)
    }

    @Test("a server without HTTP/2 gets HTTP/1.1, and no further offer")
    func fallback() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), protocols: ["http/1.1"]) {
            connection in
            while let request = try connection.readRequest() {
                try connection.write(OriginResponse.text(request.target))
            }
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        let first = try get(session, endpoint)
        #expect(first.error == nil && first.text == "/")
        #expect(first.transaction.protocolVersion == 11)
        let before = origin.connections.count
        #expect(try get(session, endpoint).transaction.isReusedConnection)
        #expect(origin.connections.count == before)
    }

    @Test(
        "a server that returns from HTTP/1.1 to HTTP/2 is offered HTTP/2 again",
        arguments: [true, false]
    )
    func fallbackIsOver(insists: Bool) throws {
        let origin = try ScriptedOrigin(
            try TestPKI.shared.server(TestSession.host),
            protocols: ["http/1.1"],
            laterProtocols: ["h2"],
            insistsOnProtocols: insists
        ) { connection in
            if connection.number > 0, insists || connection.number > 3 {
                return try Self.respondToAll(try HTTP2Script(connection))
            }
            guard let request = try connection.readRequest() else { return }
            // An empty SETTINGS frame.
            if connection.number > 0 { return try connection.write([0, 0, 0, 4, 0, 0, 0, 0, 0]) }
            try connection.write(OriginResponse.text(request.target, fields: ["Connection: close"]))
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        #expect(try get(session, endpoint).transaction.protocolVersion == 11)
        let delegates = (0..<3).map { _ in RecordingDelegate() }
        for delegate in delegates { _ = try start(session, endpoint, delegate) }
        for delegate in delegates {
            try session.finish(delegate)
            // A broken handshake costs no request. Without it the server sends HTTP/2 as a response of HTTP/1.1.
            #expect(delegate.error?.code == (insists ? nil : .responseInvalid), "\(String(describing: delegate.error))")
        }
        let last = try get(session, endpoint)
        #expect(last.error == nil && last.transaction.protocolVersion == 20, "\(String(describing: last.error))")
    }

    @Test("consecutive and simultaneous requests share the connection")
    func manyOnOne() throws {
        let origin = try origin { script, _ in try Self.respondToAll(script) }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        #expect(try get(session, endpoint).error == nil)
        let delegates = (0..<5).map { _ in RecordingDelegate() }
        for delegate in delegates { _ = try session.start(delegate, endpoint) }
        for delegate in delegates {
            try session.finish(delegate)
            #expect(delegate.error == nil && delegate.head?.majorVersion == 2)
        }
        #expect(try get(session, endpoint).transaction.isReusedConnection)
    }

    @Test("a request on a new connection may finish after its session was invalidated")
    func afterInvalidation() throws {
        let gate = Gate()
        let origin = try origin { script, number in
            guard number == 0 else { return try Self.respondToAll(script) }
            guard let request = try script.nextRequest() else { return }
            try gate.pass()
            try script.send(.resetStream, stream: request.stream, [0, 0, 0, 7])
            try script.send(.goAway, stream: 0, [UInt8](repeating: 0, count: 8))
            while try script.next() != nil {}
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        _ = try start(session, endpoint(origin), delegate)
        try session.run(until: "the request") { delegate.calls.contains(.connected) }
        session.manager.invalidateSession(cancelingTasks: false)
        gate.open()
        try session.finish(delegate)
        #expect(delegate.error == nil && !delegate.text.isEmpty)
    }

    @Test("an unprocessed stream is repeated once, whatever the method")
    func refused() throws {
        let origin = try origin { script, _ in
            var count = 0
            while let request = try script.nextRequest() {
                count += 1
                if count == 1 {
                    try script.send(.resetStream, stream: request.stream, [0, 0, 0, 7])
                } else {
                    try script.head(200, stream: request.stream)
                    try script.body("second", stream: request.stream)
                }
            }
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        let task = try start(session, endpoint(origin), delegate, .post, bodyLength: .unknown)
        try session.finish(delegate)
        #expect(delegate.error == nil && delegate.text == "second")
        #expect(task.state == .completed)
        #expect(delegate.completions == 1)
    }

    @Test("requests above GOAWAY move to a new connection, those below finish")
    func goAway() throws {
        let origin = try origin { script, number in
            guard number == 0 else { return try Self.respondToAll(script) }
            guard let first = try script.nextRequest(), try script.nextRequest() != nil else { return }
            try script.send(.goAway, stream: 0, [0, 0, 0, UInt8(first.stream), 0, 0, 0, 0])
            try script.head(200, stream: first.stream)
            try script.body("kept", stream: first.stream)
            while try script.next() != nil {}
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        let delegates = [RecordingDelegate(), RecordingDelegate()]
        for delegate in delegates { _ = try start(session, endpoint, delegate) }
        try session.finish(delegates[0], delegates[1])
        #expect(delegates.map { $0.error == nil } == [true, true])
        #expect(delegates.map(\.text).sorted() == ["1", "kept"])
        #expect(origin.connections.count == 2)
    }

    @Test("a dead kept connection is replaced for an idempotent request alone")
    func dead() throws {
        for (method, isRepeated) in [(HTTPMethod.get, true), (.post, false)] {
            let origin = try origin { script, number in
                guard number == 0 else { return try Self.respondToAll(script) }
                guard let first = try script.nextRequest() else { return }
                try script.head(200, stream: first.stream, ends: true)
                // The next request is read, and the connection cut without a word.
                _ = try script.nextRequest()
                throw Cut()
            }
            let session = try TestSession()
            let endpoint = try endpoint(origin)
            #expect(try get(session, endpoint).error == nil)
            let delegate = RecordingDelegate()
            _ = try start(session, endpoint, delegate, method)
            try session.finish(delegate)
            #expect((delegate.error == nil) == isRepeated, "\(method): \(String(describing: delegate.error))")
            if !isRepeated { #expect(delegate.error?.code == .responseTruncated) }
        }
    }

    @Test("a response that is reset, or whose connection ends, is truncated", arguments: [true, false])
    func truncated(isReset: Bool) throws {
        let origin = try origin { script, _ in
            guard let request = try script.nextRequest() else { return }
            try script.head(200, stream: request.stream)
            try script.body("part", stream: request.stream, ends: false)
            guard isReset else { throw Cut() }
            try script.send(.resetStream, stream: request.stream, [0, 0, 0, 2])
            while try script.next() != nil {}
        }
        let session = try TestSession()
        let delegate = try get(session, endpoint(origin))
        #expect(delegate.text == "part")
        #expect(delegate.error?.code == .responseTruncated)
    }

    @Test("a response that breaks the rules is invalid")
    func invalid() throws {
        let origin = try origin { script, _ in
            var count = 0
            while let request = try script.nextRequest() {
                count += 1
                let fields =
                    count == 1 ? [("connection", "close")] : [("content-length", "1"), ("content-length", "1")]
                try script.head(200, fields: fields, stream: request.stream, ends: true)
            }
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        for _ in 0..<2 { #expect(try get(session, endpoint).error?.code == .responseInvalid) }
        #expect(origin.connections.count == 1)
    }

    @Test("1xx heads precede the response, which may have no body")
    func interim() throws {
        let origin = try origin { script, _ in
            guard let request = try script.nextRequest() else { return }
            try script.head(103, fields: [("link", "</x>")], stream: request.stream)
            try script.head(204, stream: request.stream, ends: true)
            while try script.next() != nil {}
        }
        let delegate = try get(try TestSession(), endpoint(origin))
        #expect(delegate.calls == [.connected, .informational(103), .response(204), .completed])
    }

    @Test("a cancelled task resets its stream, and the connection stays")
    func cancel() throws {
        let resets = Monitor<[Int]>([])
        let origin = try origin { script, _ in
            while let frame = try script.next() {
                if frame.kind == .resetStream { resets.with { $0.append(frame.stream) } }
                if frame.kind == .headers, frame.stream > 1 {
                    try script.head(200, stream: frame.stream, ends: true)
                }
            }
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        let delegate = RecordingDelegate()
        let task = try start(session, endpoint, delegate)
        try session.run(until: "the request") { origin.applicationBytes > 60 }
        task.cancel()
        #expect(delegate.error?.code == .cancelled)
        #expect(try get(session, endpoint).transaction.isReusedConnection)
        #expect(resets.with { $0 } == [1])
    }

    @Test("a missing head fails the task, and its connection gets no new request")
    func timeout() throws {
        let origin = try origin { script, number in
            if number > 0 { return try Self.respondToAll(script) }
            while try script.next() != nil {}
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin, timeouts: TaskTimeouts(firstByte: .milliseconds(200)))
        #expect(try get(session, endpoint).error?.code == .responseTimeout)
        #expect(try get(session, endpoint).error == nil)
        #expect(origin.connections.count == 2)
    }

    @Test("a task that takes nothing stops the origin, and continues later")
    func backPressure() throws {
        let body = patternBytes(2 << 20)
        let server = try TestPKI.shared.server(TestSession.host)
        let nginx = try NginxOrigin(server, http2: true, files: ["blob": body])
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: nginx.port, httpVersion: .http2)
        let delegate = RecordingDelegate()
        delegate.onData = { [unowned delegate] _ in delegate.dataCalls == 1 ? .pause : .proceed }
        let task = try session.start(delegate, endpoint, target: "/files/blob", fields: callFields)
        try session.run(until: "the first piece") { delegate.dataCalls == 1 }
        session.settle(50)
        #expect(delegate.dataCalls == 1)
        task.resumeReceiving()
        try session.finish(delegate)
        let isSame = delegate.body == body
        #expect(isSame && delegate.error == nil)
    }

    @Test("an old connection carries no new request, and an invalidated session keeps none")
    func age() throws {
        let origin = try origin { script, _ in try Self.respondToAll(script) }
        var configuration = SessionConfiguration()
        configuration.connectionLifetime = .seconds(1)
        let session = try TestSession(configuration)
        let endpoint = try endpoint(origin)
        #expect(try get(session, endpoint).error == nil)
        let old = session.loop.now + TimeSpan.milliseconds(1100).nanoseconds
        try session.run(until: "the connection's age") { session.loop.now > old }
        #expect(try get(session, endpoint).transaction.isReusedConnection == false)
        #expect(origin.connections.count == 2)
        var isInvalid = false
        session.manager.sessionDidBecomeInvalid = { isInvalid = true }
        session.manager.invalidateSession(cancelingTasks: false)
        try session.run(until: "the session's end") { isInvalid }
        try origin.waitForClosed(2)
    }
}

/// Ends a script, and its connection without a word.
private struct Cut: Error {}
