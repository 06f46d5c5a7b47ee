// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Clients and origins that misbehave all at once, by fixed seeds: the program must survive, no client may get
/// another's response, and everything must work as before when they have gone.
@Suite("Turmoil", .onOwnThreads)
struct TurmoilTests {
    private static let threads = 6
    private static let rounds = 60

    /// The path tells the origin what to do; the number in it comes back in the body.
    private static let script: ScriptedOrigin.Script = { connection in
        while let request = try connection.readRequest() {
            let text = "answer to \(request.target) with \(request.body.count) bytes"
            switch request.target.split(separator: "/").first {
            case "close":
                try connection.respond(text)
                return connection.close(.cut)
            case "silent": return connection.close(.reset)
            case "cut":
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart")
                return connection.close(.cut)
            case "chunked":
                let size = String(text.utf8.count, radix: 16)
                try connection.write(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\(size)\r\n\(text)\r\n0\r\n\r\n"
                )
            case "large":
                try connection.respond(text + letters(".", 400_000))
            case "garbage":
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello")
            default: try connection.respond(text)
            }
        }
    }

    private struct Random {
        var state: UInt64
        mutating func next(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % bound
        }
    }

    /// One client's part; what it finds wrong comes back.
    private static func play(_ proxy: UInt16, _ host: String, _ paths: [String], seed: Int) throws -> [String] {
        var random = Random(state: UInt64(seed) &* 0x9E37_79B9 &+ 1)
        var wrong: [String] = []
        for round in 0..<rounds {
            let client = try TestClient(port: proxy)
            let path = "/\(paths[random.next(paths.count)])/\(seed).\(round)"
            let body = random.next(3) == 0 ? letters("b", random.next(200_000)) : nil
            let request = ProxyUnderTest.request(body == nil ? "GET" : "POST", "http://\(host)\(path)", body: body)
            switch random.next(5) {
            case 0:
                // Goes away at once, with all or with half of the request sent.
                let bytes = Array(request.utf8)
                _ = try client.sendNow(Array(bytes.prefix(random.next(2) == 0 ? bytes.count : bytes.count / 2)))
                client.reset()
                continue
            case 1:
                _ = try client.sendNow(Array(request.utf8))
                _ = try? client.receive(upTo: 100)
                client.reset()
                continue
            default: break
            }
            // An origin that answers early ends the connection while the body is still going.
            do { try client.send(request) } catch {}
            guard let response = try? client.readResponse(to: body == nil ? "GET" : "POST") else { continue }
            let expected = "answer to \(path) with \(body?.utf8.count ?? 0) bytes"
            if response.status == 200, !response.isTruncated, !response.text.hasPrefix(expected) {
                wrong.append("\(path) got \(response.text.prefix(100))")
            }
            if response.status != 200, response.status != 502 { wrong.append("\(path) got \(response.startLine)") }
        }
        return wrong
    }

    private func playAll(_ proxy: ProxyUnderTest, _ paths: [String]) throws -> [String] {
        let results = Monitor<[Result<[String], any Error>]>([])
        let port = proxy.port
        for seed in 0..<Self.threads {
            Thread.detachNewThread {
                let result = Result { try Self.play(port, Stage.host, paths, seed: seed) }
                results.with { $0.append(result) }
            }
        }
        return try results.wait(for: "the clients", seconds: 120) { results in
            results.count == Self.threads ? try results.flatMap { try $0.get() } : nil
        }
    }

    @Test("vanishing clients and truncating origins harm nobody else")
    func everything() throws {
        let stage = try Stage(script: Self.script)
        let paths = ["plain", "close", "silent", "cut", "chunked", "large", "garbage"]
        #expect(try playAll(stage.proxy, paths).isEmpty)
        let response = try stage.get("/plain/last")
        #expect(response.text == "answer to /plain/last with 0 bytes")
        #expect(try stage.proxy.terminate().exitCode == 0)
    }

    @Test("with a wrong pin the origin gets no byte in any turmoil")
    func refused() throws {
        let stage = try Stage({ $0.pin(Stage.host, to: .unrelated(2)) }, script: Self.script)
        #expect(try playAll(stage.proxy, ["plain", "large"]).isEmpty)
        #expect(try stage.get("/plain/last").problemCode == "pin_mismatch")
        #expect(try stage.proxy.terminate().exitCode == 0)
        #expect(try stage.origin.waitForClosed().allSatisfy { $0.applicationBytes == 0 })
    }

    @Test("vanishing clients of shared HTTP/2 connections harm nobody else")
    func http2() throws {
        let server = try Stage.pki.server(Stage.host)
        let blob = patternBytes(1 << 20)
        let origin = try NginxOrigin(server, http2: true, files: ["blob": blob])
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = "2"
        settings.members["workers"] = 1
        let proxy = try ProxyUnderTest(settings)
        for round in 0..<20 {
            let clients = try (0..<10).map { _ in try proxy.connect() }
            for client in clients {
                try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/files/blob"))
            }
            // Each second one goes, at a moment of its own.
            for (number, client) in clients.enumerated() where number % 2 == 0 {
                if number % 4 == round % 2 * 2 { _ = try client.receive(upTo: 1000 * (number + 1)) }
                client.reset()
            }
            for (number, client) in clients.enumerated() where number % 2 == 1 {
                let isWhole = try client.readResponse().body == blob
                #expect(isWhole)
            }
        }
        #expect(try proxy.terminate().exitCode == 0)
    }

    @Test("a response before the upload's end reaches clients of both versions", arguments: ["1.1", "2"])
    func earlyResponse(version: String) throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try NginxOrigin(server, http2: version == "2")
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = version
        let proxy = try ProxyUnderTest(settings)
        for _ in 0..<10 {
            let client = try proxy.connect()
            try client.send(
                "POST http://\(Stage.host)/echo/early HTTP/1.1\r\nHost: \(Stage.host)\r\nContent-Length: 1000000\r\n\r\nstart"
            )
            let response = try client.readResponse(to: "POST")
            #expect(response.status == 200)
            #expect(response.text == "POST /echo/early\n")
        }
        #expect(try proxy.get("http://\(Stage.host)/echo/after").text == "GET /echo/after\n")
        #expect(try proxy.terminate().exitCode == 0)
    }
}
