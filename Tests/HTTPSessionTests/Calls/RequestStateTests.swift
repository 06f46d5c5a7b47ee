// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Repeated calls on a request", .onOwnThreads)
struct RequestStateTests {
    private final class Log: EventMonitor {
        let entries = Monitor<[String]>([])
        private func note(_ entry: String) { entries.with { $0.append(entry) } }

        func requestDidResume(_ request: Request) { note("resume") }
        func requestDidSuspend(_ request: Request) { note("suspend") }
        func requestDidCancel(_ request: Request) { note("cancel") }
        func requestDidFinish(_ request: Request) { note("finish") }
    }

    @Test("resuming, suspending or cancelling again is reported only when it changes something")
    func repeated() async throws {
        let log = Log()
        let stage = try HTTPStage(monitors: [log]) { connection in
            _ = try connection.readRequest()
            connection.readToEnd()
        }
        let request = try stage.manager.request(.get, "x")
        for _ in 0..<3 { request.suspend() }
        for _ in 0..<3 { request.resume() }
        #expect(request.state == .resumed)
        let waiting = beside { try await request.response(serializer: JSONResponseSerializer()).value }
        try await eventually("the request") { stage.origin.requests.count == 1 }
        for _ in 0..<3 { request.resume() }
        for _ in 0..<3 { request.suspend() }
        #expect(request.state == .suspended && request.task?.state == .suspended)
        for _ in 0..<3 { request.resume() }
        for _ in 0..<3 { request.cancel() }
        for _ in 0..<3 { request.resume() }
        #expect(request.state == .cancelled)
        let failure = await #expect(throws: RequestFailure.self) { try await waiting.value }
        #expect(failure?.sessionError?.code == .cancelled)
        try await eventually("the end") { log.entries.with { $0.last == "finish" } }
        #expect(
            log.entries.with { $0 } == ["suspend", "resume", "suspend", "resume", "cancel", "finish"]
        )
        await stage.end()
    }

    @Test("cancelling inside the completion handler changes nothing and calls it no second time")
    func cancelledInTheHandler() async throws {
        let log = Log()
        let stage = try HTTPStage(monitors: [log], responding: HTTPStage.echo)
        let calls = Monitor<[Int?]>([])
        let request = try stage.manager.request(.get, "x")
        request.response(serializer: JSONResponseSerializer()) { result in
            request.cancel()
            calls.with { $0.append((try? result.get())?.response.response.status) }
        }
        try await eventually("the handler") { calls.with { !$0.isEmpty } }
        #expect(request.state == .finished)
        _ = try await stage.manager.get("another")
        #expect(calls.with { $0 } == [200])
        try await eventually("both ends") { log.entries.with { $0.filter { $0 == "finish" }.count == 2 } }
        #expect(!log.entries.with { $0.contains("cancel") })
        await stage.end()
    }

    @Test("repeated calls on the session task below behave alike")
    func taskCancelledInTheHandler() async throws {
        let stage = try ManagerStage { OriginResponse.text($0.target) }
        let made = Monitor<DataTask?>(nil)
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: ManagerStage.url("/"))) { [stage] result in
            made.with { $0 }?.cancel()
            stage.note("\((try? result.get())?.response.status ?? 0)")
        }
        made.with { $0 = task }
        _ = try await task.value()
        #expect(try await stage.wait(for: "200") == ["200"])
        #expect(task.state == .completed && task.error == nil)
        await stage.end()
    }

    @Test("an adapter that fails at the second attempt ends the request")
    func adapterFailsLater() async throws {
        struct Mine: Error {}
        let asked = Monitor<[String]>([])
        func interceptor(givesUp: Bool) -> Interceptor {
            let adapter = Adapter { request, subject in
                if subject.retryCount == 1 { throw Mine() }
                return request
            }
            let retrier = Retrier { _, failure in
                guard case .adaptation = failure else {
                    asked.with { $0.append("answer") }
                    return .retry
                }
                asked.with { $0.append("adaptation") }
                return givesUp ? .doNotRetry : .retry
            }
            return Interceptor(adapters: [adapter], retriers: [retrier])
        }
        let responses = [
            HTTPStage.status("503 Service Unavailable"), HTTPStage.status("503 Service Unavailable"),
            HTTPStage.status("200 OK"),
        ]
        let stage = try HTTPStage(responding: HTTPStage.inTurn(responses))
        let ended = try stage.manager.request(
            .get,
            "x",
            options: RequestOptions(interceptor: interceptor(givesUp: true))
        )
        let failure = await #expect(throws: RequestFailure.self) {
            try await ended.response(serializer: JSONResponseSerializer())
        }
        guard case .adaptation(let error) = failure, error is Mine else {
            Issue.record("another failure: \(String(describing: failure))")
            return
        }
        #expect(stage.origin.requests.count == 1 && ended.tasks.count == 1 && ended.retryCount == 1)
        #expect(asked.with { $0 } == ["answer", "adaptation"])
        asked.with { $0 = [] }
        let other = try stage.manager.request(
            .get,
            "x",
            options: RequestOptions(interceptor: interceptor(givesUp: false))
        )
        let response = try await other.response(serializer: JSONResponseSerializer())
        #expect(response.response.response.status == 200)
        #expect(asked.with { $0 } == ["answer", "adaptation"] && other.retryCount == 2 && other.tasks.count == 2)
        await stage.end()
    }
}
