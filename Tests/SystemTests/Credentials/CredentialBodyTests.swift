// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTP2Core
import ServerTrust
import TestSupport
import Testing

private let value = "value-of-the-first-run"

@Suite("Bodies of requests with credentials", .waitingOnOwnThreads)
struct CredentialBodyTests {
    // MARK: Kept while something is waited for

    private static let kept = 32 << 10
    /// Sent before the wait, and during it: together more than is kept.
    private static let pieces = (patternBytes(10_000), patternBytes(50_000))

    /// `/start` leads to `/v1/end`, whose credential is waited for.
    private func redirectingStage(_ source: GatedSource) throws -> Stage {
        try Stage({
            source.prepare(&$0)
            HTTP2ClientTests.takeHTTP2(&$0)
            $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
            $0.members["limits"] = ["redirectBodyBytes": "\(Self.kept >> 10)KB"]
        }) { connection in
            while let head = try connection.readRequestHead() {
                if head.target == "/start" {
                    try connection.respond("", status: "307 Temporary Redirect", fields: ["Location: /v1/end"])
                    return connection.readToEnd()
                }
                let request = try connection.readBody(of: head)
                if request.isTruncated { return }
                try connection.respond("\(request.body.count)")
            }
        }
    }

    /// Waits until the redirect was taken in.
    private func waitForRedirect(_ stage: Stage) throws {
        try stage.origin.wait(for: "the first hop") { records in
            records.contains { $0.requests.first?.target == "/start" && $0.bytesWritten > 0 } ? true : nil
        }
        // The proxy has given the first hop's connection up.
        try stage.origin.wait(for: "the end of the first hop") { records in
            records.contains { $0.requests.first?.target == "/start" && $0.isClosed } ? true : nil
        }
        #expect(try stage.get("/other").status == 200)
    }

    private func ends(_ stage: Stage) -> [HTTPMessage] { stage.origin.requests.filter { $0.target == "/v1/end" } }

    @Test("a client waits while a hop waits, and its body arrives whole")
    func hop() throws {
        let source = try GatedSource()
        let stage = try redirectingStage(source)
        let client = try stage.proxy.connect()
        let size = Self.pieces.0.count + Self.pieces.1.count
        let fields = ["Transfer-Encoding: chunked"]
        try client.send(ProxyUnderTest.request("POST", stage.url("/start"), fields: fields))
        try client.send("\(String(Self.pieces.0.count, radix: 16))\r\n")
        try client.send(Self.pieces.0 + Array("\r\n".utf8))
        try waitForRedirect(stage)
        try client.send("\(String(Self.pieces.1.count, radix: 16))\r\n")
        try client.send(Self.pieces.1 + Array("\r\n0\r\n\r\n".utf8))
        #expect(try stage.get("/other").status == 200)
        try source.give(value, toRun: 1)
        let response = try client.readResponse(to: "POST")
        #expect(response.status == 200 && response.text == "\(size)", "\(response)")
        #expect(ends(stage).map { $0.body } == [Self.pieces.0 + Self.pieces.1])
    }

    @Test("a body that outgrows its room while a hop waits is never sent cut")
    func outgrowingHop() throws {
        let source = try GatedSource()
        let stage = try redirectingStage(source)
        let peer = try HTTP2Peer(stage.proxy.connect())
        let stream = try peer.request("POST", "/start", authority: Stage.host, ends: false)
        try peer.wait { peer.session.sendWindow(of: stream) > 0 }
        try peer.send(Self.pieces.0, on: stream)
        try waitForRedirect(stage)
        // The window of the stream lets it through: what is on its way cannot be held back.
        try peer.send(Self.pieces.1, on: stream)
        try peer.end(stream, trailers: [])
        #expect(try stage.get("/other").status == 200)
        try source.give(value, toRun: 1)
        let response = try peer.finish(stream)
        #expect(response.status == 502 && response.text.contains("limits.redirectBodyBytes"), "\(response.text)")
        #expect(ends(stage).isEmpty)
    }

    /// An origin that refuses the first value as soon as it has the head of a request.
    private func renewingStage(_ source: GatedSource) throws -> Stage {
        try source.give(value, toRun: 1)
        return try Stage({
            source.prepare(&$0)
            HTTP2ClientTests.takeHTTP2(&$0)
            $0.members["limits"] = ["redirectBodyBytes": "\(Self.kept >> 10)KB"]
        }) { connection in
            while let head = try connection.readRequestHead() {
                if head["X-Api-Key"] == value {
                    try connection.respond("no", status: "401 Unauthorized")
                    return connection.readToEnd()
                }
                let request = try connection.readBody(of: head)
                if request.isTruncated { return }
                try connection.respond("\(request.body.count)")
            }
        }
    }

    @Test("a client waits during a renewal, and its body arrives whole", .timeLimit(.minutes(5)))
    func renewal() throws {
        let source = try GatedSource()
        let stage = try renewingStage(source)
        let fields = ["Transfer-Encoding: chunked"]
        // Within ten seconds of a run a 401 is passed on.
        var client: TestClient
        while true {
            let former = stage.proxy.taskLines.count
            client = try stage.proxy.connect()
            try client.send(ProxyUnderTest.request("POST", stage.url("/v1/x"), fields: fields))
            try client.send("\(String(Self.pieces.0.count, radix: 16))\r\n")
            try client.send(Self.pieces.0 + Array("\r\n".utf8))
            let isUnderWay = try Patience.poll(for: "a 401, or a second run", every: 0.05) {
                source.runs > 1 ? true : stage.proxy.taskLines.count > former ? false : nil
            }
            if isUnderWay { break }
            #expect(try client.readResponse(to: "POST").status == 401)
            Thread.sleep(forTimeInterval: 0.2)
        }
        try client.send("\(String(Self.pieces.1.count, radix: 16))\r\n")
        try client.send(Self.pieces.1 + Array("\r\n0\r\n\r\n".utf8))
        #expect(try stage.get("/other").status == 200)
        try source.give("value-of-the-second-run", toRun: 2)
        let response = try client.readResponse(to: "POST")
        let body = Self.pieces.0 + Self.pieces.1
        #expect(response.status == 200 && response.text == "\(body.count)", "\(response)")
        let accepted = stage.origin.requests.filter { $0["X-Api-Key"] == "value-of-the-second-run" }
        #expect(accepted.map(\.body) == [body])
    }

    @Test(
        "a body that outgrows its room during a renewal is never sent cut",
        .timeLimit(.minutes(5))
    )
    func outgrowingRenewal() throws {
        let source = try GatedSource()
        let stage = try renewingStage(source)
        let peer = try HTTP2Peer(stage.proxy.connect())
        // Within ten seconds of a run a 401 is passed on.
        var stream: PeerStream
        while true {
            let former = stage.proxy.taskLines.count
            stream = try peer.request("POST", "/v1/x", authority: Stage.host, ends: false)
            try peer.wait { peer.session.sendWindow(of: stream) > 0 }
            try peer.send(Self.pieces.0, on: stream)
            let isUnderWay = try Patience.poll(for: "a 401, or a second run", every: 0.05) {
                source.runs > 1 ? true : stage.proxy.taskLines.count > former ? false : nil
            }
            if isUnderWay { break }
            try peer.wait { stream.status == 401 }
            Thread.sleep(forTimeInterval: 0.2)
        }
        try peer.send(Self.pieces.1, on: stream)
        try peer.end(stream, trailers: [])
        #expect(try stage.get("/other").status == 200)
        try source.give("value-of-the-second-run", toRun: 2)
        let response = try peer.finish(stream)
        #expect(response.status == 502 && response.text.contains("limits.redirectBodyBytes"), "\(response.text)")
        #expect(!stage.origin.requests.contains { $0["X-Api-Key"] != value && $0.target == "/v1/x" })
    }

    // MARK: Gathered for a signature

    private static let awsKeys = """
        {"Version": 1, "AccessKeyId": "AKIAPLANTED0000001", "SecretAccessKey": "planted/secret+key", "SessionToken": "planted//session"}
        """

    private static func sign(_ settings: inout ProxySettings) {
        settings.members["workers"] = 1
        settings.members["admin"] = ["address": "127.0.0.1:0"]
        settings.files["keys"] = awsKeys
        settings.members["credentials"] = [
            "aws": ["awsSigV4": ["region": "eu-central-1", "service": "dynamodb", "file": "keys"]]
        ]
        settings.members["requests"] = [
            "rules": [["id": "aws", "host": Stage.host, "then": "allow", "credential": "aws"]]
        ]
        HTTP2ClientTests.takeHTTP2(&settings)
    }

    private static func held(_ proxy: ProxyUnderTest) throws -> Int {
        let page = try proxy.exchange("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", on: proxy.listening.count - 1)
        let name = "pinproxy_held_bytes "
        let line = page.text.split(separator: "\n").first { $0.hasPrefix(name) }
        return try #require(line.flatMap { Int($0.dropFirst(name.count)) })
    }

    private func waitForNothingHeld(_ proxy: ProxyUnderTest, _ before: Int) throws {
        // A worker keeps up to two steps of what it has drawn, to draw less often.
        try Patience.poll(for: "no held bytes", every: 0.05) {
            try Self.held(proxy) <= before + 512 << 10 ? true : nil
        }
    }

    @Test("collected bodies count for limits.heldBytes, and are released")
    func gathered() throws {
        let stage = try Stage({
            Self.sign(&$0)
            $0.members["limits"] = ["heldBytes": "16MB"]
        }) { OriginResponse.text("\($0.body.count)") }
        let before = try Self.held(stage.proxy)
        let size = 1 << 20
        let head = "POST \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\nContent-Length: \(size)\r\n\r\n"
        let body = [UInt8](repeating: 98, count: size - 1)
        var waiting: [TestClient] = []
        var refusal: HTTPMessage?
        for _ in 0..<40 where refusal == nil {
            let client = try stage.proxy.connect()
            let former = try Self.held(stage.proxy)
            try client.send(head)
            do { try client.send(body) } catch { refusal = try client.readResponse(to: "POST") }
            let isRefused = try Patience.poll(for: "a gathered body, or a refusal") {
                try Self.held(stage.proxy) >= former + size - (512 << 10)
                    ? false : stage.proxy.taskLines.contains { $0.integer("status") == 503 } ? true : nil
            }
            if isRefused { refusal = try refusal ?? client.readResponse(to: "POST") }
            waiting.append(client)
        }
        #expect(refusal?.status == 503 && refusal?.problemCode == "limit_reached", "\(String(describing: refusal))")
        #expect(waiting.count > 4, "\(waiting.count)")
        #expect(try Self.held(stage.proxy) <= 16 << 20)
        // One of those that were there before the refusal.
        try waiting[0].send([98])
        #expect(try waiting[0].readResponse(to: "POST").text == "\(size)")
        for client in waiting { client.reset() }
        try waitForNothingHeld(stage.proxy, before)
        #expect(
            try stage.proxy.exchange("\(head)\(String(repeating: "b", count: size))", method: "POST").text == "\(size)"
        )
        try waitForNothingHeld(stage.proxy, before)
    }

    @Test("bodies collected over HTTP/2 count for limits.heldBytes, too")
    func gatheredStreams() throws {
        let stage = try Stage({
            Self.sign(&$0)
            $0.members["limits"] = ["heldBytes": "16MB"]
        }) { OriginResponse.text("\($0.body.count)") }
        let before = try Self.held(stage.proxy)
        let peers = try (0..<5).map { _ in try HTTP2Peer(stage.proxy.connect()) }
        var most = 0
        var streams: [(HTTP2Peer, PeerStream)] = []
        for peer in peers {
            for _ in 0..<90 {
                streams.append((peer, try peer.request("POST", "/", authority: Stage.host, ends: false)))
            }
        }
        for (peer, stream) in streams where !stream.isClosed {
            try peer.wait { stream.isClosed || peer.session.sendWindow(of: stream) >= 60_000 }
            if !stream.isClosed { try peer.send([UInt8](repeating: 98, count: 60_000), on: stream) }
            most = max(most, try Self.held(stage.proxy))
        }
        #expect(most <= 18 << 20, "\(most >> 20) MB")
        #expect(stage.proxy.taskLines.contains { $0.integer("status") == 503 })
        for peer in peers { peer.close() }
        try waitForNothingHeld(stage.proxy, before)
    }

    @Test("a hop that waits for its keys has no body", arguments: ["aws", "plain"])
    func signedHop(first: String) throws {
        let source = try GatedSource()
        let stage = try Stage({ settings in
            source.prepare(&settings)
            settings.files["keys"] = Self.awsKeys
            settings.files["plain"] = value
            settings.members["credentials"] = [
                "aws": ["awsSigV4": ["region": "eu-central-1", "service": "dynamodb", "file": "keys"]],
                "plain": ["file": "plain"],
                "later": ["awsSigV4": ["region": "eu-central-1", "service": "sts", "command": source.command]],
            ]
            settings.members["requests"] = [
                "rules": [
                    ["id": "first", "host": Stage.host, "path": "/start", "then": "allow", "credential": first],
                    ["id": "v1", "host": Stage.host, "path": "/v1/*", "then": "allow", "credential": "later"],
                    ["id": "rest", "host": Stage.host, "then": "allow"],
                ]
            ]
            settings.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
        }) { request in
            guard request.target == "/start" else { return OriginResponse.text("\(request.body.count)") }
            return OriginResponse.text("", status: "303 See Other", fields: ["Location: /v1/end"])
        }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("POST", stage.url("/start"), body: "a body"))
        try stage.origin.wait(for: "the first hop") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        #expect(try stage.get("/other").status == 200)
        try source.give(Self.awsKeys.replacing("\n", with: " "), toRun: 1)
        let response = try client.readResponse(to: "POST")
        #expect(response.status == 200 && response.text == "0", "\(response)")
        let end = try #require(ends(stage).first)
        #expect(end.body.isEmpty && end["Authorization"]?.hasPrefix("AWS4-HMAC-SHA256 ") == true, "\(end)")
        #expect(stage.origin.requests.first?.text == "a body")
    }

    @Test("a body that is longer than a signature takes is refused")
    func length() throws {
        let stage = try Stage(Self.sign) { OriginResponse.text("\($0.body.count)") }
        let size = (1 << 20) + 1
        let fields = ["Transfer-Encoding: chunked"]
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("POST", stage.url(), fields: fields) + "\(String(size, radix: 16))\r\n")
        // It may be refused before all of it was sent.
        _ = try? client.send([UInt8](repeating: 98, count: size))
        let response = try client.readResponse(to: "POST")
        #expect(response.status == 413 && response.text.contains("X-Amz-Content-SHA256"), "\(response)")
        #expect(stage.origin.requests.isEmpty)
    }

    @Test("a signed body of HTTP/2 arrives whole, whatever the origin speaks", arguments: ["1.1", "2"])
    func signedStream(version: String) throws {
        let body = patternBytes(700_000)
        let received = Monitor<[UInt8]>([])
        let fields = Monitor<[UInt8]>([])
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server, protocols: version == "2" ? ["h2"] : []) { connection in
            guard version == "2" else {
                while let request = try connection.readRequest() {
                    received.with { $0 = request.body }
                    fields.with { $0 = Array((request["Authorization"] ?? "").utf8) }
                    try connection.respond("\(request.body.count)")
                }
                return
            }
            let script = try HTTP2Script(connection)
            while let frame = try script.next() {
                if frame.kind == .headers { fields.with { $0 += frame.payload } }
                guard frame.kind == .data else { continue }
                received.with { $0 += frame.payload }
                let count = frame.payload.count
                let credit = [UInt8(0), UInt8(count >> 16), UInt8(count >> 8 & 255), UInt8(count & 255)]
                if count > 0 {
                    for stream in [0, frame.stream] { try script.send(.windowUpdate, stream: stream, credit) }
                }
                if frame.endsStream {
                    try script.head(200, stream: frame.stream)
                    try script.body("\(received.with { $0.count })", stream: frame.stream)
                }
            }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = version
        Self.sign(&settings)
        let proxy = try ProxyUnderTest(settings)
        let peer = try HTTP2Peer(proxy.connect())
        let response = try peer.finish(peer.request("POST", "/", authority: Stage.host, body: body))
        #expect(response.status == 200 && response.text == "\(body.count)", "\(response.text)")
        #expect(received.with { $0 } == body)
        // The field is not Huffman-coded where that is longer; over HTTP/1.1 it is text anyway.
        if version == "1.1" {
            let authorization = String(decoding: fields.with { $0 }, as: UTF8.self)
            #expect(authorization.hasPrefix("AWS4-HMAC-SHA256 Credential=AKIAPLANTED0000001/"))
        }
        #expect(fields.with { !$0.isEmpty })
        #expect(try proxy.waitForTaskLines(1).first?.string("credential") == "aws")
    }
}
