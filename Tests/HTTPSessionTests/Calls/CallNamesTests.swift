// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
import HTTPCore
import HTTPSession
import HTTPSessionStubs
import SessionCore
import TestSupport
import Testing

/// The forms in which a program may give what a call takes, and what it reads in an error.
@Suite("Names and forms of calls", .onOwnThreads)
struct CallNamesTests {
    private struct Item: Codable, Sendable, Equatable { var itemName = "a" }

    @Test("a URL, a part of a text and a text name the same request")
    func urls() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "*") { .text($0.path) }
        let manager = stage.manager
        let url = try #require(URL(string: "https://api.example.com/items"))
        let relative = try #require(URL(string: "items"))
        #expect(try await manager.get(url, serializer: .string).value == "/items")
        #expect(try await manager.get("x/items".dropFirst(2), serializer: .string).value == "/items")
        #expect(try await manager.get(relative, serializer: .string).value == "/items")
        #expect(try await manager.data(for: url).status == 200)
        #expect(try await manager.response(for: HTTPSessionRequest(url: url), serializer: .string).value == "/items")
        #expect(try manager.url(url) == "https://api.example.com/items")
        await stage.end()
    }

    @Test("headers are a dictionary, or a literal that may repeat a name")
    func dictionaries() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "*") { .text($0.value(for: "X-Own") ?? "none") }
        let manager = stage.manager
        let headers = ["X-Own": "seen"]
        #expect(try await manager.get("x", headers: headers, serializer: .string).value == "seen")
        #expect(try await manager.post("x", parameters: Item(), headers: headers, serializer: .string).value == "seen")
        #expect(try await manager.head("x", headers: headers).status == 200)
        let request = try manager.request(.put, "x", headers: headers)
        #expect(try await request.response(serializer: .string).value == "seen")
        try await manager.delete("x", headers: ["X-Two": "1", "X-Two": "2"], serializer: .string)
        let fields = stage.origin.requests.last?.headers.values(for: "X-Two")
        #expect(fields == ["1", "2"])
        await stage.end()
    }

    @Test("decoder and encoder of a manager serve calls, downloads and streams that name none")
    func coders() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "*", response: try .json(["item_name": "b"]))
        let manager = stage.manager
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        manager.decoder = decoder
        manager.encoder.keyEncodingStrategy = .convertToSnakeCase
        let expected = Item(itemName: "b")
        #expect(try await manager.post("x", parameters: Item(), serializer: .decodable(Item.self)).value == expected)
        #expect(stage.origin.requests.last.map { String(decoding: $0.body, as: UTF8.self) } == "item_name=a")
        let first = CompoundResponseSerializer([DecodableResponseSerializer(Item.self).map { $0 }])
        #expect(try await manager.get("x", serializer: first).value == expected)
        let prefixed = DecodableResponseSerializer(Item.self).preprocess { $0 }
        #expect(try await manager.get("x", serializer: prefixed).value == expected)
        for try await item in try await manager.stream(.get, "x").decodables(Item.self) { #expect(item == expected) }
        await #expect(throws: RequestFailure.self) {
            try await manager.get("x", serializer: .decodable(Item.self, decoder: JSONDecoder()))
        }
        await stage.end()
    }

    @Test("a completion handler gets the object of its serializer, on its queue")
    func handlers() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "*", response: .text("here"))
        let queued = Monitor(0)
        let queue = CallbackQueue { work in
            queued.with { $0 += 1 }
            work()
        }
        let (results, continuation) = AsyncStream<String>.makeStream()
        let report: @Sendable (Result<SerializedResponse<String>, RequestFailure>) -> Void = { result in
            continuation.yield((try? result.get().value) ?? "failed")
        }
        try stage.manager.get("x", serializer: .string, queue: queue) { report($0) }
        try stage.manager.post("x", serializer: .string, queue: queue) { report($0) }
        try stage.manager.post("x", constructingBody: { try $0.append("v", name: "n") }, serializer: .string) {
            report($0)
        }
        for await text in results.prefix(3) { #expect(text == "here") }
        #expect(queued.with { $0 } == 2)
        await stage.end()
    }

    @Test("limits of time can be read and changed, within their bounds")
    func timeouts() {
        var configuration = URLSessionManager.Configuration()
        configuration.timeouts.total = .seconds(5)
        configuration.timeouts.queue = .seconds(1)
        configuration.timeouts.connect = .zero
        configuration.timeouts.stall = .seconds(1 << 40)
        #expect(configuration.timeouts.total == .seconds(5) && configuration.timeouts.queue == .seconds(1))
        #expect(configuration.timeouts.connect == .milliseconds(1))
        #expect(configuration.timeouts.stall == .seconds(1_000_000_000))
        #expect(configuration.timeouts.firstByte == .seconds(60))
        #expect(TaskTimeouts(total: .seconds(5)).total == .seconds(5) && TaskTimeouts().total == nil)
    }

    @Test("an error has the status, and its text the request without secrets")
    func texts() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "/refused", response: .status(403))
        try stage.origin.route(nil, "/cut", failure: StubFailure(.connectFailed))
        let manager = stage.manager
        let refused = await #expect(throws: RequestFailure.self) {
            try await manager.get("refused", parameters: ["access_token": "s3cret", "page": 2], serializer: .data)
        }
        #expect(refused?.response?.status == 403)
        let text = refused?.description ?? ""
        #expect(text.contains("GET https://api.example.com/refused?") && text.contains("access_token=***"))
        #expect(!text.contains("s3cret") && text.contains("page=2") && text.contains("403"))
        let cut = await #expect(throws: RequestFailure.self) {
            try await manager.post("cut?password=s3cret#s3cret", serializer: .data)
        }
        #expect(cut?.sessionError?.request == "POST https://api.example.com/cut?password=***")
        #expect(cut?.description.hasSuffix(" (POST https://api.example.com/cut?password=***)") == true)
        #expect(cut?.errorDescription?.contains("POST https://api.example.com/cut?password=***") == true)
        let user = await #expect(throws: SessionError.self) {
            try await manager.data(for: "https://user:s3cret@api.example.com/")
        }
        #expect(user?.request == "GET https://***@api.example.com/" && user?.code == .requestInvalid)
        let made = #expect(throws: SessionError.self) { try manager.request(.get, "x", headers: ["no token": ""]) }
        #expect(made?.request == "GET x")
        await stage.end()
    }

    private struct Token: AuthenticationCredential { var requiresRefresh = true }

    private struct Refusing: Authenticator {
        func apply(_ credential: Token, to request: inout HTTPSessionRequest) {}
        func refresh(_ credential: Token, for manager: HTTPSessionManager) async throws -> Token {
            try await manager.post("token", serializer: .data)
            return Token(requiresRefresh: false)
        }
        func didRequest(_: HTTPSessionRequest, with _: ResponseHead, failDueTo _: RequestFailure) -> Bool { false }
        func isRequest(_: HTTPSessionRequest, authenticatedWith _: Token) -> Bool { true }
    }

    @Test("the error of a refresh says that it was one, and which request failed")
    func refreshes() async throws {
        let interceptor = AuthenticationInterceptor(authenticator: Refusing(), credential: Token())
        let stage = try StubStage(interceptor: interceptor)
        try stage.origin.route(.post, "/token", response: .status(401))
        try stage.origin.route(.get, "*", response: .text("never"))
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x", serializer: .data) }
        let text = failure?.description ?? ""
        #expect(text.contains("could not be refreshed") && text.contains("POST https://api.example.com/token"))
        await stage.end()
    }

    @Test("a cancelled request says so before and after its end")
    func cancellation() async throws {
        let stage = try StubStage()
        try stage.origin.route(nil, "*", response: .text("late").delayed(by: .seconds(600)))
        let request = try stage.manager.request(.get, "x")
        #expect(!request.isCancelled && !request.isFinished && !request.isSuspended)
        request.suspend()
        #expect(request.isSuspended)
        request.cancel()
        #expect(request.isCancelled && !request.isFinished)
        let failure = await #expect(throws: RequestFailure.self) { try await request.response(serializer: .data) }
        #expect(failure?.isCancelled == true && request.isCancelled && request.isFinished)
        #expect(!RequestFailure.session(SessionError(.stalled, "")).isCancelled)
        await stage.end()
    }
}
