// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Parts of responses, stored and completed, by a proxy before real origins.
@Suite("Parts of responses in the cache", .onOwnThreads)
struct CachePartsTests {
    /// An origin of one object that it sends in parts, too.
    private final class Object: Sendable {
        let content: Monitor<(tag: String, body: [UInt8])>
        /// The number of bytes of a body after which the connection ends.
        let breaksAfter = Monitor<Int?>(nil)

        init(_ tag: String, _ body: [UInt8]) { content = Monitor((tag, body)) }

        func serve(_ connection: OriginConnection) throws {
            while let request = try connection.readRequest() {
                let (tag, body) = content.with { $0 }
                var range = 0..<body.count
                var status = "200 OK"
                if let text = request["Range"], request["If-Range"].map({ $0 == tag }) ?? true {
                    let ends = text.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
                    range = (ends[0] ?? 0)..<min(body.count, (ends[1] ?? body.count - 1) + 1)
                    status = "206 Partial Content"
                }
                var head = "HTTP/1.1 \(status)\r\nETag: \(tag)\r\nCache-Control: max-age=3600\r\n"
                if range.count < body.count {
                    head += "Content-Range: bytes \(range.lowerBound)-\(range.upperBound - 1)/\(body.count)\r\n"
                }
                try connection.write(head + "Content-Length: \(range.count)\r\n\r\n")
                if let count = breaksAfter.with({ $0 }) {
                    try connection.write(Array(body[range].prefix(count)))
                    return
                }
                try connection.write(Array(body[range]))
            }
        }
    }

    private static let body = patternBytes(3 << 20)

    private func stage(_ object: Object, _ members: [String: Any] = [:]) throws -> CacheFixture {
        try CacheFixture(members) { try object.serve($0) }
    }

    private func ranges(_ cache: CacheFixture) -> [String] { cache.requests.map { $0["Range"] ?? "-" } }

    @Test("ranges come from parts, and the whole requests the missing part", arguments: [true, false])
    func parts(isInMemory: Bool) throws {
        let folder = try TemporaryFolder()
        let disk: [String: Any] = ["path": "\(folder.path)/cache", "size": "200MB"]
        let cache = try stage(Object("\"a\"", Self.body), isInMemory ? [:] : ["memory": "1MB", "disk": disk])
        let first = try cache.get("/o", fields: ["Range: bytes=0-99999"])
        #expect(first.status == 206 && first.body == Array(Self.body[..<100_000]))
        #expect(first["Cache-Status"]?.hasPrefix("pinproxy; fwd=uri-miss; stored; ttl=") == true)
        let part = try cache.get("/o", fields: ["Range: bytes=70000-70009"])
        #expect(part.status == 206 && part.body == Array(Self.body[70_000..<70_010]))
        #expect(part["Content-Range"] == "bytes 70000-70009/\(Self.body.count)")
        #expect(part["Cache-Status"]?.hasPrefix("pinproxy; hit") == true)
        let whole = try cache.get("/o")
        #expect(whole.status == 200 && firstDifference(whole.body, Self.body) == nil)
        #expect(whole["Content-Length"] == "\(Self.body.count)" && whole["Content-Range"] == nil)
        #expect(whole["Cache-Status"]?.hasPrefix("pinproxy; fwd=partial; fwd-status=206; stored") == true)
        try Patience.poll(for: "the stored response") {
            try cache.get("/o", fields: ["Cache-Control: only-if-cached"]).status == 200 ? true : nil
        }
        #expect(firstDifference(try cache.get("/o").body, Self.body) == nil)
        #expect(ranges(cache) == ["bytes=0-99999", "bytes=100000-\(Self.body.count - 1)"])
        #expect(cache.requests[1]["If-Range"] == "\"a\"")
    }

    @Test("parts of a changed object are never mixed")
    func changed() throws {
        let object = Object("\"a\"", Self.body)
        let other = Array(Self.body.reversed())
        let cache = try stage(object)
        _ = try cache.get("/o", fields: ["Range: bytes=0-99999"])
        object.content.with { $0 = ("\"b\"", other) }
        let whole = try cache.get("/o")
        #expect(whole.status == 200 && whole["ETag"] == "\"b\"" && firstDifference(whole.body, other) == nil)
        #expect(ranges(cache) == ["bytes=0-99999", "bytes=100000-\(Self.body.count - 1)"])
        #expect(firstDifference(try cache.get("/o").body, other) == nil)
        #expect(cache.requests.count == 2)
    }

    @Test("a rest that breaks off is incomplete, and the next request gets all")
    func broken() throws {
        let object = Object("\"a\"", Self.body)
        let cache = try stage(object)
        _ = try cache.get("/o", fields: ["Range: bytes=0-99999"])
        object.breaksAfter.with { $0 = 500_000 }
        let client = try TestClient(port: cache.proxy.port)
        try client.send(ProxyUnderTest.request("GET", cache.stage.url("/o")))
        let head = try client.readResponseHead()
        #expect(head.status == 200 && head["Content-Length"] == "\(Self.body.count)")
        let count = try client.readToEnd().count
        #expect(count >= 600_000 && count < Self.body.count)
        #expect(try cache.proxy.waitForTaskLines(2)[1].string("error") == "response_truncated")
        object.breaksAfter.with { $0 = nil }
        #expect(firstDifference(try cache.get("/o").body, Self.body) == nil)
    }

    @Test("a client that leaves during a completion leaves it to other readers")
    func clientGone() throws {
        let cache = try stage(Object("\"a\"", Self.body))
        _ = try cache.get("/o", fields: ["Range: bytes=2000000-"])
        do {
            let leader = try TestClient(port: cache.proxy.port, receiveBuffer: 4096)
            try leader.send(ProxyUnderTest.request("GET", cache.stage.url("/o")))
            _ = try leader.readResponseHead()
            let follower = try TestClient(port: cache.proxy.port)
            try follower.send(ProxyUnderTest.request("GET", cache.stage.url("/o")))
            let head = try follower.readResponseHead()
            leader.close()
            #expect(firstDifference(try follower.readBody(of: head).body, Self.body) == nil)
        }
        #expect(firstDifference(try cache.get("/o").body, Self.body) == nil)
        #expect(cache.requests.count == 2)
    }

    @Test("parts work before nginx and with curl")
    func nginx() throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try NginxOrigin(server, directives: ["expires 1h"], files: ["blob": Self.body])
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.members["cache"] = [String: Any]()
        settings.members["workers"] = 1
        let proxy = try ProxyUnderTest(settings)
        let folder = try TemporaryFolder()
        func curl(_ arguments: [String]) throws -> [UInt8] {
            let file = "\(folder.path)/out"
            let url = "http://\(Stage.host)/files/blob"
            let all = ["-sS", "-f", "-x", "http://127.0.0.1:\(proxy.port)", "-o", file] + arguments + [url]
            _ = try Programs.run("curl", all)
            return try Array(Data(contentsOf: URL(fileURLWithPath: file)))
        }
        #expect(try firstDifference(curl(["-r", "1000000-1999999"]), Array(Self.body[1_000_000..<2_000_000])) == nil)
        #expect(try firstDifference(curl(["-r", "1500000-1500099"]), Array(Self.body[1_500_000..<1_500_100])) == nil)
        #expect(try firstDifference(curl(["-r", "2000000-"]), Array(Self.body[2_000_000...])) == nil)
        #expect(try firstDifference(curl([]), Self.body) == nil)
        #expect(try firstDifference(curl(["-r", "-10"]), Array(Self.body.suffix(10))) == nil)
        #expect(try proxy.waitForTaskLines(5).map { $0.string("cache") } == ["miss", "hit", "miss", "miss", "hit"])
        withExtendedLifetime(origin) {}
    }
}
