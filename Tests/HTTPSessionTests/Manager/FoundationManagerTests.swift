// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionFoundation
import IOCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Foundation's Progress, notifications and queues", .onOwnThreads)
struct FoundationManagerTests {
    private typealias Stage = ManagerStage

    @Test("a task's Progress follows its bodies, and stays the same object")
    func progress() async throws {
        let stage = try Stage { request in OriginResponse.text(String(repeating: "x", count: 5000)) }
        let task = try stage.manager.uploadTask(
            with: HTTPSessionRequest(url: Stage.url("/"), method: .post),
            from: [UInt8](repeating: 1, count: 3000)
        )
        let own = Monitor<TaskProgress?>(nil)
        task.uploadDelegate.setProgressHandler { step in own.with { $0 = step } }
        let upload = task.uploadProgress
        let download = task.downloadProgress
        #expect(download === task.downloadProgress && upload !== download)
        #expect(upload.totalUnitCount == -1 && download.isIndeterminate)
        _ = try await task.value()
        try await eventually("both to end") { upload.isFinished && download.isFinished }
        #expect(upload.completedUnitCount == 3000)
        #expect(download.completedUnitCount == 5000 && download.totalUnitCount == 5000)
        try await eventually("the program's own handler") { own.with { $0?.fraction == 1 } }
        await stage.end()
    }

    @Test("a body of unknown length has a total at its end")
    func unknownTotal() async throws {
        let stage = try Stage { _ in
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n"
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        let progress = task.downloadProgress
        _ = try await task.value()
        try await eventually("the end") { progress.isFinished }
        #expect(progress.totalUnitCount == 4)
        await stage.end()
    }

    @Test("a Progress ends with a task without a body, in either direction")
    func withoutBody() async throws {
        let stage = try Stage { _ in "HTTP/1.1 204 No Content\r\n\r\n" }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        let (upload, download) = (task.uploadProgress, task.downloadProgress)
        _ = try await task.value()
        try await eventually("the end") { upload.isFinished && download.isFinished }
        #expect(upload.fractionCompleted == 1 && download.fractionCompleted == 1)
        await stage.end()
    }

    @Test("a Progress that is requested late is right at once")
    func late() async throws {
        let gate = Gate()
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")
            try gate.pass()
            try connection.write("67890")
        }
        let task = try stage.manager.uploadTask(
            with: HTTPSessionRequest(url: Stage.url("/"), method: .post),
            from: [1, 2, 3]
        )
        task.resume()
        try await eventually("half of it") { task.countOfBytesReceived == 5 }
        let within = task.downloadProgress
        #expect(within.completedUnitCount == 5 && within.totalUnitCount == 10 && !within.isFinished)
        gate.open()
        _ = try await task.value()
        try await eventually("the end") { within.isFinished }
        let after = task.uploadProgress
        #expect(after.completedUnitCount == 3 && after.totalUnitCount == 3 && after.isFinished)
        let whole = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/again")))
        _ = try await whole.value()
        #expect(whole.downloadProgress.completedUnitCount == 10 && whole.downloadProgress.isFinished)
        #expect(whole.uploadProgress.isFinished)
        await stage.end()
    }

    @Test("a Progress of a task that failed does not end")
    func failed() async throws {
        let stage = try Stage { connection in _ = try connection.readRequest() }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        let early = task.downloadProgress
        await #expect(throws: SessionError.self) { try await task.value() }
        #expect(!early.isFinished && !task.uploadProgress.isFinished)
        await stage.end()
    }

    @Test("cancelling, pausing and resuming a Progress does so with its task")
    func control() async throws {
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            connection.readToEnd()
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        let progress = task.downloadProgress
        task.resume()
        progress.pause()
        try await eventually("a pause") { task.state == .suspended }
        progress.resume()
        try await eventually("to go on") { task.state == .running }
        progress.cancel()
        await #expect { try await task.value() } throws: { $0.sessionCode == .cancelled }
        await stage.end()
    }

    @Test("notifications tell of resumption, suspension, completion with all there is, and invalidation")
    func notifications() async throws {
        let folder = try TemporaryFolder()
        let stage = try Stage {
            $0.temporaryFolder = folder.path
        } script: { connection in
            while let request = try connection.readRequest() { try connection.respond(request.target) }
        }
        let center = NotificationCenter()
        stage.manager.startPostingNotifications(to: center)
        var tokens: [any NSObjectProtocol] = []
        for (name, word) in [
            (URLSessionManager.taskDidResumeNotification, "resumed"),
            (URLSessionManager.taskDidSuspendNotification, "suspended"),
            (URLSessionManager.didInvalidateNotification, "invalidated"),
            (URLSessionManager.downloadTaskDidFailToMoveFileNotification, "not moved"),
        ] {
            tokens.append(
                center.addObserver(forName: name, object: nil, queue: nil) { [log = stage.log] _ in
                    log.with { $0.append(word) }
                }
            )
        }
        let complete = center.addObserver(
            forName: URLSessionManager.taskDidCompleteNotification,
            object: nil,
            queue: nil
        ) { [log = stage.log] notification in
            let info = notification.userInfo ?? [:]
            let head = info[URLSessionManager.responseKey] as? ResponseHead
            let data = (info[URLSessionManager.responseDataKey] as? Data).map { String(decoding: $0, as: UTF8.self) }
            let file = (info[URLSessionManager.fileURLKey] as? URL)?.lastPathComponent
            let error = (info[URLSessionManager.errorKey] as? SessionError)?.code
            let hasMetrics = info[URLSessionManager.metricsKey] is TaskMetrics
            let kind = notification.object is DownloadTask ? "download" : "data"
            log.with {
                $0.append(
                    "\(kind) \(head?.status ?? 0) \(data ?? "-") \(file ?? "-") \(error?.rawValue ?? "-") \(hasMetrics)"
                )
            }
        }
        tokens.append(complete)
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/a")))
        task.resume()
        task.suspend()
        _ = try await task.value()
        let target = "\(folder.path)/b"
        _ = try await stage.manager.downloadTask(with: HTTPSessionRequest(url: Stage.url("/b"))) { _, _ in (target, [])
        }
        .value()
        let again = try stage.manager.downloadTask(with: HTTPSessionRequest(url: Stage.url("/b"))) { _, _ in
            (target, [])
        }
        await #expect { try await again.value() } throws: { $0.sessionCode == .fileFailed }
        await stage.end()
        let log = try await stage.wait(for: "invalidated")
        #expect(
            log == [
                "resumed", "suspended", "resumed", "data 200 /a - - true", "resumed", "download 200 - b - true",
                "resumed", "not moved", "download 200 - - file_failed true", "invalidated",
            ]
        )
        for token in tokens { center.removeObserver(token) }
    }

    @Test("handlers run on a dispatch queue, and its group is held until they have")
    func dispatch() async throws {
        let key = DispatchSpecificKey<Int>()
        let queue = DispatchQueue(label: "test")
        queue.setSpecific(key: key, value: 7)
        let group = DispatchGroup()
        let stage = try Stage {
            $0.callbackQueue = .dispatch(queue, group: group)
        } script: { connection in
            while let request = try connection.readRequest() { try connection.respond(request.target) }
        }
        queue.suspend()
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/"))) { [stage] result in
            stage.note("\(DispatchQueue.getSpecific(key: key) ?? 0) \((try? result.get())?.response.status ?? 0)")
        }
        _ = try await task.value()
        try await eventually("the handler to wait in the queue") { group.wait(timeout: .now()) == .timedOut }
        #expect(stage.log.with { $0 }.isEmpty)
        queue.resume()
        _ = try await stage.wait(for: "7 200")
        try await eventually("the group to be free") { group.wait(timeout: .now()) == .success }
        await stage.end()
    }

    @Test("handlers run on an executor, in order")
    func executor() async throws {
        final class Executor: TaskExecutor {
            let queue = DispatchQueue(label: "executor")
            let count = Monitor(0)

            func enqueue(_ job: consuming ExecutorJob) {
                count.with { $0 += 1 }
                let job = UnownedJob(job)
                queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
            }
        }
        let executor = Executor()
        let stage = try Stage {
            $0.callbackQueue = .executor(executor)
        } script: { connection in
            while let request = try connection.readRequest() { try connection.respond(request.target) }
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        for number in 0..<10 { task.delegate.queue.add { [stage] in stage.note("\(number)") } }
        _ = try await task.value()
        #expect(try await stage.wait(for: "9") == (0..<10).map { "\($0)" })
        #expect(executor.count.with { $0 } >= 10)
        await stage.end()
    }

    @Test("a priority is told to the origin, unless the request tells one")
    func priority() async throws {
        let stage = try Stage { request in OriginResponse.text(request["Priority"] ?? "none") }
        for (priority, told) in [
            (SessionTask.defaultPriority, "none"), (SessionTask.highPriority, "u=2"), (SessionTask.lowPriority, "u=5"),
            (2, "u=0"), (-1, "u=6"), (.nan, "none"),
        ] {
            let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
            task.priority = priority
            #expect(String(decoding: try await task.value().data, as: UTF8.self) == told)
        }
        let request = HTTPSessionRequest(url: Stage.url("/"), headers: ["priority": "u=7, i"])
        let task = try stage.manager.dataTask(with: request)
        task.priority = 1
        #expect(String(decoding: try await task.value().data, as: UTF8.self) == "u=7, i")
        await stage.end()
    }
}
