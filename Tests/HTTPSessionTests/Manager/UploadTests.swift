// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Uploads", .onOwnThreads)
struct UploadTests {
    private static let url = "https://\(ManagerStage.host)/file"

    @Test("a file is sent with its length, and read again for a repetition")
    func file() async throws {
        let body = patternBytes(300_000)
        let folder = try TemporaryFolder()
        let path = try folder.write(bytes: body, as: "file")
        let stage = try ManagerStage { request in
            request.target == "/file"
                ? OriginResponse.text("", status: "307 Temporary Redirect", fields: ["Location: /again"])
                : OriginResponse.text("done")
        }
        let task = try stage.manager.uploadTask(with: HTTPSessionRequest(url: Self.url, method: .put), fromFile: path)
        let response = try await task.value()
        #expect(response.response.status == 200)
        let requests = stage.origin.requests
        #expect(requests.map(\.target) == ["/file", "/again"] && requests.allSatisfy { $0.method == "PUT" })
        #expect(requests.allSatisfy { $0["Content-Length"] == "300000" })
        let areWhole = requests.allSatisfy { $0.body == body }
        #expect(areWhole)
        await stage.manager.invalidateSession(cancelingTasks: false)
    }

    @Test("a missing file is an error on the caller's stack")
    func missing() async throws {
        let stage = try ManagerStage { _ in OriginResponse.text("") }
        let error = #expect(throws: SessionError.self) {
            try stage.manager.uploadTask(with: HTTPSessionRequest(url: Self.url, method: .put), fromFile: "/none/such")
        }
        #expect(error?.code == .requestInvalid && error?.details.contains("/none/such") == true)
        #expect(stage.manager.tasks.isEmpty && stage.origin.connections.isEmpty)
        await stage.manager.invalidateSession(cancelingTasks: false)
    }

    @Test("an invalid URL makes no task of any kind")
    func badURL() async throws {
        let stage = try ManagerStage { _ in OriginResponse.text("") }
        let request = HTTPSessionRequest(url: "ftp://\(ManagerStage.host)/", method: .put)
        #expect(throws: SessionError.self) { try stage.manager.uploadTask(with: request, from: [1]) }
        #expect(throws: SessionError.self) { try stage.manager.uploadTask(withStreamedRequest: request) }
        #expect(throws: SessionError.self) { try stage.manager.downloadTask(with: request) }
        #expect(stage.manager.tasks.isEmpty)
        await stage.manager.invalidateSession(cancelingTasks: false)
    }

    @Test("progress is reported piece by piece, first to the task's own hook")
    func sending() async throws {
        let stage = try ManagerStage { _ in OriginResponse.text("done") }
        let told = Monitor<[(bytes: Int64, total: Int64, expected: Int64?)]>([])
        let progress = Monitor<[TaskProgress]>([])
        stage.manager.taskDidSendBodyData = { _, bytes, total, expected in
            told.with { $0.append((bytes, total, expected)) }
        }
        let body = patternBytes(1_000_000)
        let task = try stage.manager.uploadTask(with: HTTPSessionRequest(url: Self.url, method: .post), from: body)
        let delegate = try #require(task.delegate as? UploadTaskDelegate)
        delegate.setUploadProgressHandler { latest in progress.with { $0.append(latest) } }
        _ = try await task.value()
        let pieces = told.with { $0 }
        #expect(!pieces.isEmpty && pieces.allSatisfy { $0.bytes > 0 && $0.expected == 1_000_000 })
        #expect(pieces.reduce(0) { $0 + $1.bytes } == 1_000_000 && pieces.last?.total == 1_000_000)
        #expect(zip(pieces, pieces.dropFirst()).allSatisfy { $0.total + $1.bytes == $1.total })
        let last = TaskProgress(completedBytes: 1_000_000, totalBytes: 1_000_000)
        try await eventually("the last figure") { progress.with { $0.last == last } }
        let figures = progress.with { $0.map(\.completedBytes) }
        #expect(figures == figures.sorted())

        let second = try stage.manager.uploadTask(
            with: HTTPSessionRequest(url: Self.url, method: .post),
            from: [1, 2, 3]
        )
        let own = Monitor<[Int64]>([])
        (second.delegate as? UploadTaskDelegate)?.taskDidSendBodyData = { _, _, total, _ in
            own.with { $0.append(total) }
        }
        _ = try await second.value()
        #expect(own.with { $0.last } == 3 && told.with { $0.count } == pieces.count)
        await stage.manager.invalidateSession(cancelingTasks: false)
    }

    @Test("a suspended upload hands over no more of its body until it is resumed", arguments: [true, false])
    func suspended(isInMemory: Bool) async throws {
        let stage = try ManagerStage { _ in OriginResponse.text("done") }
        let body = patternBytes(8_000_000)
        let folder = try TemporaryFolder()
        let path = try folder.write(bytes: body, as: "file")
        func make(_ place: String) throws -> UploadTask {
            let request = HTTPSessionRequest(url: ManagerStage.url(place), method: .put)
            return isInMemory
                ? try stage.manager.uploadTask(with: request, from: body)
                : try stage.manager.uploadTask(with: request, fromFile: path)
        }
        let task = try make("/suspended")
        let isOnce = Monitor(true)
        task.uploadDelegate.taskDidSendBodyData = { task, _, total, _ in
            if isOnce.with({ once in
                defer { once = false }
                return once
            }) {
                task.suspend()
            }
        }
        task.resume()
        try await eventually("the suspension") { task.state == .suspended }
        // Another upload is complete meanwhile.
        #expect(try await make("/other").value().response.status == 200)
        #expect(stage.origin.requests.map(\.target) == ["/other"])
        #expect(task.countOfBytesSent < 4_000_000)
        #expect(try await task.value().response.status == 200)
        let isWhole = stage.origin.requests.first { $0.target == "/suspended" }?.body == body
        #expect(isWhole)
        await stage.end()
    }

    @Test("a task that is suspended before its first byte sends none")
    func suspendedFirst() async throws {
        let stage = try ManagerStage { _ in OriginResponse.text("done") }
        let task = try stage.manager.uploadTask(
            with: HTTPSessionRequest(url: Self.url, method: .put),
            from: patternBytes(500_000)
        )
        // Both before the session's thread looks.
        let gate = Gate()
        stage.manager.perform { _ in try? gate.pass() }
        task.resume()
        task.suspend()
        gate.open()
        let other = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        _ = try await other.value()
        #expect(task.countOfBytesSent == 0)
        #expect(try await task.value().response.status == 200)
        await stage.end()
    }
}
