// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionFoundation
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Notifications of uploads and downloads", .onOwnThreads)
struct TaskNotificationTests {
    private typealias Stage = ManagerStage

    /// Notes what is posted of a session's tasks, until it is gone.
    private final class Observer {
        private let center = NotificationCenter()
        private var tokens: [any NSObjectProtocol] = []

        init(_ stage: Stage) {
            stage.manager.startPostingNotifications(to: center)
            for (name, word) in [
                (URLSessionManager.taskDidResumeNotification, "resumed"),
                (URLSessionManager.taskDidSuspendNotification, "suspended"),
                (URLSessionManager.taskDidCompleteNotification, "completed"),
            ] {
                let token = center.addObserver(forName: name, object: nil, queue: nil) { [log = stage.log] note in
                    let identifier = (note.object as? SessionTask)?.taskIdentifier ?? 0
                    log.with { $0.append("\(word) \(identifier)") }
                }
                tokens.append(token)
            }
        }

        deinit { for token in tokens { center.removeObserver(token) } }
    }

    /// Resumes and suspends a task, each as often again, and waits for what is told of it.
    private func play(_ make: (Stage) throws -> SessionTask) async throws {
        let gate = Gate()
        let stage = try Stage { connection in
            while let request = try connection.readRequest() {
                try gate.pass()
                try connection.respond(request.target)
            }
        }
        let observer = Observer(stage)
        let task = try make(stage)
        task.suspend()
        for _ in 0..<2 { task.resume() }
        for _ in 0..<2 { task.suspend() }
        _ = try await stage.wait(for: "suspended \(task.taskIdentifier)")
        task.resume()
        gate.open()
        let log = try await stage.wait(for: "completed \(task.taskIdentifier)")
        #expect(log == ["resumed", "suspended", "resumed", "completed"].map { "\($0) \(task.taskIdentifier)" })
        await stage.end()
        withExtendedLifetime(observer) {}
    }

    @Test("an upload's resumption and suspension are posted, each once")
    func upload() async throws {
        try await play { stage in
            try stage.manager.uploadTask(with: HTTPSessionRequest(url: Stage.url("/"), method: .post), from: [1, 2, 3])
        }
    }

    @Test("a download's resumption and suspension are posted, each once")
    func download() async throws {
        let folder = try TemporaryFolder()
        let target = "\(folder.path)/file"
        try await play { stage in
            try stage.manager.downloadTask(with: HTTPSessionRequest(url: Stage.url("/"))) { _, _ in (target, []) }
        }
        #expect(FileManager.default.fileExists(atPath: target))
    }
}
