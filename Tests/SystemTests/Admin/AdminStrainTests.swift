// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Clients of the admin listener that send too much, or take too little.
@Suite("The admin listener under strain", .onOwnThreads)
struct AdminStrainTests {
    private func stage(_ change: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> Stage {
        try Stage { settings in
            settings.members["admin"] = ["address": "127.0.0.1:0"]
            settings.members["workers"] = 1
            change(&settings)
        } responding: {
            OriginResponse.text($0.target)
        }
    }

    private static func request(_ line: String, fields: [String] = []) -> String {
        (["\(line) HTTP/1.1", "Host: localhost"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
    }

    @Test("requests in one piece get responses in order, up to a closing one")
    func pipelining() throws {
        let proxy = try stage().proxy
        let client = try proxy.connect(to: 1)
        let lines = ["GET /live", "GET /nothing", "OPTIONS /tasks", "GET /tasks", "PUT /live"]
        try client.send(String(repeating: lines.map { Self.request($0) }.joined(), count: 200))
        try client.send(Self.request("GET /live", fields: ["Connection: close"]) + Self.request("GET /live"))
        for _ in 0..<200 {
            for (line, status) in zip(lines, [200, 404, 405, 200, 405]) {
                #expect(try client.readResponse().status == status, "\(line)")
            }
        }
        #expect(try client.readResponse().text == "live\n")
        #expect(try client.isAtEnd())
    }

    @Test(
        "heads that are too large, bodies and other protocols are refused, and change nothing",
        arguments: [
            (request("GET /live", fields: ["X: " + String(repeating: "x", count: 20_000)]), 431),
            (request("GET /" + String(repeating: "x", count: 9_000)), 414),
            (request("GET /live", fields: (0..<120).map { "X-\($0): 1" }), 431),
            (request("POST /drain", fields: ["Transfer-Encoding: chunked"]) + "3\r\nabc\r\n0\r\n\r\n", 400),
            (request("POST /drain", fields: ["Content-Length: 3"]) + "abc", 400),
            (request("POST /drain", fields: ["Content-Length: 1000000000000"]), 400),
            (request("POST /drain", fields: ["Content-Length: 0", "Transfer-Encoding: chunked"]) + "0\r\n\r\n", 400),
            (request("POST /drain", fields: ["Content-Length: 1", "Expect: 100-continue"]), 400),
            (request("POST /drain"), 403), (request("POST /drain?x"), 403), (request("TRACE /live"), 405),
            (request("OPTIONS *"), 405), (request("OPTIONS /drain", fields: ["Origin: http://evil.example"]), 405),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505), ("GET /live\r\n\r\n", 400),
            ("GET /live HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
            ("GET /live HTTP/1.1\r\n\r\n", 400), ("GET /live HTTP/1.0\r\n\r\n", 421),
            ("GET http://evil.example/live HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
            ("GET http://evil.example/live HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
            (request("GET /live", fields: ["Upgrade: websocket", "Connection: upgrade"]), 200),
        ] as [(String, Int)]
    )
    func refused(text: String, status: Int) throws {
        let proxy = try stage { $0.listeners[0]["comment"] = "one" }.proxy
        let client = try proxy.connect(to: 1)
        try client.send(text)
        let response = try client.readResponse()
        #expect(response.status == status, "\(response.startLine) \(response.text)")
        #expect(response["Access-Control-Allow-Origin"] == nil && response["Access-Control-Allow-Methods"] == nil)
        // Bytes behind such a request are not read as a request: the connection ends.
        if status == 400 {
            client.finishSending()
            #expect(try client.isAtEnd())
        }
        #expect(try proxy.exchange(Self.request("GET /ready"), on: 1).text == "ready\n")
    }

    @Test("a thousand silent connections keep out neither probes nor clients")
    func connections() throws {
        let stage = try stage()
        let proxy = stage.proxy
        var clients: [TestClient] = []
        for number in 0..<1000 {
            clients.append(try proxy.connect(to: 1))
            if number % 100 == 99 {
                #expect(try proxy.exchange(Self.request("GET /live"), on: 1).text == "live\n", "\(number)")
                #expect(try stage.get("/\(number)").status == 200)
            }
        }
        // Those that are closed for later ones are gone.
        #expect(try proxy.descriptorCount() < 200)
        clients.removeAll()
        #expect(try proxy.terminate().exitCode == 0)
    }

    @Test("clients that ask for megabytes and read nothing are refused at last")
    func unread() throws {
        let folder = try TemporaryFolder()
        let stage = try stage { settings in
            settings.members["admin"] = ["unixSocket": "\(folder.path)/admin"]
            settings.members["log"] = ["tasks": "off"]
        }
        let proxy = stage.proxy
        func number() throws -> Int {
            let tasks = try proxy.exchange(Self.request("GET /tasks?limit=1"), on: 1)
            return try #require(
                (try JSONSerialization.jsonObject(with: Data(tasks.body)) as? [String: Any])?["next"] as? Int
            )
        }
        _ = try number()
        // Lines of seven kilobytes fill what is kept with few tasks.
        let client = try proxy.connect()
        let text = ProxyUnderTest.request("GET", "http://127.0.0.1:1/" + String(repeating: "x", count: 7_000))
        _ = try Patience.poll(for: "a full memory") {
            for _ in 0..<50 {
                try client.send(text)
                #expect(try client.readResponse().status == 403)
            }
            return try number() > 150 ? true : nil
        }
        var readers: [TestClient] = []
        let refusal = try Patience.poll(for: "a refusal") { () -> HTTPMessage? in
            let reader = try proxy.connect(to: 1)
            try reader.send(Self.request("GET /tasks?limit=1000"))
            let head = try reader.readResponseHead()
            if head.status == 503 { return head }
            #expect(head.status == 200)
            readers.append(reader)
            try #require(readers.count < 40)
            return nil
        }
        #expect(refusal["Retry-After"] == "1" && readers.count >= 4)
        // A sanitizer keeps what was freed.
        if !Programs.isSanitized { #expect(try proxy.residentMemory() < 64 << 20) }
        for path in ["/live", "/ready", "/metrics"] {
            #expect(try proxy.exchange(Self.request("GET \(path)"), on: 1).status == 200, "\(path)")
        }
        #expect(try stage.get("/then").status == 200)
        #expect(try proxy.terminate().exitCode == 0)
    }

    // MARK: Streams

    /// Reads a stream up to a text.
    private static func read(_ client: TestClient, to text: String) throws {
        var all = ""
        while !all.contains(text) {
            let bytes = try client.receive()
            try #require(!bytes.isEmpty, "the stream has ended: \(all)")
            all += String(decoding: bytes, as: UTF8.self)
        }
    }

    @Test("a stream continues over a reload, also of the admin listener")
    func reload() throws {
        let stage = try stage()
        let reader = try stage.proxy.connect(to: 1)
        try reader.send(Self.request("GET /tasks/stream"))
        try Self.read(reader, to: "retry: 2000")
        let line = try stage.reload { $0.members["admin"] = ["address": "127.0.0.1:1", "allowedHosts": ["x.example"]] }
        #expect(line.string("event") == "reloaded")
        #expect(try stage.get("/after").status == 200)
        try Self.read(reader, to: "/after")
        #expect(
            try stage.proxy.exchange(Self.request("GET /reloads"), on: 1).text.contains("\"restartNeeded\":[\"admin\"]")
        )
        let foreign = try stage.proxy.exchange("GET /live HTTP/1.1\r\nHost: x.example\r\n\r\n", on: 1)
        #expect(foreign.status == 421, "names of the new settings wait, too")
    }

    @Test("a token that is withdrawn ends the streams that it has opened")
    func token() throws {
        let tokens = ["a", "b"].map { String(repeating: $0, count: 40) }
        let stage = try stage { settings in
            settings.files["token"] = tokens[0]
            settings.members["admin"] = ["address": "0.0.0.0:0", "allowRemoteClients": true, "tokenFile": "token"]
        }
        func open(_ token: String) throws -> TestClient {
            let reader = try stage.proxy.connect(to: 1)
            try reader.send(Self.request("GET /tasks/stream", fields: ["Authorization: Bearer \(token)"]))
            return reader
        }
        let reader = try open(tokens[0])
        try Self.read(reader, to: "retry: 2000")
        try stage.reload { _ in }
        #expect(try stage.get("/kept").status == 200)
        try Self.read(reader, to: "/kept")
        try stage.reload { $0.files["token"] = tokens[1] }
        // A stream that goes on would show it with a comment, and again and again.
        var rest = 0
        while rest < 4, try !reader.receive().isEmpty { rest += 1 }
        #expect(rest < 4)
        #expect(try open(tokens[0]).readResponse().status == 401)
        try Self.read(try open(tokens[1]), to: "retry: 2000")
    }
}
