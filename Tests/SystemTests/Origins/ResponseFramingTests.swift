// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

@Suite("Responses and their ends", .onOwnThreads)
struct ResponseFramingTests {
    private static let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nchunk \r\n3;a=b\r\none\r\n0\r\n\r\n"

    @Test("rule 50: HEAD, 204 and 304 have no body before the next response")
    func withoutBody() throws {
        let stage = try Stage { request in
            switch request.target {
            case "/204": "HTTP/1.1 204 No Content\r\nX-Kept: 1\r\n\r\n"
            case "/304": "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 10\r\n\r\n"
            case "/head": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
            default: OriginResponse.text("after")
            }
        }
        let client = try stage.proxy.connect()
        for (method, path, status) in [("HEAD", "/head", 200), ("GET", "/204", 204), ("GET", "/304", 304)] {
            try client.send(ProxyUnderTest.request(method, stage.url(path)))
            let response = try client.readResponse(to: method)
            #expect(response.status == status)
            #expect(response["Transfer-Encoding"] == nil)
            if method == "HEAD" { #expect(response["Content-Length"] == "10") }
            if status == 204 { #expect(response["Content-Length"] == nil) }
            try client.send(ProxyUnderTest.request("GET", stage.url("/after")))
            #expect(try client.readResponse().text == "after", "\(method) \(path)")
        }
    }

    @Test("a chunked response is chunked anew for HTTP/1.1")
    func chunked() throws {
        let stage = try Stage { _ in Self.chunked }
        let client = try stage.proxy.connect()
        for _ in 0..<2 {
            try client.send(ProxyUnderTest.request("GET", stage.url()))
            let response = try client.readResponse()
            #expect(response["Transfer-Encoding"] == "chunked")
            #expect(response.text == "chunk one")
        }
    }

    @Test("a chunked response ends with the connection for HTTP/1.0")
    func chunkedToVersion10() throws {
        let stage = try Stage { _ in Self.chunked }
        let client = try stage.proxy.connect()
        try client.send("GET \(stage.url()) HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        let response = try client.readResponse()
        #expect(response["Transfer-Encoding"] == nil)
        #expect(response["Connection"] == "close")
        #expect(response.text == "chunk one")
    }

    @Test(
        "a truncated response is a reset where the connection's end would count",
        arguments: ["Content-Type: text/plain\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"]
    )
    func brokenToVersion10(rest: String) throws {
        for ending in [OriginConnection.Ending.cut, .clean] {
            let stage = try Stage { connection in
                _ = try connection.readRequest()
                try connection.write("HTTP/1.1 200 OK\r\n\(rest)")
                connection.close(ending)
            }
            let client = try stage.proxy.connect()
            try client.send("GET \(stage.url()) HTTP/1.0\r\n\r\n")
            let head = try client.readResponseHead()
            #expect(head.status == 200 && head["Content-Length"] == nil)
            // Only what no length and no chunk was to end has a clean end.
            if ending == .clean, !rest.hasPrefix("Transfer-Encoding") {
                #expect(try client.readToEnd() == Array("half".utf8))
            } else {
                let failure = #expect(throws: TestSocket.Failure.self) { try client.readToEnd() }
                #expect(failure?.code == ECONNRESET)
            }
        }
    }

    @Test("rule 43: trailers pass, except those of framing, routing and authentication")
    func trailers() throws {
        let stage = try Stage { _ in
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n1\r\na\r\n0\r\n"
                + "X-Sum: 1\r\nContent-Length: 5\r\nSet-Cookie: a=b\r\n\r\n"
        }
        let response = try stage.get()
        #expect(response.text == "a")
        #expect(response.trailers.contains { $0.name == "X-Sum" && $0.value == "1" })
        #expect(!response.trailers.contains { $0.name == "Content-Length" })
        #expect(response["X-Sum"] == nil)
    }

    @Test("a response that close_notify ends is whole, and the connection stays")
    func untilClose() throws {
        let stage = try Stage { connection in
            while let request = try connection.readRequest() {
                try connection.write("HTTP/1.1 200 OK\r\n\r\nuntil the end of \(request.target)")
                connection.close(.clean)
                return
            }
        }
        let client = try stage.proxy.connect()
        for path in ["/1", "/2"] {
            try client.send(ProxyUnderTest.request("GET", stage.url(path)))
            let response = try client.readResponse()
            #expect(response["Transfer-Encoding"] == "chunked")
            #expect(!response.isTruncated)
            #expect(response.text == "until the end of \(path)")
        }
    }

    @Test("a response that ends without close_notify is truncated")
    func cut() throws {
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\n\r\nperhaps not the")
            connection.close(.cut)
        }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        let response = try client.readResponse()
        #expect(response.isTruncated || response.status == 502)
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == "response_truncated")
    }

    @Test(
        "rule 55: a response that breaks off breaks off for the client too",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nonly this",
        ],
        [OriginConnection.Ending.clean, .cut, .reset]
    )
    func truncated(text: String, ending: OriginConnection.Ending) throws {
        let gate = Gate()
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            try connection.write(text)
            try gate.pass()
            connection.close(ending)
        }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        let head = try client.readResponseHead()
        #expect(head.status == 200)
        gate.open()
        // Nothing that would end a chunked body, and then the end of the connection.
        let rest = String(decoding: try client.readToEnd(), as: UTF8.self)
        #expect(!rest.contains("0\r\n\r\n"))
        #expect(!rest.contains("HTTP/1.1"))
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == "response_truncated")
        #expect(line.integer("status") == 200)
    }

    @Test("rule 49: 1xx heads are relayed to HTTP/1.1 and not to HTTP/1.0")
    func earlyHints() throws {
        let stage = try Stage { _ in
            "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n" + OriginResponse.text("final")
        }
        let response = try stage.get()
        #expect(response.interim.map(\.status) == [103])
        #expect(response.interim.first?["Link"] == "</style.css>")
        #expect(response.text == "final")
        let old = try stage.proxy.exchange("GET \(stage.url()) HTTP/1.0\r\n\r\n")
        #expect(old.interim.isEmpty)
        #expect(old.text == "final")
    }
}
