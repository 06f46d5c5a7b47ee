// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionStubs
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("The end of progress", .onOwnThreads)
struct ProgressEndTests {
    /// The sequences of a request, each read to its end.
    private static func read(_ request: DataRequest) -> [Task<Int, Never>] {
        [request.uploadProgress(), request.downloadProgress()].map { figures in
            Task { await figures.reduce(0) { count, _ in count + 1 } }
        }
    }

    @Test("progress ends when a request is cancelled, whether it was sent or not")
    func cancelled() async throws {
        let stage = try StubStage()
        let request = try stage.manager.request(.post, "x", parameters: ["a": 1])
        let reading = Self.read(request)
        request.cancel()
        for figures in reading { #expect(await figures.value == 0) }
        // Also for sequences that are asked for behind it.
        for figures in Self.read(request) { #expect(await figures.value == 0) }
        let failure = await #expect(throws: RequestFailure.self) { try await request.response(serializer: .data) }
        #expect(failure?.sessionError?.code == .cancelled)
        let download = stage.manager.download(HTTPSessionRequest(url: StubStage.base))
        let figures = download.downloadProgress()
        download.cancel()
        for await _ in figures { Issue.record("a figure") }
        await stage.end()
    }

    @Test("progress ends with the session", arguments: [true, false])
    func invalidated(cancelingTasks: Bool) async throws {
        let stage = try StubStage()
        let request = try stage.manager.request(.get, "x")
        let reading = Self.read(request)
        await stage.manager.invalidateSession(cancelingTasks: cancelingTasks)
        for figures in reading + Self.read(request) { #expect(await figures.value == 0) }
    }

    @Test("progress ends when a request that was never sent is released")
    func released() async throws {
        let stage = try StubStage()
        var request: DataRequest? = try stage.manager.request(.get, "x")
        let reading = Self.read(try #require(request))
        request = nil
        for figures in reading { #expect(await figures.value == 0) }
        await stage.end()
    }

    private static func last(_ figures: AsyncStream<TaskProgress>) async -> TaskProgress? {
        await figures.reduce(nil) { $1 }
    }

    /// Asks for progress as soon as there is a task.
    private struct AskingMonitor: EventMonitor {
        let asked: Monitor<AsyncStream<TaskProgress>?>
        let queue: CallbackQueue? = CallbackQueue { $0() }

        func request(_ request: Request, didCreate task: SessionTask) {
            let figures = (request as? DataRequest)?.downloadProgress()
            asked.with { $0 = figures }
        }
    }

    @Test("progress that a monitor asks for when a task is made has figures")
    func askedByMonitor() async throws {
        let asked = Monitor<AsyncStream<TaskProgress>?>(nil)
        let stage = try StubStage(monitors: [AskingMonitor(asked: asked)])
        try stage.origin.route(nil, "*", response: .text("here"))
        let request = try stage.manager.request(.get, "x")
        _ = try await request.response(serializer: .data)
        let figures = try #require(asked.with { $0 })
        #expect(await Self.last(figures)?.completedBytes == 4)
        await stage.end()
    }

    @Test("progress that is asked for behind the last byte has the last figure")
    func askedLate() async throws {
        let (rest, parsing) = (Gate(), Gate())
        let stage = try HTTPStage { connection in
            while try connection.readRequest() != nil {
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nla")
                try rest.pass()
                try connection.write("st")
            }
        }
        let sent = HTTPSessionRequest(url: try stage.manager.url("x"), method: .put, body: .bytes(patternBytes(1000)))
        let request = stage.manager.request(sent)
        let serializer = HTTPResponseSerializer().map { (body: [UInt8]) -> [UInt8] in
            try parsing.pass()
            return body
        }
        let running = beside { try await request.response(serializer: serializer).value }
        // The request's body has been counted before the response.
        try await eventually("half of the response") { request.task?.countOfBytesReceived == 2 }
        let up = request.uploadProgress()
        rest.open()
        try await eventually("the end of the task") { request.task?.delegate.isComplete == true }
        let down = request.downloadProgress()
        parsing.open()
        #expect(try await running.value == Array("last".utf8))
        #expect(await Self.last(up) == TaskProgress(completedBytes: 1000, totalBytes: 1000))
        #expect(await Self.last(down) == TaskProgress(completedBytes: 4, totalBytes: 4))
        await stage.end()
    }
}
