// SPDX-License-Identifier: Apache-2.0
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("What an ended session leaves", .onOwnThreads)
struct SessionMemoryTests {
    /// The parts that would hold memory, threads or descriptors.
    private struct Remains {
        weak var thread: SessionThread?
        weak var loop: EventLoop?
        weak var task: SessionTask?
    }

    private func session(_ use: (URLSessionManager) async throws -> SessionTask?) async throws -> Remains {
        let manager = try URLSessionManager(serverTrust: SessionTrust(anchors: TrustAnchors(certificates: [])))
        let task = try await use(manager)
        let remains = Remains(thread: manager.thread, loop: manager.thread.loop, task: task)
        await manager.invalidateSession(cancelingTasks: true)
        return remains
    }

    private func check(_ remains: Remains) async throws {
        // The last work on the session's threads may still be on its way out.
        try await eventually("the session's end") {
            remains.thread == nil && remains.loop == nil && remains.task == nil
        }
    }

    @Test("an unused session leaves nothing")
    func unused() async throws {
        try await check(try await session { _ in nil })
    }

    @Test("a session leaves nothing after a response")
    func responded() async throws {
        let origin = try ScriptedOrigin(nil) { OriginResponse.text($0.target) }
        try await check(
            try await session { manager in
                let task = try manager.dataTask(with: HTTPSessionRequest(url: "http://127.0.0.1:\(origin.port)/"))
                _ = try await task.value()
                return task
            }
        )
    }

    @Test("a session leaves nothing after a completion handler")
    func handled() async throws {
        let origin = try ScriptedOrigin(nil) { OriginResponse.text($0.target) }
        let isHandled = Monitor(false)
        try await check(
            try await session { manager in
                let task = try manager.dataTask(with: HTTPSessionRequest(url: "http://127.0.0.1:\(origin.port)/")) {
                    _ in
                    isHandled.with { $0 = true }
                }
                task.resume()
                try await eventually("the handler") { isHandled.with { $0 } }
                return task
            }
        )
    }

    @Test("a session dropped with a running task leaves nothing")
    func dropped() async throws {
        let origin = try ScriptedOrigin(nil) { connection in
            _ = try connection.readRequest()
            connection.readToEnd()
        }
        func drop() async throws -> Remains {
            let manager = try URLSessionManager(serverTrust: SessionTrust(anchors: TrustAnchors(certificates: [])))
            let task = try manager.dataTask(with: HTTPSessionRequest(url: "http://127.0.0.1:\(origin.port)/"))
            task.resume()
            try await eventually("the request") { origin.requests.count == 1 }
            return Remains(thread: manager.thread, loop: manager.thread.loop, task: task)
        }
        try await check(try await drop())
    }
}
