// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Clients that hold connections by saying little: each kind is shed in time, and others are served meanwhile.
@Suite("Slow clients", .onOwnThreads)
struct SlowClientTests {
    @Test("rule 37: a body that comes too slowly gives 408", arguments: [true, false])
    func slowBody(hasLength: Bool) throws {
        let stage = try Stage({ $0.setTimeouts(["body": "400ms"]) }) { OriginResponse.text("\($0.body.count)") }
        let client = try stage.proxy.connect()
        let framing = hasLength ? "Content-Length: 1000" : "Transfer-Encoding: chunked"
        try client.send("PUT \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\n\(framing)\r\n\r\n")
        let dripping = Drip(client) { hasLength ? "x" : "1\r\nx\r\n" }
        let response = try client.readResponse(to: "PUT")
        dripping.stop()
        #expect(response.status == 408)
        #expect(response.problemCode == "request_timeout")
        #expect(try #require(response.problem["detail"] as? String).contains("timeouts.body"))
        #expect(response["Connection"] == "close")
        #expect(stage.origin.requests.allSatisfy { $0.isTruncated })
    }

    @Test("a slow but steady body is received")
    func steadyBody() throws {
        let stage = try Stage({ $0.setTimeouts(["body": "300ms"]) }) { OriginResponse.text("\($0.body.count)") }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("PUT", stage.url(), fields: ["Transfer-Encoding: chunked"]))
        let size = 2048
        let chunk = String(size, radix: 16) + "\r\n" + String(repeating: "y", count: size) + "\r\n"
        for _ in 0..<8 {
            try client.send(chunk)
            Thread.sleep(forTimeInterval: 0.1)
        }
        try client.send("0\r\n\r\n")
        #expect(try client.readResponse(to: "PUT").text == "\(8 * size)")
    }

    @Test("a body that the origin does not take is not the client's fault")
    func slowOrigin() throws {
        let gate = Gate()
        let stage = try Stage({ $0.setTimeouts(["body": "200ms"]) }) { connection in
            guard let head = try connection.readRequestHead() else { return }
            try gate.pass()
            try connection.respond("\(try connection.readBody(of: head).body.count)")
        }
        let client = try stage.proxy.connect()
        let size = 48 << 20
        try client.send("PUT \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\nContent-Length: \(size)\r\n\r\n")
        let opener = Thread {
            Thread.sleep(forTimeInterval: 1)
            gate.open()
        }
        opener.start()
        let piece = [UInt8](repeating: 122, count: 1 << 20)
        for _ in 0..<48 { try client.send(piece) }
        #expect(try client.readResponse(to: "PUT").text == "\(size)")
    }

    @Test("timeouts.total ends an exchange that always moves")
    func total() throws {
        let stage = try Stage({ $0.setTimeouts(["total": "500ms"]) }) { OriginResponse.text("\($0.body.count)") }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("PUT", stage.url(), fields: ["Transfer-Encoding: chunked"]))
        let chunk = "800\r\n" + String(repeating: "y", count: 0x800) + "\r\n"
        let dripping = Drip(client) { chunk }
        let response = try client.readResponse(to: "PUT")
        dripping.stop()
        #expect(response.status == 504)
        #expect(response.problemCode == "response_timeout")
    }

    @Test("a dripping head times out, and a hundred of them delay nobody")
    func slowHeads() throws {
        let stage = try Stage({ $0.setTimeouts(["head": "1s", "idle": "1s"]) }) { OriginResponse.text($0.target) }
        let clients = try (0..<100).map { _ in try stage.proxy.connect() }
        for client in clients { try client.send("GET \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\n") }
        for (number, client) in clients.enumerated() {
            _ = try? client.sendNow(Array("X-\(number): 1\r\n".utf8))
            if number % 20 == 0 { #expect(try stage.get("/served").text == "/served") }
        }
        for client in clients {
            #expect(try client.readResponse().status == 408)
            #expect(try client.isAtEnd())
        }
    }

    /// Sends a little again and again, until it is stopped or the connection is gone.
    private final class Drip: Sendable {
        private let isStopped = Monitor(false)

        init(_ client: TestClient, _ piece: @escaping @Sendable () -> String) {
            // The test only reads on this connection while the thread sends.
            nonisolated(unsafe) let client = client
            let isStopped = isStopped
            Thread.detachNewThread {
                while !isStopped.with({ $0 }) {
                    guard (try? client.sendNow(Array(piece().utf8))) != nil else { return }
                    Thread.sleep(forTimeInterval: 0.05)
                }
            }
        }

        func stop() { isStopped.with { $0 = true } }
    }
}
