import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import SessionCore

/// libcurl sends a request again by itself when an HTTP/2 origin asks for HTTP/1.1 (RFC 9113, section 7), whatever it
/// has answered before. The session lets it only what a person would not mind.
@Suite("Requests that libcurl would repeat")
struct RepetitionTests {
    /// HTTP_1_1_REQUIRED.
    private static let downgrade: [UInt8] = [0, 0, 0, 13]

    /// An origin whose first connection speaks HTTP/2 and turns its first request down; later ones speak HTTP/1.1.
    private static func origin(
        _ turnDown: @escaping @Sendable (HTTP2Script, HTTP2Script.Frame) throws -> Void
    ) throws -> ScriptedOrigin {
        try ScriptedOrigin(
            try TestSession.pki.server(TestSession.host),
            protocols: ["h2", "http/1.1"]
        ) { connection in
            guard connection.number == 0 else {
                while try connection.readRequest() != nil { try connection.answer("once more") }
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

    @Test("rule 57: a GET that was not answered is asked again over HTTP/1.1")
    func unanswered() throws {
        let origin = try Self.origin { _, _ in }
        let delegate = try TestSession().get(Self.endpoint(origin))
        #expect(delegate.error == nil)
        #expect(delegate.text == "once more")
        #expect(origin.requests.count == 1)
    }

    @Test("rule 57: a GET whose answer has begun is not: the client would get two heads", arguments: [false, true])
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

    @Test("rule 57: neither is a PUT whose body has gone out, nor a POST at all", arguments: [HTTPMethod.put, .post])
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
}
