// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("HTTP/2 to the origin", .onOwnThreads)
struct HTTP2OriginTests {
    /// The parts that may differ between the two: the time, and the version in Via.
    private static let varying = ["date", "via"]

    @Test("nginx with h2 and with HTTP/1.1 gives the client the same response")
    func sameResponse() throws {
        let server = try Stage.pki.server(Stage.host, "h2.example.com")
        let blob = patternBytes(300 << 10)
        let one = try NginxOrigin(server, files: ["blob": blob])
        let two = try NginxOrigin(server, http2: true, files: ["blob": blob])
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: one.port)
        settings.serve("h2.example.com", server, at: two.port)
        settings.hosts["h2.example.com"]?["httpVersion"] = "2"
        let proxy = try ProxyUnderTest(settings)
        let requests = [
            ("GET", "/plain"), ("GET", "/echo/path?query=1"), ("GET", "/files/blob"), ("HEAD", "/files/blob"),
            ("GET", "/empty"), ("GET", "/missing"), ("OPTIONS", "/echo/x"), ("DELETE", "/echo/x"), ("POST", "/echo/x"),
        ]
        for (method, path) in requests {
            let body = method == "POST" ? "some body" : nil
            let responses = try [Stage.host, "h2.example.com"].map { host in
                let request = ProxyUnderTest.request(method, "http://\(host)\(path)", body: body)
                return try proxy.exchange(request, method: method)
            }
            #expect(responses[0].startLine == responses[1].startLine, "\(method) \(path)")
            let isSameBody = responses[0].body == responses[1].body
            #expect(isSameBody, "\(method) \(path)")
            #expect(fields(responses[0]) == fields(responses[1]), "\(method) \(path)")
            if method == "GET", path == "/files/blob" {
                let isBlob = responses[1].body == blob
                #expect(isBlob)
            }
        }
        let lines = try proxy.waitForTaskLines(requests.count * 2)
        for line in lines {
            let isSecond = line.string("url")?.contains("h2.example.com") == true
            let name = line.transactions.first?["networkProtocolName"] as? String
            #expect(name == (isSecond ? "h2" : "http/1.1"), "\(line.text)")
        }
        #expect(try proxy.terminate().exitCode == 0)
    }

    private func fields(_ response: HTTPMessage) -> [String] {
        response.fields.filter { !Self.varying.contains($0.name.lowercased()) && $0.name.lowercased() != "etag" }
            .map { "\($0.name.lowercased()): \($0.value)" }.sorted()
    }

    private func proxy(to port: UInt16, _ server: TestServer) throws -> ProxyUnderTest {
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: port)
        settings.hosts[Stage.host]?["httpVersion"] = "2"
        // Each worker has connections of its own.
        settings.members["workers"] = 1
        return try ProxyUnderTest(settings)
    }

    @Test("many requests share one connection to an h2 origin without waiting")
    func multiplexed() throws {
        let count = 50
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server, protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            // The first answer is given when all requests are there.
            var streams: [Int] = []
            while streams.count < count, let request = try script.nextRequest() { streams.append(request.stream) }
            for stream in streams { try script.head(204, stream: stream, ends: true) }
            connection.readToEnd()
        }
        let proxy = try proxy(to: origin.port, server)
        let clients = try (0..<count).map { _ in try proxy.connect() }
        for (number, client) in clients.enumerated() {
            try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/\(number)"))
        }
        let statuses = try clients.map { try $0.readResponse().status }
        #expect(statuses.allSatisfy { $0 == 204 }, "\(statuses)")
        #expect(origin.connections.count == 1)
    }

    @Test("nginx with few streams serves 200 requests at once", arguments: [1, 4])
    func fewStreams(limit: Int) throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try NginxOrigin(server, http2: true, directives: ["http2_max_concurrent_streams \(limit)"])
        let proxy = try proxy(to: origin.port, server)
        let clients = try (0..<200).map { _ in try proxy.connect() }
        for (number, client) in clients.enumerated() {
            try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/echo/\(number)"))
        }
        let responses = try clients.map { try $0.readResponse() }
        let wrong = responses.enumerated().filter { $0.element.text != "GET /echo/\($0.offset)\n" }
        #expect(wrong.isEmpty, "\(wrong.count) of 200, \(wrong.first?.element.text ?? "")")
    }

    @Test("each request on a shared h2 connection gets its own response")
    func ownResponses() throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try NginxOrigin(server, http2: true)
        let proxy = try proxy(to: origin.port, server)
        let connections = try origin.connectionCount()
        let clients = try (0..<100).map { _ in try proxy.connect() }
        for (number, client) in clients.enumerated() {
            try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/echo/\(number)"))
        }
        for (number, client) in clients.enumerated() {
            #expect(try client.readResponse().text == "GET /echo/\(number)\n")
        }
        // One for the proxy, and one for this question.
        #expect(try origin.connectionCount() == connections + 2)
    }

    @Test("an origin without h2 gets HTTP/1.1")
    func fallback() throws {
        let stage = try Stage(
            { $0.hosts[Stage.host]?["httpVersion"] = "2" },
            responding: { OriginResponse.text($0.target) }
        )
        #expect(try stage.get("/x").text == "/x")
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.transactions.first?["networkProtocolName"] as? String == "http/1.1")
    }
}
