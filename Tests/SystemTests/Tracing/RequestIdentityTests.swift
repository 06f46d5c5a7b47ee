// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Traces and ids of requests on their way", .onOwnThreads)
struct RequestIdentityTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    private static let context = "traceparent: 00-\(trace)-00f067aa0ba902b7-01"
    private static let id = "X-Request-Id"

    private static func identities(_ settings: inout ProxySettings) {
        settings.members["tracing"] = ["sample": 1]
        settings.members["requestID"] = ["field": id]
    }

    @Test("the origin and the log get trace and id, the client the id")
    func usual() throws {
        let stage = try Stage(Self.identities) { _ in OriginResponse.text("", fields: ["\(Self.id): the-origins"]) }
        let response = try stage.get(fields: [Self.context, "tracestate: a=1", "\(Self.id): mine"])
        #expect(response.fields.filter { $0.name == Self.id }.map(\.value) == ["mine"])
        let request = try #require(stage.origin.requests.first)
        #expect(request[Self.id] == "mine" && request["tracestate"] == "a=1")
        let context = try #require(request["traceparent"])
        #expect(context.hasPrefix("00-\(Self.trace)-") && context.hasSuffix("-01") && !context.contains("00f067aa"))
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("traceId") == Self.trace && line.string("requestId") == "mine")
        let span = try #require(line.string("spanId"))
        #expect(span.count == 16 && !context.contains(span))
    }

    @Test("an origin neither removes the id of a response nor adds another one")
    func ofOrigin() throws {
        let stage = try Stage(
            Self.identities,
            script: { connection in
                while try connection.readRequest() != nil {
                    try connection.write(
                        "HTTP/1.1 103 Early Hints\r\n\(Self.id): early\r\nLink: <a>\r\n\r\n"
                            + "HTTP/1.1 200 OK\r\nConnection: x-request-id, keep-alive, X-Own\r\nX-Own: 1\r\n\(Self.id): theirs\r\n"
                            + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx_request_id: late\r\nX-Sum: 1\r\n\r\n"
                    )
                }
            }
        )
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url(), fields: ["\(Self.id): mine", "TE: trailers"]))
        let response = try client.readResponse(to: "GET")
        let early = try #require(response.interim.first)
        #expect(early.status == 103 && early[Self.id] == nil && early["Link"] == "<a>")
        #expect(response.fields.filter { $0.name == Self.id }.map(\.value) == ["mine"] && response["X-Own"] == nil)
        #expect(response.trailers.map(\.name) == ["X-Sum"])
    }

    @Test("trailers with the names of trace and id stay behind")
    func trailers() throws {
        let stage = try Stage(Self.identities) { _ in OriginResponse.text("") }
        let client = try stage.proxy.connect()
        let head = ProxyUnderTest.request("POST", stage.url(), fields: ["Transfer-Encoding: chunked"])
        let trailers = "\(Self.context)\r\ntracestate: a=1\r\nx_request_id: mine\r\nX-Sum: 1\r\n"
        try client.send("\(head)4\r\nbody\r\n0\r\n\(trailers)\r\n")
        #expect(try client.readResponse(to: "POST").status == 200)
        #expect(stage.origin.requests.first?.trailers.map(\.name) == ["X-Sum"])
    }

    @Test("a request without either gets both; a refused one has its id, too")
    func begun() throws {
        let stage = try Stage({ settings in
            Self.identities(&settings)
            settings.members["access"] = ["denyHosts": ["denied.example.com"], "denyAddresses": []]
        }) { _ in OriginResponse.text("") }
        let response = try stage.get()
        let request = try #require(stage.origin.requests.first)
        #expect(response[Self.id]?.count == 32 && response[Self.id] == request[Self.id])
        #expect(request["traceparent"]?.hasSuffix("-03") == true && request["tracestate"] == nil)
        let refused = try stage.proxy.get("http://denied.example.com/")
        #expect(refused.status == 403)
        let lines = try stage.proxy.waitForTaskLines(2)
        #expect(lines.last?.string("requestId") == refused[Self.id] && refused[Self.id] != response[Self.id])
        #expect(lines.first?.string("traceId") != lines.last?.string("traceId"))
    }

    @Test("a stored response has the id of the request that it is for")
    func stored() throws {
        let stage = try Stage({ settings in
            Self.identities(&settings)
            settings.members["cache"] = [String: Any]()
        }) { _ in OriginResponse.text("kept", fields: ["Cache-Control: max-age=60", "\(Self.id): the-origins"]) }
        for id in ["one", "two"] {
            let response = try stage.get(fields: ["\(Self.id): \(id)"])
            #expect(response.fields.filter { $0.name == Self.id }.map(\.value) == [id])
        }
        #expect(stage.origin.requests.count == 1)
    }

    @Test("each hop of a followed redirect has its own span in the same trace")
    func redirected() throws {
        let stage = try Stage({ settings in
            Self.identities(&settings)
            settings.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
        }) { request in
            request.target == "/a"
                ? OriginResponse.text("", status: "302 Found", fields: ["Location: /b"])
                : OriginResponse.text("")
        }
        #expect(try stage.get("/a", fields: [Self.context]).status == 200)
        let contexts = stage.origin.requests.compactMap { $0["traceparent"] }
        #expect(Set(contexts).count == 2 && contexts.allSatisfy { $0.hasPrefix("00-\(Self.trace)-") })
        #expect(Set(stage.origin.requests.map { $0[Self.id] }).count == 1)
    }

    @Test("a host's rules have the last word: its origin gets no trace")
    func removed() throws {
        let stage = try Stage({ settings in
            Self.identities(&settings)
            settings.hosts[Stage.host]?["headers"] = ["request": ["remove": ["traceparent", "tracestate"]]]
        }) { _ in OriginResponse.text("") }
        #expect(try stage.get(fields: [Self.context, "tracestate: a=1"]).status == 200)
        let request = try #require(stage.origin.requests.first)
        #expect(request["traceparent"] == nil && request["tracestate"] == nil && request[Self.id] != nil)
    }

    @Test("a reload turns both on and off; without them the fields are the client's")
    func reloaded() throws {
        let stage = try Stage { _ in OriginResponse.text("", fields: ["\(Self.id): the-origins"]) }
        let fields = [Self.context, "\(Self.id): mine"]
        #expect(try stage.get(fields: fields)[Self.id] == "the-origins")
        try stage.reload(Self.identities)
        #expect(try stage.get(fields: fields)[Self.id] == "mine")
        try stage.reload { _ in }
        #expect(try stage.get(fields: fields)[Self.id] == "the-origins")
        let contexts = stage.origin.requests.map { "traceparent: \($0["traceparent"] ?? "")" }
        #expect(contexts.map { $0 == Self.context } == [true, false, true])
        let lines = try stage.proxy.waitForTaskLines(3)
        #expect(lines.map { $0.string("traceId") != nil } == [false, true, false])
    }
}
