import HTTPCore
import TestSupport
import Testing

@testable import HTTPSession
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
        let stage = try HTTPStage(answering: HTTPStage.echo)
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

    @Test("cancelling the Swift task that waits cancels the request")
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

    @Test("a request is carried out once")
    func once() async throws {
        let stage = try HTTPStage(answering: HTTPStage.echo)
        let request = try stage.manager.request(.get, "x")
        _ = try await request.response(serializer: JSONResponseSerializer())
        let failure = await #expect(throws: RequestFailure.self) {
            try await request.response(serializer: JSONResponseSerializer())
        }
        #expect(failure?.sessionError?.code == .requestInvalid)
        #expect(stage.origin.requests.count == 1)
        await stage.end()
    }

    @Test("serializers run neither on the session's loop nor on the caller's actor")
    func serializationThreads() async throws {
        let stage = try HTTPStage(answering: HTTPStage.echo)
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
        let stage = try HTTPStage(answering: HTTPStage.echo)
        await stage.end()
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        #expect(failure?.sessionError?.code == .cancelled)
    }
}
