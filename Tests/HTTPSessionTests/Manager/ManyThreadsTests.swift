// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Many threads on one session", .onOwnThreads)
struct ManyThreadsTests {
    private typealias Stage = ManagerStage
    private static let threads = 32
    private static let tasksPerThread = 24

    /// The events of the tasks.
    private struct Account {
        var completions: [UInt64: Int] = [:]
        var handlers: [UInt64: Int] = [:]
    }

    /// Does to a task what its thread's numbers say, and lets it run in the end, or cancels it.
    private static func handle(_ task: SessionTask, _ numbers: inout SeededGenerator) {
        for _ in 0..<Int.random(in: 1...8, using: &numbers) {
            switch Int.random(in: 0..<10, using: &numbers) {
            case 0...3: task.resume()
            case 4...6: task.suspend()
            case 7: task.taskDescription = "\(task.state) \(task.countOfBytesReceived) \(task.delegate.error == nil)"
            case 8: (task as? DownloadTask)?.cancel { _ in }
            default: if Int.random(in: 0..<4, using: &numbers) == 0 { task.cancel() }
            }
            if Int.random(in: 0..<4, using: &numbers) == 0 { Thread.sleep(forTimeInterval: 0.001) }
        }
        if Int.random(in: 0..<4, using: &numbers) == 0 { task.cancel() } else { task.resume() }
    }

    private static func make(
        _ number: Int,
        _ manager: URLSessionManager,
        _ numbers: inout SeededGenerator
    ) throws -> SessionTask {
        let request = HTTPSessionRequest(url: Stage.url("/\(number)"), method: number % 3 == 1 ? .post : .get)
        return switch number % 3 {
        case 0: try manager.dataTask(with: request)
        case 1: try manager.uploadTask(with: request, from: [UInt8](repeating: 7, count: 40_000))
        default: try manager.downloadTask(with: request)
        }
    }

    @Test(
        "32 threads make, hold, release and cancel tasks: each ends once",
        arguments: [false, true]
    )
    func turmoil(isCached: Bool) async throws {
        let folder = try TemporaryFolder()
        // Small bodies in memory, these in files.
        let cache =
            isCached
            ? try SessionCache(memoryCapacity: 100_000, diskCapacity: 1 << 24, diskPath: folder.path + "/cache") : nil
        let fields = [
            "Cache-Control: max-age=60", "Cache-Control: max-age=0", "Cache-Control: no-store",
            "Cache-Control: max-age=0, stale-while-revalidate=600",
        ]
        let stage = try Stage {
            $0.session.connectionsPerHost = 6
            $0.temporaryFolder = folder.path
            $0.cache = cache
        } script: { connection in
            while let request = try connection.readRequest() {
                if request["If-None-Match"] == "\"v\"" {
                    try connection.write("HTTP/1.1 304 Not Modified\r\nETag: \"v\"\r\n\r\n")
                    continue
                }
                let length = request.target.hasSuffix("0") ? 100 : 30_000
                let control = fields[request.target.utf8.reduce(0) { $0 + Int($1) } % fields.count]
                try connection.respond(String(repeating: "x", count: length), fields: ["ETag: \"v\"", control])
            }
        }
        let account = Monitor(Account())
        let stored = Monitor(0)
        stage.manager.taskDidFinishCollectingMetrics = { _, metrics in
            if metrics.transaction.resourceFetchType == .localCache { stored.with { $0 += 1 } }
        }
        stage.manager.taskDidComplete = { task, _ in
            account.with { $0.completions[task.taskIdentifier, default: 0] += 1 }
        }
        stage.manager.dataTaskDidReceiveData = { task, _ in
            if task.taskIdentifier % 5 == 0 { task.suspend() }
            task.resume()
        }
        let manager = stage.manager
        let done = DispatchGroup()
        for thread in 0..<Self.threads {
            done.enter()
            Thread.detachNewThread {
                var numbers = SeededGenerator(seed: UInt64(thread))
                for number in 0..<Self.tasksPerThread {
                    guard let task = try? Self.make(number, manager, &numbers) else { continue }
                    task.delegate.queue.add { account.with { $0.handlers[task.taskIdentifier, default: 0] += 1 } }
                    Self.handle(task, &numbers)
                    if number % 8 == 0 { _ = manager.tasks.map(\.state) }
                    if number % 6 == 0 { manager.taskDidSendBodyData = { _, _, _, _ in } }
                }
                done.leave()
            }
        }
        await withCheckedContinuation { continuation in done.notify(queue: .global()) { continuation.resume() } }
        let count = Self.threads * Self.tasksPerThread
        try await eventually("all tasks to end") {
            // Some were held back by the last word of their own data hook.
            for task in manager.tasks { task.resume() }
            return account.with { $0.handlers.count == count }
        }
        #expect(manager.tasks.isEmpty)
        account.with { account in
            #expect(account.completions.count == count)
            #expect(account.completions.values.allSatisfy { $0 == 1 })
            #expect(account.handlers.values.allSatisfy { $0 == 1 })
        }
        // Requests in the background come to their end, too.
        let left = Monitor(-1)
        try await eventually("nothing to be left on the loop") {
            manager.perform { session in
                let count = session.taskCount + session.cachedTaskCount
                left.with { $0 = count }
            }
            return left.with { $0 } == 0
        }
        // With a cache most tasks may have been cancelled before a stored response could serve one.
        #expect(isCached || stored.with { $0 } == 0)
        await stage.end()
        await cache?.close()
    }

    @Test("sessions are invalidated while others make tasks: each task is refused or ends")
    func invalidation() async throws {
        for round in 0..<8 {
            let stage = try Stage { request in OriginResponse.text(request.target) }
            let manager = stage.manager
            let ended = Monitor((made: 0, ended: 0))
            let done = DispatchGroup()
            for _ in 0..<8 {
                done.enter()
                Thread.detachNewThread {
                    for number in 0..<20 {
                        guard let task = try? manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/\(number)")))
                        else {
                            break
                        }
                        ended.with { $0.made += 1 }
                        task.delegate.queue.add { ended.with { $0.ended += 1 } }
                        task.resume()
                    }
                    done.leave()
                }
            }
            try await eventually("tasks") { ended.with { $0.made >= round * 4 } }
            await manager.invalidateSession(cancelingTasks: round % 2 == 0)
            await withCheckedContinuation { continuation in done.notify(queue: .global()) { continuation.resume() } }
            try await eventually("the end of all") { ended.with { $0.made == $0.ended } }
            #expect(manager.tasks.isEmpty)
        }
    }
}
