// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Invariant 4: no connection of an older policy carries a request that begins after the reload.
@Suite("Reload: connections", .onOwnThreads)
struct ReloadConnectionTests {
    @Test("68 a kept connection takes no request after its pins changed")
    func keptConnection() throws {
        let stage = try Stage({ $0.members["workers"] = 1 }, responding: { OriginResponse.text($0.target) })
        let client = try stage.proxy.connect()
        for path in ["/1", "/2"] {
            try client.send(ProxyUnderTest.request("GET", stage.url(path)))
            #expect(try client.readResponse().text == path)
        }
        #expect(stage.origin.connections.count == 1)
        let before = stage.origin.applicationBytes
        #expect(try stage.reload { $0.pin(Stage.host, to: .unrelated(2)) }.string("event") == "reloaded")
        // The same client connection.
        try client.send(ProxyUnderTest.request("GET", stage.url("/3")))
        let response = try client.readResponse()
        #expect(response.status == 502)
        #expect(response.problemCode == "pin_mismatch")
        let records = try stage.origin.waitForClosed(2)
        #expect(stage.origin.applicationBytes == before)
        #expect(records[1].applicationBytes == 0)
        // The mended twin: with the pin back, the next request goes through.
        try stage.reload { _ in }
        #expect(try stage.get("/4").text == "/4")
    }

    @Test("68 a kept HTTP/2 connection takes no request after its pins changed")
    func keptConnectionOfHTTP2() throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try NginxOrigin(server, http2: true)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = "2"
        settings.members["workers"] = 1
        let proxy = try ProxyUnderTest(settings)
        let client = try proxy.connect()
        func session() throws -> HTTPMessage {
            try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/session"))
            return try client.readResponse()
        }
        let first = try session().text
        #expect(try session().text == first, "the connection is kept")
        // Nothing changed in the policy; the generation did.
        try proxy.hangUp()
        let second = try session()
        #expect(second.status == 200)
        #expect(second.text != first, "a connection of the generation before was used")
        let count = try origin.requestCount()
        var tightened = settings
        tightened.pin(Stage.host, to: .unrelated(2))
        try proxy.reload(tightened)
        let refused = try session()
        #expect(refused.problemCode == "pin_mismatch")
        // This question itself is one.
        #expect(try origin.requestCount() == count + 1)
    }

    @Test("68 and 75 a refused HTTP/2 connection has sent nothing")
    func prefaceOfHTTP2() throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server, protocols: ["h2"]) { $0.readToEnd() }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = "2"
        settings.setTimeouts(["firstByte": "200ms"])
        let proxy = try ProxyUnderTest(settings)
        // The mended twin comes first: its preface and request are counted.
        #expect(try proxy.get("http://\(Stage.host)/").problemCode == "response_timeout")
        #expect(origin.connections.count == 1)
        #expect(origin.applicationBytes > 0)
        settings.pin(Stage.host, to: .unrelated(2))
        try proxy.reload(settings)
        #expect(try proxy.get("http://\(Stage.host)/").problemCode == "pin_mismatch")
        let records = try origin.waitForClosed(2)
        #expect(records.dropFirst().allSatisfy { $0.applicationBytes == 0 })
    }

    @Test("idle connections close with the reload, busy ones after their response")
    func oldConnectionsClose() throws {
        let gate = Gate()
        let stage = try Stage({ $0.members["workers"] = 1 }) { connection in
            while let request = try connection.readRequest() {
                guard request.target == "/stream" else {
                    try connection.respond(request.target)
                    continue
                }
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nfirst")
                try gate.pass()
                try connection.write("second")
            }
        }
        defer { gate.open() }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url("/stream")))
        try stage.origin.wait(for: "the first half") { ($0.first?.bytesWritten ?? 0) > 0 ? true : nil }
        // One more connection, which is idle by then.
        #expect(try stage.get("/other").text == "/other")
        #expect(stage.origin.connections.count == 2)
        try stage.reload { $0.pin(Stage.host, to: .unrelated(2)) }
        let records = try stage.origin.wait(for: "the idle connection to close") { $0[1].isClosed ? $0 : nil }
        #expect(!records[0].isClosed)
        gate.open()
        #expect(try client.readResponse().text == "firstsecond")
        try stage.origin.wait(for: "the busy connection to close") { $0[0].isClosed ? true : nil }
        try client.send(ProxyUnderTest.request("GET", stage.url("/after")))
        #expect(try client.readResponse().problemCode == "pin_mismatch")
    }

    @Test("idle connections close with the reload despite a running request")
    func manyIdleConnections() throws {
        let gate = Gate()
        let entered = Monitor(0)
        let stage = try Stage({ $0.members["workers"] = 1 }) { connection in
            while let request = try connection.readRequest() {
                entered.with { $0 += 1 }
                if request.target == "/together" {
                    try entered.wait(for: "all of them") { $0 >= 101 ? true : nil }
                } else {
                    try gate.pass()
                }
                try connection.respond()
            }
        }
        defer { gate.open() }
        let last = try stage.proxy.connect()
        try last.send(ProxyUnderTest.request("GET", stage.url("/last")))
        let clients = try (0..<100).map { _ in try stage.proxy.connect() }
        for client in clients { try client.send(ProxyUnderTest.request("GET", stage.url("/together"))) }
        for client in clients { #expect(try client.readResponse().status == 200) }
        try stage.reload { _ in }
        try stage.origin.wait(for: "100 connections to close") { $0.filter(\.isClosed).count == 100 ? true : nil }
        gate.open()
        #expect(try last.readResponse().status == 200)
        try stage.origin.waitForClosed(101)
    }

    @Test("a pipelined request that has not begun uses the new policy")
    func pipelined() throws {
        let gate = Gate()
        let stage = try Stage { connection in
            while try connection.readRequest() != nil {
                try gate.pass()
                try connection.respond()
            }
        }
        defer { gate.open() }
        let client = try stage.proxy.connect()
        try client.send(
            ProxyUnderTest.request("GET", stage.url("/1")) + ProxyUnderTest.request("GET", stage.url("/2"))
        )
        try stage.origin.wait(for: "the first request") { $0.first?.requests.isEmpty == false ? true : nil }
        try stage.reload { $0.pin(Stage.host, to: .unrelated(2)) }
        gate.open()
        #expect(try client.readResponse().status == 200)
        #expect(try client.readResponse().problemCode == "pin_mismatch")
        #expect(stage.origin.requests.count == 1)
    }

    @Test("69 two hosts with one address and certificate have separate connections")
    func coalescing() throws {
        let other = "www.example.com"
        let server = try Stage.pki.server(Stage.host, other)
        let origin = try NginxOrigin(server, http2: true)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["workers"] = 1
        for host in [Stage.host, other] {
            settings.serve(host, server, at: origin.port)
            settings.hosts[host]?["httpVersion"] = "2"
        }
        let proxy = try ProxyUnderTest(settings)
        func session(_ host: String) throws -> String { try proxy.get("http://\(host)/session").text }
        let first = try session(Stage.host)
        let second = try session(other)
        #expect(first != second)
        // Each is kept for its own host.
        #expect(try session(Stage.host) == first)
        #expect(try session(other) == second)
    }

    @Test("73 a certificate that changes between connections is evaluated anew", arguments: [true, false])
    func rotation(keepsKey: Bool) throws {
        let server = try Stage.pki.server(Stage.host)
        let next = try keepsKey ? Stage.pki.renewed(server, hosts: Stage.host) : Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server, successor: next) { connection in
            guard let request = try connection.readRequest() else { return }
            try connection.respond(request.target, fields: ["Connection: close"])
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        let proxy = try ProxyUnderTest(settings)
        #expect(try proxy.get("http://\(Stage.host)/1").text == "/1")
        let second = try proxy.get("http://\(Stage.host)/2")
        if keepsKey {
            #expect(second.text == "/2")
        } else {
            #expect(second.problemCode == "pin_mismatch")
            #expect(try origin.waitForClosed(2)[1].applicationBytes == 0)
        }
    }
}
