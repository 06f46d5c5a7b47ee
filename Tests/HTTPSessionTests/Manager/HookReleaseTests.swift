// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("What is freed with a hook", .onOwnThreads)
struct HookReleaseTests {
    /// An object of the program that a hook captures, and that does something when it is freed.
    private final class Probe: Sendable {
        private let work: @Sendable () -> Void

        init(_ work: @escaping @Sendable () -> Void) { self.work = work }

        deinit { work() }
    }

    /// A hook for the end of a task, the only one that keeps its probe.
    private static func hook(
        _ work: @escaping @Sendable () -> Void
    ) -> @Sendable (SessionTask, SessionError?) -> Void {
        let probe = Probe(work)
        return { _, _ in withExtendedLifetime(probe) {} }
    }

    private static func observer(_ work: @escaping @Sendable () -> Void) -> @Sendable (SessionEvent) -> Void {
        let probe = Probe(work)
        return { _ in withExtendedLifetime(probe) {} }
    }

    private static func progressHandler(_ work: @escaping @Sendable () -> Void) -> @Sendable (TaskProgress) -> Void {
        let probe = Probe(work)
        return { _ in withExtendedLifetime(probe) {} }
    }

    /// Runs `change` on a thread of its own: one that takes a lock twice never returns.
    private static func run(_ change: @escaping @Sendable () -> Void) throws {
        let isDone = Monitor(false)
        Thread.detachNewThread {
            change()
            isDone.with { $0 = true }
        }
        try isDone.wait(for: "the change") { $0 ? true : nil }
    }

    @Test("an object that a session's hook frees may set hooks of that session")
    func sessionHooks() async throws {
        let stage = try StubStage()
        let session = stage.manager.session
        let freed = Monitor(0)
        let work: @Sendable () -> Void = {
            session.taskDidSendBodyData = nil
            freed.with { $0 += 1 }
        }
        try Self.run {
            session.taskDidComplete = Self.hook(work)
            session.taskDidComplete = nil
            session.hooks.taskDidComplete = Self.hook(work)
            session.hooks.taskDidComplete = nil
        }
        #expect(freed.with { $0 } == 2)
        await stage.end()
    }

    @Test("objects that the end of a session frees may set hooks of that session")
    func endOfSession() async throws {
        // A queue that runs its work at once keeps no observers.
        let stage = try StubStage { $0.callbackQueue = CallbackQueue { $0() } }
        let manager = stage.manager
        let freed = Monitor(0)
        let work: @Sendable () -> Void = {
            manager.session.taskDidSendBodyData = nil
            freed.with { $0 += 1 }
        }
        manager.session.taskDidComplete = Self.hook(work)
        manager.session.observe(Self.observer(work))
        let isEnded = Monitor(false)
        let end = beside {
            await manager.invalidateSession(cancelingTasks: true)
            isEnded.with { $0 = true }
        }
        try isEnded.wait(for: "the end of the session") { $0 ? true : nil }
        try await end.value
        #expect(freed.with { $0 } == 2)
    }

    @Test("an object that a task's hook frees may set hooks of that task")
    func taskHooks() async throws {
        let stage = try StubStage()
        let task = try stage.manager.session.dataTask(with: HTTPSessionRequest(url: StubStage.base))
        let freed = Monitor(0)
        let work: @Sendable () -> Void = {
            task.delegate.taskWillPerformHTTPRedirection = nil
            task.dataDelegate.setProgressHandler(nil)
            freed.with { $0 += 1 }
        }
        try Self.run {
            task.delegate.taskDidComplete = Self.hook(work)
            task.delegate.taskDidComplete = nil
            task.dataDelegate.setProgressHandler(Self.progressHandler(work))
            task.dataDelegate.setProgressHandler(nil)
        }
        #expect(freed.with { $0 } == 2)
        await stage.end()
    }
}
