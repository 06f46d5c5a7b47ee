// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionFoundation
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

/// Hooks and handlers that hold on to their own task go at its end.
@Suite("A task that its own hooks capture is freed", .onOwnThreads)
struct TaskCycleTests {
    /// The origin answers each request with its target.
    private static func stage(
        _ change: (inout URLSessionManager.Configuration) -> Void = { _ in }
    ) throws -> ManagerStage {
        try ManagerStage(change) { request in OriginResponse.text(request.target) }
    }

    private struct Remains: @unchecked Sendable {
        weak var task: SessionTask?
        weak var delegate: TaskDelegate?
    }

    private func isFreed(_ remains: Remains) async throws {
        try await eventually("the task's end") { remains.task == nil && remains.delegate == nil }
    }

    private static let dataCases: [(String, @Sendable (UploadTask, UploadTaskDelegate) -> Void)] = [
        ("dataStream", { task, own in own.dataStream = { _ in _ = task.state } }),
        ("progress handler", { task, own in own.setProgressHandler { _ in _ = task.state } }),
        ("upload progress handler", { task, own in own.setUploadProgressHandler { _ in _ = task.state } }),
        (
            "dataTaskDidReceiveResponse",
            { task, own in
                own.dataTaskDidReceiveResponse = { _, _ in task.state == .running ? .allow : .cancel }
            }
        ),
        (
            "dataTaskWillCacheResponse",
            { task, own in
                own.dataTaskWillCacheResponse = { _, response in
                    task.state == .running ? response : nil
                }
            }
        ),
        ("taskDidSendBodyData", { task, own in own.taskDidSendBodyData = { _, _, _, _ in _ = task.state } }),
        (
            "taskWillPerformHTTPRedirection",
            { task, own in
                own.taskWillPerformHTTPRedirection = { _, _, _ in task.state == .running ? .proceed : .stop }
            }
        ),
        (
            "taskDidReceiveChallenge",
            { task, own in
                own.taskDidReceiveChallenge = { _, _ in
                    task.state == .running ? .performDefaultHandling : .cancelAuthenticationChallenge
                }
            }
        ),
        ("taskDidComplete", { task, own in own.taskDidComplete = { _, _ in _ = task.state } }),
        ("queue", { task, own in own.queue.add { _ = task.state } }),
        ("onCompletion", { task, own in task.onCompletion { _ in _ = task.state } }),
        ("downloadProgress", { task, own in task.downloadProgress.cancellationHandler = { task.cancel() } }),
    ]

    @Test("hooks of a data task or an upload make no cycle", arguments: dataCases.indices)
    func data(index: Int) async throws {
        let stage = try Self.stage()
        let (name, set) = Self.dataCases[index]
        func run() async throws -> Remains {
            let task = try stage.manager.uploadTask(
                with: HTTPSessionRequest(url: ManagerStage.url("/\(index)"), method: .post),
                from: [1, 2, 3]
            )
            set(task, task.uploadDelegate)
            let response = try await task.value()
            #expect(response.response.status == 200, "\(name)")
            // A hook that is set at the end of a task is not kept either; a `Progress` is Foundation's.
            if name != "downloadProgress" { set(task, task.uploadDelegate) }
            return Remains(task: task, delegate: task.delegate)
        }
        try await isFreed(try await run())
        await stage.end()
    }

    private static let downloadCases: [(String, @Sendable (DownloadTask, DownloadTaskDelegate) -> Void)] = [
        (
            "destination",
            { task, own in
                own.destination = { path, _ in (path + String(task.taskIdentifier), []) }
            }
        ),
        (
            "downloadTaskDidFinishDownloading",
            { task, own in
                own.downloadTaskDidFinishDownloading = { _, path in path + String(task.taskIdentifier) }
            }
        ),
        ("downloadTaskDidFailToMove", { task, own in own.downloadTaskDidFailToMove = { _, _ in _ = task.state } }),
        ("downloadTaskDidWriteData", { task, own in own.downloadTaskDidWriteData = { _, _, _, _ in _ = task.state } }),
        (
            "downloadTaskDidResumeAtOffset",
            { task, own in
                own.downloadTaskDidResumeAtOffset = { _, _, _ in _ = task.state }
            }
        ),
        ("progress handler", { task, own in own.setProgressHandler { _ in _ = task.state } }),
    ]

    @Test("hooks of a download make no cycle", arguments: downloadCases.indices)
    func download(index: Int) async throws {
        let folder = try TemporaryFolder()
        let stage = try Self.stage { $0.temporaryFolder = folder.path }
        let (name, set) = Self.downloadCases[index]
        func run() async throws -> Remains {
            let task = try stage.manager.downloadTask(with: HTTPSessionRequest(url: ManagerStage.url("/\(index)")))
            set(task, task.downloadDelegate)
            #expect(try await task.value().response.status == 200, "\(name)")
            set(task, task.downloadDelegate)
            return Remains(task: task, delegate: task.delegate)
        }
        try await isFreed(try await run())
        await stage.end()
    }

    @Test("the source of a streamed body makes no cycle")
    func bodyStream() async throws {
        let stage = try Self.stage()
        func run() async throws -> Remains {
            let task = try stage.manager.uploadTask(
                withStreamedRequest: HTTPSessionRequest(url: ManagerStage.url("/"), method: .post)
            )
            task.delegate.taskNeedNewBodyStream = { _ in
                BodySource(length: nil) { () throws(SessionError) in
                    guard task.state == .running else { throw .taskCancelled }
                    return try BodySource.sequence(
                        AsyncStream { continuation in
                            continuation.yield([1])
                            continuation.finish()
                        }
                    ).open()
                }
            }
            #expect(try await task.value().response.status == 200)
            return Remains(task: task, delegate: task.delegate)
        }
        try await isFreed(try await run())
        await stage.end()
    }

    @Test("a task cancelled before its start, or become a download, makes no cycle")
    func otherEnds() async throws {
        let folder = try TemporaryFolder()
        let stage = try Self.stage { $0.temporaryFolder = folder.path }
        func cancelled() async throws -> Remains {
            let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: ManagerStage.url("/")))
            task.dataDelegate.dataStream = { _ in _ = task.state }
            task.cancel()
            await #expect { try await task.value() } throws: { $0.sessionCode == .cancelled }
            return Remains(task: task, delegate: task.delegate)
        }
        try await isFreed(try await cancelled())
        func became() async throws -> Remains {
            let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: ManagerStage.url("/")))
            task.dataDelegate.dataStream = { _ in _ = task.state }
            task.dataDelegate.setProgressHandler { _ in _ = task.state }
            task.dataDelegate.dataTaskDidReceiveResponse = { _, _ in task.state == .running ? .becomeDownload : .allow }
            _ = try? await task.value()
            return Remains(task: task, delegate: task.delegate)
        }
        try await isFreed(try await became())
        await stage.end()
    }
}
