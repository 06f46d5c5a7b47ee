// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
import HTTPCore
import HTTPSession
import HTTPSessionStubs
import SessionCore
import TestSupport
import Testing

/// As programs write them.
@Suite("Options of one request", .onOwnThreads)
struct RequestOptionsTests {
    private struct Item: Codable, Sendable { var itemName = "a" }

    @Test("a request may have its own encoder, limits, cache policy, priority and interceptor")
    func options() async throws {
        let stage = try StubStage { $0.cache = try? SessionCache(memoryCapacity: 1 << 20) }
        try stage.origin.route(nil, "/slow", response: .text("late").delayed(by: .seconds(600)))
        try stage.origin.route(nil, "*") { .text($0.text).adding("Cache-Control", "max-age=60") }
        let manager = stage.manager
        var snake = JSONRequestSerializer()
        snake.settings.parameterEncoder.keyEncodingStrategy = .convertToSnakeCase
        let encoded = RequestOptions(requestSerializer: snake, priority: SessionTask.highPriority)
        let response = try await manager.post("/items", parameters: Item(), options: encoded, serializer: .string)
        #expect(response.value == "{\"item_name\":\"a\"}")
        #expect(stage.origin.requests.last?.value(for: "Priority") == "u=2")
        #expect(try await manager.post("/items", parameters: Item(), serializer: .string).value == "itemName=a")

        let short = RequestOptions(timeouts: TaskTimeouts(firstByte: .milliseconds(50)))
        await #expect { try await manager.get("/slow", options: short, serializer: .string) } throws: {
            ($0 as? RequestFailure)?.sessionError?.code == .responseTimeout
        }

        let adding = RequestOptions(
            interceptor: Adapter { request, _ in
                var request = request
                request.headers["X-Own"] = "seen"
                return request
            }
        )
        _ = try await manager.get("/adapted", options: adding, serializer: .data)
        #expect(stage.origin.requests.last?.value(for: "X-Own") == "seen")

        let stored = RequestOptions(cachePolicy: .returnCacheDataDontLoad)
        await #expect { try await manager.get("/kept", options: stored, serializer: .data) } throws: {
            ($0 as? RequestFailure)?.sessionError?.code == .notStored
        }
        _ = try await manager.get("/kept", serializer: .data)
        _ = try await manager.get("/kept", options: stored, serializer: .data)
        #expect(stage.origin.requests.filter { $0.path == "/kept" }.count == 1)
        await stage.end()
    }

    @Test("an upload, a download and a stream may have their own time limits")
    func timeouts() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "*", response: .text("late").delayed(by: .seconds(600)))
        let manager = stage.manager
        let short = RequestOptions(timeouts: TaskTimeouts(firstByte: .milliseconds(50)))
        func isOver(_ error: any Error) -> Bool { (error as? RequestFailure)?.sessionError?.code == .responseTimeout }
        await #expect {
            try await manager.post("/form", options: short, serializer: .data) { try $0.append("value", name: "field") }
        } throws: { isOver($0) }
        await #expect { try await manager.download(.get, "/file", options: short).response() } throws: { isOver($0) }
        await #expect { try await manager.stream(.get, "/stream", options: short) } throws: { isOver($0) }
        await stage.end()
    }

    @Test("a request, a download and a stream may decide about their own redirects")
    func redirects() async throws {
        let stage = try StubStage(interceptor: RetryPolicy(retryLimit: 1, exponentialBackoffScale: .zero))
        stage.manager.session.hooks.taskWillPerformHTTPRedirection = { _, _, _ in .stop }
        try stage.origin.route(nil, "/moved") { _ in .status(302).adding("Location", "/target") }
        try stage.origin.route(nil, "/target") { _ in .status(503) }
        try stage.origin.route(nil, "/file", response: .status(307).adding("Location", "/there"))
        try stage.origin.route(nil, "/there", response: .text("there"))
        let manager = stage.manager
        let asked = Monitor<[String]>([])
        var options = RequestOptions()
        options.taskWillPerformHTTPRedirection = { _, response, redirect in
            asked.with { $0.append("\(response.status) \(redirect.request.url)") }
            return .proceed
        }
        // The session's hook stops all others.
        await #expect { try await manager.get("/moved", serializer: .data) } throws: {
            ($0 as? RequestFailure)?.response?.response.status == 302
        }
        await #expect { try await manager.get("/moved", options: options, serializer: .data) } throws: {
            ($0 as? RequestFailure)?.response?.response.status == 503
        }
        let target = "302 \(StubStage.base)/target"
        #expect(asked.with { $0 } == [target, target])
        let file = try await manager.download(.get, "/file", options: options).response(serializer: .string)
        #expect(file.value == "there")
        var text = ""
        for try await line in try await manager.stream(.get, "/file", options: options).lines { text += line }
        #expect(text == "there")
        #expect(asked.with { $0.count } == 4)
        await stage.end()
    }

    @Test("a request may see the response head before the body, and end there")
    func heads() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "*", response: .text("body").adding("X-Size", "4"))
        let heads = Monitor<[String]>([])
        var options = RequestOptions()
        options.dataTaskDidReceiveResponse = { _, head in
            heads.with { $0.append(head.fields.value(for: "X-Size") ?? "none") }
            return .allow
        }
        #expect(try await stage.manager.get("/", options: options, serializer: .string).value == "body")
        #expect(heads.with { $0 } == ["4"])
        options.dataTaskDidReceiveResponse = { _, _ in .cancel }
        await #expect { try await stage.manager.get("/", options: options, serializer: .string) } throws: {
            ($0 as? RequestFailure)?.sessionError?.code == .cancelled
        }
        // A caller that waits for the body would get none.
        options.dataTaskDidReceiveResponse = { _, _ in .becomeDownload }
        func isRefused(_ error: any Error) -> Bool {
            (error as? RequestFailure)?.sessionError?.code == .requestInvalid
        }
        await #expect { try await stage.manager.get("/", options: options, serializer: .data) } throws: {
            isRefused($0)
        }
        await #expect { try await stage.manager.stream(.get, "/", options: options) } throws: { isRefused($0) }
        await stage.end()
    }

    @Test("a request or a stream may decide whether its response is stored")
    func caching() async throws {
        let stage = try StubStage { $0.cache = try? SessionCache(memoryCapacity: 1 << 20) }
        stage.manager.session.hooks.dataTaskWillCacheResponse = { _, _ in nil }
        try stage.origin.route(nil, "*") { .text($0.path).adding("Cache-Control", "max-age=60") }
        let manager = stage.manager
        func sent(_ path: String) -> Int { stage.origin.requests.filter { $0.path == path }.count }
        for _ in 0..<2 { _ = try await manager.get("/never", serializer: .data) }
        #expect(sent("/never") == 2)
        let asked = Monitor(0)
        var options = RequestOptions()
        options.dataTaskWillCacheResponse = { _, proposed in
            asked.with { $0 += 1 }
            return proposed
        }
        for _ in 0..<2 { _ = try await manager.get("/kept", options: options, serializer: .data) }
        #expect(sent("/kept") == 1)
        #expect(asked.with { $0 } == 1)
        for _ in 0..<2 {
            var text = ""
            for try await line in try await manager.stream(.get, "/read", options: options).lines { text += line }
            #expect(text == "/read")
        }
        #expect(sent("/read") == 1)
        #expect(asked.with { $0 } == 2)
        await stage.end()
    }

    @Test("monitors of a request come after the manager's, and see that request alone")
    func monitors() async throws {
        struct Names: EventMonitor {
            let name: String
            let log: Monitor<[String]>
            // Calls come in the order in which they are made.
            let queue: CallbackQueue? = CallbackQueue { $0() }
            func requestDidResume(_ request: Request) { log.with { $0.append("\(name) resume \(request)") } }
            func requestDidFinish(_ request: Request) { log.with { $0.append("\(name) finish \(request)") } }
        }
        let log = Monitor<[String]>([])
        let stage = try StubStage(monitors: [Names(name: "manager", log: log)])
        try stage.origin.route(nil, "*", response: .text("x"))
        let own = RequestOptions(eventMonitors: [Names(name: "first", log: log), Names(name: "second", log: log)])
        _ = try await stage.manager.get("/a", options: own, serializer: .data)
        _ = try await stage.manager.get("/b", serializer: .data)
        let names = ["manager", "first", "second"]
        #expect(
            log.with { $0 } == names.map { "\($0) resume GET \(StubStage.base)/a" }
                + names.map { "\($0) finish GET \(StubStage.base)/a (200)" }
                + ["manager resume GET \(StubStage.base)/b", "manager finish GET \(StubStage.base)/b (200)"]
        )
        await stage.end()
    }

    @Test("hooks of a request go with its end, so that they may hold it")
    func freed() async throws {
        final class Owner: Sendable {
            let request = Monitor<DataRequest?>(nil)
            let ended: @Sendable () -> Void
            init(_ ended: @escaping @Sendable () -> Void) { self.ended = ended }
            deinit { ended() }
        }
        let stage = try StubStage()
        try stage.origin.route(nil, "*", response: .text("x"))
        let isFreed = Monitor(false)
        do {
            let owner = Owner { isFreed.with { $0 = true } }
            var options = RequestOptions()
            options.taskWillPerformHTTPRedirection = { _, _, _ in withExtendedLifetime(owner) { .proceed } }
            options.dataTaskDidReceiveResponse = { _, _ in withExtendedLifetime(owner) { .allow } }
            options.dataTaskWillCacheResponse = { _, proposed in withExtendedLifetime(owner) { proposed } }
            let request = try stage.manager.request(.get, "/", options: options)
            owner.request.with { $0 = request }
            #expect(try await request.response(serializer: .string).value == "x")
        }
        try await eventually("the end of the owner") { isFreed.with { $0 } }
        await stage.end()
    }

    @Test("a request may have a credential of its own, and leave cookies out")
    func credential() async throws {
        let cookies = CookieStorage()
        let stage = try StubStage { $0.cookieStorage = cookies }
        try stage.origin.route(nil, "/cookie", response: .text("set").adding("Set-Cookie", "a=b; Path=/"))
        try stage.origin.route(nil, "/private") { request in
            guard request.value(for: "Authorization") == "Basic YWRhOnB3" else {
                return .status(401).adding("WWW-Authenticate", "Basic realm=\"r\"")
            }
            return .text("for ada")
        }
        try stage.origin.route(nil, "*") { .text($0.value(for: "Cookie") ?? "none") }
        let manager = stage.manager
        _ = try await manager.get("/cookie", serializer: .string)
        #expect(try await manager.get("/seen", serializer: .string).value == "a=b")
        let without = RequestOptions(handlesCookies: false)
        #expect(try await manager.get("/seen", options: without, serializer: .string).value == "none")
        await #expect(throws: RequestFailure.self) { try await manager.get("/private", serializer: .string) }
        let ada = RequestOptions(credential: Credential(user: "ada", password: "pw", persistence: .none))
        #expect(try await manager.get("/private", options: ada, serializer: .string).value == "for ada")
        await stage.end()
    }

    @Test("a call may be the whole body of a Swift task")
    func swiftTask() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "*") { try .json(["method": "\($0.method)"]) }
        let manager = stage.manager
        let task = Task { try await manager.get("/items", parameters: ["page": 2]) }
        #expect((try await task.value.value as? JSONValue)?["method"] == "GET")
        manager.responseSerializer = .string
        #expect(
            try await Task { try await manager.delete("/items/7") }.value.value as? String == "{\"method\":\"DELETE\"}"
        )
        manager.responseSerializer = AnyResponseSerializer(.decodable([String: String].self))
        #expect(try await manager.put("/items/7").value as? [String: String] == ["method": "PUT"])
        // Without a manager there is none that it stands for.
        let response = try await manager.data(for: StubStage.base)
        #expect(throws: ResponseSerializationError.self) { try AnyResponseSerializer.manager.serialize(response) }
        await stage.end()
    }

    @Test("parameters of a type may be null, sets, and wrapped for a handler")
    func parameters() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "*") { .text($0.query ?? "none") }
        let manager = stage.manager
        let none: Item? = nil
        #expect(try await manager.get("/", parameters: none, serializer: .string).value == "none")
        let set: ParameterValue = ["s": .set(["b", "a"])]
        #expect(try await manager.get("/", parameters: set, serializer: .string).value == "s=a&s=b")
        let responses = AsyncStream<String>.makeStream()
        try manager.get("/", parameters: Parameters(Item())) { result in
            responses.continuation.yield((try? result.get())?.response.metrics.transaction.networkProtocolName ?? "-")
        }
        for await response in responses.stream {
            #expect(response == "-")
            break
        }
        #expect(stage.origin.requests.last?.query == "itemName=a")
        var mixed = Parameters(Item())
        mixed["other"] = 1
        let both = mixed
        await #expect(throws: RequestFailure.self) { try await manager.get("/", parameters: both, serializer: .string) }
        await stage.end()
    }

    /// A serializer of the program.
    private struct Lines: ResponseSerializer {
        struct Empty: Error {}
        let validation = ResponseValidation(acceptableContentTypes: ["text/plain"])

        func serialize(
            _ response: DataResponse,
            to method: HTTPMethod
        ) throws(ResponseSerializationError) -> sending [Substring] {
            try validation.validate(response)
            let lines = String(decoding: response.data, as: UTF8.self).split(separator: "\n")
            guard !lines.isEmpty else { throw ResponseSerializationError(.custom(Empty()), response: response) }
            return lines
        }
    }

    @Test("a serializer of the program reads responses and files; its errors are the failures")
    func ownSerializer() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "/lines", response: .text("a\nb\n"))
        try stage.origin.route(nil, "*", response: .text(""))
        let manager = stage.manager
        #expect(try await manager.get("/lines", serializer: Lines()).value == ["a", "b"])
        #expect(try await manager.get("/lines", serializer: Lines().map { $0.count }).value == 2)
        #expect(try await manager.download(.get, "/lines").response(serializer: Lines()).value == ["a", "b"])
        await #expect { try await manager.get("/none", serializer: Lines()) } throws: {
            guard case .custom(let error)? = ($0 as? RequestFailure)?.serializationError?.reason else { return false }
            return error is Lines.Empty
        }
        await stage.end()
    }

    @Test("a check of the program rejects a response; a value is mapped with it")
    func checks() async throws {
        struct Stale: Error {}
        let stage = try StubStage()
        try stage.origin.route(nil, "/bad", response: StubResponse.text("7", status: 404).adding("X-Age", "9"))
        try stage.origin.route(nil, "*", response: .text("7").adding("X-Age", "9"))
        let manager = stage.manager
        let calls = Monitor(0)
        func serializer(_ limit: Int) -> StringResponseSerializer {
            StringResponseSerializer(
                validation: ResponseValidation { response in
                    calls.with { $0 += 1 }
                    if Int(response.response.fields["X-Age"] ?? "") ?? 0 > limit { throw Stale() }
                }
            )
        }
        let number = try await manager.get("/", serializer: serializer(9)).map { Int($0) }
        #expect(number.value == 7 && number.response.response.status == 200 && calls.with { $0 } == 1)
        await #expect { try await manager.get("/", serializer: serializer(8)) } throws: { error in
            guard case .custom(let own)? = (error as? RequestFailure)?.serializationError?.reason else { return false }
            return own is Stale
        }
        // Behind the status.
        await #expect { try await manager.get("/bad", serializer: serializer(8)) } throws: { error in
            guard case .unacceptableStatusCode(404)? = (error as? RequestFailure)?.serializationError?.reason else {
                return false
            }
            return calls.with { $0 } == 2
        }
        let response = try await manager.get("/", serializer: .string)
        #expect(throws: Stale.self) { try response.map { (_: String) throws(Stale) -> Int in throw Stale() } }
        await stage.end()
    }

    @Test("metrics have durations from the task's start, and nil for absent phases")
    func metrics() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "/old", response: .redirect(to: "/new"))
        try stage.origin.route(nil, "/new", response: .text("x"))
        try stage.origin.route(nil, "/away", failure: StubFailure(.connectFailed))
        let metrics = try await stage.manager.data(for: StubStage.base + "/old").metrics
        #expect(metrics.transactions.count == 2 && metrics.transactions.map(\.statusCode) == [302, 200])
        let last = metrics.transaction
        let (request, response) = (try #require(last.request), try #require(last.response))
        #expect(try #require(last.start) <= request.lowerBound && request.upperBound <= response.lowerBound)
        #expect(response.upperBound <= metrics.taskDuration && last.networkProtocolName == "http/1.1")
        #expect(last.connect == nil && last.secureConnection == nil && last.domainLookup == nil)
        #expect(try #require(metrics.start) > .seconds(1_600_000_000))
        let error = await #expect(throws: SessionError.self) {
            try await stage.manager.data(for: StubStage.base + "/away")
        }
        #expect(error?.metrics?.transaction.statusCode == nil && error?.metrics?.transaction.response == nil)
        await stage.end()
    }
}
