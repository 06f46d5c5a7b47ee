// SPDX-License-Identifier: Apache-2.0
// The public calls of the library, from one isolation: `Surface` is an actor, a class of the main actor, or a class of a target whose
// default isolation is the main actor. The file is the same in all of them.

import FoundationEssentials
import HTTPCore
import HTTPSession
import HTTPSessionStubs
import ServerTrust
import SessionCore

// What serializers and interceptors use off the actor is on none.

nonisolated struct Item: Codable, Sendable, Equatable {
    var name: String
}

nonisolated struct Token: AuthenticationCredential {
    let value: String
    var requiresRefresh: Bool { value.isEmpty }
}

nonisolated struct Tokens: Authenticator {
    func apply(_ credential: Token, to request: inout HTTPSessionRequest) {
        request.headers["Authorization"] = "Bearer \(credential.value)"
    }

    func refresh(_ credential: Token, for manager: HTTPSessionManager) async throws -> Token {
        Token(value: try await manager.post("token", serializer: .decodable(Item.self)).value.name)
    }

    func didRequest(
        _ request: HTTPSessionRequest,
        with response: ResponseHead,
        failDueTo failure: RequestFailure
    ) -> Bool {
        response.status == 401
    }

    func isRequest(_ request: HTTPSessionRequest, authenticatedWith credential: Token) -> Bool {
        request.headers["Authorization"] == "Bearer \(credential.value)"
    }
}

nonisolated struct Monitor: EventMonitor {
    func requestDidFinish(_ request: Request) {}
}

nonisolated final class Receiver: LoopTaskDelegate {}

extension Surface {
    /// Makes the calls against an origin in memory.
    ///
    /// - Parameter folder: for files.
    /// - Returns: what was seen.
    public func run(_ folder: String) async throws -> [String] {
        let origin = StubOrigin()
        try origin.route(.get, "/lines", response: .text("{\"name\":\"a\"}\n{\"name\":\"b\"}\n"))
        try origin.route(.get, "/events", times: 1, response: .text("data: e\n\n", contentType: "text/event-stream"))
        try origin.route(.get, "/events", response: .status(204))
        try origin.route(.get, "/redirect", response: .redirect(to: "/item"))
        try origin.route(nil, "*") { request in try .json(Item(name: request.method.description)) }
        var configuration = HTTPSessionManager.Configuration()
        configuration.answerRequests(with: origin)
        configuration.cookieStorage = CookieStorage()
        let manager = try HTTPSessionManager(
            baseURL: "https://api.example.com",
            configuration: configuration,
            interceptor: Interceptor(
                interceptors: [
                    AuthenticationInterceptor(authenticator: Tokens(), credential: Token(value: "")),
                    .retryPolicy(retryLimit: 1), .adapter { request, _ in request }, .retrier { _, _ in .doNotRetry },
                ] as [any RequestInterceptor]
            ),
            eventMonitors: [Monitor()]
        )
        try await methods(manager)
        try await forms(manager)
        try await handlers(manager)
        try await requests(manager)
        try await streams(manager)
        try await downloads(manager, folder)
        try await tasks(manager.session, folder)
        try await others(manager)
        await manager.cancelAllRequests()
        await manager.invalidateSession(cancelingTasks: false)
        return seen
    }

    private func methods(_ manager: HTTPSessionManager) async throws {
        let (item, page) = (Item(name: "x"), seen.count)
        _ = try await manager.head("item", parameters: ["page": page])
        _ = try await manager.head("item", parameters: item)
        seen.append(try await manager.get("item", serializer: .decodable(Item.self)).value.name)
        _ = try await manager.get("item", parameters: ["page": page], progress: ProgressHandler { _ in })
        _ = try await manager.get("item", parameters: item, headers: ["A": "b"], serializer: .json)
        _ = try await manager.get("item", parameters: ["user": ["tags": [1, true]]], serializer: .data)
        seen.append(try await manager.post("item", parameters: item, serializer: .decodable(Item.self)).value.name)
        _ = try await manager.post("item", parameters: ["page": page], options: RequestOptions(priority: 1))
        _ = try await manager.post("item", parameters: ["user": ["tags": [1, true]]])
        seen.append(try await manager.put("item", parameters: item, serializer: .decodable(Item.self)).value.name)
        _ = try await manager.put("item", parameters: ["page": page])
        _ = try await manager.put("item", parameters: ["user": ["tags": [1, true]]])
        seen.append(try await manager.patch("item", parameters: item, serializer: .decodable(Item.self)).value.name)
        _ = try await manager.patch("item", parameters: ["page": page])
        _ = try await manager.patch("item", parameters: ["user": ["tags": [1, true]]])
        seen.append(try await manager.delete("item", parameters: item, serializer: .decodable(Item.self)).value.name)
        _ = try await manager.delete("item", parameters: ["page": page])
        _ = try await manager.delete("item", parameters: ["user": ["tags": [1, true]]])
    }

    private func forms(_ manager: HTTPSessionManager) async throws {
        // Closures that are called at once use what the actor owns.
        _ = try await manager.post("form") { form in
            try form.append("\(seen.count)", name: "count")
            seen.append("form")
        }
        let response = try await manager.post("form", parameters: ["a": 1], serializer: .decodable(Item.self)) { form in
            for name in seen { try form.append(name, name: "seen") }
        }
        seen.append(response.value.name)
        let request = try manager.multipartRequest(.put, "form") { form in
            try form.append("\(seen.count)", name: "count")
        }
        _ = try await request.response(serializer: .string)
        manager.withRequestSerializer { $0.settings.handlesCookies = !seen.isEmpty }
    }

    private func handlers(_ manager: HTTPSessionManager) async throws {
        let (results, ended) = AsyncStream<Int>.makeStream()
        try manager.head("item") { _ in ended.yield(0) }
        try manager.get("item") { _ in ended.yield(1) }
        try manager.post("item", parameters: ["a": 1], completionHandler: { _ in ended.yield(2) })
        try manager.put("item") { _ in ended.yield(3) }
        try manager.patch("item") { _ in ended.yield(4) }
        try manager.delete("item") { _ in ended.yield(5) }
        try manager.post("form", constructingBody: { try $0.append("\(seen.count)", name: "count") }) { _ in
            ended.yield(6)
        }
        manager.request(HTTPSessionRequest(url: try manager.url("item"))).response(serializer: .json) { _ in
            ended.yield(7)
        }
        var sum = 0
        for await result in results.prefix(8) { sum += result }
        seen.append("handlers \(sum)")
    }

    private func requests(_ manager: HTTPSessionManager) async throws {
        let request = try manager.request(
            .post,
            "item",
            parameters: Item(name: "x"),
            uploadProgress: ProgressHandler { _ in }
        )
        let progress = request.uploadProgress()
        let response = try await request.response(serializer: DecodableResponseSerializer(Item.self).map { $0.name })
        for await figure in progress { _ = figure.fraction }
        seen.append(response.value)
        seen.append(try await request.response(serializer: .string).map { $0.count > 0 }.value ? "joined" : "")
        _ = (request.state, request.tasks.count, request.metrics, request.cURLDescription())
        var options = RequestOptions(interceptor: .adapter { request, _ in request }, eventMonitors: [Monitor()])
        options.taskWillPerformHTTPRedirection = { _, _, proposal in .follow(proposal.request) }
        options.dataTaskDidReceiveResponse = { _, _ in .allow }
        _ = try await manager.get("redirect", options: options)
        let plain = HTTPSessionRequest(url: try manager.url("item"))
        _ = try await manager.response(for: plain, serializer: HTTPResponseSerializer().preprocess { $0 })
        _ = try await manager.data(for: "https://api.example.com/item", method: .post, body: [1])
        _ = try await manager.data(for: plain)
        let stopped = try manager.request(.get, "item")
        stopped.suspend()
        stopped.cancel()
        do {
            _ = try await stopped.response(serializer: .data)
        } catch {
            seen.append(error.sessionError?.code.rawValue ?? "")
        }
    }

    private func streams(_ manager: HTTPSessionManager) async throws {
        for try await line in try await manager.stream(.get, "lines").lines { seen.append("line \(line.count)") }
        for try await item in try await manager.stream(.get, "lines", parameters: ["a": 1]).decodables(Item.self) {
            seen.append(item.name)
        }
        var count = 0
        for try await piece in try await manager.stream(.get, "lines").chunks { count += piece.count }
        for try await _ in try await manager.stream(HTTPSessionRequest(url: try manager.url("lines"))).bytes {
            count += 1
        }
        seen.append("bytes \(count)")
        let quick = ServerSentEvents.Reconnection(delay: .milliseconds(1))
        for try await event in manager.events("events", reconnection: quick) { seen.append(event.data) }
    }

    private func downloads(_ manager: HTTPSessionManager, _ folder: String) async throws {
        let path = "\(folder)/item"
        let options: DownloadOptions = [.removePreviousFile]
        let request = try manager.download(.get, "item", progress: ProgressHandler { _ in }) { _, _ in
            (path, options)
        }
        let progress = request.downloadProgress()
        seen.append(try await request.response(serializer: .decodable(Item.self)).value.name)
        for await figure in progress { _ = figure.fraction }
        _ = try await manager.download(HTTPSessionRequest(url: try manager.url("item"))) { _, _ in (path, options) }
            .response()
        let (paths, ended) = AsyncStream<Bool>.makeStream()
        let suggested = DownloadRequest.suggestedDownloadDestination(in: folder, options: options)
        try manager.download(.get, "item", parameters: Item(name: "x"), to: suggested).response { result in
            ended.yield((try? result.get()) != nil)
        }
        for await hasPath in paths.prefix(1) { seen.append("downloaded \(hasPath)") }
    }

    private func tasks(_ session: URLSessionManager, _ folder: String) async throws {
        let request = HTTPSessionRequest(url: "https://api.example.com/item", method: .put)
        session.taskDidComplete = { _, _ in }
        session.hooks.dataTaskDidReceiveData = { _, _ in }
        let data = try session.dataTask(with: request)
        data.delegate.taskDidComplete = { _, _ in }
        data.dataDelegate.setProgressHandler(on: nil) { _ in }
        data.delegate.queue.add {}
        seen.append("\(try await data.value().response.status)")
        try session.dataTask(with: request) { _ in }.resume()
        _ = try await session.uploadTask(with: request, from: [1]).value()
        _ = try await session.uploadTask(with: request, fromFile: "\(folder)/item").value()
        let (pieces, sent) = AsyncStream<[UInt8]>.makeStream()
        sent.yield([1])
        sent.finish()
        _ = try await session.uploadTask(with: request, from: .sequence(pieces)).value()
        session.taskNeedNewBodyStream = { _ in nil }
        _ = try await session.uploadTask(withStreamedRequest: request).value()
        let download = try session.downloadTask(with: request) { path, _ in (path + ".whole", []) }
        _ = try await download.value()
        let endpoint = try session.endpoint(for: "https://api.example.com/")
        let loopRequest = try SessionRequest(endpoint: endpoint, method: .get, target: "/item")
        session.perform { $0.dataTask(with: loopRequest, delegate: Receiver()).resume() }
        _ = (session.tasks, session.dataTasks, session.uploadTasks, session.downloadTasks)
        session.cancelAllTasks()
    }

    private func others(_ manager: HTTPSessionManager) async throws {
        let reachability = NetworkReachabilityManager()
        try reachability.startListening { _ in }
        reachability.stopListening()
        _ = try manager.configuration.cookieStorage?.cookies(for: "https://api.example.com/")
        manager.responseSerializer = .json
        _ = try ParameterValue(encoding: Item(name: "x"))
        let value = try JSONValue(parsing: Array("{\"name\":1}".utf8))
        seen.append("\(value["name"]?.int ?? 0)")
    }
}
