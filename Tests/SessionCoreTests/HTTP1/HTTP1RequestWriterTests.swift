// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Testing

@testable import SessionCore

@Suite("Writing requests of HTTP/1.1")
struct HTTP1RequestWriterTests {
    private func request(
        _ method: HTTPMethod = .get,
        _ target: String = "/path?query",
        host: String = TestSession.host,
        scheme: Endpoint.Scheme = .https,
        fields: [(String, String)] = [],
        bodyLength: RequestBodyLength = .none
    ) throws -> SessionRequest {
        var list = HeaderFields()
        for (name, value) in fields { try list.append(name: name, value: value) }
        return try SessionRequest(
            endpoint: TestSession.endpoint(host, port: 1, scheme: scheme),
            method: method,
            target: target,
            fields: list,
            bodyLength: bodyLength
        )
    }

    private func text(_ output: borrowing ByteBuffer) -> String {
        output.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }

    @Test("a request without a body is complete with its head", arguments: [Endpoint.Scheme.https, .http])
    func head(scheme: Endpoint.Scheme) throws {
        var writer = HTTP1RequestWriter()
        var output = ByteBuffer()
        writer.begin(try request(scheme: scheme, fields: [("Accept", "*/*"), ("X-Empty", "")]), into: &output)
        let written = text(output)
        #expect(written.hasPrefix("GET /path?query HTTP/1.1\r\nHost: \(TestSession.host)\r\n"))
        #expect(written.contains("\r\nAccept: */*\r\n") && written.hasSuffix("\r\n\r\n"))
        #expect(!written.contains("Content-Length") && !written.contains("Transfer-Encoding"))
        #expect(writer.isComplete)
        // Ending it writes nothing.
        try writer.end(trailers: HeaderFields(), into: &output)
        #expect(text(output) == written)
    }

    @Test(
        "POST, PUT and PATCH without a body have length 0, others no length",
        arguments: [
            (HTTPMethod.post, true), (.put, true), (.patch, true), (.get, false), (.head, false), (.delete, false),
            (.options, false),
        ]
    )
    func noBody(method: HTTPMethod, hasLength: Bool) throws {
        var writer = HTTP1RequestWriter()
        var output = ByteBuffer()
        writer.begin(try request(method), into: &output)
        #expect(text(output).contains("\r\nContent-Length: 0\r\n") == hasLength)
        #expect(text(output).hasSuffix("\r\n\r\n") && writer.isComplete)
        #expect(!text(output).contains("Transfer-Encoding"))
    }

    @Test("an IPv6 literal is in brackets")
    func literal() throws {
        var writer = HTTP1RequestWriter()
        var output = ByteBuffer()
        writer.begin(try request(host: "[2001:db8::1]"), into: &output)
        #expect(text(output).contains("\r\nHost: [2001:db8::1]\r\n"))
    }

    @Test("a body of known length is complete with its last byte")
    func length() throws {
        var writer = HTTP1RequestWriter()
        var output = ByteBuffer()
        writer.begin(try request(.put, bodyLength: .bytes(5)), into: &output)
        #expect(text(output).hasSuffix("\r\nContent-Length: 5\r\n\r\n"))
        output.removeAll()
        for piece in ["he", "", "llo"] {
            #expect(!writer.isComplete)
            try writer.append(Array(piece.utf8).span, into: &output)
        }
        #expect(writer.isComplete)
        var trailers = HeaderFields()
        try trailers.append(name: "X-Sum", value: "1")
        try writer.end(trailers: trailers, into: &output)
        #expect(text(output) == "hello")
    }

    @Test("a body of length 0 is complete with its head, which says so")
    func empty() throws {
        var writer = HTTP1RequestWriter()
        var output = ByteBuffer()
        writer.begin(try request(.post, bodyLength: .bytes(0)), into: &output)
        #expect(text(output).hasSuffix("\r\nContent-Length: 0\r\n\r\n"))
        #expect(writer.isComplete)
    }

    @Test("a body of wrong length is an error, and no excess is written")
    func wrongLength() throws {
        var writer = HTTP1RequestWriter()
        var output = ByteBuffer()
        writer.begin(try request(.put, bodyLength: .bytes(5)), into: &output)
        output.removeAll()
        try writer.append(Array("hel".utf8).span, into: &output)
        #expect(throws: HTTP1RequestWriter.Fault.bodyTooLong) {
            try writer.append(Array("lo!".utf8).span, into: &output)
        }
        #expect(throws: HTTP1RequestWriter.Fault.bodyTooShort) {
            try writer.end(trailers: HeaderFields(), into: &output)
        }
        #expect(text(output) == "hel" && !writer.isComplete)
        for length in [RequestBodyLength.none, .bytes(0)] {
            writer.begin(try request(bodyLength: length), into: &output)
            #expect(throws: HTTP1RequestWriter.Fault.bodyTooLong) {
                try writer.append(Array("x".utf8).span, into: &output)
            }
        }
    }

    @Test("a body of unknown length goes out in chunks, then its trailers")
    func chunked() throws {
        var writer = HTTP1RequestWriter()
        var output = ByteBuffer()
        writer.begin(try request(.post, bodyLength: .unknown), into: &output)
        #expect(text(output).hasSuffix("\r\nTransfer-Encoding: chunked\r\n\r\n"))
        #expect(!text(output).contains("Content-Length"))
        output.removeAll()
        // An empty piece would be the last chunk.
        for piece in ["hello", "", String(repeating: "x", count: 26)] {
            try writer.append(Array(piece.utf8).span, into: &output)
        }
        #expect(!writer.isComplete)
        var trailers = HeaderFields()
        try trailers.append(name: "X-Sum", value: "1")
        try writer.end(trailers: trailers, into: &output)
        #expect(writer.isComplete)
        let long = String(repeating: "x", count: 26)
        #expect(text(output).lowercased() == "5\r\nhello\r\n1a\r\n\(long)\r\n0\r\nx-sum: 1\r\n\r\n")
        // A second end writes nothing.
        let count = output.count
        try writer.end(trailers: trailers, into: &output)
        #expect(output.count == count)
    }

    @Test("a chunked body without a byte is the last chunk alone")
    func emptyChunked() throws {
        var writer = HTTP1RequestWriter()
        var output = ByteBuffer()
        writer.begin(try request(.post, bodyLength: .unknown), into: &output)
        output.removeAll()
        try writer.end(trailers: HeaderFields(), into: &output)
        #expect(text(output) == "0\r\n\r\n")
    }

    @Test("a writer begins anew after an aborted request")
    func reuse() throws {
        var writer = HTTP1RequestWriter()
        var output = ByteBuffer()
        writer.begin(try request(.put, bodyLength: .bytes(5)), into: &output)
        output.removeAll()
        writer.begin(try request(.head), into: &output)
        #expect(writer.isComplete && text(output).hasPrefix("HEAD /path?query HTTP/1.1\r\n"))
    }
}
