// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Spans on their way to a collector", .onOwnThreads)
struct SpanExportTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    private static let sampled = "traceparent: 00-\(trace)-00f067aa0ba902b7-01"
    private static let unsampled = "traceparent: 00-\(trace)-00f067aa0ba902b7-00"

    private static func collector(_ response: String = OriginResponse.text("")) throws -> ScriptedOrigin {
        try ScriptedOrigin(nil) { connection in
            while try connection.readRequest() != nil { try connection.write(response) }
        }
    }

    private static func send(to collector: ScriptedOrigin, _ settings: inout ProxySettings) {
        settings.members["tracing"] = ["otlp": "http://127.0.0.1:\(collector.port)", "sample": 0]
    }

    private static func messages(_ count: Int, at collector: ScriptedOrigin) throws -> [HTTPMessage] {
        try collector.wait(for: "\(count) messages") { records in
            let requests = records.flatMap(\.requests)
            return requests.count >= count ? requests : nil
        }
    }

    @Test("the published definitions read spans of a request and its phases", .enabled(if: SpanReader.isThere))
    func spans() throws {
        let collector = try Self.collector()
        let stage = try Stage({ settings in
            Self.send(to: collector, &settings)
            settings.members["requestID"] = ["field": "X-Request-Id"]
        }) { OriginResponse.text("got \($0.text)") }
        let fields = [Self.sampled, "tracestate: a=1", "X-Request-Id: mine"]
        #expect(try stage.get("/path?token=secret&b=2", fields: fields).status == 200)
        let message = try #require(try Self.messages(1, at: collector).first)
        #expect(message.startLine == "POST /v1/traces HTTP/1.1")
        #expect(message["Content-Type"] == "application/x-protobuf")
        let spans = try SpanReader.spans(in: [message])
        #expect(
            spans.map { $0.text("name") } == [
                "GET", "GET", "name lookup", "connect", "TLS handshake", "wait for response",
            ]
                || spans.map { $0.text("name") } == ["GET", "GET", "connect", "TLS handshake", "wait for response"]
        )
        #expect(spans.allSatisfy { $0.text("trace") == Self.trace && $0.number("end") >= $0.number("start") })
        #expect(Set(spans.map { $0.text("span") }).count == spans.count)
        let (server, client) = (spans[0], spans[1])
        #expect(server.text("kind") == "SPAN_KIND_SERVER" && client.text("kind") == "SPAN_KIND_CLIENT")
        #expect(server.text("parent") == "00f067aa0ba902b7" && server.text("state") == "a=1")
        #expect(server.number("flags") == 0x301 && client.number("flags") == 0x101)
        #expect(client.text("parent") == server.text("span"))
        // The origin was told of the client's span, and the log of the server's.
        let told = try #require(stage.origin.requests.first?["traceparent"])
        #expect(told == "00-\(Self.trace)-\(client.text("span"))-01")
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("spanId") == server.text("span"))
        #expect(server.attribute("url.query") == "token=***&b=2")
        #expect(client.attribute("url.full") == "https://\(Stage.host)/path?token=***&b=2")
        #expect(client.attribute("network.peer.port") == "\(stage.origin.port)")
        #expect(client.attribute("pinproxy.pinning.verdict") == "pass")
        #expect(server.attribute("http.response.status_code") == "200")
        #expect((server.attributes["http.request.header.x-request-id"] as? [String]) == ["mine"])
        #expect((server.members["resource"] as? [String: Any])?["service.name"] as? String == "pinproxy")
        let handshake = try #require(spans.first { $0.text("name") == "TLS handshake" })
        let connect = try #require(spans.first { $0.text("name") == "connect" })
        #expect(handshake.text("parent") == connect.text("span") && connect.text("parent") == client.text("span"))
    }

    @Test("stored and refused requests have a span, unsampled ones have none", .enabled(if: SpanReader.isThere))
    func withoutOrigin() throws {
        let collector = try Self.collector()
        let stage = try Stage({ settings in
            Self.send(to: collector, &settings)
            settings.members["cache"] = [String: Any]()
            settings.members["access"] = ["denyHosts": ["denied.example.com"], "denyAddresses": [String]()]
        }) { _ in OriginResponse.text("kept", fields: ["Cache-Control: max-age=60"]) }
        #expect(try stage.get(fields: [Self.unsampled]).status == 200)
        #expect(try stage.get().status == 200)
        #expect(try stage.get(fields: [Self.sampled]).status == 200)
        #expect(try stage.proxy.get("http://denied.example.com/", fields: [Self.sampled]).status == 403)
        _ = try stage.proxy.terminate()
        let spans = try SpanReader.spans(in: collector.requests)
        // They come from two loops, in any order.
        let texts = spans.map { [$0.attribute("pinproxy.cache"), $0.attribute("error.type")] }
        #expect(texts.count == 2 && texts.contains(["hit", nil]) && texts.contains([nil, "host_denied"]))
        #expect(spans.allSatisfy { $0.number("status") == 0 })
    }

    @Test("a collector that refuses costs its spans, and no request; the loss is told")
    func refused() throws {
        let collector = try Self.collector(OriginResponse.text("no", status: "400 Bad Request"))
        let stage = try Stage({ Self.send(to: collector, &$0) }) { _ in OriginResponse.text("") }
        for _ in 0..<3 { #expect(try stage.get(fields: [Self.sampled]).status == 200) }
        let line = try stage.proxy.waitForEvent("traces_dropped") { $0.integer("refused") != nil }
        #expect((line.integer("count") ?? 0) > 0)
    }

    @Test("a reload with another collector sends what waits to the former one")
    func replaced() throws {
        let (former, next) = (try Self.collector(), try Self.collector())
        let stage = try Stage({ Self.send(to: former, &$0) }) { _ in OriginResponse.text("") }
        #expect(try stage.get(fields: [Self.sampled]).status == 200)
        try stage.reload { Self.send(to: next, &$0) }
        _ = try Self.messages(1, at: former)
        #expect(try stage.get(fields: [Self.sampled]).status == 200)
        _ = try Self.messages(1, at: next)
        #expect(former.requests.count == 1)
        try stage.reload { $0.members["tracing"] = nil }
        #expect(try stage.get(fields: [Self.sampled]).status == 200)
        _ = try stage.proxy.terminate()
        #expect(next.requests.count == 1)
    }

    @Test("a collector without response, or with an endless one, delays no request or stop")
    func silent() throws {
        let endless = try ScriptedOrigin(nil) { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            while true { try connection.write(String(repeating: "x", count: 65_536)) }
        }
        let silent = try ScriptedOrigin(nil) { connection in
            _ = try connection.readRequest()
            connection.readToEnd()
        }
        for collector in [endless, silent] {
            let stage = try Stage({ Self.send(to: collector, &$0) }) { _ in OriginResponse.text("") }
            #expect(try stage.get(fields: [Self.sampled]).status == 200)
            _ = try Self.messages(1, at: collector)
            #expect(try stage.get(fields: [Self.sampled]).status == 200)
            #expect(try stage.proxy.terminate().exitCode == 0)
        }
    }

    @Test("a compressed message is the same", .enabled(if: SpanReader.isThere))
    func compressed() throws {
        let collector = try Self.collector()
        let stage = try Stage({ settings in
            settings.members["tracing"] = [
                "otlp": "http://127.0.0.1:\(collector.port)", "sample": 0, "compression": "gzip",
            ]
        }) { _ in OriginResponse.text("") }
        for _ in 0..<20 { #expect(try stage.get(fields: [Self.sampled]).status == 200) }
        _ = try stage.proxy.terminate()
        let messages = collector.requests
        #expect(messages.allSatisfy { $0["Content-Encoding"] == "gzip" })
        let spans = try SpanReader.spans(in: messages)
        #expect(spans.count { $0.text("kind") == "SPAN_KIND_SERVER" } == 20)
        #expect(messages.reduce(0) { $0 + $1.body.count } < 20 * 400)
    }

    @Test("a refresh in the background has spans below its cause", .enabled(if: SpanReader.isThere))
    func refreshed() throws {
        let collector = try Self.collector()
        let stage = try Stage({ settings in
            Self.send(to: collector, &settings)
            settings.members["cache"] = [String: Any]()
        }) { request in
            OriginResponse.text(
                "kept",
                fields: ["ETag: \"v\"", "Cache-Control: max-age=0, stale-while-revalidate=600"]
            )
        }
        #expect(try stage.get(fields: [Self.unsampled]).status == 200)
        #expect(try stage.get(fields: [Self.sampled]).status == 200)
        let line = try Patience.poll(for: "the line of the refresh") {
            stage.proxy.taskLines.first { $0.string("client") == "cache" }
        }
        _ = try stage.proxy.terminate()
        let spans = try SpanReader.spans(in: collector.requests)
        let cause = try #require(spans.first { $0.text("kind") == "SPAN_KIND_SERVER" })
        let refresh = try #require(spans.first { $0.text("name") == "cache refresh" })
        let sent = try #require(spans.first { $0.text("parent") == refresh.text("span") })
        #expect(refresh.text("parent") == cause.text("span") && refresh.text("trace") == Self.trace)
        #expect(line.string("spanId") == refresh.text("span") && line.string("traceId") == Self.trace)
        #expect(stage.origin.requests.last?["traceparent"] == "00-\(Self.trace)-\(sent.text("span"))-01")
    }

    @Test("the key of a collector comes from a watched file, and is shown nowhere")
    func key() throws {
        let collector = try Self.collector()
        func send(_ settings: inout ProxySettings, _ key: String) {
            settings.files["collector.key"] = key
            settings.members["tracing"] = [
                "otlp": "http://127.0.0.1:\(collector.port)/in", "sample": 0,
                "headers": ["Authorization": ["file": "collector.key", "prefix": "Bearer "], "X-Scope-OrgID": "shop"],
            ]
        }
        let stage = try Stage({ send(&$0, "s3cr3t-one") }) { _ in OriginResponse.text("") }
        #expect(try stage.get(fields: [Self.sampled]).status == 200)
        let first = try #require(try Self.messages(1, at: collector).first)
        #expect(first["Authorization"] == "Bearer s3cr3t-one" && first["X-Scope-OrgID"] == "shop")
        #expect(first.startLine.hasPrefix("POST /in/v1/traces "))
        try stage.reload { send(&$0, "s3cr3t-two") }
        #expect(try stage.get(fields: [Self.sampled]).status == 200)
        #expect(try Self.messages(2, at: collector)[1]["Authorization"] == "Bearer s3cr3t-two")
        let check = try pinproxy("check", "--config", "\(stage.proxy.folder.path)/config.json")
        let place = "spans go to http://127.0.0.1:\(collector.port)/in/v1/traces, sets Authorization (from "
        #expect(check.output.contains(place), "\(check.output)")
        let ended = try stage.proxy.terminate()
        for text in [check.output, check.errors, ended.output, ended.errors] { #expect(!text.contains("s3cr3t")) }
    }

    @Test("a name that leads to a denied address has a warning with the rule")
    func deniedAddress() throws {
        let collector = try Self.collector()
        let stage = try Stage({ settings in
            settings.members["tracing"] = ["otlp": "http://localhost:\(collector.port)", "sample": 0]
            settings.members["access"] = ["denyAddresses": ["127.0.0.0/8", "::1/128"]]
        }) { _ in OriginResponse.text("") }
        #expect(try stage.get(fields: [Self.sampled]).status == 200)
        let line = try stage.proxy.waitForEvent("warning") { $0.string("code") == "trace_collector_denied" }
        #expect(line.string("message")?.contains("may not be dialled") == true, "\(line)")
        try stage.proxy.waitForEvent("traces_dropped") { $0.string("reason") == "address_denied" }
        _ = try stage.proxy.terminate()
        #expect(collector.connections.isEmpty)
    }

    @Test("check warns of a denied collector, and of a key in the clear")
    func advice() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: Stage.pki)
        settings.pin("api.test", to: .unrelated(7))
        settings.files["collector.key"] = "s3cr3t-one"
        settings.members["tracing"] = [
            "otlp": "http://collector.test", "headers": ["Authorization": ["file": "collector.key"]],
        ]
        settings.hosts["collector.test"] = ["upgrade": false]
        let clear = try pinproxy("check", "--config", settings.write(to: folder))
        #expect(clear.errors.contains("/tracing/headers") && clear.errors.contains("in the clear"), "\(clear.errors)")
        settings.members["access"] = ["denyHosts": ["collector.test"]]
        let denied = try pinproxy("check", "--config", settings.write(to: folder))
        #expect(denied.errors.contains("/tracing/otlp: spans cannot go to http://collector.test"), "\(denied.errors)")
    }

    @Test("a collector that the rules deny is not dialled, and is warned of")
    func rules() throws {
        let collector = try Self.collector()
        let stage = try Stage({ settings in
            settings.members["tracing"] = ["otlp": "http://denied.example.com:\(collector.port)"]
            settings.members["access"] = ["denyHosts": ["denied.example.com"], "denyAddresses": [String]()]
        }) { _ in OriginResponse.text("") }
        try stage.proxy.waitForEvent("warning") { $0.string("code") == "trace_collector_denied" }
        #expect(try stage.get(fields: [Self.sampled]).status == 200)
        _ = try stage.proxy.terminate()
        #expect(collector.connections.isEmpty)
    }
}
