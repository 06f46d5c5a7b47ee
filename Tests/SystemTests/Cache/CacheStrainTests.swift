// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Streams without an end, and readers without haste.
@Suite("Attacks on the cache: what it holds on to", .onOwnThreads)
struct CacheStrainTests {
    @Test(
        "clients do not wait for a response that is not for them",
        arguments: ["", "Cache-Control: no-cache\r\nETag: \"v\"\r\n", "Age: 99999999999999999999\r\n"]
    )
    func endlessStream(fields: String) throws {
        let gate = Gate()
        let cache = try CacheFixture { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.write("HTTP/1.1 200 OK\r\n\(fields)Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
            try gate.pass()
            try connection.write("0\r\n\r\n")
        }
        let clients = try (0..<3).map { _ in try cache.proxy.connect() }
        let begin = Date()
        for client in clients { try client.send(ProxyUnderTest.request("GET", cache.stage.url("/events"))) }
        for client in clients { #expect(try client.readResponseHead().status == 200) }
        // A request that waits goes alone after five seconds.
        #expect(Date().timeIntervalSince(begin) < 4)
        gate.open()
    }

    @Test("clients do not wait for a body that is too large to be stored")
    func grownTooLarge() throws {
        let gate = Gate()
        let number = Monitor(0)
        let cache = try CacheFixture(["memory": "1MB"]) { connection in
            guard try connection.readRequest() != nil else { return }
            let isFirst = number.with { count in
                count += 1
                return count == 1
            }
            try connection.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n")
            let piece = "4000\r\n" + String(repeating: "x", count: 0x4000) + "\r\n"
            if isFirst {
                for _ in 0..<20 { try connection.write(piece) }
                try gate.pass()
            }
            try connection.write("0\r\n\r\n")
        }
        let leader = try cache.proxy.connect()
        try leader.send(ProxyUnderTest.request("GET", cache.stage.url("/large")))
        // An eighth of the memory has gone by: from here on nobody reads along.
        var received = 0
        while received < 20 * 0x4000 { received += try leader.receive().count }
        let begin = Date()
        #expect(try cache.get("/large").status == 200)
        #expect(Date().timeIntervalSince(begin) < 4)
        gate.open()
    }

    @Test("a plain response without a sure end is neither stored nor awaited")
    func endIsNotSure() throws {
        let gate = Gate()
        let plain = try ScriptedOrigin(nil) { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.write("HTTP/1.0 200 OK\r\nCache-Control: max-age=60\r\n\r\nx")
            try gate.pass()
        }
        let cache = try CacheFixture([:], { $0.resolve("plain.example.com", to: plain.port) }) { _ in "" }
        let begin = Date()
        let clients = try (0..<3).map { _ in try cache.proxy.connect() }
        for client in clients { try client.send(ProxyUnderTest.request("GET", "http://plain.example.com/")) }
        for client in clients {
            let head = try client.readResponseHead()
            #expect(head["Cache-Status"] == "pinproxy; fwd=uri-miss", "\(head.fields)")
        }
        #expect(Date().timeIntervalSince(begin) < 4)
        gate.open()
    }

    @Test("a background request is cancelled if its response is unusable or endless")
    func endlessRefresh() throws {
        let number = Monitor(0)
        let cache = try CacheFixture(["memory": "1MB"]) { connection in
            while let request = try connection.readRequest() {
                let count = number.with { count in
                    count += 1
                    return count
                }
                let stale = "Cache-Control: max-age=0, stale-while-revalidate=600\r\n"
                if count == 1 {
                    try connection.write("HTTP/1.1 200 OK\r\n\(stale)Content-Length: 1\r\n\r\nx")
                    continue
                }
                let control = request.target == "/kept" ? stale : "Cache-Control: no-store\r\n"
                try connection.write("HTTP/1.1 200 OK\r\n\(control)Transfer-Encoding: chunked\r\n\r\n")
                let piece = "4000\r\n" + String(repeating: "y", count: 0x4000) + "\r\n"
                // Until the proxy has enough.
                while true { try connection.write(piece) }
            }
        }
        for path in ["/kept", "/dropped"] {
            number.with { $0 = 0 }
            #expect(try cache.get(path).text == "x")
            #expect(try cache.get(path).text == "x")
            let line = try Patience.poll(for: "the background request to be given up") {
                cache.proxy.taskLines.first {
                    $0.string("client") == "cache" && $0.string("url")?.hasSuffix(path) == true
                }
            }
            #expect(try #require(line.integer("bytesReceived")) < 2 << 20)
        }
    }

    @Test("timeouts.stall ends a client that does not read a stored response", arguments: [true, false])
    func readerWithoutHaste(onDisk: Bool) throws {
        let folder = try TemporaryFolder()
        let body = patternBytes(8 << 20)
        var members: [String: Any] = ["memory": onDisk ? "1MB" : "128MB"]
        if onDisk { members["disk"] = ["path": "\(folder.path)/cache", "size": "200MB"] }
        let cache = try CacheFixture(members, { $0.setTimeouts(["stall": "500ms"]) }) { connection in
            while try connection.readRequest() != nil {
                try connection.write(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: \(body.count)\r\n\r\n"
                )
                try connection.write(body)
            }
        }
        #expect(try firstDifference(cache.get().body, body) == nil)
        try Patience.poll(for: "the body to be stored") {
            try cache.get("/", fields: ["Cache-Control: only-if-cached"]).status == 200 ? true : nil
        }
        let before = cache.proxy.taskLines.count
        let client = try TestClient(port: cache.proxy.port, receiveBuffer: 4096)
        try client.send(ProxyUnderTest.request("GET", cache.stage.url()))
        let line = try Patience.poll(for: "the client to be given up") {
            cache.proxy.taskLines.dropFirst(before).first { $0.string("error") == "stalled" }
        }
        #expect(line.string("cache") == "hit" && line.string("errorDetails")?.contains("timeouts.stall") == true)
        #expect(cache.requests.count == 1)
    }

    @Test("timeouts.stall ends a stalled stream of HTTP/2, not its connection")
    func streamWithoutHaste() throws {
        let body = String(repeating: "x", count: 4 << 20)
        let cache = try CacheFixture(
            [:],
            {
                $0.setTimeouts(["stall": "500ms"])
                $0.listeners[0]["http2"] = true
            }
        ) { CacheFixture.fresh($0.target == "/small" ? "small" : body) }
        for path in ["/large", "/small"] { #expect(try cache.get(path).status == 200) }
        let peer = try HTTP2Peer(cache.proxy.connect(), window: 1000)
        _ = try peer.request("GET", "/large", authority: Stage.host)
        let line = try Patience.poll(for: "the stream to be given up") {
            cache.proxy.taskLines.first { $0.string("error") == "stalled" }
        }
        #expect(line.string("cache") == "hit")
        let small = try peer.finish(try peer.request("GET", "/small", authority: Stage.host))
        #expect(small.text == "small")
        #expect(cache.requests.count == 2)
    }

    @Test("bodies on their way use at most the cache's memory")
    func manyTransfers() throws {
        let gate = Gate()
        let size = 100_000
        let most = String(repeating: "x", count: size - 1000)
        let cache = try CacheFixture(["memory": "1MB"]) { connection in
            while let request = try connection.readRequest() {
                guard request["Cache-Control"] == nil else { return }
                try connection.write(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: \(size)\r\n\r\n\(most)"
                )
                try gate.pass()
                try connection.write(String(repeating: "x", count: 1000))
            }
        }
        let clients = try (0..<30).map { _ in try cache.proxy.connect() }
        for (number, client) in clients.enumerated() {
            try client.send(ProxyUnderTest.request("GET", cache.stage.url("/\(number)")))
        }
        var received = [Int](repeating: 0, count: clients.count)
        for (number, client) in clients.enumerated() {
            while received[number] < size - 1000 { received[number] += try Self.some(client) }
        }
        gate.open()
        for (number, client) in clients.enumerated() {
            while received[number] < size { received[number] += try Self.some(client) }
        }
        var kept = 0
        for number in 0..<30 {
            let response = try cache.get("/\(number)", fields: ["Cache-Control: only-if-cached"])
            if response.status == 200 { kept += 1 }
        }
        // Half of the capacity is for what is on its way: five whole bodies.
        #expect((1...7).contains(kept), "\(kept)")
    }

    private static func some(_ client: TestClient) throws -> Int {
        let count = try client.receive().count
        try #require(count > 0)
        return count
    }

    @Test("a reload that replaces the cache lets current readers finish")
    func reloadUnderReader() throws {
        let folder = try TemporaryFolder()
        let body = patternBytes(8 << 20)
        let disk: [String: Any] = ["path": "\(folder.path)/cache", "size": "200MB"]
        let cache = try CacheFixture(["memory": "1MB", "disk": disk]) { connection in
            while try connection.readRequest() != nil {
                try connection.write(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: \(body.count)\r\n\r\n"
                )
                try connection.write(body)
            }
        }
        #expect(try firstDifference(cache.get().body, body) == nil)
        try Patience.poll(for: "the body to be stored") {
            try cache.get("/", fields: ["Cache-Control: only-if-cached"]).status == 200 ? true : nil
        }
        let client = try TestClient(port: cache.proxy.port, receiveBuffer: 4096)
        try client.send(ProxyUnderTest.request("GET", cache.stage.url()))
        var all = try client.receive(upTo: 1000)
        try cache.stage.reload { $0.members["cache"] = ["memory": "2MB", "disk": disk] }
        try cache.stage.reload { $0.members["cache"] = nil }
        let end = try #require(String(decoding: all, as: UTF8.self).range(of: "\r\n\r\n"))
        let head = String(decoding: all, as: UTF8.self)[..<end.upperBound].utf8.count
        while all.count < head + body.count {
            let piece = try client.receive()
            if piece.isEmpty { break }
            all += piece
        }
        #expect(firstDifference(Array(all.dropFirst(head)), body) == nil)
        #expect(try cache.proxy.terminate().exitCode == 0)
    }

    @Test("an endless error body does not delay the stale response")
    func endlessFailure() throws {
        let gate = Gate()
        let cache = try CacheFixture { connection in
            guard let request = try connection.readRequest() else { return }
            if request["If-None-Match"] == nil {
                let fields = ["Cache-Control: max-age=0, stale-if-error=60", "ETag: \"v\"", "Connection: close"]
                try connection.write(OriginResponse.text("good", fields: fields))
                return
            }
            try connection.write("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\nfive")
            try gate.pass()
        }
        #expect(try cache.get().text == "good")
        let begin = Date()
        let stale = try cache.get()
        #expect(stale.status == 200 && stale.text == "good" && Date().timeIntervalSince(begin) < 20)
        gate.open()
    }

    @Test("pipelined requests get responses in order, behind hits and waits")
    func pipelined() throws {
        let gate = Gate()
        let cache = try CacheFixture { connection in
            while let request = try connection.readRequest() {
                if request.target == "/slow" { try gate.pass() }
                let response = "\(request.method) \(request.target) \(request.text)"
                try connection.write(
                    request.method == "GET" ? CacheFixture.fresh(response) : OriginResponse.text(response)
                )
            }
        }
        #expect(try cache.get("/hit").status == 200)
        let leader = try cache.proxy.connect()
        try leader.send(ProxyUnderTest.request("GET", cache.stage.url("/slow")))
        try cache.origin.wait(for: "the first request") {
            $0.contains { $0.requests.contains { $0.target == "/slow" } } ? true : nil
        }
        let client = try cache.proxy.connect()
        let requests = [("GET", "/hit"), ("HEAD", "/hit"), ("GET", "/slow"), ("GET", "/hit"), ("PUT", "/hit")]
        let text = requests.map { method, path in
            ProxyUnderTest.request(
                method,
                cache.stage.url(path),
                fields: method == "PUT" ? ["Content-Length: 4"] : []
            ) + (method == "PUT" ? "body" : "")
        }
        try client.send(text.joined())
        for (method, path) in requests {
            if path == "/slow" { gate.open() }
            let response = try client.readResponse(to: method)
            #expect(response.status == 200)
            let sent = method == "PUT" ? "body" : ""
            #expect(method == "HEAD" || response.text == "\(method) \(path) \(sent)", "\(response)")
        }
        #expect(try leader.readResponse().text == "GET /slow ")
        #expect(cache.requests.count == 3)
    }

    @Test("the program ends in each phase of the cache")
    func shutdown() throws {
        let folder = try TemporaryFolder()
        let body = patternBytes(8 << 20)
        let cache = try CacheFixture(
            ["memory": "1MB", "disk": ["path": "\(folder.path)/cache", "size": "200MB"]],
            { $0.setTimeouts(["drain": "300ms"]) }
        ) { connection in
            while let request = try connection.readRequest() {
                switch request.target {
                case "/large":
                    let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: \(body.count)\r\n\r\n"
                    try connection.write(head)
                    try connection.write(body)
                case "/stale" where request["If-None-Match"] == nil:
                    let fields = ["Cache-Control: max-age=0, stale-while-revalidate=60", "ETag: \"v\""]
                    try connection.write(OriginResponse.text("x", fields: fields))
                default:
                    connection.readToEnd()
                    return
                }
            }
        }
        #expect(try firstDifference(cache.get("/large").body, body) == nil)
        try Patience.poll(for: "the body to be stored") {
            try cache.get("/large", fields: ["Cache-Control: only-if-cached"]).status == 200 ? true : nil
        }
        for _ in 0..<2 { #expect(try cache.get("/stale").text == "x") }
        let reader = try TestClient(port: cache.proxy.port, receiveBuffer: 4096)
        try reader.send(ProxyUnderTest.request("GET", cache.stage.url("/large")))
        _ = try reader.receive(upTo: 10)
        let waiting = try (0..<3).map { _ in try cache.proxy.connect() }
        for client in waiting { try client.send(ProxyUnderTest.request("GET", cache.stage.url("/cold"))) }
        try cache.origin.wait(for: "the first request") {
            $0.contains { $0.requests.contains { $0.target == "/cold" } } ? true : nil
        }
        let begin = Date()
        #expect(try cache.proxy.terminate().exitCode == 0)
        #expect(Date().timeIntervalSince(begin) < 20)
    }
}
