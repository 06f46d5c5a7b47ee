// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import SessionCore

@Suite("Responses over HTTP/2 that come before the request is whole", .onOwnThreads)
struct EarlyResponseTests {
    private static func endpoint(_ port: UInt16) throws -> Endpoint {
        var timeouts = TaskTimeouts()
        timeouts.stall = .seconds(20)
        return try TestSession.endpoint(port: port, httpVersion: .http2, timeouts: timeouts)
    }

    @Test(
        "a refusal without Content-Length ends the task while the upload waits for its client",
        arguments: [RequestBodyLength.unknown, .bytes(100)]
    )
    func refused(length: RequestBodyLength) throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                try script.head(413, stream: request.stream)
                try script.body("too ", stream: request.stream, ends: false)
                try script.body("large", stream: request.stream)
            }
        }
        let session = try TestSession()
        for _ in 0..<2 {
            let delegate = RecordingDelegate()
            let task = try session.start(delegate, Self.endpoint(origin.port), .post, bodyLength: length)
            task.send(Array("some".utf8).span)
            try session.finish(delegate)
            #expect(delegate.error == nil)
            #expect(delegate.head?.status == 413 && delegate.text == "too large")
        }
        // Nothing of that is the end of the connection.
        #expect(origin.connections.count == 1)
    }

    @Test("an origin that responds early and reads on gets the whole body")
    func readsOn() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            guard let request = try script.nextRequest() else { return }
            try script.head(200, stream: request.stream)
            try script.body("reading ", stream: request.stream, ends: false)
            var body: [UInt8] = []
            while let frame = try script.next() {
                if frame.kind == .data { body += frame.payload }
                if frame.kind == .data, frame.endsStream { break }
            }
            try script.body(String(decoding: body, as: UTF8.self), stream: request.stream)
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        let task = try session.start(delegate, Self.endpoint(origin.port), .post, bodyLength: .unknown)
        try session.run(until: "the answer's beginning") { delegate.text == "reading " }
        session.settle()
        task.send(Array("late ".utf8).span)
        session.settle()
        task.send(Array("body".utf8).span)
        task.finishSending()
        try session.finish(delegate)
        #expect(delegate.error == nil)
        #expect(delegate.text == "reading late body")
    }
}
