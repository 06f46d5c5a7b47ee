// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("Bodies up and down", .onOwnThreads)
struct BodyTests {
    private static func origin(script: @escaping ScriptedOrigin.Script) throws -> ScriptedOrigin {
        try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), script: script)
    }

    @Test("a paused response stops the origin, and a resumed one continues", arguments: [true, false])
    func pauseStopsOrigin(isSecure: Bool) throws {
        let total = 24 << 20
        let piece = patternBytes(64 << 10)
        let origin = try ScriptedOrigin(isSecure ? try TestPKI.shared.server(TestSession.host) : nil) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(total)\r\n\r\n")
            for _ in 0..<(total / piece.count) { try connection.write(piece) }
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        delegate.onData = { _ in .pause }
        let endpoint = try TestSession.endpoint(port: origin.port, scheme: isSecure ? .https : .http)
        let task = try session.start(delegate, endpoint)
        try session.run(until: "the first bytes") { delegate.dataCalls > 0 }
        // The buffers of the system fill, and then nothing moves any more.
        var written = -1
        try Patience.poll(for: "the origin to stop", every: 0.2) {
            session.settle(10)
            let now = origin.connections[0].bytesWritten
            defer { written = now }
            return now == written ? true : nil
        }
        #expect(written < total)
        #expect(delegate.body.count <= 64 << 10)
        delegate.onData = { _ in .proceed }
        task.resumeReceiving()
        try session.finish(delegate)
        #expect(delegate.error == nil)
        #expect(delegate.body.count == total)
        let isInOrder = stride(from: 0, to: total, by: piece.count).allSatisfy { start in
            firstDifference(Array(delegate.body[start..<start + piece.count]), piece) == nil
        }
        #expect(isInOrder)
    }

    @Test("an upload streams: the delegate is asked for more when its bytes have gone", arguments: [true, false])
    func upload(hasLength: Bool) throws {
        let body = patternBytes(2 << 20)
        let origin = try Self.origin { connection in
            while let request = try connection.readRequest() { try connection.respond("\(request.body.count)") }
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        var sent = 0
        var largestPending = 0
        delegate.onNeedsBodyData = { task in
            largestPending = max(largestPending, task.pendingBodyBytes)
            let end = min(body.count, sent + 50_000)
            task.send(body.span.extracting(sent..<end))
            sent = end
            largestPending = max(largestPending, task.pendingBodyBytes)
            if sent == body.count { task.finishSending() }
        }
        let endpoint = try TestSession.endpoint(port: origin.port)
        try session.start(delegate, endpoint, .post, bodyLength: hasLength ? .bytes(body.count) : .unknown)
        try session.finish(delegate)
        #expect(delegate.error == nil)
        #expect(delegate.text == "\(body.count)")
        let isWhole = origin.requests[0].body == body
        #expect(isWhole)
        #expect(origin.requests[0]["Content-Length"] == (hasLength ? "\(body.count)" : nil))
        #expect(origin.requests[0]["Transfer-Encoding"] == (hasLength ? nil : "chunked"))
        #expect(origin.requests[0]["Expect"] == nil)
        #expect(largestPending == 50_000)
        #expect(delegate.transaction.requestBodyBytesSent >= body.count)
    }

    @Test("an upload without bytes waits, and continues when it has some")
    func slowUpload() throws {
        let origin = try Self.origin { connection in
            while let request = try connection.readRequest() { try connection.respond(request.text) }
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        let task = try session.start(
            delegate,
            TestSession.endpoint(port: origin.port),
            .post,
            bodyLength: .unknown
        )
        for word in ["one ", "two ", "three"] {
            try session.run(until: "the task to ask") { delegate.calls.last == .needsBodyData }
            session.settle()
            task.send(Array(word.utf8).span)
            try session.run(until: "the bytes to go") { task.pendingBodyBytes == 0 }
        }
        task.finishSending()
        try session.finish(delegate)
        #expect(delegate.text == "one two three")
    }

    @Test("a body may be given before the task is resumed, an empty one too", arguments: ["", "all of it"])
    func bodyBeforehand(body: String) throws {
        let origin = try Self.origin { connection in
            while let request = try connection.readRequest() {
                try connection.respond("\(request["Content-Length"] ?? "none") \(request.text)")
            }
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        let request = try SessionRequest(
            endpoint: TestSession.endpoint(port: origin.port),
            method: .post,
            target: "/",
            bodyLength: .bytes(body.utf8.count)
        )
        let task = session.manager.dataTask(with: request, delegate: delegate)
        task.send(Array(body.utf8).span)
        task.finishSending()
        task.resume()
        try session.finish(delegate)
        #expect(delegate.error == nil)
        #expect(delegate.text == "\(body.utf8.count) \(body)")
    }

    @Test(
        "a final response during the upload is delivered whole",
        arguments: [0, 1000]
    )
    func earlyResponse(given: Int) throws {
        let origin = try Self.origin { connection in
            _ = try connection.readRequestHead()
            try connection.respond("no thanks", status: "413 Content Too Large")
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        let task = try session.start(
            delegate,
            TestSession.endpoint(port: origin.port),
            .post,
            bodyLength: .bytes(1 << 30)
        )
        if given > 0 { task.send(patternBytes(given).span) }
        try session.finish(delegate)
        #expect(delegate.error == nil)
        #expect(delegate.head?.status == 413)
        #expect(delegate.text == "no thanks")
        // Bytes of the body that are sent now are discarded.
        task.send(patternBytes(10).span)
        task.finishSending()
        #expect(task.pendingBodyBytes == 0)
        // The connection cannot be used again: the origin would take the next request for the body's rest.
        try origin.waitForClosed()
    }

    @Test(
        "HEAD, 204 and 304 end with their head, and the connection stays",
        arguments: [(HTTPMethod.head, "200 OK"), (.get, "204 No Content"), (.get, "304 Not Modified")]
    )
    func bodiless(method: HTTPMethod, status: String) throws {
        let origin = try Self.origin { connection in
            while let request = try connection.readRequest() {
                if request.target == "/last" {
                    try connection.respond("last")
                } else {
                    let length = status.hasPrefix("204") ? "" : "Content-Length: 1000\r\n"
                    try connection.write("HTTP/1.1 \(status)\r\n\(length)\r\n")
                }
            }
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        let delegate = RecordingDelegate()
        try session.start(delegate, endpoint, method)
        try session.finish(delegate)
        #expect(delegate.error == nil)
        #expect(delegate.calls.suffix(2) == [.response(Int(status.prefix(3))!), .completed])
        #expect(delegate.head?.contentLength == (status.hasPrefix("204") ? nil : 1000))
        let last = try session.get(endpoint, target: "/last")
        #expect(last.text == "last")
        #expect(last.transaction.isReusedConnection)
    }

    @Test("a body up to the connection's end is whole only after close_notify")
    func untilClose() throws {
        let origin = try Self.origin { connection in
            guard let request = try connection.readRequest() else { return }
            try connection.write("HTTP/1.1 200 OK\r\n\r\nall of it")
            connection.close(request.target == "/clean" ? .clean : .cut)
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        let clean = try session.get(endpoint, target: "/clean")
        #expect(clean.error == nil)
        #expect(clean.text == "all of it")
        let cut = try session.get(endpoint, target: "/cut")
        #expect(cut.error?.code == .responseTruncated)
        #expect(cut.text == "all of it")
    }

    @Test(
        "a response that breaks off or breaks a rule has its own error",
        arguments: [
            ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", SessionError.Code.responseTruncated),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", .responseTruncated),
            ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n", .responseTruncated), ("", .responseTruncated),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello", .responseInvalid),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", .responseInvalid),
            ("HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\nx", .responseInvalid),
            ("HTTP/1.1 101 Switching\r\n\r\n", .responseInvalid), ("nonsense\r\n\r\n", .responseInvalid),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nmore\r\n\r\n", .responseInvalid),
        ]
    )
    func badResponses(response: String, code: SessionError.Code) throws {
        let origin = try Self.origin { connection in
            _ = try connection.readRequest()
            try connection.write(response)
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        try session.start(delegate, TestSession.endpoint(port: origin.port), .post, bodyLength: .bytes(0))
        try session.finish(delegate)
        #expect(delegate.error?.code == code, "\(delegate.error?.details ?? "no error")")
        #expect(delegate.completions == 1)
    }
}
