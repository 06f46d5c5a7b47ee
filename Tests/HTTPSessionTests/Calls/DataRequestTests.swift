// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("A request's life", .onOwnThreads)
struct DataRequestTests {
    @Test("states go forward only")
    func states() {
        let all: [RequestState] = [.initialized, .resumed, .suspended, .cancelled, .finished]
        let allowed: [RequestState: [RequestState]] = [
            .initialized: [.resumed, .suspended, .cancelled, .finished],
            .resumed: [.suspended, .cancelled, .finished], .suspended: [.resumed, .cancelled, .finished],
            .cancelled: [.finished], .finished: [],
        ]
        for state in all {
            #expect(all.filter(state.mayBecome) == allowed[state])
        }
    }

    @Test("a request that was suspended first goes out when it is resumed")
    func suspended() async throws {
        let stage = try HTTPStage(responding: HTTPStage.echo)
        let request = try stage.manager.request(.get, "x")
        #expect(request.state == .initialized)
        request.suspend()
        let waiting = beside {
            try await request.response(serializer: JSONResponseSerializer()).response.response.status
        }
        try await eventually("the task") { request.task != nil }
        #expect(request.task?.state == .suspended)
        #expect(stage.origin.connections.isEmpty)
        request.resume()
        #expect(try await waiting.value == 200)
        #expect(request.state == .finished)
        // Nothing changes any more.
        request.cancel()
        request.suspend()
        #expect(request.state == .finished)
        await stage.end()
    }

    @Test("cancelling ends the transfer, and the handler is told so once")
    func cancelled() async throws {
        let stage = try HTTPStage { connection in
            _ = try connection.readRequest()
            connection.readToEnd()
        }
        let log = Monitor<[SessionError.Code?]>([])
        let request = try stage.manager.get("x") { result in
            if case .failure(let failure) = result { log.with { $0.append(failure.sessionError?.code) } }
        }
        try await eventually("the request") { stage.origin.requests.count == 1 }
        request.cancel()
        request.cancel()
        try await eventually("the handler") { log.with { $0.count == 1 } }
        #expect(log.with { $0 } == [.cancelled])
        try await eventually("the end") { request.state == .finished }
        await stage.end()
    }

    @Test("cancelling the waiting Swift task cancels the request")
    func taskCancellation() async throws {
        let stage = try HTTPStage { connection in
            _ = try connection.readRequest()
            connection.readToEnd()
        }
        let waiting = beside { try await stage.manager.post("x", serializer: JSONResponseSerializer()).value }
        try await eventually("the request") { stage.origin.requests.count == 1 }
        waiting.cancel()
        let failure = await #expect(throws: RequestFailure.self) { try await waiting.value }
        #expect(failure?.sessionError?.code == .cancelled)
        await stage.end()
    }

    @Test("a request is carried out once: a second call serializes the same response")
    func once() async throws {
        let stage = try HTTPStage(responding: HTTPStage.echo)
        let request = try stage.manager.request(.get, "x")
        let value = try await request.response(serializer: .json).value
        let text = try await request.response(serializer: .string).value
        #expect(value["target"]?.string == "/v1/x" && text.contains("\"method\""))
        #expect(stage.origin.requests.count == 1)
        await stage.end()
    }

    @Test("serializers of one request get one response; their handlers run in order")
    func several() async throws {
        let stage = try HTTPStage(responding: HTTPStage.echo)
        let log = Monitor<[String]>([])
        let request = try stage.manager.request(.get, "x")
        request.response(serializer: .json) { result in
            let target = (try? result.get().value)?["target"]?.string
            log.with { $0.append("json \(target ?? "-")") }
        }.response(serializer: .string(fallbacks: [.isoLatin1])) { result in
            log.with { $0.append("text \((try? result.get().value.isEmpty) == false)") }
        }.response(serializer: .data) { result in
            log.with { $0.append("data \((try? result.get().value.count) ?? 0)") }
        }
        try await eventually("the handlers") { log.with { $0.count == 3 } }
        let size = try await request.response(serializer: .data).value.count
        #expect(log.with { $0 } == ["json /v1/x", "text true", "data \(size)"])
        #expect(stage.origin.requests.count == 1)
        await stage.end()
    }

    @Test("the first serializer decides about retries; the others may still read the response")
    func firstDecides() async throws {
        let responses = [HTTPStage.status("503 Service Unavailable"), HTTPStage.status("404 Not Found")]
        let policy = RetryPolicy(exponentialBackoffScale: .milliseconds(1))
        let stage = try HTTPStage(interceptor: policy, responding: HTTPStage.inTurn(responses))
        let request = try stage.manager.request(.get, "x")
        let any = JSONResponseSerializer(validation: ResponseValidation(acceptableStatusCodes: nil))
        let first = beside { try await request.response(serializer: .json).response.response.status }
        try await eventually("the first call") { request.state != .initialized }
        let second = try await request.response(serializer: any)
        #expect(second.response.response.status == 404 && second.value == [:])
        let failure = await #expect(throws: RequestFailure.self) { try await first.value }
        #expect(failure?.response?.response.status == 404)
        #expect(request.retryCount == 1 && stage.origin.requests.count == 2)
        await stage.end()
    }

    @Test("a request without a response fails alike for all its serializers")
    func allFail() async throws {
        let stage = try HTTPStage { connection in
            _ = try connection.readRequest()
            connection.readToEnd()
        }
        let request = try stage.manager.request(.get, "x")
        let log = Monitor<[SessionError.Code?]>([])
        for _ in 0..<2 {
            request.response(serializer: .data) { result in
                if case .failure(let failure) = result { log.with { $0.append(failure.sessionError?.code) } }
            }
        }
        try await eventually("the request") { stage.origin.requests.count == 1 }
        request.cancel()
        try await eventually("the handlers") { log.with { $0.count == 2 } }
        #expect(log.with { $0 } == [.cancelled, .cancelled])
        await stage.end()
    }

    @Test("progress is a sequence over all attempts, whose last figure is the whole body")
    func progressSequence() async throws {
        let body = String(repeating: "x", count: 300_000)
        let responses = Monitor([HTTPStage.status("503 Service Unavailable")])
        let stage = try HTTPStage(interceptor: RetryPolicy(exponentialBackoffScale: .milliseconds(1))) { _ in
            responses.with { $0.popLast() } ?? OriginResponse.text(body)
        }
        let sent = HTTPSessionRequest(
            url: try stage.manager.url("x"),
            method: .put,
            body: .bytes(patternBytes(400_000))
        )
        let request = stage.manager.request(sent)
        let (up, down) = (request.uploadProgress(), request.downloadProgress())
        func last(_ updates: AsyncStream<TaskProgress>) -> Task<TaskProgress?, Never> {
            Task { await updates.reduce(nil) { $1 } }
        }
        let (lastSent, lastReceived) = (last(up), last(down))
        _ = try await request.response(serializer: .data)
        #expect(await lastSent.value == TaskProgress(completedBytes: 400_000, totalBytes: 400_000))
        #expect(await lastReceived.value == TaskProgress(completedBytes: 300_000, totalBytes: 300_000))
        // Behind the end there is nothing to wait for.
        #expect(await last(request.downloadProgress()).value == nil)
        await stage.end()
    }

    @Test("serializers run neither on the session's loop nor on the caller's actor")
    func serializationThreads() async throws {
        let stage = try HTTPStage(responding: HTTPStage.echo)
        let manager = stage.manager
        let gate = Gate()
        // A serializer that waits for another answer could not, if it held up the loop.
        let slow = JSONResponseSerializer().map { value in
            try gate.pass()
            return value
        }
        let first = beside { try await manager.get("slow", serializer: slow).response.response.status }
        _ = try await manager.get("fast")
        gate.open()
        #expect(try await first.value == 200)
        await stage.end()
    }

    @Test("a request after the end of the session fails")
    func invalidated() async throws {
        let stage = try HTTPStage(responding: HTTPStage.echo)
        await stage.end()
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        #expect(failure?.sessionError?.code == .sessionInvalidated)
    }
}
