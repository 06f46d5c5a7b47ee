import Glibc
import TestSupport
import Testing

@Suite("Answers that would become the answers to other requests")
struct AttackTestsDesynchronisation {
    private static let poison = OriginAnswer.text("poison")

    /// What the origin sends behind the answer to the first request of a connection, and how.
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

        /// What belongs to the request.
        var answer: String {
            switch self {
            case .atOnce, .later: OriginAnswer.text("first")
            case .bodyOfHead: "HTTP/1.1 200 OK\r\nContent-Length: \(poison.utf8.count)\r\n\r\n"
            case .bodyOf204: "HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\n"
            }
        }
    }

    private func script(_ excess: Excess, _ gate: Gate) -> ScriptedOrigin.Script {
        { connection in
            while let request = try connection.readRequest() {
                guard request.target == "/first" else {
                    try connection.answer("right")
                    continue
                }
                try connection.write(excess.answer)
                if excess != .atOnce { try gate.pass() }
                try connection.write(Self.poison)
            }
        }
    }

    @Test("what an origin sends unasked is not the answer to the next request", arguments: Excess.allCases)
    func unasked(excess: Excess) throws {
        let gate = Gate()
        let stage = try Stage({ $0.members["workers"] = 1 }, script: script(excess, gate))
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request(excess.method, stage.url("/first")))
        _ = try client.readResponse(to: excess.method)
        gate.open()
        // What comes only when the next request is under way cannot be told from its answer.
        try stage.origin.wait(for: "the excess") {
            $0[0].bytesWritten == excess.answer.utf8.count + Self.poison.utf8.count ? true : nil
        }
        for path in ["/second", "/third"] {
            let answer = try stage.get(path)
            #expect(answer.status == 200)
            #expect(answer.text == "right")
        }
        // Sent again on a new connection, and seen by the origin once.
        #expect(stage.origin.requests.filter { $0.target == "/third" }.count == 1)
    }

    @Test("nor is it in a pipeline of one client", arguments: [Excess.atOnce])
    func pipelined(excess: Excess) throws {
        let stage = try Stage({ $0.members["workers"] = 1 }) { connection in
            while let request = try connection.readRequest() {
                let text = OriginAnswer.text("answer to \(request.target)")
                try connection.write(request.target == "/1" ? text + Self.poison : text)
            }
        }
        let client = try stage.proxy.connect()
        try client.send(["/1", "/2", "/3"].map { ProxyUnderTest.request("GET", stage.url($0)) }.joined())
        for path in ["/1", "/2", "/3"] {
            let answer = try client.readResponse()
            #expect(answer.text == "answer to \(path)")
        }
    }

    @Test("HEAD with a body is answered, and its connection carries the next request")
    func headWithBody() throws {
        let stage = try Stage { request in
            request.startLine.hasPrefix("HEAD")
                ? "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" : OriginAnswer.text(request.target)
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
        let answer = try stage.get("/")
        #expect(answer.status == 204)
        #expect(answer["Content-Length"] == nil)
    }

    @Test("a client that asks and does not read is not served without bound, and gets every answer in the end")
    func unreadAnswers() throws {
        let stage = try Stage { _ in OriginAnswer.text("") }
        let client = try stage.proxy.connect()
        let count = 1000
        // Each is refused by the proxy itself, with an answer many times as long as the request.
        let batch = Array(String(repeating: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", count: count).utf8)
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

    @Test("a stop leaves a slow client the rest of its answer", arguments: [2_900, 3_000, 3_100, 3_200])
    func stopWithUnreadAnswer(kilobytes: Int) throws {
        // The origin has done its part, and the rest waits in the proxy: some of these sizes are such.
        let body = patternBytes(kilobytes * 1000)
        let stage = try Stage { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n")
            try connection.write(body)
        }
        let client = try TestClient(port: stage.proxy.port, receiveBuffer: 4096)
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        _ = try? stage.origin.wait(for: "the whole answer", seconds: 1) {
            ($0.first?.bytesWritten ?? 0) > body.count ? true : nil
        }
        usleep(300_000)
        stage.proxy.signal(SIGTERM)
        usleep(100_000)
        let answer = try client.readResponse()
        #expect(firstDifference(answer.body, body) == nil)
        #expect(try stage.proxy.waitForExit().exitCode == 0)
    }
}
