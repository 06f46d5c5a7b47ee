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

    @Test("a request may have another encoder, other limits, a policy of the cache, a priority and an interceptor")
    func options() async throws {
        let stage = try StubStage { $0.cache = try? SessionCache(memoryCapacity: 1 << 20) }
        try stage.origin.route(nil, "/slow", response: .text("late").delayed(by: .seconds(600)))
        try stage.origin.route(nil, "*") { .text($0.text).adding("Cache-Control", "max-age=60") }
        let manager = stage.manager
        var snake = JSONRequestSerializer()
        snake.settings.parameterEncoder.keyEncodingStrategy = .convertToSnakeCase
        let encoded = RequestOptions(requestSerializer: snake, priority: SessionTask.highPriority)
        let answer = try await manager.post("/items", parameters: Item(), options: encoded, serializer: .string)
        #expect(answer.value == "{\"item_name\":\"a\"}")
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

    @Test("an upload, a download and a stream may have other limits of time")
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

    @Test("a call may be the whole body of a Swift task, and its value leaves the task")
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
        let answers = AsyncStream<String>.makeStream()
        try manager.get("/", parameters: Parameters(Item())) { result in
            answers.continuation.yield((try? result.get())?.response.metrics.transaction.networkProtocolName ?? "-")
        }
        for await answer in answers.stream {
            #expect(answer == "-")
            break
        }
        #expect(stage.origin.requests.last?.query == "itemName=a")
        var mixed = Parameters(Item())
        mixed["other"] = 1
        let both = mixed
        await #expect(throws: RequestFailure.self) { try await manager.get("/", parameters: both, serializer: .string) }
        await stage.end()
    }

    @Test("a check of the program rejects a response, and a value is mapped with its response")
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
        let answer = try await manager.get("/", serializer: .string)
        #expect(throws: Stale.self) { try answer.map { (_: String) throws(Stale) -> Int in throw Stale() } }
        await stage.end()
    }

    @Test("times of metrics are durations from the start of the task; what did not happen is nil")
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
