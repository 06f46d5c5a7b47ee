// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionCodable
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Downloads with interceptors", .onOwnThreads)
struct DownloadRequestTests {
    /// Without delays worth speaking of.
    private static let policy = RetryPolicy(exponentialBackoffScale: .milliseconds(1))
    private let folder = try! TemporaryFolder()

    private func stage(
        interceptor: (any RequestInterceptor)? = nil,
        monitors: [any EventMonitor] = [],
        script: @escaping ScriptedOrigin.Script
    ) throws -> HTTPStage {
        let path = folder.path
        return try HTTPStage(
            interceptor: interceptor,
            monitors: monitors,
            { $0.temporaryFolder = path },
            script: script
        )
    }

    private func stage(
        interceptor: (any RequestInterceptor)? = nil,
        monitors: [any EventMonitor] = [],
        responding response: @escaping @Sendable (HTTPMessage) -> String
    ) throws -> HTTPStage {
        try stage(interceptor: interceptor, monitors: monitors) { connection in
            while let request = try connection.readRequest() { try connection.write(response(request)) }
        }
    }

    private func text(_ path: String) throws -> String { try String(contentsOfFile: path, encoding: .utf8) }
    private var files: [String] { (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? [] }
    private var target: DownloadDestination {
        let path = folder.path + "/target"
        return { _, _ in (path, [.removePreviousFile]) }
    }

    /// Puts a number into each request.
    private static func numbering() -> Adapter {
        let count = Monitor(0)
        return Adapter { request, _ in
            var request = request
            let number = count.with {
                $0 += 1
                return $0
            }
            request.headers["X-Number"] = "\(number)"
            return request
        }
    }

    @Test("a download is adapted for each attempt, and repeated after a passing fault")
    func retried() async throws {
        let stage = try stage(
            interceptor: Interceptor(adapters: [Self.numbering()], retriers: [Self.policy]),
            responding: HTTPStage.inTurn([HTTPStage.status("503 Service Unavailable"), OriginResponse.text("file")])
        )
        let request = try stage.manager.download(.get, "x", parameters: ["a": 1], to: target)
        let response = try await request.response()
        #expect(response.path == folder.path + "/target")
        #expect(try text(response.path) == "file")
        #expect(request.retryCount == 1 && request.state == .finished)
        #expect(request.tasks.map { $0.response?.status } == [503, 200])
        #expect(request.resumeData == nil)
        #expect(stage.origin.requests.map { $0["X-Number"] } == ["1", "2"])
        #expect(stage.origin.requests.allSatisfy { $0.target == "/v1/x?a=1" })
        #expect(files == ["target"])
        // Further calls read the same file.
        #expect(try await request.response().path == response.path)
        #expect(try await request.response(serializer: .string).value == "file")
        #expect(stage.origin.requests.count == 2)
        await stage.end()
    }

    @Test("an attempt that broke off continues with the adapter's fields")
    func resumed() async throws {
        let body = patternBytes(2_000_000)
        let stage = try stage(
            interceptor: Interceptor(adapters: [Self.numbering()], retriers: [Self.policy])
        ) { connection in
            guard let request = try connection.readRequest() else { return }
            guard let range = request["Range"], request["If-Range"] == "\"v\"" else {
                try connection.write("HTTP/1.1 200 OK\r\nETag: \"v\"\r\nContent-Length: \(body.count)\r\n\r\n")
                return try connection.write(Array(body.prefix(1_500_000)))
            }
            let first = Int(range.dropFirst("bytes=".count).dropLast())!
            try connection.write(
                "HTTP/1.1 206 Partial Content\r\nETag: \"v\"\r\n"
                    + "Content-Range: bytes \(first)-\(body.count - 1)/\(body.count)\r\n"
                    + "Content-Length: \(body.count - first)\r\n\r\n"
            )
            try connection.write(Array(body[first...]))
            connection.readToEnd()
        }
        let response = try await stage.manager.download(.get, "x", to: target).response()
        let isWhole = FileManager.default.contents(atPath: response.path).map { Array($0) == body } ?? false
        #expect(isWhole)
        #expect(stage.origin.requests.map { $0["X-Number"] } == ["1", "2"])
        #expect(stage.origin.requests[1]["Range"] != nil)
        #expect(files == ["target"])
        await stage.end()
    }

    @Test("a download whose adapter changes the URL starts over")
    func otherURL() async throws {
        let isFirst = Monitor(true)
        let adapter = Adapter { request, _ in
            var request = request
            if !isFirst.with({ $0 }) { request.url += "?again" }
            isFirst.with { $0 = false }
            return request
        }
        let stage = try stage(
            interceptor: Interceptor(adapters: [adapter], retriers: [Self.policy])
        ) { connection in
            guard let request = try connection.readRequest() else { return }
            if request.target.hasSuffix("?again") {
                try connection.respond("other")
                return connection.readToEnd()
            }
            try connection.write("HTTP/1.1 200 OK\r\nETag: \"v\"\r\nContent-Length: 10\r\n\r\nhalf")
        }
        let response = try await stage.manager.download(.get, "x", to: target).response()
        #expect(try text(response.path) == "other")
        #expect(stage.origin.requests[1]["Range"] == nil)
        try await eventually("the partial file to go") { files == ["target"] }
        await stage.end()
    }

    @Test("an unwanted response fails with its head, and nothing is written")
    func validation() async throws {
        let stage = try stage { request in
            OriginResponse.text("x", status: request.target.hasSuffix("missing") ? "404 Not Found" : "200 OK")
        }
        let missing = try stage.manager.download(.get, "missing", to: target)
        await #expect {
            _ = try await missing.response()
        } throws: {
            guard case .serialization(let error)? = $0 as? RequestFailure,
                case .unacceptableStatusCode(404) = error.reason
            else { return false }
            return error.response.response.status == 404 && error.response.data.isEmpty
        }
        let type = try stage.manager.download(
            .get,
            "there",
            validation: ResponseValidation(acceptableContentTypes: ["image/*"]),
            to: target
        )
        await #expect {
            _ = try await type.response()
        } throws: {
            guard case .serialization(let error)? = $0 as? RequestFailure,
                case .unacceptableContentType(let received, _) = error.reason
            else { return false }
            return received == "text/plain"
        }
        #expect(files.isEmpty)
        let any = try stage.manager.download(
            .get,
            "missing",
            validation: ResponseValidation(acceptableStatusCodes: nil),
            to: target
        )
        #expect(try await any.response().response.status == 404)
        await stage.end()
    }

    @Test("a serializer reads the file, which stays; its errors go to the retriers")
    func serializers() async throws {
        let responses = [
            OriginResponse.text("{", fields: ["Content-Type: application/json"]),
            OriginResponse.text("{\"a\": 1}", fields: ["Content-Type: application/json"]),
        ]
        let retrier = Retrier { request, failure in
            failure.serializationError != nil && request.retryCount == 0 ? .retry : .doNotRetry
        }
        let stage = try stage(interceptor: retrier, responding: HTTPStage.inTurn(responses))
        let download = try stage.manager.download(.get, "x", to: target)
        let response = try await download.response(serializer: DecodableResponseSerializer([String: Int].self))
        #expect(response.value == ["a": 1])
        #expect(try text(response.response.path) == "{\"a\": 1}")
        #expect(download.retryCount == 1)
        let told = Monitor<String?>(nil)
        try stage.manager.download(.get, "x", to: target).response(serializer: StringResponseSerializer()) { result in
            if case .success(let response) = result { told.with { $0 = response.value } }
        }
        try await eventually("the handler") { told.with { $0 } == "{\"a\": 1}" }
        let wrong = try stage.manager.download(.get, "x", to: target)
        await #expect {
            _ = try await wrong.response(serializer: DecodableResponseSerializer([Int].self))
        } throws: {
            ($0 as? RequestFailure)?.serializationError != nil
        }
        #expect(wrong.retryCount == 1 && wrong.state == .finished)
        #expect(try text(folder.path + "/target") == "{\"a\": 1}")
        await stage.end()
        let path = folder.path
        let small = try HTTPStage({
            $0.maximumBodySize = 3
            $0.temporaryFolder = path
        }) { connection in
            while try connection.readRequest() != nil { try connection.respond("four") }
        }
        let large = try small.manager.download(.get, "x", to: target)
        await #expect {
            _ = try await large.response(serializer: StringResponseSerializer())
        } throws: {
            ($0 as? RequestFailure)?.sessionError?.code == .responseTooLarge
        }
        await small.end()
    }

    @Test("a download whose adapter fails at the second attempt fails for all serializers")
    func adapterFailsLater() async throws {
        struct Mine: Error {}
        let interceptor = Interceptor { original, subject in
            if subject.retryCount == 1 { throw Mine() }
            return original
        } retry: { _, failure in
            if case .serialization = failure { .retry } else { .doNotRetry }
        }
        let stage = try stage(interceptor: interceptor) { connection in
            while try connection.readRequest() != nil { try connection.respond("no JSON") }
        }
        let download = try stage.manager.download(.get, "x", to: target)
        let faults = Monitor<[String]>([])
        let note: @Sendable (String, RequestFailure?) -> Void = { name, failure in
            var isMine = false
            if case .adaptation(let error)? = failure { isMine = error is Mine }
            faults.with { $0.append("\(name) \(isMine)") }
        }
        download.response(serializer: JSONResponseSerializer(validation: ResponseValidation())) { result in
            if case .failure(let failure) = result { note("first", failure) } else { note("first", nil) }
        }
        download.response(serializer: StringResponseSerializer()) { result in
            if case .failure(let failure) = result { note("second", failure) } else { note("second", nil) }
        }
        try await eventually("both handlers") { faults.with { $0.count == 2 } }
        #expect(faults.with { $0 } == ["first true", "second true"])
        #expect(stage.origin.requests.count == 1 && download.retryCount == 1)
        await stage.end()
    }

    /// Removes the downloaded file before it can be read.
    private struct Remover: EventMonitor {
        let queue: CallbackQueue? = CallbackQueue { work in work() }

        func request(_ request: DownloadRequest, didFinishDownloading response: DownloadResponse) {
            try? FileManager.default.removeItem(atPath: response.path)
        }
    }

    @Test("a file that is missing or empty when it is read fails the request")
    func unreadableFiles() async throws {
        let stage = try stage(monitors: [Remover()]) { _ in OriginResponse.text("x") }
        let gone = try stage.manager.download(.get, "x", to: target)
        await #expect {
            _ = try await gone.response(serializer: StringResponseSerializer())
        } throws: {
            ($0 as? RequestFailure)?.sessionError?.code == .fileFailed
        }
        await stage.end()
        let other = try self.stage { _ in OriginResponse.text("", fields: ["Content-Type: application/json"]) }
        let empty = try other.manager.download(.get, "x", to: target)
        await #expect {
            _ = try await empty.response(serializer: JSONResponseSerializer())
        } throws: {
            guard case .inputDataEmpty? = ($0 as? RequestFailure)?.serializationError?.reason else { return false }
            return true
        }
        await other.end()
    }

    @Test("another request continues a cancelled download")
    func resumption() async throws {
        let body = patternBytes(500_000)
        let stage = try stage { connection in
            guard let request = try connection.readRequest() else { return }
            guard let range = request["Range"] else {
                try connection.write("HTTP/1.1 200 OK\r\nETag: \"v\"\r\nContent-Length: \(body.count)\r\n\r\n")
                try connection.write(Array(body.prefix(200_000)))
                return connection.readToEnd()
            }
            let first = Int(range.dropFirst("bytes=".count).dropLast())!
            try connection.write(
                "HTTP/1.1 206 Partial Content\r\nETag: \"v\"\r\n"
                    + "Content-Range: bytes \(first)-\(body.count - 1)/\(body.count)\r\n"
                    + "Content-Length: \(body.count - first)\r\n\r\n"
            )
            try connection.write(Array(body[first...]))
            connection.readToEnd()
        }
        let received = Monitor<Int64>(0)
        let request = try stage.manager.download(
            .get,
            "x",
            progress: ProgressHandler { progress in received.with { $0 = progress.completedBytes } },
            to: target
        )
        let data = Monitor<[UInt8]??>(nil)
        let failure = Monitor<RequestFailure?>(nil)
        request.response { result in
            if case .failure(let error) = result { failure.with { $0 = error } }
        }
        try await eventually("some bytes") { received.with { $0 > 0 } }
        request.cancel { resumeData in data.with { $0 = .some(resumeData) } }
        try await eventually("resume data") { data.with { $0 != nil } }
        try await eventually("the end") { failure.with { $0?.sessionError?.code } == .cancelled }
        let kept = try #require(data.with { $0 ?? nil })
        #expect(request.resumeData == kept)
        let next = try stage.manager.download(resumingWith: kept, to: target)
        #expect(next.resumeData == kept)
        let response = try await next.response()
        let isWhole = FileManager.default.contents(atPath: response.path).map { Array($0) == body } ?? false
        #expect(isWhole)
        #expect(throws: SessionError.self) { try stage.manager.download(resumingWith: [1, 2]) }
        // One that was never begun has nothing.
        let never = Monitor(0)
        try stage.manager.download(.get, "x").cancel { data in never.with { $0 = data == nil ? 1 : 2 } }
        try await eventually("the handler") { never.with { $0 } == 1 }
        await stage.end()
    }

    @Test("a refreshed token lets a download continue")
    func authentication() async throws {
        struct Token: AuthenticationCredential {
            let value: String
            let requiresRefresh = false
        }
        struct Tokens: Authenticator {
            func apply(_ credential: Token, to request: inout HTTPSessionRequest) throws {
                request.headers["Authorization"] = credential.value
            }
            func refresh(_ credential: Token, for manager: HTTPSessionManager) async throws -> Token {
                Token(value: "Bearer new")
            }
            func didRequest(_ request: HTTPSessionRequest, with response: ResponseHead, failDueTo error: RequestFailure)
                -> Bool
            {
                response.status == 401
            }
            func isRequest(_ request: HTTPSessionRequest, authenticatedWith credential: Token) -> Bool {
                request.headers.value(for: "Authorization") == credential.value
            }
        }
        let stage = try stage(
            interceptor: AuthenticationInterceptor(authenticator: Tokens(), credential: Token(value: "Bearer old"))
        ) { request in
            request["Authorization"] == "Bearer new"
                ? OriginResponse.text("file") : OriginResponse.text("", status: "401 Unauthorized")
        }
        #expect(try await text(stage.manager.download(.get, "x", to: target).response().path) == "file")
        #expect(stage.origin.requests.count == 2)
        await stage.end()
    }

    private final class Log: EventMonitor {
        let entries = Monitor<[String]>([])
        private func note(_ entry: String) { entries.with { $0.append(entry) } }

        func requestDidResume(_ request: Request) { note("resume") }
        func requestDidFinish(_ request: Request) { note("finish") }
        func request(_ request: Request, didCreate task: SessionTask) { note("task \(task is DownloadTask)") }
        func request(_ request: Request, didComplete task: SessionTask, with error: SessionError?) {
            note("complete \(error?.code.rawValue ?? "")")
        }
        func request(_ request: DownloadRequest, didFinishDownloading response: DownloadResponse) {
            note("file \(response.response.status)")
        }
        func requestIsRetrying(_ request: Request) { note("retry \(request.retryCount)") }
    }

    @Test("monitors are told of a download's steps in order")
    func monitors() async throws {
        let log = Log()
        let stage = try stage(
            interceptor: Self.policy,
            monitors: [log],
            responding: HTTPStage.inTurn([HTTPStage.status("503 Service Unavailable"), OriginResponse.text("file")])
        )
        _ = try await stage.manager.download(.get, "x", to: target).response()
        try await eventually("the last entry") { log.entries.with { $0.last } == "finish" }
        #expect(
            log.entries.with { $0 } == [
                "resume", "task true", "complete response_invalid", "retry 1", "task true", "complete ", "file 200",
                "finish",
            ]
        )
        await stage.end()
    }

    @Test("all requests can be cancelled at once, and later ones are not affected")
    func cancelAll() async throws {
        let patient = RetryPolicy(exponentialBackoffScale: .seconds(50), jitter: 0)
        let stage = try stage { connection in
            while let request = try connection.readRequest() {
                if request.target.hasSuffix("slow") { return connection.readToEnd() }
                try connection.write(
                    request.target.hasSuffix("busy") ? HTTPStage.status("503 Unavailable") : OriginResponse.text("{}")
                )
            }
        }
        let ended = Monitor<[String]>([])
        func handle(_ name: String) -> @Sendable (SessionError.Code?) -> Void {
            { code in ended.with { $0.append("\(name) \(code?.rawValue ?? "-")") } }
        }
        let slow = try stage.manager.request(.get, "slow")
        let busy = try stage.manager.request(.get, "busy", options: RequestOptions(interceptor: patient))
        let held = try stage.manager.request(.get, "held")
        held.suspend()
        for (name, request) in [("slow", slow), ("busy", busy), ("held", held)] {
            let handler = handle(name)
            request.response(serializer: HTTPResponseSerializer()) { result in
                if case .failure(let error) = result { handler(error.sessionError?.code) } else { handler(nil) }
            }
        }
        let download = try stage.manager.download(.get, "slow", to: target)
        let handler = handle("download")
        download.response { result in
            if case .failure(let error) = result { handler(error.sessionError?.code) } else { handler(nil) }
        }
        try await eventually("the requests") {
            stage.origin.requests.count == 3 && busy.task?.state == .completed && held.task != nil
        }
        #expect(stage.manager.activeRequests.count == 4)
        let plain = try stage.manager.session.dataTask(with: HTTPSessionRequest(url: stage.manager.url("slow")))
        plain.resume()
        let isDone = Monitor(false)
        stage.manager.cancelAllRequests { isDone.with { $0 = true } }
        try await eventually("all to be cancelled") { isDone.with { $0 } && ended.with { $0.count == 4 } }
        #expect(
            ended.with { $0.sorted() } == ["busy cancelled", "download cancelled", "held cancelled", "slow cancelled"]
        )
        #expect(stage.manager.activeRequests.isEmpty)
        #expect(plain.state == .running)
        let after = try await stage.manager.request(.get, "x").response(serializer: HTTPResponseSerializer())
        #expect(after.response.response.status == 200)
        await stage.manager.cancelAllRequests()
        stage.manager.session.cancelAllTasks()
        await #expect { _ = try await plain.value() } throws: { $0.sessionCode == .cancelled }
        await stage.end()
    }

    @Test("an empty 204 needs no content type; a 200 does")
    func typeOfNothing() async throws {
        let stage = try stage { request in
            request.target.hasSuffix("none")
                ? "HTTP/1.1 204 No Content\r\n\r\n" : OriginResponse.text("x", fields: ["Content-Type: text/plain"])
        }
        let validation = ResponseValidation(acceptableContentTypes: ["application/json"])
        let none = try await stage.manager.download(.get, "none", validation: validation, to: target).response()
        #expect(none.response.status == 204)
        #expect(try text(folder.path + "/target").isEmpty)
        var strict = validation
        strict.emptyResponseCodes = []
        for (path, validation) in [("some", validation), ("none", strict)] {
            let request = try stage.manager.download(.get, path, validation: validation, to: target)
            let failure = await #expect(throws: RequestFailure.self) { try await request.response() }
            guard case .unacceptableContentType? = failure?.serializationError?.reason else {
                Issue.record("\(String(describing: failure))")
                continue
            }
        }
        #expect(try text(folder.path + "/target").isEmpty)
        await stage.end()
    }

    @Test("a value is mapped with its file and response; a thrown error fails it")
    func mappedValue() async throws {
        struct Odd: Error {}
        let stage = try stage(responding: { _ in OriginResponse.text("7") })
        let text = try await stage.manager.download(.get, "x", to: target).response(serializer: .string)
        let number = text.map { Int($0) }
        #expect(number.value == 7 && number.response.metrics.transaction.status == 200)
        #expect(number.response.response.status == 200 && number.response.path == folder.path + "/target")
        #expect(throws: Odd.self) { try number.map { _ throws(Odd) -> Int in throw Odd() } }
        await stage.end()
    }
}
