// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Bodies in and out of a session's cache", .onOwnThreads)
struct CacheBodyTests {
    private static let body = patternBytes(1_500_000)

    private static let serve: ScriptedOrigin.Script = { connection in
        while try connection.readRequest() != nil {
            try connection.write(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"v\"\r\nContent-Length: \(body.count)\r\n\r\n"
            )
            try connection.write(body)
        }
    }

    @Test("a body comes from memory or from a file, whole or in part")
    func whole() async throws {
        let folder = try TemporaryFolder()
        for memory in [1 << 26, 1 << 20] {
            let cache = try SessionCache(
                memoryCapacity: memory,
                diskCapacity: 1 << 26,
                diskPath: folder.path + "/\(memory)"
            )
            let cached = try CacheFixture(cache: cache, script: Self.serve)
            #expect(try await cached.response(cached.request()).data == Self.body)
            if memory == 1 << 20 { try await eventually("the file") { cache.currentDiskUsage > Self.body.count } }
            let again = try await cached.response(cached.request())
            #expect(again.data == Self.body && again.sources == ["localCache 200"])
            let part = try await cached.response(cached.request("/", policy: nil, ("Range", "bytes=100000-899999")))
            #expect(part.response.status == 206)
            #expect(part.data.elementsEqual(Self.body[100_000..<900_000]))
            let validated = try await cached.response(cached.request("/", .head))
            #expect(validated.data.isEmpty && validated.response.contentLength == Self.body.count)
            #expect(cached.asked.count == 1)
            await cached.end()
            await cache.close()
        }
    }

    @Test(
        "a stored response waits while its task is suspended, and ends with its cancellation",
        arguments: [false, true]
    )
    func suspension(isCancelled: Bool) async throws {
        let folder = try TemporaryFolder()
        let cache = try SessionCache(memoryCapacity: 1 << 20, diskCapacity: 1 << 26, diskPath: folder.path + "/c")
        let cached = try CacheFixture(cache: cache, script: Self.serve)
        _ = try await cached.response(cached.request())
        try await eventually("the file") { cache.currentDiskUsage > Self.body.count }
        let task = try cached.manager.dataTask(with: cached.request())
        let received = Monitor(0)
        (task.delegate as? DataTaskDelegate)?.dataStream = { [weak task] bytes in
            received.with {
                if $0 == 0 { task?.suspend() }
                $0 += bytes.count
            }
        }
        task.resume()
        try await eventually("the first bytes") { received.with { $0 > 0 } }
        #expect(task.state == .suspended)
        if isCancelled {
            task.cancel()
            await #expect { _ = try await task.value() } throws: { $0.sessionCode == .cancelled }
            #expect(received.with { $0 } < Self.body.count)
        } else {
            #expect(received.with { $0 } < Self.body.count)
            _ = try await task.value()
            #expect(received.with { $0 } == Self.body.count)
        }
        #expect(cached.asked.count == 1)
        await cached.end()
        await cache.close()
    }

    @Test("a body that is cancelled, broken off or without known length is not stored")
    func incomplete() async throws {
        let plain = try ScriptedOrigin(nil) { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\nsome")
        }
        let cached = try CacheFixture { configuration in
            configuration.resolve[try! Host("plain.example.com")] = (host: try! Host("127.0.0.1"), port: plain.port)
        } script: { connection in
            while let request = try connection.readRequest() {
                switch request.target {
                case "/broken":
                    try connection.write(
                        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\nsome"
                    )
                    return
                case "/slow":
                    try connection.write(
                        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\nsome"
                    )
                    connection.readToEnd()
                default:
                    try connection.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\nwhole")
                    return
                }
            }
        }
        for _ in 0..<2 {
            let http = HTTPSessionRequest(url: "http://plain.example.com/")
            #expect(try await cached.response(http).text == "some")
            await #expect { _ = try await cached.get("/broken") } throws: { $0.sessionCode == .responseTruncated }
            let task = try cached.manager.dataTask(with: cached.request("/slow"))
            (task.delegate as? DataTaskDelegate)?.dataStream = { [weak task] _ in task?.cancel() }
            await #expect { _ = try await task.value() } throws: { $0.sessionCode == .cancelled }
            // TLS says where it ends.
            #expect(try await cached.get("/tls") == "whole")
        }
        #expect(cached.asked.sorted() == ["/broken", "/broken", "/slow", "/slow", "/tls"])
        #expect(plain.requests.count == 2)
        await cached.end()
    }

    @Test("invalidating the session ends bodies that are being delivered")
    func invalidation() async throws {
        let cached = try CacheFixture(script: Self.serve)
        _ = try await cached.response(cached.request())
        let endpoint = try cached.manager.endpoint(for: ManagerStage.url("/"))
        let error = Monitor<SessionError?>(nil)
        cached.manager.perform { session in
            guard let request = try? SessionRequest(endpoint: endpoint, method: .get, target: "/") else { return }
            session.dataTask(with: request, delegate: Pausing { end in error.with { $0 = end } }).resume()
        }
        await cached.manager.invalidateSession(cancelingTasks: true)
        #expect(error.with { $0?.code } == .cancelled)
        await cached.end()
    }
}

/// Takes no body.
private final class Pausing: LoopTaskDelegate {
    private let tell: (SessionError?) -> Void

    init(_ tell: @escaping (SessionError?) -> Void) { self.tell = tell }

    override func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow { .pause }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) { tell(error) }
}
