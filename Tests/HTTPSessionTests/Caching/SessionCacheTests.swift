// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("A session's cache", .onOwnThreads)
struct SessionCacheTests {
    @Test("a fresh response is reused as a transaction, and sets no cookie twice")
    func fresh() async throws {
        let cookies = CookieStorage()
        let cached = try CacheFixture({ $0.cookieStorage = cookies }) { _ in
            OriginResponse.text("hello", fields: ["Cache-Control: max-age=60", "Set-Cookie: a=1", "X-Own: y"])
        }
        let request = try cached.request("/items?q")
        #expect(try await cached.response(request).sources == ["networkLoad 200"])
        cookies.removeAll()
        let task = try cached.manager.dataTask(with: request)
        let response = try await task.value()
        #expect(response.text == "hello")
        #expect(response.response.status == 200)
        #expect(response.response.fields.value(for: "X-Own") == "y")
        #expect(response.response.fields.value(for: "Age") != nil)
        #expect(response.response.contentLength == 5)
        #expect(response.sources == ["localCache 200"])
        let transaction = response.metrics.transaction
        #expect(transaction.fetchStart >= 0 && transaction.responseStart >= transaction.fetchStart)
        #expect(transaction.responseEnd >= transaction.responseStart)
        #expect(transaction.requestStart == TransactionMetrics.absent && transaction.connection == nil)
        #expect(response.metrics.duration >= transaction.responseEnd)
        #expect(task.countOfBytesReceived == 5 && task.countOfBytesExpectedToReceive == 5)
        #expect(cookies.field(for: AbsoluteURL(request.url)!) == nil)
        #expect(cached.asked == ["/items?q"])
        #expect(try await cached.response(cached.request("/items?q", .head)).response.contentLength == 5)
        #expect(cached.asked == ["/items?q"])
        await cached.end()
    }

    @Test("without a cache nothing is kept, and requests for stored responses fail")
    func none() async throws {
        let stage = try ManagerStage(responding: CacheFixture.counting("Cache-Control: max-age=60"))
        func get(_ policy: CachePolicy?) async throws -> String {
            try await stage.manager.dataTask(
                with: HTTPSessionRequest(url: ManagerStage.url("/"), cachePolicy: policy)
            ).value().text
        }
        #expect(try await get(nil) == "1")
        #expect(try await get(.returnCacheDataElseLoad) == "2")
        await #expect { try await get(.returnCacheDataDontLoad) } throws: { $0.sessionCode == .notStored }
        #expect(stage.origin.requests.count == 2)
        await stage.end()
    }

    @Test("a stale response is validated: the 304 is a transaction, its cookies count")
    func validated() async throws {
        let cookies = CookieStorage()
        let cached = try CacheFixture({ $0.cookieStorage = cookies }) { request in
            request["If-None-Match"] == "\"v1\""
                ? "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nSet-Cookie: b=2\r\nX-New: n\r\n\r\n"
                : OriginResponse.text("hello", fields: ["Cache-Control: max-age=0", "ETag: \"v1\""])
        }
        #expect(try await cached.get() == "hello")
        let response = try await cached.response(cached.request())
        #expect(response.text == "hello" && response.response.status == 200)
        #expect(response.response.fields.value(for: "X-New") == "n")
        #expect(response.sources == ["networkLoad 304", "localCache 200"])
        #expect(response.metrics.redirectCount == 0)
        #expect(response.metrics.earlierTransactions[0].isReusedConnection)
        #expect(cookies.field(for: AbsoluteURL(ManagerStage.url("/"))!) == "b=2")
        #expect(cached.asked == ["/", "/"])
        // A client with a copy of its own gets the 304.
        let own = try await cached.response(
            cached.request("/", policy: .returnCacheDataElseLoad, ("If-None-Match", "\"v1\""))
        )
        #expect(own.response.status == 304 && own.data.isEmpty)
        #expect(cached.asked.count == 2)
        await cached.end()
    }

    @Test(
        "each policy treats a stale response as its name says",
        arguments: [
            (CachePolicy.useProtocolCachePolicy, "2", nil as String?), (.reloadIgnoringLocalCacheData, "2", nil),
            (.reloadIgnoringLocalAndRemoteCacheData, "2", "no-cache"), (.reloadRevalidatingCacheData, "2", "no-cache"),
            (.returnCacheDataElseLoad, "1", nil), (.returnCacheDataDontLoad, "1", nil),
        ]
    )
    func policies(policy: CachePolicy, text: String, control: String?) async throws {
        for isConfigured in [false, true] {
            let cached = try CacheFixture(
                { if isConfigured { $0.cachePolicy = policy } },
                responding: CacheFixture.counting("Cache-Control: max-age=0")
            )
            #expect(try await cached.get(policy: .reloadIgnoringLocalCacheData) == "1")
            #expect(try await cached.get(policy: isConfigured ? nil : policy) == text)
            if text == "2" { #expect(cached.stage.origin.requests[1]["Cache-Control"] == control) }
            #expect(cached.asked.count == Int(text))
            await cached.end()
        }
    }

    @Test(
        "each policy follows Cache-Control",
        arguments: [
            ("public", "2211"), ("private", "2211"), ("max-age=3600", "1211"), ("max-age=0", "2211"),
            ("no-cache", "222-"),
            ("no-store", "222-"),
        ]
    )
    func controls(control: String, expected: String) async throws {
        let policies: [CachePolicy] = [
            .useProtocolCachePolicy, .reloadIgnoringLocalCacheData, .returnCacheDataElseLoad, .returnCacheDataDontLoad,
        ]
        for (policy, expected) in zip(policies, expected) {
            let cached = try CacheFixture(responding: CacheFixture.counting("Cache-Control: \(control)"))
            #expect(try await cached.get() == "1")
            let text: String
            do {
                text = try await cached.get(policy: policy)
            } catch let error as SessionError {
                text = error.code == .notStored ? "-" : "\(error)"
            }
            #expect(text == String(expected), "\(control) \(policy)")
            await cached.end()
        }
    }

    @Test("a fresh response is requested anew where the policy says so, and stored")
    func reloaded() async throws {
        let cached = try CacheFixture(responding: CacheFixture.counting("Cache-Control: max-age=60"))
        #expect(try await cached.get() == "1")
        #expect(try await cached.get(policy: .reloadIgnoringLocalCacheData) == "2")
        #expect(try await cached.get() == "2")
        #expect(try await cached.get(policy: .reloadRevalidatingCacheData) == "3")
        #expect(try await cached.get(policy: .returnCacheDataDontLoad) == "3")
        await #expect {
            _ = try await cached.get("/other", policy: .returnCacheDataDontLoad)
        } throws: {
            $0.sessionCode == .notStored
        }
        let post = try cached.request("/", .post, policy: .returnCacheDataDontLoad)
        await #expect { _ = try await cached.response(post) } throws: { $0.sessionCode == .notStored }
        let download = try cached.manager.downloadTask(with: cached.request(policy: .returnCacheDataDontLoad))
        await #expect { _ = try await download.value() } throws: { $0.sessionCode == .notStored }
        #expect(cached.asked.count == 3)
        await cached.end()
    }

    @Test(
        "a response that may not be stored is requested again",
        arguments: ["Cache-Control: no-store", "Vary: *", "Cache-Control: max-age=60\r\nVary: X-Each"]
    )
    func notStored(fields: String) async throws {
        let cached = try CacheFixture(responding: CacheFixture.counting(fields))
        #expect(try await cached.response(cached.request("/", policy: nil, ("X-Each", "a"))).text == "1")
        #expect(try await cached.response(cached.request("/", policy: nil, ("X-Each", "b"))).text == "2")
        await cached.end()
    }

    @Test("a session's cache is private to one user unless it is declared shared")
    func shared() async throws {
        for isShared in [false, true] {
            let cached = try CacheFixture(
                cache: SessionCache(isShared: isShared),
                responding: CacheFixture.counting("Cache-Control: private, max-age=60")
            )
            #expect(try await cached.get() == "1")
            #expect(try await cached.get() == (isShared ? "2" : "1"))
            await cached.end()
        }
    }

    @Test("a successful POST, PUT or DELETE drops what is stored for its URL")
    func invalidation() async throws {
        let cached = try CacheFixture(responding: CacheFixture.counting("Cache-Control: max-age=60"))
        #expect(try await cached.get() == "1")
        _ = try await cached.response(cached.request("/", .delete))
        #expect(try await cached.get() == "3")
        _ = try await cached.manager.uploadTask(with: cached.request("/", .put), from: [1]).value()
        #expect(try await cached.get() == "5")
        #expect(try await cached.get() == "5")
        await cached.end()
    }

    @Test("downloads neither use stored responses nor store any")
    func downloads() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path
        let cached = try CacheFixture(
            { $0.temporaryFolder = path },
            responding: CacheFixture.counting("Cache-Control: max-age=60")
        )
        _ = try await cached.manager.downloadTask(with: cached.request()).value()
        #expect(try await cached.get() == "2")
        _ = try await cached.manager.downloadTask(with: cached.request()).value()
        #expect(cached.asked.count == 3)
        // One that becomes a download in the midst of a stored answer gets all of it.
        cached.manager.dataTaskDidReceiveResponse = { _, _ in .becomeDownload }
        let becoming = Monitor<DownloadTask?>(nil)
        cached.manager.dataTaskDidBecomeDownloadTask = { _, download in becoming.with { $0 = download } }
        #expect(try await cached.get() == "")
        let download = try #require(becoming.with { $0 })
        #expect(try await download.value().response.contentLength == 1)
        #expect(cached.asked.count == 3)
        await cached.end()
    }

    @Test("a stored redirect is followed without a request; its target is looked up too")
    func redirects() async throws {
        let cached = try CacheFixture { request in
            request.target == "/old"
                ? OriginResponse.text("", status: "301 Moved", fields: ["Location: /new", "Cache-Control: max-age=60"])
                : OriginResponse.text("there", fields: ["Cache-Control: no-store"])
        }
        #expect(try await cached.get("/old") == "there")
        let response = try await cached.response(cached.request("/old"))
        #expect(response.text == "there")
        #expect(response.sources == ["localCache 301", "networkLoad 200"])
        #expect(cached.asked == ["/old", "/new", "/new"])
        await cached.end()
    }

    @Test("a coded response is stored as received, and decoded each time")
    func coded() async throws {
        let cached = try CacheFixture { connection in
            while try connection.readRequest() != nil {
                try connection.write(
                    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\n"
                        + "Cache-Control: max-age=60\r\nContent-Length: \(CodedBody.gzip.count)\r\n\r\n"
                )
                try connection.write(CodedBody.gzip)
            }
        }
        #expect(try await cached.response(cached.request()).data == CodedBody.text)
        #expect(try await cached.response(cached.request()).data == CodedBody.text)
        #expect(cached.asked.count == 1)
        // Another coding is another answer.
        #expect(
            try await cached.response(cached.request("/", policy: nil, ("Accept-Encoding", "br"))).data
                == CodedBody.gzip
        )
        #expect(cached.asked.count == 2)
        await cached.end()
    }

    @Test("simultaneous requests for one URL share one response")
    func collapsed() async throws {
        let gate = Gate()
        // A busy machine may take longer for the first of them than the others wait by default.
        let cache = SessionCache(memoryCapacity: 1 << 20, patience: .seconds(300))
        let cached = try CacheFixture(cache: cache) { connection in
            while try connection.readRequest() != nil {
                try gate.pass()
                try connection.respond("once", fields: ["Cache-Control: max-age=60"])
            }
        }
        let tasks = try (0..<8).map { _ in try cached.manager.dataTask(with: cached.request()) }
        for task in tasks { task.resume() }
        // All have begun.
        gate.open()
        for task in tasks { #expect(try await task.value().text == "once") }
        #expect(cached.asked.count == 1)
        await cached.end()
    }

    @Test("stored responses can be dropped: for one URL, or all")
    func removal() async throws {
        let cached = try CacheFixture(responding: CacheFixture.counting("Cache-Control: max-age=60"))
        #expect(cached.cache.currentMemoryUsage == 0)
        #expect(try await cached.get("/a") == "1")
        #expect(try await cached.get("/b") == "2")
        #expect(cached.cache.currentMemoryUsage > 0)
        cached.cache.removeCachedResponse(for: try cached.request("/a"))
        #expect(try await cached.get("/b") == "2")
        #expect(try await cached.get("/a") == "3")
        cached.cache.removeAllCachedResponses()
        #expect(cached.cache.currentMemoryUsage == 0 && cached.cache.currentDiskUsage == 0)
        #expect(try await cached.get("/b") == "4")
        #expect(throws: SessionError.self) { try SessionCache(diskCapacity: 1 << 20) }
        #expect(throws: SessionError.self) { try SessionCache(diskPath: "/nowhere") }
        await cached.end()
    }

    @Test("a task of a loop uses the cache too, and can bypass it")
    func loopTasks() async throws {
        let cached = try CacheFixture(responding: CacheFixture.counting("Cache-Control: max-age=60"))
        let endpoint = try cached.manager.endpoint(for: ManagerStage.url("/"))
        func get(_ policy: CachePolicy?) async throws -> String {
            let body = Monitor<String?>(nil)
            cached.manager.perform { session in
                guard var request = try? SessionRequest(endpoint: endpoint, method: .get, target: "/") else { return }
                request.cachePolicy = policy
                let delegate = CollectingRecorder { text in body.with { $0 = text } }
                session.dataTask(with: request, delegate: delegate).resume()
            }
            try await eventually("the task") { body.with { $0 != nil } }
            return body.with { $0! }
        }
        #expect(try await get(.useProtocolCachePolicy) == "1")
        #expect(try await get(.useProtocolCachePolicy) == "1")
        #expect(try await get(nil) == "2")
        #expect(try await get(.returnCacheDataDontLoad) == "1")
        await cached.end()
    }

    @Test("a serializer's policy is for requests that have none")
    func settings() throws {
        var serializer = HTTPRequestSerializer()
        serializer.settings.cachePolicy = .returnCacheDataElseLoad
        #expect(try serializer.request(.get, "https://a.example/").cachePolicy == .returnCacheDataElseLoad)
        let own = HTTPSessionRequest(url: "https://a.example/", cachePolicy: .reloadIgnoringLocalCacheData)
        #expect(try serializer.serialize(own, parameters: nil).cachePolicy == .reloadIgnoringLocalCacheData)
    }
}

/// Tells of a task's body when it is over.
private final class CollectingRecorder: LoopTaskDelegate {
    private var body: [UInt8] = []
    private let tell: (String) -> Void

    init(_ tell: @escaping (String) -> Void) { self.tell = tell }

    override func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        body.append(data)
        return .proceed
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        tell(error.map(\.description) ?? String(decoding: body, as: UTF8.self))
    }
}
