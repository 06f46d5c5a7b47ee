// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Adaptation and retry", .onOwnThreads)
struct RetryTests {
    /// Without delays worth speaking of.
    private static let policy = RetryPolicy(exponentialBackoffScale: .milliseconds(1))

    @Test("a request that failed for a passing reason is repeated on the kept connection")
    func retried() async throws {
        let responses = [
            HTTPStage.status("503 Service Unavailable"), HTTPStage.status("500 Internal Server Error"),
            HTTPStage.status("200 OK"),
        ]
        let stage = try HTTPStage(interceptor: Self.policy, responding: HTTPStage.inTurn(responses))
        let request = try stage.manager.request(.get, "x")
        let response = try await request.response(serializer: JSONResponseSerializer())
        #expect(response.response.response.status == 200)
        #expect(request.retryCount == 2)
        #expect(request.tasks.map { $0.response?.status } == [503, 500, 200])
        #expect(Set(request.tasks.map(\.taskIdentifier)).count == 3)
        #expect(stage.origin.connections.count == 1)
        await stage.end()
    }

    @Test("after the last retry the failure is that of the last attempt")
    func exhausted() async throws {
        let stage = try HTTPStage(interceptor: Self.policy) { _ in HTTPStage.status("503 Service Unavailable") }
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        #expect(failure?.response?.response.status == 503)
        #expect(stage.origin.requests.count == 3)
        await stage.end()
    }

    @Test("a POST is not repeated")
    func notIdempotent() async throws {
        let stage = try HTTPStage(interceptor: Self.policy) { _ in HTTPStage.status("503 Service Unavailable") }
        await #expect(throws: RequestFailure.self) { try await stage.manager.post("x", parameters: ["a": 1]) }
        #expect(stage.origin.requests.count == 1)
        await stage.end()
    }

    @Test("a streamed body is read anew for each attempt")
    func bodies() async throws {
        let content = patternBytes(300_000)
        let responses = [HTTPStage.status("503 Service Unavailable"), HTTPStage.status("200 OK")]
        let stage = try HTTPStage(interceptor: Self.policy, responding: HTTPStage.inTurn(responses))
        var form = try MultipartFormData(boundary: "B")
        try form.append(.bytes(content), name: "x")
        let request = try form.request(.put, try stage.manager.url("x"))
        _ = try await stage.manager.response(for: request, serializer: JSONResponseSerializer())
        let bodies = stage.origin.requests.map(\.body)
        let isSame = bodies.count == 2 && bodies[0] == bodies[1] && bodies[0].count > content.count
        #expect(isSame)
        await stage.end()
    }

    @Test("a file is adapted, sent, and sent again")
    func files() async throws {
        let folder = try TemporaryFolder()
        let content = patternBytes(200_000)
        let path = try folder.write(bytes: content, as: "file")
        let adapter = Adapter { request, _ in
            var request = request
            request.headers["X-Adapted"] = "yes"
            return request
        }
        let responses = [HTTPStage.status("503 Service Unavailable"), HTTPStage.status("200 OK")]
        let stage = try HTTPStage(
            interceptor: Interceptor(adapters: [adapter], retriers: [Self.policy]),
            responding: HTTPStage.inTurn(responses)
        )
        let request = HTTPSessionRequest(url: try stage.manager.url("x"), method: .put, body: .source(try .file(path)))
        _ = try await stage.manager.response(for: request, serializer: JSONResponseSerializer())
        let isSame = stage.origin.requests.map { $0.body == content && $0["X-Adapted"] == "yes" }
        #expect(isSame == [true, true])
        await stage.end()
    }

    @Test("a connection that closed without a response is a reason to retry")
    func lostConnection() async throws {
        let stage = try HTTPStage(interceptor: RetryPolicy.connectionLost(retryLimit: 5)) { connection in
            guard try connection.readRequest() != nil else { return }
            // Without the policy only a request that went out on a kept connection is repeated.
            if connection.number < 2 { return connection.close(.reset) }
            try connection.write(HTTPStage.status("200 OK"))
            connection.readToEnd()
        }
        let request = try stage.manager.request(
            .get,
            "x",
            options: RequestOptions(
                interceptor: RetryPolicy(retryLimit: 5, exponentialBackoffScale: .milliseconds(1))
            )
        )
        _ = try await request.response(serializer: JSONResponseSerializer())
        #expect(request.retryCount == 2)
        await stage.end()
    }

    @Test("a failed pin reaches no retrier")
    func pins() async throws {
        let asked = Monitor(0)
        let always = Retrier { _, _ in
            asked.with { $0 += 1 }
            return .retry
        }
        let stage = try HTTPStage(pin: .unrelated(3), interceptor: always) { $0.readToEnd() }
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        #expect(failure?.sessionError?.code == .pinMismatch)
        #expect(asked.with { $0 } == 0)
        await stage.end()
        try await eventually("closed connections") { stage.origin.connections.allSatisfy(\.isClosed) }
        #expect(stage.origin.connections.count == 1)
        #expect(stage.origin.applicationBytes == 0)
    }

    @Test("adapters work one after the other before each attempt, a request's own first")
    func adapters() async throws {
        func adding(_ word: String) -> Adapter {
            Adapter { request, subject in
                var request = request
                let before = request.headers.value(for: "X-Path").map { "\($0) " } ?? ""
                request.headers["X-Path"] = "\(before)\(word)\(subject.retryCount)"
                return request
            }
        }
        let responses = [HTTPStage.status("503 Service Unavailable"), HTTPStage.status("200 OK")]
        let general = Interceptor(adapters: [adding("b"), adding("c")], retriers: [Self.policy])
        let stage = try HTTPStage(interceptor: general, responding: HTTPStage.inTurn(responses))
        let request = try stage.manager.request(.get, "x", options: RequestOptions(interceptor: adding("a")))
        _ = try await request.response(serializer: JSONResponseSerializer())
        #expect(stage.origin.requests.map { $0["X-Path"] } == ["a0 b0 c0", "a1 b1 c1"])
        #expect(request.originalRequest.headers.value(for: "X-Path") == nil)
        #expect(request.request.headers.value(for: "X-Path") == "a1 b1 c1")
        await stage.end()
    }

    @Test("an adapter may keep a request from going out")
    func refusingAdapter() async throws {
        struct Mine: Error {}
        let stage = try HTTPStage(interceptor: Adapter { _, _ in throw Mine() }, responding: HTTPStage.echo)
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        guard case .adaptation(let error) = failure, error is Mine else {
            Issue.record("another failure: \(String(describing: failure))")
            return
        }
        #expect(stage.origin.connections.isEmpty)
        await stage.end()
    }

    @Test("an adapter can make no request that the session would not take")
    func smugglingAdapter() async throws {
        let adapter = Adapter { request, _ in
            var request = request
            request.headers.append(name: "Transfer-Encoding", value: "chunked")
            return request
        }
        let stage = try HTTPStage(interceptor: adapter, responding: HTTPStage.echo)
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        #expect(failure?.sessionError?.code == .requestInvalid)
        #expect(stage.origin.connections.isEmpty)
        await stage.end()
    }

    @Test("the first retrier that decides is final, and may give its own error")
    func retriers() async throws {
        struct Mine: Error {}
        let log = Monitor<[String]>([])
        func saying(_ word: String, _ result: RetryResult) -> Retrier {
            Retrier { _, _ in
                log.with { $0.append(word) }
                return result
            }
        }
        let chain = Interceptor(
            retriers: [saying("a", .doNotRetry), saying("b", .doNotRetryWithError(Mine())), saying("c", .retry)]
        )
        let stage = try HTTPStage(interceptor: chain) { _ in HTTPStage.status("404 Not Found") }
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        guard case .retry(let error, .serialization) = failure, error is Mine else {
            Issue.record("another failure: \(String(describing: failure))")
            return
        }
        #expect(failure?.response?.response.status == 404)
        #expect(log.with { $0 } == ["a", "b"])
        await stage.end()
    }

    @Test("cancelling ends a delay, and an adapter that would never return")
    func cancelledWhileWaiting() async throws {
        let stage = try HTTPStage(
            interceptor: Retrier { _, _ in .retryWithDelay(.seconds(3600)) }
        ) { _ in HTTPStage.status("503 Service Unavailable") }
        let request = try stage.manager.request(.get, "x")
        let waiting = beside { try await request.response(serializer: JSONResponseSerializer()).value }
        try await eventually("the first attempt") { request.task?.state == .completed }
        request.cancel()
        let failure = await #expect(throws: RequestFailure.self) { try await waiting.value }
        #expect(failure?.sessionError?.code == .cancelled)
        #expect(stage.origin.requests.count == 1)

        let begun = Gate()
        let deaf = Adapter { request, _ in
            begun.open()
            // Takes no notice of cancellation.
            await withCheckedContinuation { continuation in
                Unfinished.shared.keep(continuation)
            }
            return request
        }
        let other = try stage.manager.request(.get, "x", options: RequestOptions(interceptor: deaf))
        let second = beside { try await other.response(serializer: JSONResponseSerializer()).value }
        try begun.pass()
        second.cancel()
        await #expect(throws: RequestFailure.self) { try await second.value }
        #expect(other.tasks.isEmpty)
        Unfinished.shared.end()
        await stage.end()
    }

    @Test("the end of the session ends a delay, and an adapter that never returns")
    func endOfSessionWhileWaiting() async throws {
        let stage = try HTTPStage(
            interceptor: Retrier { _, _ in .retryWithDelay(.seconds(3600)) }
        ) { _ in HTTPStage.status("503 Service Unavailable") }
        let begun = Monitor(false)
        let unfinished = Unfinished()
        let deaf = Adapter { request, _ in
            await withCheckedContinuation { continuation in
                unfinished.keep(continuation)
                begun.with { $0 = true }
            }
            return request
        }
        let delayed = try stage.manager.request(.get, "x")
        let adapting = try stage.manager.request(.get, "x", options: RequestOptions(interceptor: deaf))
        let ended = Monitor<[SessionError.Code?]>([])
        for request in [delayed, adapting] {
            request.response(serializer: JSONResponseSerializer()) { result in
                guard case .failure(let failure) = result else { return }
                ended.with { $0.append(failure.sessionError?.code) }
            }
        }
        try await eventually("the first attempt") { delayed.task?.state == .completed }
        try await eventually("the adapter") { begun.with { $0 } }
        await stage.manager.invalidateSession(cancelingTasks: true)
        do { try await eventually("both handlers") { ended.with { $0.count == 2 } } } catch { Issue.record(error) }
        #expect(ended.with { $0 } == [.cancelled, .cancelled])
        #expect(adapting.tasks.isEmpty && stage.origin.requests.count == 1)
        unfinished.end()
        await stage.manager.cancelAllRequests()
    }

    /// A wait that another task ends.
    private final class Unfinished: Sendable {
        static let shared = Unfinished()
        private let waiting = Monitor<[CheckedContinuation<Void, Never>]>([])

        func keep(_ continuation: CheckedContinuation<Void, Never>) { waiting.with { $0.append(continuation) } }

        func end() {
            for continuation in waiting.with({ $0 }) { continuation.resume() }
        }
    }

    // MARK: Monitors

    private final class Log: EventMonitor {
        let entries = Monitor<[String]>([])
        let queue: CallbackQueue?

        init(queue: CallbackQueue? = nil) { self.queue = queue }

        private func note(_ entry: String) { entries.with { $0.append(entry) } }

        func requestDidResume(_ request: Request) { note("resume") }
        func requestDidSuspend(_ request: Request) { note("suspend") }
        func requestDidCancel(_ request: Request) { note("cancel") }
        func requestDidFinish(_ request: Request) { note("finish") }
        func request(_ request: Request, didAdapt initial: HTTPSessionRequest, to adapted: HTTPSessionRequest) {
            note("adapt")
        }
        func request(_ request: Request, didFailToAdapt initial: HTTPSessionRequest, with error: any Error) {
            note("no adapt")
        }
        func request(_ request: Request, didCreate task: SessionTask) { note("task") }
        func request(_ request: Request, didGather metrics: TaskMetrics) {
            note("metrics \(metrics.transaction.status)")
        }
        func request(_ request: Request, didComplete task: SessionTask, with error: SessionError?) {
            note("complete \(error?.code.rawValue ?? "")")
        }
        func request(_ request: Request, didParse response: DataResponse, failure: RequestFailure?) {
            note(failure == nil ? "parsed" : "not parsed")
        }
        func requestIsRetrying(_ request: Request) { note("retry \(request.retryCount)") }
    }

    @Test("monitors are told of everything in its order")
    func monitors() async throws {
        let log = Log()
        let calls = Monitor(0)
        let other = Log(
            queue: CallbackQueue { work in
                calls.with { $0 += 1 }
                work()
            }
        )
        let responses = [HTTPStage.status("503 Service Unavailable"), HTTPStage.status("200 OK")]
        let stage = try HTTPStage(
            interceptor: Self.policy,
            monitors: [log, other],
            responding: HTTPStage.inTurn(responses)
        )
        _ = try await stage.manager.get("x")
        try await eventually("the end") { log.entries.with { $0.last == "finish" } }
        let expected = [
            "resume", "adapt", "task", "metrics 503", "complete ", "not parsed", "retry 1", "adapt", "task",
            "metrics 200",
            "complete ", "parsed", "finish",
        ]
        #expect(log.entries.with { $0 } == expected)
        #expect(other.entries.with { $0 } == expected)
        #expect(calls.with { $0 } == expected.count)
        await stage.end()
    }

    @Test("monitors are told of suspension, cancellation and failed adaptation")
    func monitoredFailures() async throws {
        struct Mine: Error {}
        let log = Log()
        let stage = try HTTPStage(monitors: [log]) { connection in
            _ = try connection.readRequest()
            connection.readToEnd()
        }
        let request = try stage.manager.get("x") { _ in }
        try await eventually("the request") { stage.origin.requests.count == 1 }
        request.suspend()
        request.cancel()
        try await eventually("the end") { log.entries.with { $0.last == "finish" } }
        #expect(
            log.entries.with { $0.filter { !$0.hasPrefix("metrics") } }
                == ["resume", "task", "suspend", "cancel", "complete cancelled", "finish"]
        )
        let refused = try stage.manager.request(
            .get,
            "x",
            options: RequestOptions(interceptor: Adapter { _, _ in throw Mine() })
        )
        _ = try? await refused.response(serializer: JSONResponseSerializer())
        try await eventually("the end") { log.entries.with { $0.filter { $0 == "finish" }.count == 2 } }
        #expect(log.entries.with { $0.suffix(3) } == ["resume", "no adapt", "finish"])
        await stage.end()
    }

    @Test("monitors see a cancellation before the end, also when the cancelling thread is slow")
    func monitoredOrder() async throws {
        let gate = Gate()
        let canceller = Monitor<pthread_t?>(nil)
        let slow = Log(
            queue: CallbackQueue { work in
                if canceller.with({ $0 == pthread_self() }) { try? gate.pass() }
                work()
            }
        )
        let log = Log()
        let stage = try HTTPStage(monitors: [slow, log]) { connection in
            _ = try connection.readRequest()
            connection.readToEnd()
        }
        let ended = Monitor(false)
        let request = try stage.manager.get("x") { _ in ended.with { $0 = true } }
        try await eventually("the request") { stage.origin.requests.count == 1 }
        let thread = try LoopThread(name: "canceller") {
            canceller.with { $0 = pthread_self() }
            request.cancel()
        }
        try await eventually("the end of the request") { ended.with { $0 } }
        gate.open()
        thread.join()
        let expected = ["resume", "task", "cancel", "complete cancelled", "finish"]
        try await eventually("all events") {
            log.entries.with { $0.filter { !$0.hasPrefix("metrics") }.count == expected.count }
        }
        #expect(log.entries.with { $0.filter { !$0.hasPrefix("metrics") } } == expected)
        #expect(slow.entries.with { $0.filter { !$0.hasPrefix("metrics") } } == expected)
        await stage.end()
    }
}
