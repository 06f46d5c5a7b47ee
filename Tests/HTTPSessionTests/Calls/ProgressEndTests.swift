// SPDX-License-Identifier: Apache-2.0
import HTTPCore
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
}
