// SPDX-License-Identifier: Apache-2.0
import HTTP2Core
import HTTPCore
import IOCore
import Testing

@Suite("A connection of HTTP/2 in memory")
struct HTTP2SessionTests {
    private func trailers(_ fields: [(String, String)]) throws -> HeaderFields {
        var trailers = HeaderFields()
        for (name, value) in fields { try trailers.append(name: name, value: value) }
        return trailers
    }

    @Test("a request and its response have bodies and trailers both ways")
    func whole() throws {
        let pair = Pair()
        let request = try #require(
            pair.request("POST", "/x", fields: [("Accept", "*/*")], body: "question", ends: false)
        )
        pair.client.session.endBody(request, trailers: try trailers([("Check", "1")]))
        pair.exchange()
        let served = try #require(pair.server.opened.first)
        #expect(
            served.heads == [
                [":method: POST", ":scheme: http", ":authority: h.example", ":path: /x", "accept: */*"], ["check: 1"],
            ]
        )
        #expect(String(decoding: served.body, as: UTF8.self) == "question")
        #expect(served.ended)

        pair.respond(to: served, 103)
        served.output.append(Array("ans".utf8))
        let fields = try trailers([("Content-Type", "text/plain"), ("Connection", "close"), ("X-Y", "z")])
        pair.respond(to: served, 200, fields, ends: false)
        pair.exchange()
        served.output.append(Array("wer".utf8))
        pair.server.session.endBody(served, trailers: try trailers([("Grpc-Status", "0")]))
        pair.exchange()
        #expect(
            request.heads == [
                [":status: 103"], [":status: 200", "content-type: text/plain", "x-y: z"], ["grpc-status: 0"],
            ]
        )
        #expect(String(decoding: request.body, as: UTF8.self) == "answer")
        #expect(request.closed == .noError && served.closed == .noError)
        #expect(served.didEndSaying && served.roomTold > 0)
        #expect(pair.client.session.streams.isEmpty && pair.server.session.streams.isEmpty)
    }

    @Test("bytes go both ways on an extended CONNECT that was announced (RFC 8441)")
    func extendedConnect() throws {
        func open(_ pair: Pair) -> Recorder? {
            let stream = Recorder()
            let isSent = pair.client.session.request(stream, endsStream: false) { block in
                block.add(":method", "CONNECT")
                block.add(":protocol", "websocket")
                block.add(":scheme", "https")
                block.add(":authority", "h.example")
                block.add(":path", "/chat")
                block.add("sec-websocket-version", "13")
            }
            pair.exchange()
            return isSent ? stream : nil
        }
        let pair = Pair(server: HTTP2Settings(allowsExtendedConnect: true))
        #expect(pair.client.session.peerAllowsExtendedConnect)
        let request = try #require(open(pair))
        let served = try #require(pair.server.opened.first)
        #expect(
            served.heads == [
                [
                    ":method: CONNECT", ":protocol: websocket", ":scheme: https", ":authority: h.example",
                    ":path: /chat", "sec-websocket-version: 13",
                ]
            ]
        )
        // Content-Length means nothing there, and the body has no length.
        pair.respond(to: served, 200, try trailers([("Content-Length", "1")]), ends: false)
        served.output.append(Array("from the server".utf8))
        pair.server.session.resume(served)
        request.output.append(Array("from the client".utf8))
        pair.client.session.resume(request)
        pair.exchange()
        #expect(String(decoding: served.body, as: UTF8.self) == "from the client")
        #expect(String(decoding: request.body, as: UTF8.self) == "from the server")
        #expect(!served.ended && !request.ended)
        pair.client.session.endBody(request)
        pair.exchange()
        pair.server.session.endBody(served)
        pair.exchange()
        #expect(request.closed == .noError && served.closed == .noError)

        let silent = Pair()
        #expect(!silent.client.session.peerAllowsExtendedConnect)
        let refused = try #require(open(silent))
        #expect(refused.closed == .protocolError && refused.heads.isEmpty)
    }

    @Test("a response without a body ends with its head")
    func headOnly() throws {
        let pair = Pair()
        let request = try #require(pair.request())
        pair.exchange()
        pair.respond(to: pair.server.opened[0], 204, ends: true)
        pair.exchange()
        #expect(request.heads == [[":status: 204"]])
        #expect(request.ended && request.closed == .noError)
    }

    @Test("heads that wait together keep their fields apart, known names and others")
    func waitingHeads() throws {
        let pair = Pair()
        let names = ["ETag", "X-Long-Name-Of-Nobody", "Authorization", "Set-Cookie", "x"]
        for number in 0..<20 {
            let fields = names.map { ($0, "\($0)-\(number)") }
            #expect(pair.request("GET", "/\(number)", fields: fields) != nil)
        }
        pair.exchange()
        #expect(pair.server.opened.count == 20)
        for (number, stream) in pair.server.opened.enumerated() {
            let expected = names.map { "\($0.lowercased()): \($0)-\(number)" }
            #expect(stream.heads.first?.dropFirst(4) == expected[...])
        }
    }

    @Test("a secret never enters the compression table, other fields do")
    func secretsAreNotIndexed() throws {
        let pair = Pair()
        var sizes: [Int] = []
        for name in ["authorization", "cookie", "x-plain"] {
            for _ in 0..<2 {
                _ = pair.request(fields: [(name, String(repeating: "s", count: 200))])
                let bytes = pair.client.take()
                sizes.append(bytes.count)
                #expect(pair.server.give(bytes))
            }
        }
        #expect(sizes[1] > 100 && sizes[3] > 100 && sizes[5] < 40)
    }

    @Test("bytes arrive up to the credit, and the rest when it grows")
    func credit() throws {
        let pair = Pair(client: HTTP2Settings(streamWindow: 65_535, connectionWindow: 1 << 20))
        let request = try #require(pair.request())
        request.consumes = false
        pair.exchange()
        let served = pair.server.opened[0]
        served.output.append([UInt8](repeating: 7, count: 200_000))
        pair.respond(to: served, 200, ends: false)
        pair.server.session.endBody(served)
        pair.exchange()
        #expect(request.body.count == 65_535)
        #expect(!request.ended)
        pair.client.session.consume(request, 65_535)
        pair.exchange()
        #expect(request.body.count == 131_070)
        request.consumes = true
        pair.client.session.consume(request, 65_535)
        pair.exchange()
        #expect(request.body.count == 200_000)
        #expect(request.ended)
    }

    @Test("streams that are not read leave the others the window of the connection")
    func connectionCredit() throws {
        let pair = Pair(server: HTTP2Settings(streamWindow: 65_535, connectionWindow: 100_000))
        pair.server.setUp = { $0.consumes = false }
        let unread = (0..<20).compactMap { _ in
            pair.request("POST", body: String(repeating: "x", count: 200_000))
        }
        pair.exchange()
        #expect(unread.count == 20)
        #expect(pair.server.opened.map(\.body.count) == Array(repeating: 65_535, count: 20))
        pair.server.setUp = { _ in }
        _ = pair.request("POST", body: String(repeating: "x", count: 1_000_000))
        pair.exchange()
        #expect(pair.server.opened.last?.body.count == 1_000_000)
    }

    @Test("output stays within its limit at a time")
    func boundedOutput() throws {
        let pair = Pair(client: HTTP2Settings(streamWindow: 1 << 20, connectionWindow: 1 << 20))
        let request = try #require(pair.request())
        pair.exchange()
        let served = pair.server.opened[0]
        served.output.append([UInt8](repeating: 7, count: 500_000))
        pair.respond(to: served, 200, ends: false)
        pair.server.session.endBody(served)
        let first = pair.server.take(upTo: 50_000)
        #expect(first.count >= 50_000 && first.count < 50_000 + 17_000)
        #expect(pair.client.give(first))
        pair.exchange()
        #expect(request.body.count == 500_000 && request.ended)
    }

    @Test("a reset reaches the other end as one")
    func reset() throws {
        let pair = Pair()
        let request = try #require(pair.request())
        pair.exchange()
        let served = pair.server.opened[0]
        pair.respond(to: served, 200, ends: false)
        pair.server.session.reset(served, .internalError)
        pair.exchange()
        #expect(request.closed == .internalError && request.closedByPeer)
        #expect(served.closed == .internalError && !served.closedByPeer)
        #expect(!request.ended)
    }

    @Test("a response that ends before its request stops its body")
    func earlyResponse() throws {
        let pair = Pair()
        let request = try #require(pair.request("POST", body: "begun", ends: false))
        pair.exchange()
        pair.respond(to: pair.server.opened[0], 413, ends: true)
        pair.exchange()
        #expect(request.heads == [[":status: 413"]])
        #expect(request.ended)
        #expect(request.closed == .noError && request.closedByPeer)
    }

    @Test("a refused or malformed field resets the stream and leaves the connection")
    func refusedField() throws {
        let pair = Pair()
        pair.server.setUp = { $0.refusesFields = true }
        let first = try #require(pair.request())
        pair.exchange()
        #expect(first.closed == .protocolError)
        pair.server.setUp = { _ in }
        let bad = try #require(pair.request(fields: [("x", "a\u{1}b")]))
        pair.exchange()
        #expect(bad.closed == .protocolError)
        let good = try #require(pair.request())
        #expect(pair.exchange())
        #expect(pair.server.opened.last?.ended == true)
        #expect(good.closed == nil)
    }

    @Test("a refused stream counts as not processed")
    func refusedStream() throws {
        let pair = Pair()
        pair.server.refusesStreams = true
        let request = try #require(pair.request())
        pair.exchange()
        #expect(request.closed == .refusedStream)
    }

    @Test("a connection ends in two steps, and running requests finish")
    func goAway() throws {
        let pair = Pair()
        let first = try #require(pair.request())
        pair.exchange()
        pair.server.session.announceEnd()
        pair.server.session.ping()
        pair.exchange()
        #expect(pair.client.goAways == [.noError])
        #expect(pair.server.pongs == 1)
        #expect(pair.request() == nil)
        pair.server.session.goAway()
        pair.exchange()
        #expect(!pair.server.session.isOver)
        pair.respond(to: pair.server.opened[0], 200, ends: true)
        pair.exchange()
        #expect(first.ended)
        #expect(pair.server.session.streams.isEmpty)
    }

    @Test("a terminated connection gives its reason, and accepts nothing more")
    func terminate() throws {
        let pair = Pair()
        pair.server.session.terminate(.enhanceYourCalm)
        pair.exchange()
        #expect(pair.client.goAways == [.enhanceYourCalm])
        #expect(pair.server.session.isOver)
    }

    @Test("streams above the limit wait for their turn")
    func streamLimit() throws {
        let pair = Pair(server: HTTP2Settings(concurrentStreams: 2))
        let requests = (0..<3).compactMap { _ in pair.request() }
        #expect(requests.count == 3)
        #expect(pair.client.session.peerStreamLimit == 2)
        pair.exchange()
        #expect(pair.server.opened.count == 2)
        pair.respond(to: pair.server.opened[0], 200, ends: true)
        pair.exchange()
        #expect(pair.server.opened.count == 3)
    }

    @Test("bytes that are no HTTP/2 end the connection")
    func garbage() {
        let server = Peer(.server)
        #expect(!server.give(Array("GET / HTTP/1.1\r\nHost: x\r\n\r\n".utf8)))
    }

    @Test("an abandoned connection tells its streams, and makes no calls afterwards")
    func abandon() throws {
        let pair = Pair()
        let request = try #require(pair.request("POST", body: "x", ends: false))
        pair.exchange()
        pair.client.session.abandon(.cancel)
        #expect(request.closed == .cancel)
        #expect(pair.client.session.streams.isEmpty)
        let isTaken = pair.client.give([0, 0, 0, 4, 0, 0, 0, 0, 0])
        #expect(!isTaken)
    }

    /// The session alone keeps it.
    private final class LastWord: HTTP2Stream {
        private let owner: Owner
        private let words = [1, 2, 3]

        init(_ owner: Owner) { self.owner = owner }

        deinit { owner.freed += 1 }

        override func didReceiveField(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
            owner.session?.abandon(.cancel)
            owner.freedEarly += owner.freed
            return words.count == 3
        }
    }

    private final class Owner: HTTP2SessionDelegate {
        var session: HTTP2Session?
        var freed = 0
        var freedEarly = 0

        override func sessionDidBeginStream(_ session: HTTP2Session) -> HTTP2Stream? { LastWord(self) }
    }

    @Test("a stream that ends the connection amid its fields lives until the call returns")
    func endAmidFields() throws {
        let client = Peer(.client)
        let request = Recorder()
        let isSent = client.session.request(request, endsStream: true) { block in
            block.add(":method", "GET")
            block.add(":scheme", "http")
            block.add(":authority", "h.example")
            block.add(":path", "/")
        }
        #expect(isSent)
        let owner = Owner()
        let session = try #require(HTTP2Session(.server, HTTP2Settings(), delegate: owner))
        owner.session = session
        let isWell = session.receive(client.take().span)
        #expect(!isWell)
        #expect(owner.freedEarly == 0)
        #expect(owner.freed == 1)
        owner.session = nil
    }

    @Test("acknowledgements for a peer are bounded")
    func pings() {
        let server = Peer(.server)
        #expect(server.give(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0]))
        let ping: [UInt8] = [0, 0, 8, 6, 0, 0, 0, 0, 0] + [UInt8](repeating: 1, count: 8)
        var isWell = true
        for _ in 0..<2000 where isWell { isWell = server.give(ping) }
        #expect(!isWell)
        // ENHANCE_YOUR_CALM, in a GOAWAY.
        let last = Array(server.session.takeOutput().suffix(17))
        #expect(last.prefix(4) == [0, 0, 8, 7] && last.last == 11)
    }
}

@Suite("What else HTTP/2 needs")
struct HTTP2ValueTests {
    @Test("the preface is told from every HTTP/1.1 request, byte by byte")
    func preface() {
        let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        func judge(_ bytes: [UInt8]) -> ClientPreface.Match { ClientPreface.match(bytes.span) }
        for count in 0..<preface.count { #expect(judge(Array(preface[..<count])) == .needsMore) }
        #expect(judge(preface) == .isPreface)
        #expect(judge(preface + [0, 0]) == .isPreface)
        for request in ["GET / HTTP/1.1\r\n", "PRI * HTTP/1.1\r\n", "PRIX", "POST"] {
            #expect(judge(Array(request.utf8)) == .isNot)
        }
    }

    @Test("the allowance for frames runs out, and comes back with time")
    func allowance() {
        var allowance = FrameRateLimiter(burst: 3, rate: 2, now: 0)
        func taken(_ count: Int, at time: UInt64) -> [Bool] { (0..<count).map { _ in allowance.consume(at: time) } }
        #expect(taken(4, at: 0) == [true, true, true, false])
        #expect(taken(2, at: 500_000_000) == [true, false])
        #expect(taken(4, at: 100_000_000_000) == [true, true, true, false])
    }
}
