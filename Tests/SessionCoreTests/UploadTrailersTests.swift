// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import SessionCore

@Suite("Trailers of uploads", .onOwnThreads)
struct UploadTrailersTests {
    private func trailers(_ pairs: (String, String)...) throws -> HeaderFields {
        var fields = HeaderFields()
        for (name, value) in pairs { try fields.append(name: name, value: value) }
        return fields
    }

    private static func echo() throws -> ScriptedOrigin {
        try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            while let request = try connection.readRequest() {
                let trailers = request.trailers.map { "\($0.name)=\($0.value)" }.joined(separator: ";")
                try connection.respond("\(request.text)|\(trailers)")
            }
        }
    }

    @Test("trailers follow a body of unknown length, and the connection stays")
    func arrive() throws {
        let origin = try Self.echo()
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        for (body, sent, expected) in [
            ("body", try trailers(("X-Sum", "1"), ("x-empty", ""), ("X-Sum", "2")), "body|X-Sum=1;x-empty=;X-Sum=2"),
            ("", try trailers(("X-Alone", "3")), "|X-Alone=3"), ("none", HeaderFields(), "none|"),
            ("again", try trailers(("X-Last", "a, b: c")), "again|X-Last=a, b: c"),
        ] {
            let delegate = RecordingDelegate()
            let task = try session.start(delegate, endpoint, .post, bodyLength: .unknown)
            if !body.isEmpty { task.send(Array(body.utf8).span) }
            task.finishSending(trailers: sent)
            try session.finish(delegate)
            #expect(delegate.error == nil)
            #expect(delegate.text == expected)
        }
        #expect(origin.connections.count == 1)
    }

    @Test("trailers follow a slow body, and one of many pieces")
    func late() throws {
        let origin = try Self.echo()
        let session = try TestSession()
        let delegate = RecordingDelegate()
        let endpoint = try TestSession.endpoint(port: origin.port)
        let task = try session.start(delegate, endpoint, .put, bodyLength: .unknown)
        try session.run(until: "a connection") { delegate.calls.contains(.connected) }
        for _ in 0..<10 {
            task.send([UInt8](repeating: 97, count: 1000).span)
            session.settle()
        }
        task.finishSending(trailers: try trailers(("X-Sum", "late")))
        try session.finish(delegate)
        #expect(delegate.text == String(repeating: "a", count: 10_000) + "|X-Sum=late")
    }

    @Test("trailers are left out with a length, and over HTTP/2")
    func leftOut() throws {
        let origin = try Self.echo()
        let nginx = try NginxOrigin(try TestPKI.shared.server(TestSession.host), http2: true)
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        let delegate = RecordingDelegate()
        let task = try session.start(delegate, endpoint, .post, bodyLength: .bytes(4))
        task.send(Array("body".utf8).span)
        task.finishSending(trailers: try trailers(("X-Sum", "1")))
        try session.finish(delegate)
        #expect(delegate.text == "body|")
        for _ in 0..<2 {
            let other = RecordingDelegate()
            let upload = try session.start(
                other,
                TestSession.endpoint(port: nginx.port, httpVersion: .http2),
                .put,
                target: "/files/trailed",
                bodyLength: .unknown
            )
            upload.send(Array("over HTTP/2".utf8).span)
            upload.finishSending(trailers: try trailers(("X-Sum", "1")))
            try session.finish(other)
            #expect(other.error == nil)
            #expect(try nginx.file("trailed") == Array("over HTTP/2".utf8))
        }
    }
}
