// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

@Suite("Responses that would become those of other requests", .earlyOnOwnThreads)
struct AttackTestsDesynchronisation {
    private static let poison = OriginResponse.text("poison")

    /// The bytes that the origin sends behind the response to the first request of a connection, and the time of
    /// sending them.
    enum Excess: String, CaseIterable {
        /// In TLS records of its own, right behind the answer.
        case atOnce
        /// When the connection is idle.
        case later
        /// The body of an answer to HEAD, which has none.
        case bodyOfHead
        /// The body of a 204, which has none.
        case bodyOf204

        var method: String { self == .bodyOfHead ? "HEAD" : "GET" }

        /// The bytes that belong to the request.
        var response: String {
            switch self {
            case .atOnce, .later: OriginResponse.text("first")
            case .bodyOfHead: "HTTP/1.1 200 OK\r\nContent-Length: \(poison.utf8.count)\r\n\r\n"
            case .bodyOf204: "HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\n"
            }
        }
    }

    private func script(_ excess: Excess, _ gate: Gate) -> ScriptedOrigin.Script {
        { connection in
            while let request = try connection.readRequest() {
                guard request.target == "/first" else {
                    try connection.respond("right")
                    continue
                }
                try connection.write(excess.response)
                if excess != .atOnce { try gate.pass() }
                try connection.write(Self.poison)
            }
        }
    }

    @Test("unrequested bytes are not the response to the next request", arguments: Excess.allCases)
    func unasked(excess: Excess) throws {
        let gate = Gate()
        let stage = try Stage({ $0.members["workers"] = 1 }, script: script(excess, gate))
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request(excess.method, stage.url("/first")))
        _ = try client.readResponse(to: excess.method)
        gate.open()
        // Bytes that arrive during the next request cannot be told from its response.
        try stage.origin.wait(for: "the excess") {
            $0[0].bytesWritten == excess.response.utf8.count + Self.poison.utf8.count ? true : nil
        }
        for path in ["/second", "/third"] {
            let response = try stage.get(path)
            #expect(response.status == 200)
            #expect(response.text == "right")
        }
        // Sent again on a new connection, and seen by the origin once.
        #expect(stage.origin.requests.filter { $0.target == "/third" }.count == 1)
    }

    @Test("unrequested bytes in a pipeline are not its next response", arguments: [Excess.atOnce])
    func pipelined(excess: Excess) throws {
        let stage = try Stage({ $0.members["workers"] = 1 }) { connection in
            while let request = try connection.readRequest() {
                let text = OriginResponse.text("answer to \(request.target)")
                try connection.write(request.target == "/1" ? text + Self.poison : text)
            }
        }
        let client = try stage.proxy.connect()
        try client.send(["/1", "/2", "/3"].map { ProxyUnderTest.request("GET", stage.url($0)) }.joined())
        for path in ["/1", "/2", "/3"] {
            let response = try client.readResponse()
            #expect(response.text == "answer to \(path)")
        }
    }

    @Test("a HEAD response with a body is served, and the connection stays")
    func headWithBody() throws {
        let stage = try Stage { request in
            request.startLine.hasPrefix("HEAD")
                ? "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" : OriginResponse.text(request.target)
        }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("HEAD", stage.url("/head"), body: "abc"))
        let head = try client.readResponse(to: "HEAD")
        #expect(head.status == 200)
        #expect(head["Content-Length"] == "5")
        try client.send(ProxyUnderTest.request("GET", stage.url("/next")))
        #expect(try client.readResponse().text == "/next")
    }

    @Test("a 204 has no Content-Length for the client, whatever the origin says")
    func lengthOf204() throws {
        let stage = try Stage { _ in "HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\n" }
        let response = try stage.get("/")
        #expect(response.status == 204)
        #expect(response["Content-Length"] == nil)
    }

    @Test("a client that does not read is bounded, and gets every response")
    func unreadResponses() throws {
        let stage = try Stage { _ in OriginResponse.text("") }
        let client = try stage.proxy.connect()
        let count = 1000
        // Each is refused by the proxy itself, with an answer several times as long as the request. Shorter ones would be a
        // hundred thousand and more, since the system takes megabytes of them before the proxy does.
        let filling = String(repeating: "x", count: 100)
        let batch = Array(String(repeating: "GET / HTTP/1.1\r\nHost: a\r\nX: \(filling)\r\n\r\n", count: count).utf8)
        let before = try stage.proxy.residentMemory()
        var sent = 0
        var pauses = 0
        // Until the proxy has read nothing for a while: its memory stays what the output's bound allows.
        while pauses < 50, sent < 64 << 20 {
            let start = sent % batch.count
            let now = try client.sendNow(Array(batch[start...]))
            sent += now
            pauses = now == 0 ? pauses + 1 : 0
            if now == 0 { usleep(10_000) }
        }
        #expect(sent < 64 << 20)
        #expect(try stage.proxy.residentMemory() - before < 8 << 20)
        for _ in 0..<(sent / batch.count * count) { #expect(try client.readResponse().status == 400) }
    }

    @Test("a stop gives a slow client the rest of its response")
    func stopWithUnreadResponse() throws {
        let pattern = patternBytes(8_000_000)
        let stage = try Stage({ $0.members["workers"] = 1 }) { connection in
            while let request = try connection.readRequest() {
                let body = Array(pattern.prefix(Int(request.target.dropFirst()) ?? 0))
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n")
                try connection.write(body)
            }
        }
        let idle = try stage.proxy.connect()
        try idle.send(ProxyUnderTest.request("GET", stage.url("/0")))
        #expect(try idle.readResponse().status == 200)
        // The task log's line says that the origin has done its part. The proxy takes 256 KB more than the kernel does: so
        // one of these sizes is the first of which a part waits in the proxy then.
        for (index, size) in stride(from: 250_000, to: pattern.count, by: 100_000).enumerated() {
            let client = try TestClient(port: stage.proxy.port, receiveBuffer: 4096)
            try client.send(ProxyUnderTest.request("GET", stage.url("/\(size)")))
            _ = try stage.proxy.waitForTaskLines(index + 2)
            guard try Self.bytesInKernel(port: stage.proxy.port) < size else {
                client.reset()
                try Patience.poll(for: "the connection to end") {
                    try Self.bytesInKernel(port: stage.proxy.port) == 0 ? true : nil
                }
                continue
            }
            stage.proxy.signal(SIGTERM)
            // The time that a stop leaves to idle connections is over.
            #expect(try idle.isAtEnd())
            let response = try client.readResponse()
            #expect(firstDifference(response.body, Array(pattern.prefix(size))) == nil)
            #expect(try stage.proxy.waitForExit().exitCode == 0)
            return
        }
        Issue.record("the kernel took every answer")
    }

    /// Bytes that wait in the kernel on connections of loopback to a port, at either end.
    private static func bytesInKernel(port: UInt16) throws -> Int {
        // The file has no size, and `String(contentsOfFile:)` would read one page of it.
        let handle = try #require(FileHandle(forReadingAtPath: "/proc/net/tcp"))
        let table = String(decoding: try handle.readToEnd() ?? Data(), as: UTF8.self)
        var sum = 0
        // proc(5): number, local and remote address with port, state (01: established), bytes to send and to read.
        for line in table.split(separator: "\n").dropFirst() {
            let columns = line.split(separator: " ")
            let ports = columns[1...2].map { UInt16($0.suffix(4), radix: 16) }
            guard ports.contains(port), columns[3] == "01" else { continue }
            for queue in columns[4].split(separator: ":") { sum += Int(queue, radix: 16) ?? 0 }
        }
        return sum
    }
}
