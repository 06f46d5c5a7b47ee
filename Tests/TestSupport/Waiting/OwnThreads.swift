// SPDX-License-Identifier: Apache-2.0
import Foundation
package import Testing

/// Threads for tests that wait: Swift's pool has as many as the machine has processors, and such a test blocks one of them.
///
/// A job that finds no idle thread gets a new one. Dispatch would not do: while its threads are blocked, it adds one each second.
///
/// `@unchecked Sendable` because the condition's lock guards the state.
private final class OwnThreads: TaskExecutor, @unchecked Sendable {
    static let shared = OwnThreads()
    private let condition = NSCondition()
    private var jobs: [UnownedJob] = []
    /// The number of threads that wait for a job.
    private var idle = 0

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        condition.lock()
        jobs.append(job)
        let isThreadMissing = jobs.count > idle
        condition.signal()
        condition.unlock()
        if isThreadMissing { Thread.detachNewThread { self.run() } }
    }

    private func run() {
        while true {
            condition.lock()
            while jobs.isEmpty {
                idle += 1
                condition.wait()
                idle -= 1
            }
            let job = jobs.removeFirst()
            condition.unlock()
            job.runSynchronously(on: asUnownedTaskExecutor())
        }
    }
}

/// Places for the tests that run at the same time. Without a limit hundreds do, and each is so slow that limits of time are met.
private final class Places: Sendable {
    private struct State {
        var free: Int
        var early: [CheckedContinuation<Void, Never>] = []
        var waiting: [CheckedContinuation<Void, Never>] = []

        mutating func next() -> CheckedContinuation<Void, Never>? {
            if !early.isEmpty { return early.removeFirst() }
            return waiting.isEmpty ? nil : waiting.removeFirst()
        }
    }

    static let shared = Places(4 * ProcessInfo.processInfo.activeProcessorCount)
    private let state: Monitor<State>

    init(_ count: Int) { state = Monitor(State(free: count)) }

    /// Waits for a place without blocking a thread.
    ///
    /// - Parameter isEarly: before those that are not.
    func take(isEarly: Bool) async {
        await withCheckedContinuation { continuation in
            let isFree = state.with { state in
                guard state.free > 0 else {
                    if isEarly { state.early.append(continuation) } else { state.waiting.append(continuation) }
                    return false
                }
                state.free -= 1
                return true
            }
            if isFree { continuation.resume() }
        }
    }

    func give() {
        let next = state.with { state -> CheckedContinuation<Void, Never>? in
            if let next = state.next() { return next }
            state.free += 1
            return nil
        }
        next?.resume()
    }
}

/// Runs each test of a suite, with its task groups, on separate threads; a few tests at a time.
package struct OwnThreadsTrait: SuiteTrait, TestTrait, TestScoping {
    fileprivate enum Turn { case early, usual, atOnce }

    fileprivate let turn: Turn

    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        guard testCase != nil else { return try await function() }
        try await withTaskExecutorPreference(OwnThreads.shared) {
            guard turn != .atOnce else { return try await function() }
            // Here, where a place that becomes free needs no thread of Swift's pool.
            await Places.shared.take(isEarly: turn == .early)
            defer { Places.shared.give() }
            try await function()
        }
    }
}

extension Trait where Self == OwnThreadsTrait {
    package static var onOwnThreads: Self { OwnThreadsTrait(turn: .usual) }
    /// The same before the tests of other suites: for tests that take long, which would run alone at the end, and for serialized
    /// suites, each of whose tests would otherwise wait behind all others when the one before it has ended.
    package static var earlyOnOwnThreads: Self { OwnThreadsTrait(turn: .early) }
    /// The same for tests that wait for seconds to pass, and do little: they run beside the few others, from the start.
    package static var waitingOnOwnThreads: Self { OwnThreadsTrait(turn: .atOnce) }
}

/// A task beside the test, on the same threads.
package func beside<Success: Sendable>(
    _ work: @escaping @Sendable () async throws -> Success
) -> Task<Success, any Error> {
    Task(executorPreference: OwnThreads.shared, operation: work)
}

/// Waits without blocking a thread.
package func eventually(_ what: String, _ isSo: () -> Bool) async throws {
    let deadline = ContinuousClock.now + .seconds(Patience.seconds)
    while !isSo() {
        try await Task.sleep(for: .milliseconds(2))
        if ContinuousClock.now > deadline { throw TimedOut(what) }
    }
}
