// SPDX-License-Identifier: Apache-2.0
// The code of docs/swift/http-session.md, in its order: `.ci/articles` compares the page with this file.

import Glibc
import HTTPCore
import HTTPSession
import HTTPSessionStubs
import ServerTrust
import SessionCore

struct Example {
    static func main() async throws {
        var settings = SecurityPolicy.Configuration()
        settings.pinningMode = .publicKey
        settings.pins = [
            Pin(try PublicKeyPin("sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")),
            Pin(try PublicKeyPin("sha256/AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="), isBackup: true),
        ]
        let trust = SessionTrust(
            anchors: try .system(),
            policies: [try Host("api.example.com"): try SecurityPolicy(settings)]
        )
        let manager = try HTTPSessionManager(serverTrust: trust)
        do {
            let answer = try await manager.data(for: "https://api.example.com/v1/items")
            print(answer.status, answer.data.count, "bytes in", answer.metrics.taskDuration)
        } catch {
            // `code` for programs, `details` for people; for a failed pin the keys that were offered.
            print(error.code.rawValue, error.details)
            for offered in error.evaluation?.offeredPins ?? [] { print(offered.pin, offered.subject) }
        }
        await manager.invalidateSession(cancelingTasks: false)
    }
}

struct Report: Codable, Sendable {
    var id: Int
    var title: String
}

func eightThings(with manager: HTTPSessionManager, in folder: String) async throws {
    // 1. An object from JSON, with parameters in the URL.
    let reports = try await manager.get("reports", parameters: ["page": 2], serializer: .decodable([Report].self)).value
    print(reports.map(\.title))

    // 2. An object sent as JSON.
    let json = RequestOptions(requestSerializer: JSONRequestSerializer())
    try await manager.post("reports", parameters: Report(id: 7, title: "Tea"), options: json)

    // 3. The reason of a failure.
    do {
        try await manager.delete("reports/7")
    } catch {
        switch (error.response?.status, error.sessionError?.code) {
        case (404, _): print("there is no such report")
        case (_, .pinMismatch): print("this is not the server that it should be")
        default: print(error)
        }
    }

    // 4. Limits of time, and repetition of what failed for a moment.
    let patient = RequestOptions(timeouts: TaskTimeouts(total: .seconds(30)), interceptor: .retryPolicy(retryLimit: 3))
    print(try await manager.get("reports/1", options: patient, serializer: .string).value)

    // 5. A file, which goes on where it broke off when it is sent for again.
    let download = try manager.download(.get, "files/large.iso", options: patient) { _, _ in
        (folder + "/large.iso", [.createIntermediateDirectories, .removePreviousFile])
    }
    print(try await download.response().path)

    // 6. A form with a file, and its progress.
    try await manager.post("reports", progress: ProgressHandler { print($0.fraction ?? 0) }) { form in
        try form.appendFile(folder + "/large.iso", name: "file")
    }

    // 7. Lines and events, while they arrive.
    for try await line in try await manager.stream(.get, "reports").lines { print(line) }
    for try await event in manager.events("updates") { print(event.event, event.data) }

    // 8. Messages in both directions.
    let socket = try manager.webSocketTask("feed", protocols: ["v2.feed"])
    try await socket.open()
    try await socket.send(.string("subscribe tea"))
    print(try await socket.receive())
    socket.cancel(with: .normalClosure)
}

func requests(_ trust: SessionTrust, _ authentication: any RequestInterceptor, page: Int) async throws {
    let manager = try HTTPSessionManager(
        baseURL: "https://api.example.com/v1",
        serverTrust: trust,
        interceptor: Interceptor(interceptors: [authentication, RetryPolicy()])
    )
    manager.requestSerializer = JSONRequestSerializer()
    let items = try await manager.get("items", parameters: ["page": page], serializer: .decodable([Item].self)).value
    try await manager.post("reports", progress: ProgressHandler { print($0.fraction ?? 0) }) { form in
        try form.appendFile("/srv/report.pdf", name: "report")
    }
    let request = try manager.delete("items/7") { result in print(result) }  // request.cancel()

    print(items, request)
}

func log(_ manager: HTTPSessionManager) async throws {
    let stream = try await manager.stream(.get, "log", parameters: ["follow": true])  // returns with the head
    for try await line in stream.lines { print(line) }
}

struct Login: AuthenticationCredential {
    var token: String
    var end: ContinuousClock.Instant
    var requiresRefresh: Bool { end - .now < .seconds(30) }  // asked before each request
}

struct LoginAuthenticator: Authenticator {
    func apply(_ credential: Login, to request: inout HTTPSessionRequest) throws {
        request.headers["Authorization"] = "Bearer \(credential.token)"
    }

    func refresh(_ credential: Login, for manager: HTTPSessionManager) async throws -> Login {
        let token = try await manager.post("token", serializer: .string).value  // passes the interceptor by
        return Login(token: token, end: .now + .seconds(3600))
    }

    func didRequest(_: HTTPSessionRequest, with response: ResponseHead, failDueTo _: RequestFailure) -> Bool {
        response.status == 401  // then it is refreshed
    }

    func isRequest(_ request: HTTPSessionRequest, authenticatedWith credential: Login) -> Bool {
        // If not, it is sent again with the present one.
        request.headers["Authorization"] == "Bearer \(credential.token)"
    }
}

func oneTask(_ trust: SessionTrust) async throws {
    let manager = try URLSessionManager(serverTrust: trust)
    manager.taskDidComplete = { task, error in print(task.taskIdentifier, error.map { "\($0)" } ?? "done") }
    let task = try manager.dataTask(with: HTTPSessionRequest(url: "https://api.example.com/v1/items"))
    task.delegate.queue.add { print("after the end") }
    let answer = try await task.value()  // or task.resume(), and a completion handler

    print(answer.status)
}

func oneDownload(_ manager: URLSessionManager, _ url: String) async throws {
    let task = try manager.downloadTask(with: HTTPSessionRequest(url: url)) { temporaryPath, response in
        ("/srv/files/large.iso", [.createIntermediateDirectories, .removePreviousFile])
    }
    let answer = try await task.value()  // answer.path

    print(answer.path)
}

func cached(_ configuration: inout URLSessionManager.Configuration) throws {
    configuration.cache = try SessionCache(memoryCapacity: 32 << 20, diskCapacity: 1 << 30, diskPath: "/var/cache/app")
}

final class Download: LoopTaskDelegate {
    private var count = 0

    override func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        count += data.count
        return count > 1 << 20 ? .pause : .proceed  // later, on the loop: task.resumeReceiving()
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) { print(count, "bytes") }
}

func loopTask(_ manager: HTTPSessionManager) throws {
    let endpoint = try manager.endpoint(for: "https://api.example.com/")
    let request = try SessionRequest(endpoint: endpoint, method: .get, target: "/large")
    manager.perform { session in session.dataTask(with: request, delegate: Download()).resume() }
}

func fromParameters(_ url: String, token: String) throws -> HTTPSessionRequest {
    var serializer = HTTPRequestSerializer()
    try serializer.setAuthorizationHeaderField(bearerToken: token)
    let request = try serializer.request(.get, url, parameters: ["q": "a b", "tags": ["x", "y"], "page": 2])
    // …?page=2&q=a%20b&tags%5B%5D=x&tags%5B%5D=y

    return request
}

func stubbed() throws -> HTTPSessionManager {
    let origin = StubOrigin()
    try origin.route(.get, "/v1/items") { request in try .json(["one", "two"]) }
    try origin.route(.post, "/v1/items", times: 1, failure: StubFailure(.connectFailed))
    try origin.route(.post, "/v1/items", response: .status(201).delayed(by: .milliseconds(50)))
    try origin.route(.get, "https://pinned.example.com/*", failure: StubFailure(.pinMismatch))

    var configuration = HTTPSessionManager.Configuration()
    configuration.answerRequests(with: origin)  // the only way in; a program without this product has none
    let manager = try HTTPSessionManager(baseURL: "https://api.example.com", configuration: configuration)

    return manager
}

func recorded(_ work: (HTTPSessionManager) async throws -> Void) async throws {
    let recorder = HARRecorder()
    var recording = HTTPSessionManager.Configuration()  // of a session with connections
    recording.recordExchanges(with: recorder)
    try await work(HTTPSessionManager(configuration: recording))
    try recorder.write(to: "Tests/Recordings/items.har")

    var replaying = HTTPSessionManager.Configuration()
    replaying.answerRequests(with: try StubOrigin(har: "Tests/Recordings/items.har"))

    _ = replaying
}
