// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// What every browser reads although RFC 9112 does not allow it: it is read here, too, and the client gets it as RFC 9112
/// would have it. docs/http.md has the list.
@Suite("Origins whose responses are unusual", .onOwnThreads)
struct UnusualOriginTests {
    /// One such response.
    struct Unusual: Sendable, CustomTestStringConvertible {
        let name: String
        let response: String
        /// The fields that the client gets of those named `X-…`, `Set-Cookie` and `Content-Length`, in order.
        var fields: [String] = []
        var status = 200
        /// Whether the origin's connection carries the next request, too.
        var isKept = true

        var testDescription: String { name }
    }

    private static let unusual = [
        Unusual(
            name: "blanks before a colon",
            response: "HTTP/1.1 200 OK\r\nX-A : b\r\nX-C\t: d\r\nContent-Length: 5\r\n\r\nhello",
            fields: ["X-A: b", "X-C: d", "Content-Length: 5"]
        ),
        Unusual(
            name: "a field over several lines",
            response:
                "HTTP/1.1 200 OK\r\nSet-Cookie: a=b;\r\n\tpath=/;\r\n  httponly\r\nContent-Length: 5\r\n\r\nhello",
            fields: ["Set-Cookie: a=b; path=/; httponly", "Content-Length: 5"]
        ),
        Unusual(
            name: "a field on another line than its name, which looks like a field itself",
            response: "HTTP/1.1 200 OK\r\nX-A:\r\n Content-Length: 9\r\nContent-Length: 5\r\n\r\nhello",
            fields: ["X-A: Content-Length: 9", "Content-Length: 5"]
        ),
        Unusual(
            name: "lines that end with LF alone",
            response: "HTTP/1.1 200 OK\nX-A: b\nContent-Length: 5\n\nhello",
            fields: ["X-A: b", "Content-Length: 5"],
            isKept: false
        ),
        Unusual(
            name: "the same length twice",
            response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\nContent-Length: 5, 5\r\n\r\nhello",
            fields: ["Content-Length: 5", "X-A: b"],
            isKept: false
        ),
        Unusual(
            name: "a length with zeros in front",
            response: "HTTP/1.1 200 OK\r\nContent-Length: 0000005\r\n\r\nhello",
            fields: ["Content-Length: 5"]
        ),
        Unusual(
            name: "control characters in a value",
            response: "HTTP/1.1 200 OK\r\nX-A: \u{1}a\u{8}b\u{7F}\r\nContent-Length: 5\r\n\r\nhello",
            fields: ["X-A: a b", "Content-Length: 5"]
        ),
        Unusual(
            name: "names that are no token",
            response:
                "HTTP/1.1 200 OK\r\nX A: b\r\n and on\r\n: c\r\nX(D): e\r\nHTTP 1/1 302:\r\nX-F: g\r\nContent-Length: 5\r\n\r\nhello",
            fields: ["X-F: g", "Content-Length: 5"]
        ),
        Unusual(
            name: "the length's name with an underscore",
            response: "HTTP/1.1 200 OK\r\nContent_Length: 9\r\nContent-Length: 5\r\n\r\nhello",
            fields: ["Content-Length: 5"]
        ),
        Unusual(
            name: "a status that no standard has",
            response: "HTTP/1.1 999 Request denied\r\nContent-Length: 5\r\n\r\nhello",
            fields: ["Content-Length: 5"],
            status: 999
        ),
        Unusual(
            name: "a status line without reason phrase",
            response: "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
            fields: ["Content-Length: 5"]
        ),
        Unusual(
            name: "the transfer coding identity",
            response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhello",
            isKept: false
        ),
        Unusual(
            name: "a status line of SHOUTcast",
            response: "ICY 200 OK\r\nX-A: b\r\n\r\nhello",
            fields: ["X-A: b"],
            isKept: false
        ),
        Unusual(
            name: "blanks behind the sizes of chunks",
            response:
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2     \r\nhe\r\n3;a=b\t\r\nllo\r\n0  \r\n\r\n"
        ),
        Unusual(
            name: "an empty line behind the last chunk",
            response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n\r\n",
            isKept: false
        ),
        Unusual(
            name: "a body with 204",
            response: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
            status: 204,
            isKept: false
        ),
    ]

    /// What a client gets, byte by byte, is what RFC 9112 allows.
    private func checkRegular(_ bytes: [UInt8], _ name: String) throws {
        let text = String(decoding: bytes, as: UTF8.self)
        let end = try #require(text.firstRange(of: "\r\n\r\n"))
        let lines = text[..<end.lowerBound].split(separator: "\r\n", omittingEmptySubsequences: false)
        #expect(try #/HTTP/1\.1 [1-9][0-9][0-9] [ -~]*/#.wholeMatch(in: try #require(lines.first)) != nil, "\(name)")
        for line in lines.dropFirst() {
            #expect(
                try #/[A-Za-z0-9-]+: [!-~][\t -~]*/#.wholeMatch(in: line) != nil,
                "\(name): \(line.debugDescription)"
            )
        }
        guard text.contains("Transfer-Encoding: chunked") else { return }
        #expect(
            text[end.upperBound...] == "5\r\nhello\r\n0\r\n\r\n"
                || text[end.upperBound...] == "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            "\(name)"
        )
    }

    @Test("rule 54: unusual responses are read and made regular", arguments: unusual)
    func reads(unusual: Unusual) throws {
        let stage = try Stage({ $0.members["workers"] = 1 }) { connection in
            while let request = try connection.readRequest() {
                guard !request.target.hasSuffix("next") else {
                    try connection.respond("next")
                    continue
                }
                try connection.write(unusual.response)
                if unusual.response.contains("identity") || unusual.response.hasPrefix("ICY") { return }
            }
        }
        let response = try stage.get("/one")
        #expect(response.status == unusual.status, "\(response.text)")
        #expect(response.text == (unusual.status == 204 ? "" : "hello") && !response.isTruncated)
        let kept = response.fields.filter {
            $0.name.hasPrefix("X-") || ["Set-Cookie", "Content-Length"].contains($0.name)
        }
        #expect(kept.map { "\($0.name): \($0.value)" } == unusual.fields)
        // The next response is the next one's, on the same connection or on another.
        #expect(try stage.get("/next").text == "next")
        #expect(stage.origin.connections.count == (unusual.isKept ? 1 : 2))

        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url("/two"), fields: ["Connection: close"]))
        try checkRegular(try client.readToEnd(), unusual.name)
    }

    @Test("rule 54: interim responses may be unusual as well")
    func interim() throws {
        let stage = try Stage { _ in
            "HTTP/1.1 103 Early Hints\r\nLink : </a>;\r\n rel=preload\r\n\r\n" + OriginResponse.text("hello")
        }
        let response = try stage.get()
        #expect(response.interim.map { $0["Link"] } == ["</a>; rel=preload"])
        #expect(response.text == "hello")
    }

    @Test("rule 38: a client gets a regular body, and may send no blanks")
    func chunksOfClients() throws {
        let stage = try Stage { _ in OriginResponse.text("hello") }
        for (blanks, status) in [("", 200), ("  ", 400), ("\t", 400)] {
            let response = try stage.proxy.exchange(
                "POST \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\nTransfer-Encoding: chunked\r\n\r\n5\(blanks)\r\nhello\r\n0\r\n\r\n"
            )
            #expect(response.status == status, "\(response.text)")
        }
    }
}
