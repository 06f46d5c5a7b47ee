// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import HTTP2Core
import TestSupport
import Testing

@Suite("A stop as clients with kept connections see it", .onOwnThreads)
struct DrainTests {
    private func stage(_ change: (inout ProxySettings) -> Void = { _ in }) throws -> Stage {
        try Stage(change, responding: { OriginResponse.text($0.target) })
    }

    /// Sends SIGTERM, and waits until no new connection is taken.
    private func beginStop(_ proxy: ProxyUnderTest) throws {
        proxy.signal(SIGTERM)
        try Patience.poll(for: "the listener to close") { (try? proxy.connect()) == nil ? true : nil }
    }

    @Test("a request after the signal on an old connection is served")
    func kept() throws {
        let stage = try stage()
        let used = try stage.proxy.connect()
        try used.send(ProxyUnderTest.request("GET", stage.url("/first")))
        #expect(try used.readResponse()["Connection"] == nil)
        let fresh = try stage.proxy.connect()
        try fresh.send("GET ")
        try beginStop(stage.proxy)
        try used.send(ProxyUnderTest.request("GET", stage.url("/second")))
        let second = try used.readResponse()
        #expect(second.text == "/second" && second["Connection"] == "close")
        #expect(try used.isAtEnd())
        try fresh.send("\(stage.url("/only")) HTTP/1.1\r\nHost: \(Stage.host)\r\n\r\n")
        let only = try fresh.readResponse()
        #expect(only.text == "/only" && only["Connection"] == "close")
        #expect(try fresh.isAtEnd())
        #expect(try stage.proxy.waitForExit().exitCode == 0)
        #expect(stage.proxy.taskLines.count == 3)
    }

    @Test("refusals and own responses have Connection: close")
    func refused() throws {
        let stage = try stage()
        let requests = [
            ProxyUnderTest.request("GET", "http://127.1/"),
            ProxyUnderTest.request("OPTIONS", stage.url(), fields: ["Max-Forwards: 0"]),
            ProxyUnderTest.request("CONNECT", "\(Stage.host):443"),
        ]
        let clients = try requests.map { _ in try stage.proxy.connect() }
        for client in clients {
            try client.send(ProxyUnderTest.request("GET", stage.url()))
            #expect(try client.readResponse().status == 200)
        }
        try beginStop(stage.proxy)
        for (client, request) in zip(clients, requests) {
            try client.send(request)
            #expect(try client.readResponse()["Connection"] == "close", "\(request)")
            #expect(try client.isAtEnd())
        }
        #expect(try stage.proxy.waitForExit().exitCode == 0)
    }

    @Test("a response begun without Connection: close allows one more request")
    func announcedAfterHead() throws {
        let gate = Gate()
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhe")
            try gate.pass()
            try connection.write("ad")
            while let request = try connection.readRequest() { try connection.respond(request.target) }
        }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url("/long")))
        let head = try client.readResponseHead()
        #expect(head["Connection"] == nil)
        try beginStop(stage.proxy)
        gate.open()
        #expect(try client.readBody(of: head).text == "head")
        try client.send(ProxyUnderTest.request("GET", stage.url("/next")))
        let next = try client.readResponse()
        #expect(next.text == "/next" && next["Connection"] == "close")
        #expect(try stage.proxy.waitForExit().exitCode == 0)
    }

    @Test("clients that ask again at once lose no request")
    func closedLoop() throws {
        let stage = try stage()
        let outcomes = Monitor([String]())
        let responded = Monitor(0)
        let count = 40
        let (port, url) = (stage.proxy.port, stage.url())
        for _ in 0..<count {
            Thread.detachNewThread {
                var outcome = "closed by announcement"
                do {
                    let client = try TestClient(port: port)
                    while true {
                        try client.send(ProxyUnderTest.request("GET", url))
                        let response = try client.readResponse()
                        responded.with { $0 += 1 }
                        if response.status != 200 { outcome = "\(response.status)" }
                        if response["Connection"] == "close" { break }
                    }
                } catch {
                    outcome = "\(error)"
                }
                outcomes.with { $0.append(outcome) }
            }
        }
        try responded.wait(for: "the load") { $0 > 10 * count ? true : nil }
        stage.proxy.signal(SIGTERM)
        let all = try outcomes.wait(for: "all clients") { $0.count == count ? $0 : nil }
        #expect(Set(all) == ["closed by announcement"])
        #expect(try stage.proxy.waitForExit().exitCode == 0)
        #expect(stage.proxy.taskLines.count == responded.with { $0 })
    }

    @Test("idle connections are kept for half of timeouts.drain at most")
    func grace() throws {
        let stage = try stage { $0.setTimeouts(["drain": "600ms"]) }
        let idle = try stage.proxy.connect()
        stage.proxy.signal(SIGTERM)
        #expect(try idle.isAtEnd())
        #expect(try stage.proxy.waitForExit(seconds: 10).exitCode == 0)
    }

    @Test("a running TLS handshake is finished, and its request served")
    func handshake() throws {
        let own = try Stage.pki.server("localhost")
        let stage = try stage { settings in
            settings.files["own.pem"] = own.chainPEM
            settings.files["own.key"] = own.privateKeyPEM
            settings.listeners[0]["tls"] = ["certificate": "own.pem", "key": "own.key"]
        }
        // While the process stands still, the kernel takes the connection, the hello and the signal.
        stage.proxy.signal(SIGSTOP)
        let curl = try ChildProcess(
            try Programs.path(of: "curl"),
            ["-sSv", "--max-time", "30", "--proxy", "https://localhost:\(stage.proxy.port)"]
                + ["--proxy-cacert", "\(stage.proxy.folder.path)/anchors.pem", stage.url("/late")],
            environment: Programs.environment
        )
        _ = try curl.waitForErrors("the hello") { $0.contains("Client hello") ? true : nil }
        stage.proxy.signal(SIGTERM)
        stage.proxy.signal(SIGCONT)
        let finished = try curl.waitForExit()
        #expect(finished.output == "/late", "\(finished.errors)")
        #expect(finished.errors.contains("Connection: close"))
        #expect(try stage.proxy.waitForExit().exitCode == 0)
    }

    @Test("an HTTP/2 connection's first stream after the signal is served")
    func http2() throws {
        let stage = try stage(HTTP2ClientTests.takeHTTP2)
        let fresh = try HTTP2Peer(stage.proxy.connect())
        let used = try HTTP2Peer(stage.proxy.connect())
        #expect(try used.finish(used.request(authority: Stage.host)).status == 200)
        try beginStop(stage.proxy)
        let late = try fresh.request("GET", "/late", authority: Stage.host)
        #expect(try fresh.finish(late).text == "/late")
        try fresh.wait { false }
        try used.wait { false }
        for peer in [fresh, used] { #expect(!peer.goAways.isEmpty && Set(peer.goAways) == [.noError]) }
        #expect(try stage.proxy.waitForExit().exitCode == 0)
    }

    @Test("from the signal on the proxy is unready and alive")
    func readiness() throws {
        let stage = try stage { $0.members["admin"] = ["address": "127.0.0.1:0"] }
        let idle = try stage.proxy.connect()
        try beginStop(stage.proxy)
        for (path, status) in [("/ready", 503), ("/live", 200)] {
            let response = try stage.proxy.exchange("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
            #expect(response.status == status, "\(path)")
        }
        try idle.send(ProxyUnderTest.request("GET", stage.url("/still")))
        #expect(try idle.readResponse().text == "/still")
        #expect(try stage.proxy.waitForExit().exitCode == 0)
    }
}
