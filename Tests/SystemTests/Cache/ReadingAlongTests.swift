// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Many clients that read one response while it is being received.
@Suite("Reading along: one request, a body for each client", .onOwnThreads)
struct ReadingAlongTests {
    private static let body = patternBytes(8 << 20)

    /// The origin of one object: the head and a beginning at once, the rest when the gate opens.
    private final class Transfer: Sendable {
        let gate = Gate()
        /// Bytes that the origin has sent, of the latest request.
        let sent = Monitor(0)
        let isOver = Monitor(false)

        func send(_ body: [UInt8], beginning: Int, isChunked: Bool = false, to connection: OriginConnection) throws {
            let framing = isChunked ? "Transfer-Encoding: chunked" : "Content-Length: \(body.count)"
            try connection.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"v\"\r\n\(framing)\r\n\r\n")
            func write(_ range: Range<Int>) throws {
                for start in stride(from: range.lowerBound, to: range.upperBound, by: 64 << 10) {
                    let piece = Array(body[start..<min(start + (64 << 10), range.upperBound)])
                    if isChunked { try connection.write(String(piece.count, radix: 16) + "\r\n") }
                    try connection.write(piece)
                    if isChunked { try connection.write("\r\n") }
                    sent.with { $0 = start + piece.count }
                }
            }
            try write(0..<beginning)
            try gate.pass()
            try write(beginning..<body.count)
            if isChunked { try connection.write("0\r\n\r\n") }
            isOver.with { $0 = true }
        }
    }

    private static func stage(
        _ members: [String: Any] = [:],
        _ transfer: Transfer,
        body: [UInt8] = Self.body,
        beginning: Int = 100_000,
        isChunked: Bool = false,
        _ change: (inout ProxySettings) -> Void = { _ in }
    ) throws -> CacheFixture {
        try CacheFixture(
            members,
            {
                $0.members["workers"] = 2
                change(&$0)
            }
        ) { connection in
            while try connection.readRequest() != nil {
                try transfer.send(body, beginning: beginning, isChunked: isChunked, to: connection)
            }
        }
    }

    private static func connect(_ cache: CacheFixture, fields: [String] = [], buffer: Int32? = nil) throws -> TestClient
    {
        let client = try TestClient(port: cache.proxy.port, receiveBuffer: buffer)
        try client.send(ProxyUnderTest.request("GET", cache.stage.url("/object"), fields: fields))
        return client
    }

    /// Reads the rest of a response whose head was read.
    private static func rest(_ client: TestClient, _ head: HTTPMessage) throws -> [UInt8] {
        try client.readBody(of: head).body
    }

    @Test("six clients finish with the origin, despite slow readers", arguments: [true, false])
    func slowReader(isLeader: Bool) throws {
        let transfer = Transfer()
        let cache = try Self.stage(["memory": "128MB"], transfer)
        var clients: [TestClient] = []
        var heads: [HTTPMessage] = []
        for number in 0..<7 {
            let isSlow = number == (isLeader ? 0 : 3)
            clients.append(try Self.connect(cache, buffer: isSlow ? 4096 : nil))
            heads.append(try clients[number].readResponseHead())
            #expect(heads[number].status == 200)
        }
        transfer.gate.open()
        let slow = isLeader ? 0 : 3
        for number in 0..<7 where number != slow {
            #expect(firstDifference(try Self.rest(clients[number], heads[number]), Self.body) == nil)
        }
        try transfer.isOver.wait(for: "the end of the origin's response") { $0 ? true : nil }
        // It is stored although one client has hardly read.
        try Patience.poll(for: "the stored response") {
            try cache.get("/object", fields: ["Cache-Control: only-if-cached"]).status == 200 ? true : nil
        }
        #expect(firstDifference(try Self.rest(clients[slow], heads[slow]), Self.body) == nil)
        #expect(cache.requests.count == 1)
    }

    @Test("without room in memory the body is read from its file")
    func fromDisk() throws {
        let folder = try TemporaryFolder()
        let transfer = Transfer()
        let disk: [String: Any] = ["path": "\(folder.path)/cache", "size": "200MB"]
        let cache = try Self.stage(["memory": "1MB", "disk": disk], transfer)
        let clients = try (0..<5).map { try Self.connect(cache, buffer: $0 == 2 ? 4096 : nil) }
        let heads = try clients.map { try $0.readResponseHead() }
        transfer.gate.open()
        for number in [0, 1, 3, 4, 2] {
            #expect(firstDifference(try Self.rest(clients[number], heads[number]), Self.body) == nil)
        }
        #expect(cache.requests.count == 1)
    }

    @Test("after a reload that changes the cache, readers still get all", arguments: [true, false])
    func reload(hasDisk: Bool) throws {
        let folder = try TemporaryFolder()
        let transfer = Transfer()
        var members: [String: Any] = ["memory": hasDisk ? "1MB" : "128MB"]
        if hasDisk { members["disk"] = ["path": "\(folder.path)/cache", "size": "200MB"] }
        let cache = try Self.stage(members, transfer)
        let clients = try (0..<3).map { try Self.connect(cache, buffer: $0 == 1 ? 4096 : nil) }
        let heads = try clients.map { try $0.readResponseHead() }
        members["patience"] = "2s"
        try cache.stage.reload { $0.members["cache"] = members }
        transfer.gate.open()
        let readings = clients.indices.map { Reading(clients[$0], heads[$0]) }
        for reading in readings { #expect(firstDifference(try reading.wait(), Self.body) == nil) }
        #expect(cache.requests.count == 1)
    }

    @Test("a steady slow client costs the others nothing", arguments: [true, false])
    func steady(isLeader: Bool) throws {
        let transfer = Transfer()
        let cache = try Self.stage(["memory": "128MB"], transfer) { $0.setTimeouts(["stall": "3s"]) }
        let clients = try (0..<3).map { try Self.connect(cache, buffer: $0 == (isLeader ? 0 : 1) ? 4096 : nil) }
        let heads = try clients.map { try $0.readResponseHead() }
        transfer.gate.open()
        // The slow one reads meanwhile, with its small buffer: on a busy machine the others may take longer than the limit.
        let slow = isLeader ? 0 : 1
        let reading = Reading(clients[slow], heads[slow])
        for number in 0..<3 where number != slow {
            #expect(firstDifference(try Self.rest(clients[number], heads[number]), Self.body) == nil)
        }
        #expect(firstDifference(try reading.wait(), Self.body) == nil)
        #expect(cache.requests.count == 1)
    }

    /// A client that reads on a thread of its own.
    private final class Reading: Sendable {
        private let result = Monitor<Result<[UInt8], any Error>?>(nil)

        init(_ client: TestClient, _ head: HTTPMessage) {
            let result = result
            // From here on the thread alone uses it.
            nonisolated(unsafe) let client = client
            Thread.detachNewThread {
                let found = Result { try ReadingAlongTests.rest(client, head) }
                result.with { $0 = found }
            }
        }

        func wait() throws -> [UInt8] { try result.wait(for: "a body") { $0 }.get() }
    }

    @Test("when the first client leaves, the others get all")
    func leaderGone() throws {
        let transfer = Transfer()
        let cache = try Self.stage(["memory": "128MB"], transfer)
        let leader = try Self.connect(cache)
        _ = try leader.readResponseHead()
        let followers = try (0..<2).map { _ in try Self.connect(cache) }
        let heads = try followers.map { try $0.readResponseHead() }
        leader.reset()
        _ = try cache.proxy.waitForTaskLines(1)
        transfer.gate.open()
        for (follower, head) in zip(followers, heads) {
            #expect(firstDifference(try Self.rest(follower, head), Self.body) == nil)
        }
        #expect(try cache.get("/object").body == Self.body)
        #expect(cache.requests.count == 1)
        let lines = try cache.proxy.waitForTaskLines(4)
        #expect(lines[0].string("error") == "client_closed" && lines[0].string("cache") == "miss")
        #expect(lines.dropFirst().allSatisfy { $0.string("cache") == "hit" && $0.string("error") == nil })
    }

    @Test("an almost complete response is received after its client leaves")
    func littleMissing() throws {
        for isLittle in [true, false] {
            let transfer = Transfer()
            let cache = try Self.stage(
                ["memory": "128MB", "completeBelow": "1MB"],
                transfer,
                beginning: isLittle ? Self.body.count - 500_000 : 100_000
            )
            let leader = try Self.connect(cache)
            _ = try leader.readResponseHead()
            try transfer.sent.wait(for: "the beginning") { $0 > 50_000 ? true : nil }
            if isLittle {
                // All of the beginning has gone through the proxy.
                var received = 0
                while received < Self.body.count - 600_000 { received += try leader.receive().count }
            }
            leader.reset()
            _ = try cache.proxy.waitForTaskLines(1)
            transfer.gate.open()
            if isLittle {
                try Patience.poll(for: "the stored response") {
                    try cache.get("/object", fields: ["Cache-Control: only-if-cached"]).status == 200 ? true : nil
                }
            }
            #expect(firstDifference(try cache.get("/object").body, Self.body) == nil)
            #expect(cache.requests.count == (isLittle ? 1 : 2))
        }
    }

    @Test("a response that breaks off is incomplete for all readers")
    func broken() throws {
        let isChunked = false
        let gate = Gate()
        let cache = try CacheFixture(["memory": "128MB"], { $0.members["workers"] = 2 }) { connection in
            guard try connection.readRequest() != nil else { return }
            let framing = isChunked ? "Transfer-Encoding: chunked" : "Content-Length: 100000"
            try connection.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\(framing)\r\n\r\n")
            let piece = String(repeating: "x", count: 1000)
            try connection.write(isChunked ? "3e8\r\n\(piece)\r\n" : piece)
            try gate.pass()
        }
        let clients = try (0..<4).map { _ in try Self.connect(cache) }
        for client in clients { #expect(try client.readResponseHead().status == 200) }
        gate.open()
        for client in clients {
            let rest = String(decoding: try client.readToEnd(), as: UTF8.self)
            #expect(rest.contains("xxx") && !rest.hasSuffix("0\r\n\r\n") && rest.utf8.count < 2000)
        }
        let lines = try cache.proxy.waitForTaskLines(4)
        #expect(lines.allSatisfy { $0.string("error") == "response_truncated" })
    }

    @Test("a range is read from a response that is still arriving")
    func range() throws {
        let transfer = Transfer()
        let cache = try Self.stage(["memory": "128MB"], transfer)
        let leader = try Self.connect(cache)
        let head = try leader.readResponseHead()
        let first = try cache.get("/object", fields: ["Range: bytes=1000-2999"])
        #expect(first.status == 206 && first.body == Array(Self.body[1000..<3000]))
        #expect(try cache.get("/object", fields: ["If-None-Match: \"v\""]).status == 304)
        let late = try Self.connect(cache, fields: ["Range: bytes=-1000"])
        let lateHead = try late.readResponseHead()
        #expect(lateHead.status == 206)
        transfer.gate.open()
        #expect(try Self.rest(late, lateHead) == Array(Self.body.suffix(1000)))
        #expect(try Self.rest(leader, head) == Self.body)
        #expect(cache.requests.count == 1)
    }

    @Test("a stream of HTTP/2 reads along")
    func http2() throws {
        let transfer = Transfer()
        let cache = try Self.stage(["memory": "128MB"], transfer) { $0.listeners[0]["http2"] = true }
        let leader = try Self.connect(cache)
        let head = try leader.readResponseHead()
        let peer = try HTTP2Peer(cache.proxy.connect())
        let stream = try peer.request("GET", "/object", authority: Stage.host)
        transfer.gate.open()
        #expect(try peer.finish(stream).body == Self.body)
        #expect(try Self.rest(leader, head) == Self.body)
        #expect(cache.requests.count == 1)
    }

    @Test("a thousand clients at any pace get right bytes")
    func thousand() throws {
        let body = Array(Self.body.prefix(300_000))
        let transfer = Transfer()
        let cache = try Self.stage(["memory": "64MB"], transfer, body: body, beginning: 10_000)
        let wrong = Monitor<[String]>([])
        let begun = Monitor(0)
        let over = Monitor(0)
        let groups = 10
        let port = cache.proxy.port
        let request = ProxyUnderTest.request("GET", cache.stage.url("/object"))
        for group in 0..<groups {
            Thread.detachNewThread {
                var random = SeededGenerator(seed: UInt64(group + 1))
                do {
                    try Self.readAlong(100, port, request, body, begun, &random)
                } catch { wrong.with { $0.append("\(error)") } }
                over.with { $0 += 1 }
            }
        }
        try begun.wait(for: "all clients", seconds: 240) { $0 == groups ? true : nil }
        transfer.gate.open()
        try over.wait(for: "all clients' ends", seconds: 240) { $0 == groups ? true : nil }
        #expect(wrong.with { $0 } == [])
        #expect(cache.requests.count == 1)
        #expect(firstDifference(try cache.get("/object").body, body) == nil)
    }

    private static func readAlong(
        _ count: Int,
        _ port: UInt16,
        _ request: String,
        _ body: [UInt8],
        _ begun: Monitor<Int>,
        _ random: inout SeededGenerator
    ) throws {
        var clients: [(client: TestClient, read: Int)] = []
        for _ in 0..<count {
            let client = try TestClient(port: port, receiveBuffer: Bool.random(using: &random) ? 4096 : nil)
            try client.send(request)
            clients.append((client, 0))
        }
        for index in clients.indices {
            let piece = try beginning(clients[index].client)
            guard isPart(piece, of: body, at: 0) else { throw Wrong(description: "a wrong byte at the beginning") }
            clients[index].read = piece.count
        }
        begun.with { $0 += 1 }
        while !clients.isEmpty {
            let index = Int.random(in: clients.indices, using: &random)
            if Int.random(in: 0..<400, using: &random) == 0 {
                clients.remove(at: index).client.reset()
                continue
            }
            let piece = try clients[index].client.receive(upTo: Int.random(in: 1...40_000, using: &random))
            guard !piece.isEmpty else { throw Wrong(description: "a body ends after \(clients[index].read)") }
            guard isPart(piece, of: body, at: clients[index].read) else {
                throw Wrong(description: "a wrong byte behind \(clients[index].read)")
            }
            clients[index].read += piece.count
            if clients[index].read == body.count { clients.remove(at: index).client.close() }
        }
    }

    /// Compares as the system does: a loop of Swift would take most of the test's time in a debug build.
    private static func isPart(_ piece: [UInt8], of body: [UInt8], at position: Int) -> Bool {
        guard position + piece.count <= body.count else { return false }
        return body.withUnsafeBytes { body in
            piece.withUnsafeBytes { memcmp($0.baseAddress!, body.baseAddress! + position, $0.count) == 0 }
        }
    }

    /// Reads a head.
    ///
    /// - Returns: the bytes behind it.
    private static func beginning(_ client: TestClient) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            let text = String(decoding: bytes, as: Unicode.ASCII.self)
            if let end = text.range(of: "\r\n\r\n") {
                guard text.hasPrefix("HTTP/1.1 200 ") else { throw Wrong(description: text) }
                return Array(bytes.dropFirst(text[..<end.upperBound].unicodeScalars.count))
            }
            let piece = try client.receive(upTo: 1000)
            guard !piece.isEmpty else { throw Wrong(description: "no head") }
            bytes += piece
        }
    }

    private struct Wrong: Error, CustomStringConvertible { let description: String }
}
