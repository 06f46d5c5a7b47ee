// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import TestSupport
import Testing

@Suite("Heads of responses in HTTP/1.1 and HTTP/2", .onOwnThreads)
struct HTTP2HeadTests {
    /// Fields about one connection, or made anew for each response.
    private static let own: Set<String> = ["connection", "keep-alive", "transfer-encoding", "date", ":status"]

    private func fields(_ response: HTTPMessage) -> [String: String] {
        let pairs = response.fields.map { ($0.name.lowercased(), $0.value) }
        return Dictionary(pairs) { "\($0), \($1)" }.filter { !Self.own.contains($0.key) }
    }

    private func fields(_ response: PeerStream) -> [String: String] {
        response.head.filter { !Self.own.contains($0.key) }
    }

    private static func response(_ request: HTTPMessage) -> String {
        let head =
            switch request.target {
            case "/cookies":
                "200 OK\r\nSet-Cookie: a=b; Secure; Path=/\r\nX-Case: Kept\r\nConnection: X-Hop\r\nX-Hop: 1\r\nUpgrade: h2c"
            case "/moved": "301 Moved Permanently\r\nLocation: https://\(Stage.host)/there\r\nAlt-Svc: h3"
            case "/none": "204 No Content\r\nContent-Length: 5"
            default: "200 OK\r\nCache-Control: max-age=60\r\nETag: \"1\""
            }
        let length = request.target == "/none" ? "" : "Content-Length: \(request.method == "HEAD" ? 0 : 4)\r\n"
        let body = request.target == "/none" || request.method == "HEAD" ? "" : "text"
        return "HTTP/1.1 \(head)\r\nDate: Sat, 21 Nov 2026 06:00:00 GMT\r\n\(length)\r\n\(body)"
    }

    @Test(
        "clients of both protocols get the same fields",
        arguments: [
            ("GET", "/plain", 200), ("GET", "/cookies", 200), ("GET", "/moved", 301), ("GET", "/none", 204),
            ("HEAD", "/plain", 200), ("OPTIONS", "*", 200),
        ]
    )
    func equal(_ method: String, _ path: String, _ status: Int) throws {
        let stage = try Stage(
            { settings in
                HTTP2ClientTests.takeHTTP2(&settings)
                settings.members["cache"] = [:] as [String: Any]
            },
            responding: Self.response
        )
        let authority = "localhost:\(stage.proxy.port(of: 1))"
        let first = try stage.proxy.connect(to: 1)
        let options = method == "OPTIONS" ? ["Max-Forwards: 0"] : []
        try first.send(
            "\(method) \(path) HTTP/1.1\r\nHost: \(authority)\r\n\(options.map { $0 + "\r\n" }.joined())Cache-Control: no-store\r\n\r\n"
        )
        let text = try first.readResponse(to: method)
        let peer = try HTTP2Peer(stage.proxy.connect(to: 1))
        let asked = [("cache-control", "no-store")] + options.map { _ in ("max-forwards", "0") }
        let stream = try peer.finish(peer.request(method, path, authority: authority, fields: asked))
        #expect(text.status == status)
        #expect(stream.status == status)
        #expect(fields(stream) == fields(text))
        #expect(stream.head["date"] != nil)
        #expect(stream.text == text.text)
        #expect(stream.endedWithHead == text.body.isEmpty)
        if path == "/cookies" {
            #expect(stream.head["set-cookie"] == "a=b; Path=/")
            #expect(stream.head["x-case"] == "Kept")
            #expect(stream.head["x-hop"] == nil && stream.head["upgrade"] == nil)
        }
    }

    @Test("an error of the proxy has the same fields and the same document")
    func error() throws {
        let stage = try Stage(
            { settings in
                HTTP2ClientTests.takeHTTP2(&settings)
                settings.pin(Stage.host, to: PublicKeyPin.unrelated(7))
            },
            responding: Self.response
        )
        let text = try stage.get("/plain")
        let peer = try HTTP2Peer(stage.proxy.connect())
        let stream = try peer.finish(peer.request("GET", "/plain", authority: Stage.host))
        #expect(text.status == 502 && stream.status == 502)
        #expect(fields(stream) == fields(text))
        #expect(stream.text == text.text)
        #expect(stream.head["proxy-status"]?.hasPrefix("pinproxy; error=tls_certificate_error") == true)
        let head = try peer.finish(peer.request("HEAD", "/plain", authority: Stage.host))
        #expect(head.endedWithHead && head.head["content-length"] == "\(text.body.count)")
    }
}
