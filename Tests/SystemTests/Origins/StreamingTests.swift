// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("Bodies stream and are not stored", .serialized, .earlyOnOwnThreads)
struct StreamingTests {
    /// How far the proxy's memory may rise above idle. A sanitizer keeps freed memory and shadows all of it: under one,
    /// nothing less than a whole body is found.
    private static let allowance = Programs.isSanitized ? 512 << 20 : 10 << 20
    private static let gigabyte = 1 << 30

    @Test("a 300 KB upload arrives intact, with Content-Length and in chunks", arguments: [true, false])
    func upload(hasLength: Bool) throws {
        let stage = try Stage { OriginResponse.text("\($0.body.count)") }
        let body = patternBytes(300 << 10)
        let client = try stage.proxy.connect()
        let framing = hasLength ? "Content-Length: \(body.count)" : "Transfer-Encoding: chunked"
        try client.send("PUT \(stage.url("/upload")) HTTP/1.1\r\nHost: \(Stage.host)\r\n\(framing)\r\n\r\n")
        if hasLength {
            try client.send(body)
        } else {
            // Sizes that fit no buffer.
            var rest = body[...]
            while !rest.isEmpty {
                let piece = rest.prefix(7001)
                try client.send(Array("\(String(piece.count, radix: 16))\r\n".utf8) + piece + Array("\r\n".utf8))
                rest = rest.dropFirst(piece.count)
            }
            try client.send("0\r\n\r\n")
        }
        let response = try client.readResponse(to: "PUT")
        #expect(response.text == "\(body.count)")
        let request = try #require(stage.origin.requests.first)
        // Compared beforehand: a failing `#expect` would work out a difference, which takes minutes at this size.
        let isIntact = request.body == body
        #expect(isIntact)
        #expect(request["Content-Length"] == (hasLength ? "\(body.count)" : nil))
        #expect(request["Transfer-Encoding"] == (hasLength ? nil : "chunked"))
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.integer("bytesSent") == body.count)
    }

    @Test("a 300 KB upload by curl reaches nginx intact over HTTP/1.1 and HTTP/2", arguments: ["1.1", "2"])
    func uploadToNginx(version: String) throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try NginxOrigin(server, http2: version == "2")
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = version
        let proxy = try ProxyUnderTest(settings)
        let body = patternBytes(300 << 10)
        let file = try proxy.folder.write(bytes: body, as: "upload")
        for (name, fields) in [("length", []), ("chunked", ["-H", "Transfer-Encoding: chunked"])] {
            let curl = try Programs.run(
                "curl",
                ["-sS", "-f", "-x", "http://127.0.0.1:\(proxy.port)", "-T", file] + fields
                    + ["http://\(Stage.host)/files/\(name)"]
            )
            #expect(curl.exitCode == 0, "\(curl.errors)")
            let isIntact = try origin.file(name) == body
            #expect(isIntact, "\(name)")
        }
    }

    @Test("a download of 1 GB passes whole, in constant memory")
    func download() throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try NginxOrigin(server)
        try origin.makeSparseFile("large", bytes: Self.gigabyte)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        let proxy = try ProxyUnderTest(settings)
        #expect(try proxy.get("http://\(Stage.host)/plain").status == 200)
        let idle = try proxy.residentMemory()
        let curl = try ChildProcess(
            try Programs.path(of: "curl"),
            [
                "-sS", "-x", "http://127.0.0.1:\(proxy.port)", "-o", "/dev/null", "-w", "%{http_code} %{size_download}",
                "http://\(Stage.host)/files/large",
            ]
        )
        var highest = 0
        try Patience.poll(for: "the download", seconds: 120, every: 0.02) {
            highest = max(highest, try proxy.residentMemory())
            return curl.exitCode
        }
        let finished = try curl.waitForExit()
        #expect(finished.output == "200 \(Self.gigabyte)", "\(finished.errors)")
        #expect(highest - idle < Self.allowance, "rose by \((highest - idle) >> 10) KB")
    }

    @Test("a slow reader slows the origin, and costs no memory")
    func slowReader() throws {
        let stage = try Stage { connection in
            while let request = try connection.readRequest() {
                if request.target == "/small" {
                    try connection.respond("small")
                    continue
                }
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(Self.gigabyte)\r\n\r\n")
                let piece = [UInt8](repeating: 120, count: 256 << 10)
                for _ in 0..<(Self.gigabyte / piece.count) { try connection.write(piece) }
            }
        }
        #expect(try stage.get("/small").status == 200)
        let idle = try stage.proxy.residentMemory()
        let client = try TestClient(port: stage.proxy.port, receiveBuffer: 64 << 10)
        try client.send(ProxyUnderTest.request("GET", stage.url("/large")))
        #expect(try client.readResponseHead()["Content-Length"] == "\(Self.gigabyte)")
        // The capacity of the kernel's buffers of two connections and of the proxy's own; far less than the whole.
        let first = try settledCount(stage.origin)
        #expect(first < 48 << 20, "the origin could write \(first >> 20) MB to a reader that does not read")
        #expect(try stage.proxy.residentMemory() - idle < Self.allowance)
        // The reader takes some: the origin may go on, and not further than before.
        var taken = 0
        while taken < 64 << 20 { taken += try client.receive(upTo: 1 << 20).count }
        let second = try settledCount(stage.origin)
        #expect(second > taken)
        #expect(second < taken + 48 << 20)
        #expect(try stage.proxy.residentMemory() - idle < Self.allowance)
        // And when the reader goes, so does the transfer.
        client.reset()
        try stage.origin.wait(for: "the end of the transfer") { $0.contains { $0.failure != nil } ? true : nil }
    }

    @Test("a slow origin slows the uploading client, and costs no memory")
    func slowOrigin() throws {
        let gate = Gate()
        let stage = try Stage { connection in
            while let head = try connection.readRequestHead() {
                if head.target == "/small" {
                    try connection.respond("small")
                    continue
                }
                try gate.pass()
                let whole = try connection.readBody(of: head)
                try connection.respond("\(whole.body.count)")
            }
        }
        #expect(try stage.get("/small").status == 200)
        let idle = try stage.proxy.residentMemory()
        let size = 96 << 20
        let client = try stage.proxy.connect()
        try client.send("PUT \(stage.url("/large")) HTTP/1.1\r\nHost: \(Stage.host)\r\nContent-Length: \(size)\r\n\r\n")
        let piece = [UInt8](repeating: 121, count: 256 << 10)
        var sent = 0
        var quiet = 0
        // Until the client has been held back for a while.
        while sent < size, quiet < 50 {
            let count = try client.sendNow(Array(piece.prefix(size - sent)))
            sent += count
            quiet = count == 0 ? quiet + 1 : 0
            if count == 0 { Thread.sleep(forTimeInterval: 0.01) }
        }
        #expect(sent < 48 << 20, "\(sent >> 20) MB went to an origin that does not read")
        #expect(try stage.proxy.residentMemory() - idle < Self.allowance)
        gate.open()
        while sent < size {
            let next = Array(piece.prefix(size - sent))
            try client.send(next)
            sent += next.count
        }
        #expect(try client.readResponse(to: "PUT").text == "\(size)")
        #expect(try stage.proxy.residentMemory() - idle < Self.allowance)
    }

    /// How much the origin has written, once that has not changed for a while.
    private func settledCount(_ origin: ScriptedOrigin) throws -> Int {
        var last = -1
        var quiet = 0
        return try Patience.poll(for: "the origin to be held back", every: 0.02) {
            let count = origin.connections.reduce(0) { $0 + $1.bytesWritten }
            quiet = count == last ? quiet + 1 : 0
            last = count
            return quiet >= 20 ? count : nil
        }
    }
}
