// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTP2Core
import TestSupport
import Testing

@Suite("When descriptors run out", .serialized, .earlyOnOwnThreads)
struct DescriptorReserveTests {
    private static func settings(_ change: (inout ProxySettings) -> Void = { _ in }) -> ProxySettings {
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["workers"] = 1
        settings.members["admin"] = ["address": "127.0.0.1:0"]
        change(&settings)
        return settings
    }

    private static func ask(_ path: String, _ proxy: ProxyUnderTest) throws -> HTTPMessage {
        try proxy.exchange("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n", on: proxy.listening.count - 1)
    }

    private static func refused(_ proxy: ProxyUnderTest) throws -> Int {
        let name = "pinproxy_client_connections_refused_total "
        let line = try ask("/metrics", proxy).text.split(separator: "\n").first { $0.hasPrefix(name) }
        return try #require(line.flatMap { Int($0.dropFirst(name.count)) })
    }

    @Test(
        "idle clients leave descriptors to the admin listener; others get reasons",
        arguments: [(64, 6), (256, 60)]
    )
    func idleClients(openFiles: Int, least: Int) throws {
        let gate = Gate()
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server) { connection in
            while let request = try connection.readRequest() {
                try gate.pass()
                try connection.respond(request.target)
            }
        }
        let proxy = try ProxyUnderTest(
            Self.settings { $0.serve(Stage.host, server, at: origin.port) },
            openFiles: openFiles
        )
        let clients = try (0..<400).map { _ in try proxy.connect() }
        // The last one is answered behind all others.
        #expect(try clients[399].readResponse().problemCode == "limit_reached")
        #expect(try Self.ask("/live", proxy).text == "live\n")
        #expect(try Self.ask("/ready", proxy).text == "ready\n")
        let admitted = clients.count - (try Self.refused(proxy))
        #expect(admitted >= least)
        for client in clients[admitted..<399] {
            // As most clients do, it says its own before it looks.
            try? client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/"))
            let refusal = try client.readResponse()
            #expect(refusal.status == 503 && refusal.problemCode == "limit_reached")
            #expect(refusal.text.contains("limits.connections"))
        }
        // All at once, each with a connection of its own to the origin.
        for (number, client) in clients[..<admitted].enumerated() {
            try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/\(number)"))
        }
        try origin.wait(for: "all requests") { $0.count { !$0.requests.isEmpty } == admitted ? true : nil }
        #expect(try Self.ask("/live", proxy).status == 200)
        gate.open()
        for (number, client) in clients[..<admitted].enumerated() {
            #expect(try client.readResponse().text == "/\(number)")
        }
        #expect(try proxy.waitForTaskLines(admitted).count == admitted)
        let warnings = proxy.events("warning").compactMap { $0.string("message") }
        #expect(warnings.contains { $0.contains("allows \(openFiles) open files") && $0.contains("\(admitted) ") })
    }

    @Test("kept connections to many origins make room for another one")
    func manyOrigins() throws {
        let origin = try ScriptedOrigin(nil) { connection in
            while let request = try connection.readRequest() { try connection.respond(request["Host"] ?? "") }
        }
        let hosts = (0..<100).map { "host\($0).example.com" }
        let settings = Self.settings { settings in
            for host in hosts { settings.resolve(host, to: origin.port) }
        }
        let proxy = try ProxyUnderTest(settings, openFiles: 64)
        let client = try proxy.connect()
        for host in hosts {
            try client.send(ProxyUnderTest.request("GET", "http://\(host)/"))
            let response = try client.readResponse()
            #expect(response.status == 200 && response.text == host, "\(response.text)")
        }
        #expect(try Self.ask("/live", proxy).status == 200)
    }

    @Test("hundreds of streams of one stored body share a descriptor")
    func storedBodies() throws {
        let folder = try TemporaryFolder()
        let body = String(repeating: "0123456789", count: 40_000)
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server) { connection in
            while let request = try connection.readRequest() {
                try connection.write(
                    request.target == "/other" ? OriginResponse.text("other") : CacheFixture.fresh(body)
                )
            }
        }
        let settings = Self.settings { settings in
            settings.serve(Stage.host, server, at: origin.port)
            settings.listeners[0]["http2"] = true
            settings.members["cache"] = ["memory": "1MB", "disk": ["path": "\(folder.path)/cache", "size": "100MB"]]
        }
        let proxy = try ProxyUnderTest(settings, openFiles: 256)
        func get(_ path: String) throws -> HTTPMessage {
            try proxy.exchange(ProxyUnderTest.request("GET", "http://\(Stage.host)\(path)"))
        }
        /// The open files of bodies.
        func files() throws -> Int {
            let names = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(proxy.identifier)/fd")
            let paths = names.compactMap {
                try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(proxy.identifier)/fd/\($0)")
            }
            return paths.count { $0.hasPrefix("\(folder.path)/cache/bodies") }
        }
        for path in ["/one"] + (0..<60).map({ "/\($0)" }) {
            #expect(try get(path).status == 200)
            try Patience.poll(for: "the stored response") {
                try proxy.exchange(
                    ProxyUnderTest.request(
                        "GET",
                        "http://\(Stage.host)\(path)",
                        fields: ["Cache-Control: only-if-cached"]
                    )
                ).status == 200 ? true : nil
            }
        }
        // Their windows are so small that no response ends.
        let peers = try (0..<5).map { _ in try HTTP2Peer(proxy.connect(), window: 16) }
        for peer in peers {
            let streams = try (0..<60).map { _ in try peer.request("GET", "/one", authority: Stage.host) }
            for stream in streams { stream.givesCredit = false }
            try peer.wait { streams.allSatisfy { $0.status != nil } }
            #expect(streams.allSatisfy { $0.status == 200 })
        }
        #expect(try files() == 1)
        let peer = try HTTP2Peer(proxy.connect(), window: 16)
        let streams = try (0..<60).map { try peer.request("GET", "/\($0)", authority: Stage.host) }
        for stream in streams { stream.givesCredit = false }
        try peer.wait { streams.count { $0.status == 200 } >= 31 }
        #expect(try files() <= 32)
        #expect(try get("/other").text == "other")
        let warnings = proxy.events("warning").compactMap { $0.string("message") }
        #expect(!warnings.contains { $0.contains("cache") }, "\(warnings)")
    }

    @Test("streams without a descriptor for their origin get 503")
    func streams() throws {
        let gate = Gate()
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server) { connection in
            guard try connection.readRequest() != nil else { return }
            try gate.pass()
            try connection.respond("served")
        }
        let settings = Self.settings { settings in
            settings.serve(Stage.host, server, at: origin.port)
            settings.listeners[0]["http2"] = true
        }
        let proxy = try ProxyUnderTest(settings, openFiles: 64)
        let peer = try HTTP2Peer(proxy.connect())
        let streams = try (0..<80).map { _ in try peer.request(authority: Stage.host) }
        try peer.wait { streams.contains { $0.isClosed } }
        #expect(try Self.ask("/live", proxy).status == 200)
        gate.open()
        try peer.wait { streams.allSatisfy { $0.isClosed } }
        #expect(Set(streams.map(\.status)) == [200, 503])
        for stream in streams where stream.status == 503 {
            #expect(stream.text.contains("\"error\":\"limit_reached\"") && stream.text.contains("open files"))
        }
        let again = try peer.finish(peer.request(authority: Stage.host))
        #expect(again.text == "served")
    }
}
