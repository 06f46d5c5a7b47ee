// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTP2Core
import TestSupport
import Testing

@Suite("Memory that clients of HTTP/2 hold", .onOwnThreads)
struct HeldBytesTests {
    private static func held(_ proxy: ProxyUnderTest) throws -> Int {
        let page = try proxy.exchange("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", on: proxy.listening.count - 1)
        let name = "pinproxy_held_bytes "
        let line = page.text.split(separator: "\n").first { $0.hasPrefix(name) }
        return try #require(line.flatMap { Int($0.dropFirst(name.count)) })
    }

    private static func limit(_ settings: inout ProxySettings) {
        HTTP2ClientTests.takeHTTP2(&settings)
        settings.members["workers"] = 1
        settings.members["admin"] = ["address": "127.0.0.1:0"]
        settings.members["limits"] = ["heldBytes": "16MB"]
    }

    /// A head of 58 KB, which is a few hundred bytes on the wire: a value is sent once, and referred to afterwards.
    private static let largeHead = Array(repeating: ("x-k", String(repeating: "v", count: 2900)), count: 20)

    @Test("heads above the limit are refused, and small requests served")
    func heads() throws {
        let stage = try Stage(Self.limit) { connection in
            while let request = try connection.readRequest() {
                if request.target == "/silent" { return connection.readToEnd() }
                try connection.respond(request.target)
            }
        }
        var peers: [HTTP2Peer] = []
        var streams: [PeerStream] = []
        for _ in 0..<4 {
            let peer = try HTTP2Peer(stage.proxy.connect())
            for _ in 0..<90 {
                streams.append(
                    try peer.request("GET", "/silent", authority: Stage.host, fields: Self.largeHead)
                )
            }
            peers.append(peer)
        }
        // 360 heads of twice 58 KB were 42 MB.
        for peer in peers {
            try peer.wait { peer.session.streams.count < 90 }
            #expect(peer.goAways.isEmpty)
        }
        #expect(try Self.held(stage.proxy) < 16 << 20)
        // HTTP/1.1, and a client of HTTP/2 that holds little.
        #expect(try stage.get("/one").text == "/one")
        let small = try HTTP2Peer(stage.proxy.connect())
        #expect(try small.finish(small.request("GET", "/two", authority: Stage.host)).text == "/two")
        // One that needs more than its part gets it as soon as others have been idle long enough.
        let large = try HTTP2Peer(stage.proxy.connect())
        var response = try large.finish(large.request("GET", "/three", authority: Stage.host, fields: Self.largeHead))
        let more = try (0..<60).map { _ in
            try large.request("GET", "/silent", authority: Stage.host, fields: Self.largeHead)
        }
        var tries = 0
        repeat {
            // Requests that are refused faster than this end the connection.
            usleep(20_000)
            response = try large.finish(large.request("GET", "/three", authority: Stage.host, fields: Self.largeHead))
            tries += 1
        } while response.text != "/three" && tries < 1500
        #expect(response.text == "/three", "\(response.statuses) \(String(describing: response.closed))")
        #expect(more.count == 60)
        let refused = try stage.proxy.waitForTaskLines(4).contains { $0.string("error") == "limit_reached" }
        #expect(refused)
        _ = streams
    }

    @Test("bodies that wait for an origin are dropped above the limit")
    func bodies() throws {
        let stage = try Stage({ settings in
            Self.limit(&settings)
            settings.hosts[Stage.host]?["connectionsPerHost"] = 1
        }) { connection in connection.readToEnd() }
        let peers = try (0..<5).map { _ in try HTTP2Peer(stage.proxy.connect()) }
        // Each stream is small when it begins; the bodies come when all are there.
        var streams: [(HTTP2Peer, PeerStream)] = []
        for peer in peers {
            for _ in 0..<60 {
                streams.append((peer, try peer.request("POST", "/", authority: Stage.host, ends: false)))
            }
        }
        for (peer, stream) in streams {
            try peer.wait { peer.session.sendWindow(of: stream) > 65_535 }
            try peer.send([UInt8](repeating: 1, count: 60_000), on: stream)
        }
        // 300 bodies of 60 KB are 18 MB. The first ones have been idle longest.
        let first = peers[0]
        try first.wait { first.session.streams.count < 60 }
        var tries = 0
        while try Self.held(stage.proxy) > 16 << 20, tries < 200 {
            usleep(50_000)
            tries += 1
        }
        #expect(try Self.held(stage.proxy) <= 16 << 20)
        #expect(streams.contains { $0.1.status == 503 || $0.1.closed == .enhanceYourCalm })
        #expect(first.goAways.isEmpty)
    }

    /// A connection collects the values of pseudo-header fields, and the cookies that come together again.
    @Test(
        "an idle connection does not keep the large head of its last request",
        .enabled(if: !Programs.isSanitized, "a sanitizer keeps freed memory"),
        arguments: ["cookie", ":path"]
    )
    func idleConnections(large: String) throws {
        // The C library's allocator, which gives back at once what is freed: mimalloc keeps pages that heads have touched, and what the
        // connections have of their own, and mostly never touch, comes to lie on them.
        let allocator = [
            "LD_PRELOAD": "libc.so.6", "MALLOC_MMAP_THRESHOLD_": "4096", "MALLOC_TRIM_THRESHOLD_": "4096",
            "MALLOC_TOP_PAD_": "0",
        ]
        func set(_ settings: inout ProxySettings) {
            HTTP2ClientTests.takeHTTP2(&settings)
            settings.members["workers"] = 1
            settings.members["log"] = ["tasks": "off"]
            settings.setTimeouts(["idle": "10m"])
        }
        let stage = try Stage(set, environment: allocator, responding: { OriginResponse.text($0.target) })
        let isPath = large == ":path"
        let path = "/" + String(repeating: "v", count: 58_000)
        let cookies = Array(repeating: ("cookie", "k=" + String(repeating: "v", count: 2900)), count: 20)
        var peers: [HTTP2Peer] = []
        /// The growth of the process by so many more connections, each idle after one request.
        func growth(_ count: Int, isLarge: Bool) throws -> Int {
            let before = try stage.proxy.residentMemory()
            for _ in 0..<count {
                let peer = try HTTP2Peer(stage.proxy.connect())
                let stream = try peer.request(
                    "GET",
                    isLarge && isPath ? path : "/small",
                    authority: Stage.host,
                    fields: isLarge && !isPath ? cookies : []
                )
                let response = try peer.finish(stream)
                // The path is too long, and the connection persists.
                #expect(response.status == (isLarge && isPath ? 414 : 200))
                peers.append(peer)
            }
            return try stage.proxy.residentMemory() - before
        }
        let count = 100
        // What serves one request after the other grows once.
        _ = try growth(20, isLarge: true)
        let small = try growth(count, isLarge: false)
        let difference = try growth(count, isLarge: true) - small
        // Half of what the heads are.
        #expect(difference < count * 29_000, "\(difference >> 10) KB beside \(small >> 10) KB")
        for peer in [peers[0], peers[20], peers[20 + count]] {
            let stream = try peer.request("GET", "/again", authority: Stage.host)
            #expect(try peer.finish(stream).text == "/again")
        }
    }

    @Test("stored bodies for shut windows hold 16 KB each")
    func windows() throws {
        let body = String(repeating: "stored ", count: 100_000)
        let stage = try Stage({ settings in
            Self.limit(&settings)
            settings.members["cache"] = [:] as [String: Any]
            settings.members["limits"] = ["heldBytes": "1GB"]
        }) { _ in OriginResponse.text(body, fields: ["Cache-Control: max-age=3600", "Content-Type: text/plain"]) }
        #expect(try stage.get("/stored").text == body)
        let before = try Self.held(stage.proxy)
        let peers = try (0..<4).map { _ in try HTTP2Peer(stage.proxy.connect(), window: 0) }
        var streams: [[PeerStream]] = []
        for peer in peers {
            streams.append(try (0..<50).map { _ in try peer.request("GET", "/stored", authority: Stage.host) })
        }
        for (peer, streams) in zip(peers, streams) { try peer.wait { streams.allSatisfy { $0.status == 200 } } }
        // 200 streams, and what the worker has drawn ahead.
        let held = try Self.held(stage.proxy) - before
        #expect(held < 200 * (24 << 10) + 1 << 20, "\(held >> 10) KB")
    }
}
