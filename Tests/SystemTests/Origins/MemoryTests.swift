// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Memory over many requests", .serialized, .earlyOnOwnThreads)
struct MemoryTests {
    /// The growth of one round, multiplied.
    private func growth(_ proxy: ProxyUnderTest, rounds: Int, _ round: (Int) throws -> Void) throws -> Int {
        // Until pools and tables have their size.
        for number in 0..<(rounds / 3) { try round(number) }
        let before = try proxy.residentMemory()
        for number in 0..<rounds { try round(number) }
        return try proxy.residentMemory() - before
    }

    private static let allowance = Programs.isSanitized ? 512 << 20 : 3 << 20

    @Test("connections that come and go leave no memory")
    func connections() throws {
        let stage = try Stage({ $0.members["log"] = ["tasks": "off"] }) {
            OriginResponse.text(String(repeating: "x", count: $0.target == "/large" ? 50_000 : 100))
        }
        let grown = try growth(stage.proxy, rounds: 1500) { number in
            let client = try stage.proxy.connect()
            switch number % 4 {
            case 0: try client.send("GET http://\(Stage.host)/ HTTP/1.1\r\nHost: \(Stage.host)\r\nX-Half: ")
            case 1:
                try client.send(ProxyUnderTest.request("GET", stage.url("/large")))
                client.reset()
            default:
                try client.send(ProxyUnderTest.request("POST", stage.url("/large"), body: "body"))
                _ = try client.readResponse(to: "POST")
            }
        }
        #expect(grown < Self.allowance, "grew by \(grown >> 10) KB")
    }

    @Test("refused servers and new TLS connections leave no memory")
    func handshakes() throws {
        let stage = try Stage({
            $0.members["log"] = ["tasks": "off"]
            $0.hosts["refused.example.com"] = $0.hosts[Stage.host]
            $0.pin("refused.example.com", to: .unrelated(2))
        }) { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.respond("last", fields: ["Connection: close"])
        }
        let grown = try growth(stage.proxy, rounds: 450) { number in
            let isRefused = number % 2 == 0
            let host = isRefused ? "refused.example.com" : Stage.host
            let response = try stage.proxy.get("http://\(host)/")
            #expect(response.status == (isRefused ? 502 : 200))
        }
        #expect(grown < Self.allowance, "grew by \(grown >> 10) KB")
    }
}
