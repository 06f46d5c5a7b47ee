// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTP2Core
import ServerTrust
import TestSupport
import Testing

private let first = "value-of-the-first-run", second = "value-of-the-second-run"

private func key(_ request: HTTPMessage?) -> String? { request?["X-Api-Key"] }

/// What a reload changes while a request waits.
enum ReloadMeanwhile: CaseIterable, Sendable {
    case nothing, pin, rule

    func change(_ settings: inout ProxySettings, _ server: TestServer) {
        switch self {
        case .nothing: settings.pin(Stage.host, to: server.pin, with: ["includeSubdomains": true])
        case .pin: settings.pin(Stage.host, to: .unrelated(7))
        case .rule:
            settings.members["requests"] = [
                "rules": [
                    [
                        "id": "v1", "host": Stage.host, "path": "/v1/*", "method": "DELETE", "then": "allow",
                        "credential": "key",
                    ],
                    ["id": "rest", "host": Stage.host, "path": "/other", "then": "allow"],
                ]
            ]
        }
    }

    /// The code of the refusal; nil where the request is served.
    var refusal: String? {
        switch self {
        case .nothing: nil
        case .pin: "pin_mismatch"
        case .rule: "request_denied"
        }
    }
}

@Suite("Requests that wait for the source of a credential", .waitingOnOwnThreads)
struct CredentialWaitTests {
    private func stage(
        _ source: GatedSource,
        _ change: (inout ProxySettings) -> Void = { _ in },
        responding response: @escaping @Sendable (HTTPMessage) -> String = { OriginResponse.text($0.text) }
    ) throws -> Stage {
        try Stage(
            {
                source.prepare(&$0)
                change(&$0)
            },
            responding: response
        )
    }

    /// A client whose request waits.
    private func waitingClient(_ stage: Stage, _ source: GatedSource, _ request: String) throws -> TestClient {
        try Patience.poll(for: "the first run") { source.runs > 0 ? true : nil }
        let client = try stage.proxy.connect()
        try client.send(request)
        #expect(try stage.get("/other").status == 200)
        return client
    }

    private static let post = ProxyUnderTest.request("POST", "http://\(Stage.host)/v1/x", body: "a body")

    @Test("all waiting requests share one run and its value")
    func shared() throws {
        let source = try GatedSource()
        let stage = try stage(source)
        let clients = try (0..<20).map { _ in try waitingClient(stage, source, Self.post) }
        try source.give(first, toRun: 1)
        for client in clients { #expect(try client.readResponse(to: "POST").text == "a body") }
        #expect(source.runs == 1)
        let keys = stage.origin.requests.filter { $0.target == "/v1/x" }.map { key($0) }
        #expect(keys == [String?](repeating: first, count: 20))
    }

    @Test("a waiting request continues under a reload's policy", arguments: ReloadMeanwhile.allCases)
    func reload(meanwhile: ReloadMeanwhile) throws {
        let source = try GatedSource()
        let stage = try stage(source)
        let client = try waitingClient(stage, source, Self.post)
        try stage.reload { meanwhile.change(&$0, stage.server) }
        try source.give(first, toRun: 1)
        let response = try client.readResponse(to: "POST")
        let requests = stage.origin.requests.filter { $0.target == "/v1/x" }
        #expect(response.problemCode == meanwhile.refusal, "\(response)")
        if meanwhile == .nothing {
            #expect(response.text == "a body" && requests.count == 1 && key(requests.first) == first, "\(response)")
        } else {
            #expect(requests.isEmpty)
        }
        #expect(source.runs == 1)
    }

    @Test("a waiting request uses a reload's new definition")
    func redefined() throws {
        let (former, next) = (try GatedSource(), try GatedSource())
        let stage = try stage(former)
        let client = try waitingClient(stage, former, Self.post)
        try stage.reload { next.prepare(&$0) }
        try next.give(second, toRun: 1)
        #expect(try client.readResponse(to: "POST").text == "a body")
        #expect(stage.origin.requests.filter { $0.target == "/v1/x" }.map { key($0) } == [second])
    }

    @Test("the request of a client that left while waiting is not sent")
    func gone() throws {
        let source = try GatedSource()
        let stage = try stage(source, HTTP2ClientTests.takeHTTP2)
        let reset = try waitingClient(stage, source, Self.post)
        let halfClosed = try waitingClient(stage, source, ProxyUnderTest.request("GET", stage.url("/v1/half")))
        halfClosed.finishSending()
        let peer = try HTTP2Peer(stage.proxy.connect())
        let stream = try peer.request("GET", "/v1/stream", authority: Stage.host)
        let stays = try peer.request("GET", "/v1/stays", authority: Stage.host)
        #expect(try stage.get("/other").status == 200)
        reset.reset()
        peer.session.reset(stream, .cancel)
        try peer.flush()
        try Patience.poll(for: "two lines of clients that have gone") {
            stage.proxy.taskLines.filter { $0.string("error") == "client_closed" }.count == 2 ? true : nil
        }
        try source.give(first, toRun: 1)
        #expect(try halfClosed.readResponse().status == 200)
        #expect(try peer.finish(stays).status == 200)
        let targets = Set(stage.origin.requests.map(\.target))
        #expect(targets == ["/other", "/v1/half", "/v1/stays"], "\(targets)")
    }

    @Test("a failing source refuses waiting requests, within a bounded time")
    func refused() throws {
        let source = try GatedSource()
        let stage = try stage(source, { $0.members["defaults"] = ["timeouts": ["queue": "500ms"]] })
        let late = try waitingClient(stage, source, Self.post).readResponse(to: "POST")
        #expect(late.problemCode == "credential_unavailable" && late.text.contains("timeouts.queue"), "\(late)")
        let client = try waitingClient(stage, source, Self.post)
        try source.give("short", toRun: 1)
        let failed = try client.readResponse(to: "POST")
        #expect(failed.problemCode == "credential_unavailable" && !failed.text.contains("timeouts.queue"), "\(failed)")
        #expect(stage.origin.requests.allSatisfy { $0.target == "/other" })
    }

    @Test("timeouts.total counts the wait for a source")
    func total() throws {
        let source = try GatedSource()
        let limit = 0.5
        let stage = try stage(source) {
            $0.members["defaults"] = ["timeouts": ["queue": "60s", "total": "\(Int(limit * 1000))ms"]]
        }
        let client = try waitingClient(stage, source, Self.post)
        Thread.sleep(forTimeInterval: limit)
        try source.give(first, toRun: 1)
        #expect(try client.readResponse(to: "POST").problemCode == "response_timeout")
        #expect(stage.origin.requests.allSatisfy { $0.target == "/other" })
    }

    @Test("a value that ends while its request waits for a connection is sent", .timeLimit(.minutes(5)))
    func ending() throws {
        let gate = Gate()
        let stage = try Stage({
            GatedSource.prepare(
                &$0,
                command: [
                    "/bin/sh", "-c",
                    #"echo "{\"token\": \"$0\", \"expires\": \"$(date -u -d '+3 seconds' +%Y-%m-%dT%H:%M:%SZ)\"}""#,
                    first,
                ]
            )
            $0.hosts[Stage.host]?["connectionsPerHost"] = 1
            $0.members["admin"] = ["address": "127.0.0.1:0"]
        }) { connection in
            while let request = try connection.readRequest() {
                if request.target == "/v1/first" { try gate.pass() }
                try connection.respond(request.target)
            }
        }
        defer { gate.open() }
        let clients = try ["/v1/first", "/v1/second"].map { path in
            let client = try stage.proxy.connect()
            try client.send(ProxyUnderTest.request("GET", stage.url(path)))
            return client
        }
        try stage.origin.wait(for: "the first request") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        try Patience.poll(for: "the end of the value", every: 0.1) {
            let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
            let page = try stage.proxy.exchange(request, on: 1).text
            let name = "pinproxy_credential_expires_seconds{credential=\"key\"} "
            let line = page.split(separator: "\n").first { $0.hasPrefix(name) }
            return line.flatMap { Double($0.dropFirst(name.count)) }.map { $0 <= 0 } == true ? true : nil
        }
        // Between its end and the next run no other request gets the value.
        #expect(try stage.get("/v1/late").problemCode == "credential_unavailable")
        gate.open()
        for (client, path) in zip(clients, ["/v1/first", "/v1/second"]) {
            #expect(try client.readResponse().text == path)
        }
        #expect(stage.origin.requests.prefix(2).map { key($0) } == [first, first])
    }

    // MARK: While a 401 is being renewed

    /// A proxy whose credential was refused: another run is under way, and a client waits for it.
    private struct Refused {
        let source: GatedSource
        let stage: Stage
        let client: TestClient
    }

    private func refusedStage(
        _ change: (inout ProxySettings) -> Void = { _ in },
        responding response: @escaping @Sendable (HTTPMessage) -> String
    ) throws -> (GatedSource, Stage) {
        let source = try GatedSource()
        try source.give(first, toRun: 1)
        return (source, try stage(source, change, responding: response))
    }

    /// A source is run again ten seconds after a run at the earliest; until then each 401 is passed on.
    private func waitForRenewal(_ source: GatedSource, _ stage: Stage, _ request: String) throws -> Refused {
        let client = try waitForRenewal(source, stage.proxy, request)
        return Refused(source: source, stage: stage, client: client)
    }

    /// - Returns: the client whose request waits.
    private func waitForRenewal(_ source: GatedSource, _ proxy: ProxyUnderTest, _ request: String) throws -> TestClient
    {
        while true {
            let former = proxy.taskLines.count
            let client = try proxy.connect()
            try client.send(request)
            let isUnderWay = try Patience.poll(for: "a 401, or a second run", every: 0.05) {
                source.runs > 1 ? true : proxy.taskLines.count > former ? false : nil
            }
            if isUnderWay { return client }
            #expect(try client.readResponse(to: "POST").status == 401)
            Thread.sleep(forTimeInterval: 0.2)
        }
    }

    @Test(
        "after a 401 a request is repeated once, unless its client has gone",
        .timeLimit(.minutes(2))
    )
    func renewals() throws {
        let isKnown = Self.isKnown
        let never: @Sendable (HTTPMessage) -> String = { _ in OriginResponse.text("no", status: "401 Unauthorized") }
        let long = try refusedStage({ $0.members["limits"] = ["redirectBodyBytes": "1KB"] }, responding: never)
        let body = String(repeating: "b", count: 2000)
        let longPost = ProxyUnderTest.request("POST", "http://\(Stage.host)/v1/x", body: body)
        #expect(try long.1.proxy.exchange(longPost, method: "POST").status == 401)
        let stages = [
            try refusedStage(responding: never), try refusedStage(responding: isKnown),
            try refusedStage(responding: isKnown),
        ]
        let expecting = Self.post.replacing("\r\n\r\n", with: "\r\nExpect: 100-continue\r\n\r\n")
        // All pauses at once.
        let refused = try zip(stages, [Self.post, Self.post, expecting]).map {
            try waitForRenewal($0.0, $0.1, $1)
        }
        func count(_ stage: Stage, _ key: String) -> Int {
            stage.origin.requests.filter { $0["X-Api-Key"] == key && $0.text == "a body" }.count
        }
        let stubborn = refused[0]
        try stubborn.source.give(second, toRun: 2)
        #expect(try stubborn.client.readResponse(to: "POST").status == 401)
        #expect(count(stubborn.stage, second) == 1 && stubborn.source.runs == 2)
        let left = refused[1]
        left.client.reset()
        try Patience.poll(for: "the line of a client that has gone") {
            left.stage.proxy.taskLines.contains { $0.string("error") == "client_closed" } ? true : nil
        }
        try left.source.give(second, toRun: 2)
        #expect(try left.stage.proxy.exchange(Self.post, method: "POST").text == "a body")
        #expect(count(left.stage, second) == 1)
        // The pause of this one is over, too. Its body is not at hand any more.
        // It waits for no value: the source runs for later ones.
        #expect(try long.1.proxy.exchange(longPost, method: "POST").status == 401)
        // Nothing keeps the body back any more, and no origin is asked whether it wants it.
        let waiting = refused[2]
        try waiting.source.give(second, toRun: 2)
        #expect(try waiting.client.readResponse(to: "POST").text == "a body")
        for request in waiting.stage.origin.requests {
            #expect(request["Expect"] == (key(request) == first ? "100-continue" : nil), "\(request)")
        }
    }

    /// A proxy before an origin of HTTP/2 that answers 401, or refuses a stream without having processed it.
    private struct RefusingStage {
        struct State {
            /// Every stream is refused, or every other one.
            var refusesAll = false
            var refusesOthers = false
            var count = 0
        }

        let source: GatedSource
        let state: Monitor<State>
        let settings: ProxySettings
        let proxy: ProxyUnderTest
        private let origin: ScriptedOrigin

        init(refusesOthers: Bool = false, hasHooks: Bool = false) throws {
            let state = Monitor(State(refusesOthers: refusesOthers))
            let server = try Stage.pki.server(Stage.host)
            let origin = try ScriptedOrigin(server, protocols: ["h2"]) { connection in
                let script = try HTTP2Script(connection)
                while let request = try script.nextRequest() {
                    let isRefused = state.with { state in
                        state.count += 1
                        return state.refusesAll || (state.refusesOthers && state.count % 2 == 1)
                    }
                    if isRefused {
                        // REFUSED_STREAM (RFC 9113, section 7).
                        try script.send(.resetStream, stream: request.stream, [0, 0, 0, 7])
                    } else {
                        try script.head(401, stream: request.stream, ends: true)
                    }
                }
            }
            source = try GatedSource()
            try source.give(first, toRun: 1)
            var settings = ProxySettings(trusting: Stage.pki)
            settings.serve(Stage.host, server, at: origin.port)
            settings.hosts[Stage.host]?["httpVersion"] = "2"
            if hasHooks { settings.hosts[Stage.host]?["redirects"] = ["policy": "follow"] }
            source.prepare(&settings)
            (self.state, self.settings, self.origin) = (state, settings, origin)
            proxy = try ProxyUnderTest(settings)
        }

        /// The number of streams from now on, each of which is refused.
        func refuseAll() { state.with { $0 = State(refusesAll: true) } }
    }

    @Test("the repeat after a 401 and the one of an unprocessed request are one", .timeLimit(.minutes(2)))
    func oneRepeat() throws {
        let get = ProxyUnderTest.request("GET", "http://\(Stage.host)/v1/x")
        let repeated = try RefusingStage(refusesOthers: true)
        #expect(try repeated.proxy.exchange(get).status == 401)
        let (renewed, reloaded) = (try RefusingStage(), try RefusingStage())
        let hooked = try RefusingStage(hasHooks: true)
        // All pauses at once.
        let clients = try [renewed, reloaded, hooked].map { try waitForRenewal($0.source, $0.proxy, get) }
        // The pause of this one is over, too. Its request was repeated before the 401.
        // It is not sent again, and waits for no value: the source runs for later ones.
        #expect(try repeated.proxy.exchange(get).status == 401)
        try Patience.poll(for: "the run for later requests") { repeated.source.runs > 1 ? true : nil }
        // These are not repeated once more after it.
        try reloaded.proxy.reload(reloaded.settings)
        for (stage, client) in zip([renewed, reloaded, hooked], clients) {
            stage.refuseAll()
            try stage.source.give(second, toRun: 2)
            #expect(try client.readResponse().status == 502)
            #expect(stage.state.with { $0.count } == 1)
        }
    }

    private static let isKnown: @Sendable (HTTPMessage) -> String = { request in
        key(request) == first
            ? OriginResponse.text("no", status: "401 Unauthorized") : OriginResponse.text(request.text)
    }

    @Test(
        "a request whose 401 is renewed goes on under a reload's policy",
        .timeLimit(.minutes(2))
    )
    func reloadDuringRenewal() throws {
        let stages = try (0...ReloadMeanwhile.allCases.count).map { _ in try refusedStage(responding: Self.isKnown) }
        let get = ProxyUnderTest.request("GET", "http://\(Stage.host)/v1/x")
        // All pauses at once.
        let refused = try stages.enumerated().map { number, stage in
            try waitForRenewal(stage.0, stage.1, number < ReloadMeanwhile.allCases.count ? get : Self.post)
        }
        func keys(_ stage: Stage) -> [String?] { stage.origin.requests.map { key($0) } }
        for (one, meanwhile) in zip(refused, ReloadMeanwhile.allCases) {
            let former = keys(one.stage).count
            try one.stage.reload { meanwhile.change(&$0, one.stage.server) }
            try one.source.give(second, toRun: 2)
            let response = try one.client.readResponse()
            #expect(response.problemCode == meanwhile.refusal, "\(meanwhile): \(response)")
            if meanwhile == .nothing { #expect(response.status == 200) }
            // Not the value that was refused.
            #expect(keys(one.stage).dropFirst(former) == (meanwhile == .nothing ? [second] : []))
        }
        let sent = refused[refused.count - 1]
        try sent.stage.reload { ReloadMeanwhile.nothing.change(&$0, sent.stage.server) }
        try sent.source.give(second, toRun: 2)
        #expect(try sent.client.readResponse(to: "POST").problemCode == "session_invalidated")
        #expect(!keys(sent.stage).contains(second))
    }

    @Test(
        "a repeat after a 401 has its body despite a reload",
        .timeLimit(.minutes(2)),
        arguments: [("Content-Length", 6), ("Transfer-Encoding", 6), ("Transfer-Encoding", 90_000)]
    )
    func reloadDuringDial(framing: String, count: Int) throws {
        let silent = try TestSocket.listen()
        defer { close(silent.descriptor) }
        let (isSilent, port) = (Monitor(false), Monitor<UInt16>(0))
        let relay = try RecordRelay(choosing: { isSilent.with { $0 } ? silent.port : port.with { $0 } }) {
            try $0.passRest()
        }
        let source = try GatedSource()
        try source.give(first, toRun: 1)
        let stage = try Stage({
            source.prepare(&$0)
            $0.resolve(Stage.host, to: relay.port)
        }) { connection in
            while let request = try connection.readRequest() {
                guard key(request) == second else {
                    return try connection.respond("no", status: "401 Unauthorized", fields: ["Connection: close"])
                }
                try connection.respond("\(request.body.count)")
            }
        }
        port.with { $0 = stage.origin.port }
        let body = String(repeating: "b", count: count)
        let rest =
            framing == "Content-Length"
            ? "Content-Length: \(count)\r\n\r\n\(body)"
            : "Transfer-Encoding: chunked\r\n\r\n\(String(count, radix: 16))\r\n\(body)\r\n0\r\n\r\n"
        let head = "POST \(stage.url("/v1/x")) HTTP/1.1\r\nHost: \(Stage.host)\r\n"
        let refused = try waitForRenewal(source, stage, head + rest)
        isSilent.with { $0 = true }
        try source.give(second, toRun: 2)
        let dialled = accept(silent.descriptor, nil, nil)
        defer { close(dialled) }
        try stage.reload { $0.resolve(Stage.host, to: stage.origin.port) }
        let response = try refused.client.readResponse(to: "POST")
        // A part of a long one is in a file, which goes with the policy that the request began under.
        if count > 64 << 10 {
            #expect(response.problemCode == "session_invalidated", "\(response)")
        } else {
            #expect(response.text == "\(count)", "\(response)")
        }
        let again = stage.origin.requests.filter { key($0) == second }
        #expect(again.allSatisfy { $0.body.count == count })
    }

    @Test("a hop's 401 repeats the hop, also after a reload", .timeLimit(.minutes(2)))
    func hooksOfReload() throws {
        let silent = try TestSocket.listen()
        defer { close(silent.descriptor) }
        let (source, gate) = (try GatedSource(), Gate())
        try source.give(first, toRun: 1)
        let stage = try Stage({
            source.prepare(&$0)
            $0.members["credentials"] = [
                "key": ["header": "X-Api-Key", "command": source.command, "ttl": "13s"],
                "start": ["header": "X-Start-Key", "command": ["/bin/echo", "value-of-the-start"]],
            ]
            $0.members["requests"] = [
                "rules": [
                    ["id": "start", "host": Stage.host, "path": "/start", "then": "allow", "credential": "start"],
                    ["id": "v1", "host": Stage.host, "path": "/v1/*", "then": "allow", "credential": "key"],
                ]
            ]
            $0.resolve(Stage.host, to: silent.port)
        }) { connection in
            while let request = try connection.readRequest() {
                if request.target == "/start" {
                    try connection.respond("", status: "302 Found", fields: ["Location: /v1/end"])
                } else if request.target == "/v1/end", key(request) == first {
                    try gate.pass()
                    try connection.respond("no", status: "401 Unauthorized")
                } else {
                    try connection.respond(request.target)
                }
            }
        }
        defer { gate.open() }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url("/start")))
        let dialled = accept(silent.descriptor, nil, nil)
        defer { close(dialled) }
        // The request begins again, with hooks.
        try stage.reload {
            $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
            $0.resolve(Stage.host, to: stage.origin.port)
        }
        try stage.origin.wait(for: "the hop") { records in
            records.flatMap(\.requests).contains { $0.target == "/v1/end" } ? true : nil
        }
        try Patience.poll(for: "the second run") { source.runs > 1 ? true : nil }
        try source.give(second, toRun: 2)
        try Patience.poll(for: "the second value") {
            _ = try stage.get("/v1/other")
            return key(stage.origin.requests.last { $0.target == "/v1/other" }) == second ? true : nil
        }
        gate.open()
        #expect(try client.readResponse().text == "/v1/end")
        let requests = stage.origin.requests
        #expect(requests.filter { $0.target == "/start" }.map { key($0) } == [nil])
        #expect(requests.filter { $0.target == "/v1/end" }.map { key($0) } == [first, second])
    }

    @Test("a client that waits for 100 (Continue) gets it after a 401, too", .timeLimit(.minutes(2)))
    func expectation() throws {
        let source = try GatedSource()
        try source.give(first, toRun: 1)
        try source.give(second, toRun: 2)
        let stage = try Stage({ source.prepare(&$0) }) { connection in
            while let head = try connection.readRequestHead() {
                guard key(head) == second else { return try connection.respond("no", status: "401 Unauthorized") }
                if head["Expect"] != nil { try connection.write("HTTP/1.1 100 Continue\r\n\r\n") }
                try connection.respond(try connection.readBody(of: head).text)
            }
        }
        let fields = "Host: \(Stage.host)\r\nExpect: 100-continue\r\nContent-Length: 4"
        let client = try Patience.poll(for: "the source may run again", every: 0.5) { () -> TestClient? in
            let client = try stage.proxy.connect()
            try client.send("POST \(stage.url("/v1/x")) HTTP/1.1\r\n\(fields)\r\n\r\n")
            return String(decoding: try client.receive(), as: UTF8.self).hasPrefix("HTTP/1.1 100") ? client : nil
        }
        try client.send("body")
        let response = try client.readResponse(to: "POST")
        #expect(response.text == "body" && response.interim.isEmpty, "\(response)")
    }

    @Test(
        "a 401 without a repeat renews the credential for the next request",
        .timeLimit(.minutes(2)),
        arguments: ["upload", "upgrade", "refresh"]
    )
    func renewalForOthers(kind: String) throws {
        let source = try GatedSource()
        try source.give(first, toRun: 1)
        try source.give(second, toRun: 2)
        let stage = try stage(
            source,
            {
                $0.members["limits"] = ["redirectBodyBytes": "16KB"]
                $0.members["cache"] = ["shared": false]
            }
        ) { request in
            if key(request) == second { return OriginResponse.text("accepted") }
            guard kind == "refresh", request["If-None-Match"] == nil else {
                return OriginResponse.text("no", status: "401 Unauthorized")
            }
            let age = "Cache-Control: max-age=0, stale-while-revalidate=1000"
            return OriginResponse.text("stored", fields: ["ETag: \"a\"", age])
        }
        let upload = ProxyUnderTest.request("PUT", stage.url("/v1/x"), body: String(repeating: "b", count: 32 << 10))
        try Patience.poll(for: "a request with another value", every: 0.5) {
            switch kind {
            case "upload": _ = try stage.proxy.exchange(upload, method: "PUT")
            case "upgrade": _ = try stage.get("/v1/x", fields: ["Connection: Upgrade", "Upgrade: echo"])
            default: _ = try stage.get("/v1/x")
            }
            return stage.origin.requests.contains { key($0) == second } ? true : nil
        }
        #expect(source.runs == 2)
    }
}
