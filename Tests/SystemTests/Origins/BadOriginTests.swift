// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Origins whose responses are not HTTP", .onOwnThreads)
struct BadOriginTests {
    @Test(
        "rule 54: a response with bad framing is refused with 502",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello!",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length:\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n \r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\nX: y\r\n\r\nhello",
            "HTTP/1.1 200 OK\nContent-Length: 5\r\n\nhello",
            "\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "http/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.10 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nX-Bad\u{1}: 1\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nX-Bad: a\u{0}b\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nX\rBad: a\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nX-Bad\r: a\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\n\rX-Bad: a\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nX-Bad: a\rb\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 103 Early Hints\r\nX\rBad: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nNo colon\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/2 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 abc OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            "this is no HTTP at all, and it goes on for a while\r\n\r\n",
            "<html>HTTP/0.9</html>",
        ]
    )
    func badFraming(text: String) throws {
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            try connection.write(text)
        }
        let response = try stage.get()
        #expect(response.status == 502, "\(response.startLine) \(response.text)")
        #expect(response.problemCode == "response_invalid", "\(response.text)")
        #expect(response["Proxy-Status"]?.hasPrefix("pinproxy; error=http_protocol_error") == true)
        #expect(try stage.proxy.terminate().exitCode == 0)
    }

    @Test(
        "rule 54: a body with bad chunks is never complete",
        arguments: [
            ("zz\r\nhello\r\n0\r\n\r\n", "chunk-size-invalid, byte 0"),
            ("5\r\nhelloX0\r\n\r\n", "chunk-data-end, byte 8"), ("5\nhello\r\n0\r\n\r\n", "chunk-line-end, byte 1"),
            ("-5\r\nhello\r\n0\r\n\r\n", "chunk-size-invalid, byte 0"),
            ("5 5\r\nhello\r\n0\r\n\r\n", "chunk-extension-invalid, byte 2"),
            ("fffffffffffffffffff\r\nhello\r\n0\r\n\r\n", "chunk-size-overflow, byte 15"),
            ("0x5\r\nhello\r\n0\r\n\r\n", "chunk-size-invalid, byte 1"),
            ("5\r\nhello\r\n0\r\nbad trailer\r\n\r\n", "trailer-invalid, byte 25"),
            ("5 \nhello\r\n0\r\n\r\n", "chunk-extension-invalid, byte 2"),
        ]
    )
    func badChunks(body: String, rule: String) throws {
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\(body)")
            connection.readToEnd()
        }
        let response = try stage.get()
        #expect(response.status == 502 || response.isTruncated, "\(response.startLine) \(response.text)")
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == "response_invalid")
        let details = line.string("errorDetails") ?? ""
        #expect(details.contains("(rule \(rule) of the body as it was sent)"), "\(details)")
        // The connection that sent them is not used again.
        try stage.origin.waitForClosed()
    }

    @Test("an unrequested response does not become the next one")
    func unaskedResponse() throws {
        let stage = try Stage({ $0.members["workers"] = 1 }) { connection in
            while let request = try connection.readRequest() {
                try connection.write(OriginResponse.text(request.target) + OriginResponse.text("poison"))
            }
        }
        let client = try stage.proxy.connect()
        for number in 0..<10 {
            try client.send(ProxyUnderTest.request("GET", stage.url("/\(number)")))
            let response = try client.readResponse()
            #expect(response.status == 502 || response.text == "/\(number)", "\(number): \(response.text)")
            #expect(!response.text.contains("poison"))
        }
    }

    @Test(
        "an origin that closes without a response gives 502",
        arguments: [OriginConnection.Ending.clean, .cut, .reset]
    )
    func noResponse(ending: OriginConnection.Ending) throws {
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            connection.close(ending)
        }
        let response = try stage.get()
        #expect(response.status == 502)
        #expect(response.problemCode == "response_truncated")
        #expect(response["Proxy-Status"]?.hasPrefix("pinproxy; error=http_response_incomplete") == true)
    }

    @Test("an endless head gives 502, and costs no memory")
    func endlessHead() throws {
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\n")
            let line = "X-Field: \(String(repeating: "x", count: 1000))\r\n"
            for _ in 0..<100_000 { try connection.write(line) }
        }
        let response = try stage.get()
        #expect(response.status == 502)
        #expect(["response_invalid", "response_too_large"].contains(response.problemCode))
        try stage.origin.waitForClosed()
    }

    @Test("an early response to an upload reaches the client")
    func earlyResponse() throws {
        let stage = try Stage { connection in
            _ = try connection.readRequestHead()
            try connection.respond("enough", status: "403 Forbidden", fields: ["Connection: close"])
            connection.readToEnd()
        }
        let client = try stage.proxy.connect()
        try client.send("PUT \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\nContent-Length: 1000000\r\n\r\nstart")
        let response = try client.readResponse(to: "PUT")
        #expect(response.status == 403)
        #expect(response.text == "enough")
        #expect(response["Connection"] == "close")
    }
}
