// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Clients that speak something else", .onOwnThreads)
struct GarbageTests {
    /// The beginning of a TLS ClientHello.
    private static let hello: [UInt8] = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xFC, 0x03, 0x03]

    @Test("bytes of any kind are refused or time out, without harm")
    func garbage() throws {
        let stage = try Stage({ $0.setTimeouts(["head": "500ms", "idle": "500ms"]) }) { OriginResponse.text($0.target) }
        var generator = SeededGenerator(seed: 11)
        var pieces = [Self.hello, Array("SSH-2.0-OpenSSH_9.2\r\n".utf8), Array("EHLO mail.example\r\n".utf8)]
        pieces += (1..<30).map { count in
            (0..<(count * 37)).map { _ in UInt8.random(in: 0...255, using: &generator) }
        }
        for bytes in pieces {
            let client = try stage.proxy.connect()
            try client.send(bytes)
            let response = String(decoding: try client.readToEnd(), as: UTF8.self)
            #expect(response.hasPrefix("HTTP/1.1 4") || response.hasPrefix("HTTP/1.1 5"), "\(bytes.prefix(20))")
        }
        #expect(try stage.get("/after").text == "/after")
        #expect(stage.origin.requests.map(\.target) == ["/after"])
        #expect(try stage.proxy.terminate().exitCode == 0)
    }

    @Test("endless fields are refused at their limit, and cost no memory")
    func endlessFields() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        #expect(try stage.get("/first").text == "/first")
        let before = try stage.proxy.residentMemory()
        let client = try stage.proxy.connect()
        try client.send("GET \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\n")
        let field = Array("X-Field: \(String(repeating: "x", count: 1000))\r\n".utf8)
        var sent = 0
        // 100 MB, or until the proxy has had enough: it lingers a little for what is on its way.
        while sent < 100 << 20 {
            do { try client.send(field) } catch { break }
            sent += field.count
        }
        #expect(sent < 32 << 20)
        #expect(try stage.proxy.residentMemory() - before < (Programs.isSanitized ? 256 << 20 : 4 << 20))
        // The two connections may belong to different workers, whose lines come in either order.
        #expect(try stage.proxy.waitForTaskLines(2).contains { $0.integer("status") == 431 })
    }

    @Test("limits.headFields bounds the number of fields")
    func fieldCount() throws {
        let stage = try Stage({ $0.members["limits"] = ["headFields": 20] }) { OriginResponse.text($0.target) }
        #expect(try stage.get(fields: (0..<19).map { "X-\($0): 1" }).status == 200)
        #expect(try stage.get(fields: (0..<20).map { "X-\($0): 1" }).status == 431)
    }
}
