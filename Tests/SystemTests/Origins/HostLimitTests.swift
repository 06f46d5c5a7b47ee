// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Limits of the connections to one origin", .onOwnThreads)
struct HostLimitTests {
    /// An origin that holds `/held` back until the gate opens.
    private func stage(_ gate: Gate, _ change: @escaping (inout ProxySettings) -> Void) throws -> Stage {
        try Stage({
            $0.members["workers"] = 1
            change(&$0)
        }) { connection in
            while let request = try connection.readRequest() {
                if request.target == "/held" { try gate.pass() }
                try connection.respond(request.target)
            }
        }
    }

    @Test("a request that waits too long for a connection gets 503 with Retry-After", arguments: ["host", "defaults"])
    func queueTimeout(place: String) throws {
        let gate = Gate()
        let stage = try stage(gate) { settings in
            if place == "host" {
                settings.hosts[Stage.host]?["connectionsPerHost"] = 1
                settings.hosts[Stage.host]?["timeouts"] = ["queue": "200ms"]
            } else {
                settings.members["defaults"] = ["connectionsPerHost": 1, "timeouts": ["queue": "200ms"]]
            }
        }
        let held = try stage.proxy.connect()
        try held.send(ProxyUnderTest.request("GET", stage.url("/held")))
        try stage.origin.wait(for: "the first") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url("/late")))
        let refusal = try client.readResponse()
        #expect(refusal.status == 503)
        #expect(refusal.problemCode == "limit_reached")
        #expect(refusal["Retry-After"] == "1")
        #expect(refusal["Proxy-Status"]?.hasPrefix("pinproxy; error=connection_limit_reached") == true)
        gate.open()
        #expect(try held.readResponse().text == "/held")
        #expect(try stage.get("/again").text == "/again")
        #expect(stage.origin.requests.map(\.target) == ["/held", "/again"])
        let line = try #require(try stage.proxy.waitForTaskLines(3).first { $0.string("error") != nil })
        #expect(line.string("error") == "limit_reached")
    }

    @Test("waiting requests are served in order, over existing connections")
    func order() throws {
        let gate = Gate()
        let stage = try stage(gate) { $0.hosts[Stage.host]?["connectionsPerHost"] = 1 }
        let held = try stage.proxy.connect()
        try held.send(ProxyUnderTest.request("GET", stage.url("/held")))
        try stage.origin.wait(for: "the first") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        var clients: [TestClient] = []
        for number in 0..<20 {
            let client = try stage.proxy.connect()
            try client.send(ProxyUnderTest.request("GET", stage.url("/\(number)")))
            clients.append(client)
        }
        // One of them goes away.
        clients[7].reset()
        gate.open()
        #expect(try held.readResponse().text == "/held")
        for (number, client) in clients.enumerated() where number != 7 {
            #expect(try client.readResponse().text == "/\(number)")
        }
        #expect(stage.origin.connections.count == 1)
        let numbers = stage.origin.requests.dropFirst().compactMap { Int($0.target.dropFirst()) }
        #expect(Set(numbers).subtracting([7]) == Set((0..<20).filter { $0 != 7 }))
    }

    @Test("another host at the same address does not wait")
    func otherHost() throws {
        let gate = Gate()
        let stage = try stage(gate) { settings in
            settings.hosts[Stage.host]?["connectionsPerHost"] = 1
            let address = settings.hosts[Stage.host]?["resolve"] ?? ""
            settings.hosts["other.example.com"] = ["resolve": address, "upgrade": true]
            settings.pinnedDomains["other.example.com"] = settings.pinnedDomains[Stage.host]?.merging([
                "validatesDomainName": false
            ]) { $1 }
        }
        let held = try stage.proxy.connect()
        try held.send(ProxyUnderTest.request("GET", stage.url("/held")))
        try stage.origin.wait(for: "the first") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        #expect(try stage.proxy.get("http://other.example.com/other").text == "/other")
        gate.open()
        #expect(try held.readResponse().text == "/held")
    }

    @Test("a WebSocket counts as a connection: a GET waits for it")
    func webSocket() throws {
        let gate = Gate()
        let stage = try Stage({
            $0.members["workers"] = 1
            $0.hosts[Stage.host]?["connectionsPerHost"] = 1
            $0.hosts[Stage.host]?["timeouts"] = ["queue": "200ms"]
        }) { connection in
            guard connection.number == 0 else {
                while let request = try connection.readRequest() { try connection.respond(request.target) }
                return
            }
            _ = try connection.readRequestHead()
            try connection.write(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            )
            try gate.pass()
        }
        let socket = try stage.proxy.connect()
        let offer = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13"]
        try socket.send(ProxyUnderTest.request("GET", stage.url("/chat"), fields: offer))
        #expect(try socket.readResponseHead().status == 101)
        let refusal = try stage.get("/beside")
        #expect(refusal.status == 503 && refusal.problemCode == "limit_reached")
        #expect(stage.origin.connections.count == 1)
        gate.open()
        _ = try socket.readToEnd()
        socket.close()
        // The line of the WebSocket comes with its end.
        _ = try stage.proxy.waitForTaskLines(2)
        #expect(try stage.get("/after").text == "/after")
    }
}
