// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import TestSupport
import Testing

/// Each byte is compared: of files in the kernel's memory, which go out without a copy, of files that only the disk has, and of those
/// that are partly here and partly there.
@Suite("Stored bodies that go out from their files", .onOwnThreads)
struct FileDeliveryTests {
    private static let body = patternBytes(5_000_017)
    private static let small = patternBytes(40_000, seed: 2)

    /// A proxy whose memory takes no body, an origin with two of them, and a folder with the cache.
    private final class Fixture {
        let folder: TemporaryFolder
        let cache: CacheFixture
        /// The requests that were made to store the bodies.
        var made = 0

        init(_ body: [UInt8] = FileDeliveryTests.body, _ change: (inout ProxySettings) -> Void = { _ in }) throws {
            folder = try TemporaryFolder()
            let disk: [String: Any] = ["path": "\(folder.path)/cache", "size": "400MB"]
            cache = try CacheFixture(["memory": "1MB", "disk": disk], change) { connection in
                while let request = try connection.readRequest() {
                    let body = request.target.hasPrefix("/small") ? FileDeliveryTests.small : body
                    try connection.write(
                        "HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: \(body.count)\r\n\r\n"
                    )
                    if request.method != "HEAD" { try connection.write(body) }
                }
            }
        }

        var port: UInt16 { cache.proxy.port }

        func request(_ method: String = "GET", _ path: String = "/", _ fields: String...) -> String {
            ProxyUnderTest.request(method, cache.stage.url(path), fields: fields)
        }

        /// Has the disk take a body.
        func store(_ path: String = "/") throws {
            made += 1
            #expect(try cache.get(path).status == 200)
            try Patience.poll(for: "the body to be stored") {
                made += 1
                return try cache.get(path, fields: ["Cache-Control: only-if-cached"]).status == 200 ? true : nil
            }
        }

        /// The paths of the stored bodies.
        var files: [String] {
            let names = FileManager.default.subpaths(atPath: "\(folder.path)/cache/bodies") ?? []
            return names.filter { $0.contains("/") }.map { "\(folder.path)/cache/bodies/\($0)" }
        }
    }

    private static func range(of count: Int, _ random: inout SeededGenerator) -> Range<Int> {
        let start = Int.random(in: 0..<count, using: &random)
        // Some are small: those are copied.
        let most = [100, 40_000, 1 << 20, count][Int.random(in: 0..<4, using: &random)]
        return start..<min(count, start + Int.random(in: 1...most, using: &random))
    }

    private static func check(_ response: HTTPMessage, _ range: Range<Int>, of body: [UInt8]) {
        #expect(response.status == 206)
        #expect(response["Content-Range"] == "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(body.count)")
        #expect(firstDifference(response.body, Array(body[range])) == nil, "\(range)")
    }

    @Test("each range of a stored file has its bytes, in memory and not", arguments: [false, true])
    func ranges(isDropped: Bool) throws {
        let fixture = try Fixture()
        try fixture.store()
        var random = SeededGenerator(seed: 3)
        let client = try TestClient(port: fixture.port)
        for _ in 0..<25 {
            if isDropped { #expect(try fixture.folder.dropFromPageCache() > 0) }
            let range = Self.range(of: Self.body.count, &random)
            try client.send(fixture.request("GET", "/", "Range: bytes=\(range.lowerBound)-\(range.upperBound - 1)"))
            Self.check(try client.readResponse(), range, of: Self.body)
        }
        if isDropped { #expect(try fixture.folder.dropFromPageCache() > 0) }
        try client.send(fixture.request())
        #expect(firstDifference(try client.readResponse().body, Self.body) == nil)
        #expect(fixture.cache.requests.count == 1)
    }

    @Test("requests in a row on one connection get their bodies in order")
    func pipeline() throws {
        let fixture = try Fixture()
        try fixture.store()
        try fixture.store("/small")
        let client = try TestClient(port: fixture.port, receiveBuffer: 20_000)
        let requests = [
            fixture.request(), fixture.request("HEAD"), fixture.request("GET", "/small"),
            fixture.request("GET", "/", "Range: bytes=4999000-"), fixture.request("GET", "/small"), fixture.request(),
        ]
        try client.send(requests.joined())
        #expect(firstDifference(try client.readResponse().body, Self.body) == nil)
        let head = try client.readResponse(to: "HEAD")
        #expect(head.status == 200 && head["Content-Length"] == "\(Self.body.count)")
        #expect(firstDifference(try client.readResponse().body, Self.small) == nil)
        Self.check(try client.readResponse(), 4_999_000..<Self.body.count, of: Self.body)
        #expect(firstDifference(try client.readResponse().body, Self.small) == nil)
        #expect(firstDifference(try client.readResponse().body, Self.body) == nil)
        let lines = try fixture.cache.proxy.waitForTaskLines(fixture.made + 6).suffix(6).compactMap {
            $0.integer("bytesReceived")
        }
        #expect(lines == [Self.body.count, 0, 40_000, Self.body.count - 4_999_000, 40_000, Self.body.count])
    }

    @Test("clients with TLS and HTTP/2 get the same bytes", arguments: ["tls", "tls h2", "h2c"], [false, true])
    func otherClients(kind: String, isDropped: Bool) throws {
        let own = try Stage.pki.server("localhost")
        let fixture = try Fixture { settings in
            settings.addGateway(to: Stage.host)
            settings.listeners[1]["http2"] = kind != "tls"
            guard kind != "h2c" else { return }
            settings.files["own.pem"] = own.chainPEM
            settings.files["own.key"] = own.privateKeyPEM
            settings.listeners[1]["tls"] = ["certificate": "own.pem", "key": "own.key"]
        }
        try fixture.store()
        try fixture.folder.write(Stage.pki.root.certificate.pem, as: "root.pem")
        let file = "\(fixture.folder.path)/out"
        let scheme = kind == "h2c" ? "http" : "https"
        let protocols = kind == "h2c" ? "--http2-prior-knowledge" : kind == "tls" ? "--http1.1" : "--http2"
        for range in [0..<Self.body.count, 1_234_567..<4_000_000, 4_990_000..<4_999_999] {
            if isDropped { #expect(try fixture.folder.dropFromPageCache() > 0) }
            let curl = try Programs.run(
                "curl",
                [
                    "-sS", "--max-time", "60", protocols, "--cacert", "\(fixture.folder.path)/root.pem", "-o", file,
                    "-w",
                    "%{http_version}", "-r", "\(range.lowerBound)-\(range.upperBound - 1)",
                    "\(scheme)://localhost:\(fixture.cache.proxy.port(of: 1))/",
                ]
            )
            #expect(curl.exitCode == 0 && curl.output == (kind == "tls" ? "1.1" : "2"), "\(curl.errors)")
            let bytes = try Array(Data(contentsOf: URL(fileURLWithPath: file)))
            #expect(firstDifference(bytes, Array(Self.body[range])) == nil)
        }
        #expect(fixture.cache.requests.count == 1)
    }

    @Test("a file that becomes shorter ends its response, and is not used again")
    func truncated() throws {
        // Larger than what the kernel holds for a client that does not read, and small enough to wait whole for a slow disk.
        let body = patternBytes(8 << 20)
        let fixture = try Fixture(body)
        try fixture.store()
        let client = try TestClient(port: fixture.port, receiveBuffer: 4096)
        try client.send(fixture.request())
        let head = try client.readResponseHead()
        #expect(head["Content-Length"] == "\(body.count)")
        let file = try #require(fixture.files.first)
        #expect(fixture.files.count == 1 && truncate(file, 6 << 20) == 0)
        let received = try client.readToEnd()
        #expect(firstDifference(received, Array(body.prefix(6 << 20))) == nil)
        let line = try #require(try fixture.cache.proxy.waitForTaskLines(fixture.made + 1).last)
        #expect(line.integer("bytesReceived") == 6 << 20)
        #expect(firstDifference(try fixture.cache.get().body, body) == nil)
        #expect(fixture.cache.requests.count == 2)
    }

    @Test("many clients get their bytes while the kernel forgets the files")
    func load() throws {
        let fixture = try Fixture { $0.members["workers"] = 2 }
        try fixture.store()
        try fixture.store("/other")
        let running = Monitor(8)
        let failures = Monitor<[String]>([])
        for number in 0..<8 {
            let url = fixture.cache.stage.url(number % 2 == 0 ? "/" : "/other")
            let port = fixture.port
            Thread.detachNewThread {
                var random = SeededGenerator(seed: UInt64(number))
                do {
                    for _ in 0..<3 {
                        let buffer: Int32? = number % 3 == 0 ? 8192 : nil
                        let client = try TestClient(port: port, receiveBuffer: buffer)
                        for _ in 0..<4 {
                            let range = Self.range(of: Self.body.count, &random)
                            let field = "Range: bytes=\(range.lowerBound)-\(range.upperBound - 1)"
                            try client.send(ProxyUnderTest.request("GET", url, fields: [field]))
                            let response = try client.readResponse()
                            let difference = firstDifference(response.body, Array(Self.body[range]))
                            guard response.status == 206, difference == nil else {
                                throw TimedOut("\(range): \(response.status), \(difference ?? "")")
                            }
                        }
                    }
                } catch {
                    failures.with { $0.append("\(error)") }
                }
                running.with { $0 -= 1 }
            }
        }
        while running.read({ $0 }) > 0 {
            _ = try fixture.folder.dropFromPageCache()
            usleep(20_000)
        }
        #expect(failures.read { $0 } == [])
        #expect(fixture.cache.requests.count == 2)
    }
}
