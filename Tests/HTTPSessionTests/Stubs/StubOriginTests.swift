// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionCodable
import HTTPSessionStubs
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("A stub origin", .onOwnThreads)
struct StubOriginTests {
    @Test("a stub responds in JSON, and knows the requests")
    func json() async throws {
        let stage = try StubStage(isPinned: true)
        try stage.origin.route(.post, "/v1/items") { request in
            let sent: [String: String] = try request.decoded()
            return try .json(["echo": sent["name"]], status: 201).adding("X-Seen", request.path)
        }
        stage.manager.requestSerializer = JSONRequestSerializer()
        let response = try await stage.manager.post(
            "/v1/items?page=2",
            parameters: ["name": "ada"],
            headers: ["X-Own": "1"],
            serializer: .decodable([String: String].self)
        )
        #expect(response.value == ["echo": "ada"])
        #expect(
            response.response.response.status == 201
                && response.response.response.fields.value(for: "X-Seen") == "/v1/items"
        )
        let request = try #require(stage.origin.requests.first)
        #expect(stage.origin.requests.count == 1 && request.method == .post)
        #expect(request.url == "https://api.example.com/v1/items?page=2" && request.query == "page=2")
        #expect(request.text == "{\"name\":\"ada\"}" && request.value(for: "x-own") == "1")
        let metrics = response.response.metrics.transaction
        #expect(metrics.connection == nil && metrics.status == 201 && metrics.protocolVersion == 11)
        #expect(metrics.requestBodyBytesSent == 14 && metrics.responseBodyBytesReceived == 14)
        #expect(metrics.requestStart >= 0 && metrics.responseStart >= metrics.requestEnd)
        await stage.end()
    }

    @Test("a stub serves redirects with cookies, each with its own route")
    func redirects() async throws {
        let stage = try StubStage { $0.cookieStorage = CookieStorage() }
        try stage.origin.route(.get, "/old", response: .redirect(to: "/new").adding("Set-Cookie", "a=b; Secure"))
        try stage.origin.route(.get, "https://api.example.com/new", response: .text("here"))
        let response = try await stage.manager.get("/old", serializer: .string)
        #expect(response.value == "here" && response.response.url == "https://api.example.com/new")
        #expect(response.response.metrics.redirectCount == 1)
        #expect(stage.origin.requests.map(\.path) == ["/old", "/new"])
        #expect(stage.origin.requests.last?.value(for: "Cookie") == "a=b")
        await stage.end()
    }

    @Test("a stub fails and responds in turn, so that retries can be seen")
    func retries() async throws {
        let stage = try StubStage(interceptor: RetryPolicy(exponentialBackoffScale: .milliseconds(1)))
        try stage.origin.route(.get, "/flaky", times: 1, failure: StubFailure(.connectFailed))
        try stage.origin.route(.get, "/flaky", times: 1, response: .status(503))
        try stage.origin.route(.get, "/flaky", response: .text("at last"))
        let request = try stage.manager.request(.get, "/flaky")
        #expect(try await request.response(serializer: .string).value == "at last")
        #expect(request.retryCount == 2)
        // The first attempt has met no server.
        #expect(stage.origin.requests.count == 2)
        await stage.end()
    }

    @Test("a stub refuses pins as a real server would: nothing is received")
    func pinMismatch() async throws {
        let stage = try StubStage(isPinned: true, interceptor: RetryPolicy(exponentialBackoffScale: .milliseconds(1)))
        try stage.origin.route(.get, "/v1/items", times: 1, failure: StubFailure(.pinMismatch))
        try stage.origin.route(.get, "/v1/items", response: .text("accepted"))
        let request = try stage.manager.request(.get, "/v1/items")
        let failure = await #expect(throws: RequestFailure.self) { try await request.response(serializer: .string) }
        do {
            let error = try #require(failure?.sessionError)
            #expect(error.code == .pinMismatch && error.evaluation?.verdict == .fail)
            #expect(error.evaluation?.expectedPins.contains(HTTPStage.server.pin) == true)
            #expect(error.evaluation?.offeredPins.count == 1)
            #expect(error.evaluation?.offeredPins.first?.pin != HTTPStage.server.pin)
        }
        #expect(stage.origin.requests.isEmpty && request.retryCount == 0)
        // The same request without that one cause.
        #expect(try await stage.manager.get("/v1/items", serializer: .string).value == "accepted")
        await stage.end()
    }

    @Test("a stub has every error of the core", arguments: SessionError.Code.allCases)
    func everyError(_ code: SessionError.Code) async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "*", failure: StubFailure(code, details: "these words"))
        await #expect {
            try await stage.manager.data(for: StubStage.base)
        } throws: {
            $0.sessionCode == code && ($0 as? SessionError)?.details == "these words"
        }
        await stage.end()
    }

    @Test("an upload to a stub reports its progress, and arrives whole")
    func upload() async throws {
        let stage = try StubStage()
        try stage.origin.route(.put, "/file") { .text("\($0.body.count)") }
        let pieces = AsyncStream<[UInt8]> { continuation in
            for _ in 0..<10 { continuation.yield([UInt8](repeating: 7, count: 40_000)) }
            continuation.finish()
        }
        let progress = Monitor<[Int64]>([])
        let task = try stage.manager.session.uploadTask(
            with: HTTPSessionRequest(url: StubStage.base + "/file", method: .put),
            from: .sequence(pieces, length: 400_000)
        )
        task.uploadDelegate.taskDidSendBodyData = { _, _, sent, expected in
            #expect(expected == 400_000)
            progress.with { $0.append(sent) }
        }
        #expect(String(decoding: try await task.value().data, as: UTF8.self) == "400000")
        #expect(progress.with { $0.last } == 400_000 && progress.with { $0.count } >= 6)
        #expect(stage.origin.requests.first?.body == [UInt8](repeating: 7, count: 400_000))
        await stage.end()
    }

    @Test("a stub waits for a slow consumer of a stream")
    func backPressure() async throws {
        let stage = try StubStage()
        let made = Monitor(0)
        let endless = BodySource(length: nil) { () throws(SessionError) in CountingReader(made) }
        try stage.origin.route(.get, "/endless", response: StubResponse(body: .source(endless)))
        let stream = try await stage.manager.stream(.get, "/endless")
        var taken = 0
        for try await chunk in stream.chunks {
            taken += chunk.count
            if taken > 1 << 20 { break }
        }
        // The stream's own buffer, and what was on its way.
        #expect(made.with { $0 } <= taken + (512 << 10))
        try await eventually("the end") { stage.manager.session.tasks.isEmpty }
        await stage.end()
    }

    private actor CountingReader: BodyReader {
        let made: Monitor<Int>

        init(_ made: Monitor<Int>) { self.made = made }

        func read(atMost count: Int) -> [UInt8] {
            made.with { $0 += count }
            return [UInt8](repeating: 1, count: count)
        }
    }

    @Test("a stub breaks a download off, and sends the rest on resumption")
    func resumption() async throws {
        let folder = try TemporaryFolder()
        let stage = try StubStage { $0.temporaryFolder = folder.path }
        let file = patternBytes(300_000)
        try stage.origin.route(.get, "/large", times: 1) { .resumable(file, to: $0).cut(afterBytes: 200_000) }
        try stage.origin.route(.get, "/large") { .resumable(file, to: $0) }
        let task = try stage.manager.session.downloadTask(with: HTTPSessionRequest(url: StubStage.base + "/large"))
        await #expect { try await task.value() } throws: { $0.sessionCode == .responseTruncated }
        let resumeData = try #require(task.downloadDelegate.resumeData)
        let rest = try stage.manager.session.downloadTask(withResumeData: resumeData)
        let path = try await rest.value().path
        #expect(try FileContents.read(path, limit: 1 << 20).get() == file)
        #expect(stage.origin.requests.last?.value(for: "Range") == "bytes=200000-")
        await stage.end()
    }

    @Test("a stub gets requests that the cache cannot serve, and no others")
    func cache() async throws {
        let cache = try SessionCache(memoryCapacity: 1 << 20)
        let stage = try StubStage { $0.cache = cache }
        try stage.origin.route(.get, "/kept", response: .text("stub").adding("Cache-Control", "max-age=60"))
        for _ in 0..<2 { #expect(try await stage.manager.get("/kept", serializer: .string).value == "stub") }
        #expect(stage.origin.requests.count == 1)
        let real = try HTTPStage(path: "", { $0.cache = cache }, script: { _ in })
        defer { withExtendedLifetime(real) {} }
        // The same URL without a stub is not stored.
        await #expect {
            try await real.manager.data(
                for: HTTPSessionRequest(url: StubStage.base + "/kept", cachePolicy: .returnCacheDataDontLoad)
            )
        } throws: {
            $0.sessionCode == .notStored
        }
        #expect(
            try await stage.manager.data(
                for: HTTPSessionRequest(url: StubStage.base + "/kept", cachePolicy: .returnCacheDataDontLoad)
            ).data == Array("stub".utf8)
        )
        await real.end()
        await stage.end()
    }

    @Test("a stub is subject to the time limits")
    func timeouts() async throws {
        let stage = try StubStage {
            $0.timeouts = TaskTimeouts(connect: .milliseconds(50), firstByte: .milliseconds(50))
        }
        try stage.origin.route(nil, "/late", response: .text("late").delayed(by: .seconds(600)))
        try stage.origin.route(nil, "/silent", delay: .seconds(600), failure: StubFailure(.connectFailed))
        await #expect { try await stage.manager.data(for: StubStage.base + "/late") } throws: {
            $0.sessionCode == .responseTimeout
        }
        await #expect { try await stage.manager.data(for: StubStage.base + "/silent") } throws: {
            $0.sessionCode == .connectTimeout
        }
        await stage.end()
    }

    @Test("a working handler stops the request's clock, also during a pause")
    func handlersOutOfTime() async throws {
        let stage = try StubStage { $0.timeouts = TaskTimeouts(firstByte: .milliseconds(1), stall: .seconds(3600)) }
        try stage.origin.route(nil, "/slow") { _ in
            // A hundred times the limit of the session under test.
            try await Task.sleep(for: .milliseconds(100))
            return .text("made")
        }
        #expect(try await stage.manager.get("/slow", serializer: .string).value == "made")
        let (begins, begun) = AsyncStream<Void>.makeStream()
        try stage.origin.route(nil, "/paused") { _ in
            begun.yield()
            try await Task.sleep(for: .milliseconds(100))
            return .text("made")
        }
        let task = try stage.manager.session.dataTask(with: HTTPSessionRequest(url: StubStage.base + "/paused"))
        task.resume()
        var begin = begins.makeAsyncIterator()
        await begin.next()
        task.suspend()
        task.resume()
        #expect(try await task.value().data == Array("made".utf8))
        await stage.end()
    }

    @Test("a stub fails without a wait for the network")
    func connectivity() async throws {
        let watches = Monitor(0)
        let stage = try StubStage {
            $0.waitsForConnectivity = true
            $0.connectivity = { _, report in
                watches.with { $0 += 1 }
                // Without the error the task would wait for ever.
                report(false)
                return watches
            }
        }
        stage.manager.session.taskIsWaitingForConnectivity = { $0.cancel() }
        try stage.origin.route(nil, "*", failure: StubFailure(.connectFailed))
        await #expect { try await stage.manager.data(for: StubStage.base) } throws: { $0.sessionCode == .connectFailed }
        #expect(watches.with { $0 } == 0)
        await stage.end()
    }

    @Test("a request that no route matches fails with the names of routes")
    func unmatched() async throws {
        let stage = try StubStage()
        try stage.origin.route(.get, "/v1/items", times: 0, response: .status(200))
        await #expect { try await stage.manager.data(for: StubStage.base + "/v1/items") } throws: { error in
            let details = (error as? SessionError)?.details ?? ""
            return error.sessionCode == .requestInvalid && details.contains("GET https://api.example.com/v1/items")
                && details.contains("GET /v1/items (used up)")
        }
        #expect(stage.origin.unmatchedRequests.map(\.url) == ["https://api.example.com/v1/items"])
        #expect(stage.origin.requests.isEmpty)
        await stage.end()
    }

    @Test("a stub makes no connection for a stream")
    func streams() async throws {
        let stage = try StubStage()
        let endpoint = try stage.manager.endpoint(for: StubStage.base)
        let error = await withCheckedContinuation { continuation in
            stage.manager.perform { session in
                session.streamTask(with: endpoint, delegate: StreamEnd { continuation.resume(returning: $0) }).resume()
            }
        }
        #expect(error?.code == .requestInvalid)
        await stage.end()
    }

    private final class StreamEnd: LoopStreamTaskDelegate {
        private let tell: (SessionError?) -> Void

        init(_ tell: @escaping (SessionError?) -> Void) { self.tell = tell }

        override func streamTaskDidComplete(_ stream: LoopStreamTask, error: SessionError?) { tell(error) }
    }

    @Test("a stub follows the rules of HTTP for lengths and empty bodies")
    func framing() async throws {
        let stage = try StubStage()
        try stage.origin.route(.get, "/short", response: .text("1234").adding("Content-Length", "9"))
        try stage.origin.route(.get, "/none", response: StubResponse(status: 204, body: .bytes([1])))
        try stage.origin.route(.head, "/short", response: .text("1234"))
        try stage.origin.route(.get, "/own", response: .text("").adding("Transfer-Encoding", "chunked"))
        try stage.origin.route(.get, "/field", response: .text("").adding("X", "a\r\nY: b"))
        await #expect { try await stage.manager.data(for: StubStage.base + "/short") } throws: {
            $0.sessionCode == .responseTruncated
        }
        #expect(try await stage.manager.data(for: StubStage.base + "/none").data.isEmpty)
        #expect(try await stage.manager.data(for: StubStage.base + "/short", method: .head).response.contentLength == 4)
        for path in ["/own", "/field"] {
            await #expect { try await stage.manager.data(for: StubStage.base + path) } throws: {
                $0.sessionCode == .responseInvalid
            }
        }
        await stage.end()
    }

    @Test("a cancelled request releases its handler, and a thrown error is mapped")
    func handlers() async throws {
        struct Own: Error {}
        let stage = try StubStage()
        // No deadline: the handler waits for a thread of Swift's, like all other tests.
        let (ends, ended) = AsyncStream<Bool>.makeStream()
        try stage.origin.route(.get, "/waits") { _ in
            do { try await Task.sleep(for: .seconds(600)) } catch { ended.yield(Task.isCancelled) }
            return .status(200)
        }
        try stage.origin.route(.get, "/throws") { _ in throw Own() }
        let task = try stage.manager.session.dataTask(with: HTTPSessionRequest(url: StubStage.base + "/waits"))
        task.resume()
        try await eventually("the request") { stage.origin.requests.count == 1 }
        task.cancel()
        var end = ends.makeAsyncIterator()
        #expect(await end.next() == true)
        await #expect { try await stage.manager.data(for: StubStage.base + "/throws") } throws: {
            $0.sessionCode == .internal
        }
        await stage.end()
    }

    @Test("a stub matches paths, hosts, parts and queries")
    func patterns() async throws {
        let stage = try StubStage()
        let rows = [
            ("/exact", "/exact?any=1", true), ("/exact", "/exact/", false), ("/a/*/c", "/a/b/c", true),
            ("/a/*/c", "/a/b/d/c", false), ("/all/*", "/all/b/c", true), ("/all/*", "/all", false),
            ("/q?x=1", "/q?x=1", true), ("/q?x=1", "/q?x=2", false), ("/q?x=1", "/q", false),
            ("https://api.example.com/h", "/h", true), ("https://other.example.com/h", "/h", false),
            ("http://api.example.com/h", "/h", false), ("*", "/whatever", true),
        ]
        for (pattern, path, matches) in rows {
            stage.origin.removeRoutes()
            try stage.origin.route(.get, pattern, response: .status(200))
            let response = try? await stage.manager.data(for: StubStage.base + path)
            #expect((response != nil) == matches, "\(pattern) \(path)")
        }
        for pattern in ["", "items", "ftp://host/x"] {
            #expect(throws: SessionError.self) { try stage.origin.route(.get, pattern, response: .status(200)) }
        }
        await stage.end()
    }
}
