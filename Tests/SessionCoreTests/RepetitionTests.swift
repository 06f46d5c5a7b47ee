// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import SessionCore

@Suite("Repetition of requests (rule 57)", .onOwnThreads)
struct RepetitionTests {
    /// HTTP_1_1_REQUIRED.
    private static let downgrade: [UInt8] = [0, 0, 0, 13]

    /// An origin whose first connection speaks HTTP/2 and turns its first request down; later ones speak HTTP/1.1.
    private static func origin(
        _ turnDown: @escaping @Sendable (HTTP2Script, HTTP2Script.Frame) throws -> Void
    ) throws -> ScriptedOrigin {
        try ScriptedOrigin(
            try TestPKI.shared.server(TestSession.host),
            protocols: ["h2", "http/1.1"]
        ) { connection in
            guard connection.number == 0 else {
                while try connection.readRequest() != nil { try connection.respond("once more") }
                return
            }
            let script = try HTTP2Script(connection)
            guard let request = try script.nextRequest() else { return }
            try turnDown(script, request)
            try script.send(.resetStream, stream: request.stream, downgrade)
            connection.readToEnd()
        }
    }

    private static func endpoint(_ origin: ScriptedOrigin) throws -> Endpoint {
        try TestSession.endpoint(port: origin.port, httpVersion: .http2)
    }

    @Test("rule 57: a GET without a response is repeated over HTTP/1.1")
    func withoutResponse() throws {
        let origin = try Self.origin { _, _ in }
        let delegate = try TestSession().get(Self.endpoint(origin))
        #expect(delegate.error == nil)
        #expect(delegate.text == "once more")
        #expect(origin.requests.count == 1)
    }

    @Test("rule 57: a GET whose response has begun is not repeated", arguments: [false, true])
    func begun(hasBody: Bool) throws {
        let origin = try Self.origin { script, request in
            try script.head(200, stream: request.stream)
            if hasBody { try script.body("half", stream: request.stream, ends: false) }
        }
        let delegate = try TestSession().get(Self.endpoint(origin))
        #expect(delegate.error?.code == .responseTruncated)
        #expect(delegate.text == (hasBody ? "half" : ""))
        #expect(origin.requests.isEmpty)
    }

    @Test("rule 57: a PUT whose body has gone out, or a POST, is not repeated", arguments: [HTTPMethod.put, .post])
    func bodies(method: HTTPMethod) throws {
        let origin = try Self.origin { script, _ in
            while let frame = try script.next(), !(frame.kind == .data && frame.endsStream) {}
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        let task = try session.start(delegate, Self.endpoint(origin), method, bodyLength: .bytes(4))
        task.send(Array("body".utf8).span)
        task.finishSending()
        try session.finish(delegate)
        #expect(delegate.error?.code == .responseTruncated)
        #expect(delegate.head == nil)
        #expect(origin.requests.isEmpty)
    }

    /// Three connections that have answered one request each take another one and close. Later ones answer, or do the same.
    private static func treacherous(_ scheme: Endpoint.Scheme, freshResponses: Bool) throws -> ScriptedOrigin {
        let waiting = Monitor(0)
        let server = scheme == .https ? try TestPKI.shared.server(TestSession.host) : nil
        return try ScriptedOrigin(server) { connection in
            if connection.number < 3 {
                guard try connection.readRequest() != nil else { return }
                // None of them is idle before all are there.
                waiting.with { $0 += 1 }
                try waiting.wait(for: "three connections") { $0 >= 3 ? true : nil }
                try connection.respond("first")
            }
            guard try connection.readRequest() != nil else { return }
            if connection.number >= 3, freshResponses { try connection.respond("fresh") }
            connection.close(.cut)
        }
    }

    @Test(
        "rule 57: a GET is repeated once, however many kept connections are dead",
        arguments: [true, false],
        [Endpoint.Scheme.https, .http]
    )
    func onceAlone(freshResponses: Bool, scheme: Endpoint.Scheme) throws {
        let origin = try Self.treacherous(scheme, freshResponses: freshResponses)
        let endpoint = try TestSession.endpoint(port: origin.port, scheme: scheme)
        let session = try TestSession()
        let first = (0..<3).map { _ in RecordingDelegate() }
        for delegate in first { try session.start(delegate, endpoint) }
        for delegate in first { try session.finish(delegate) }
        let delegate = try session.get(endpoint, target: "/again")
        #expect(origin.requests.count { $0.target == "/again" } == 2)
        if freshResponses {
            #expect(delegate.error == nil && delegate.text == "fresh")
        } else {
            #expect(delegate.error?.code == .responseTruncated)
        }
    }

    @Test(
        "rule 57: a GET is not repeated after a part of a head",
        arguments: ["H", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 103 Early Hints\r\n\r\n"],
        [OriginConnection.Ending.clean, .cut, .reset]
    )
    func partOfHead(part: String, end: OriginConnection.Ending) throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.respond("first")
            guard try connection.readRequest() != nil else { return }
            try connection.write(part)
            connection.close(end)
        }
        let endpoint = try TestSession.endpoint(port: origin.port)
        let session = try TestSession()
        #expect(try session.get(endpoint).text == "first")
        let delegate = try session.get(endpoint, target: "/again")
        #expect(delegate.error?.code == .responseTruncated)
        #expect(origin.requests.count { $0.target == "/again" } == 1)
    }

    @Test("rule 57: a request repeated over HTTP/2 is not repeated over HTTP/1.1")
    func noThirdTime() throws {
        let origin = try ScriptedOrigin(
            try TestPKI.shared.server(TestSession.host),
            protocols: ["h2", "http/1.1"]
        ) { connection in
            guard connection.number < 2 else { return connection.readToEnd() }
            let script = try HTTP2Script(connection)
            if connection.number == 0, let request = try script.nextRequest() {
                try script.head(200, stream: request.stream)
                try script.body("first", stream: request.stream)
            }
            guard let request = try script.nextRequest() else { return }
            if connection.number == 0 { return connection.close(.cut) }
            try script.send(.resetStream, stream: request.stream, Self.downgrade)
            connection.readToEnd()
        }
        let session = try TestSession()
        let endpoint = try Self.endpoint(origin)
        func ask() throws -> RecordingDelegate {
            var request = try SessionRequest(endpoint: endpoint, method: .get, target: "/")
            request.isBidirectional = true
            let delegate = RecordingDelegate()
            let task = session.manager.dataTask(with: request, delegate: delegate)
            task.finishSending()
            task.resume()
            try session.finish(delegate)
            return delegate
        }
        #expect(try ask().text == "first")
        #expect(try ask().error?.code == .responseTruncated)
        #expect(origin.connections.map(\.requestFrames) == [2, 1])
    }
}
