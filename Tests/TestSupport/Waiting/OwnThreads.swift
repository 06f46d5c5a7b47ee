// SPDX-License-Identifier: Apache-2.0
import Dispatch
import Foundation
package import Testing

/// Threads for asynchronous tests: Swift's pool has few threads, and tests that wait block them.
private final class OwnThreads: TaskExecutor {
    static let shared = OwnThreads()
    private let queue = DispatchQueue(label: "tests", attributes: .concurrent)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// Places for the tests that run at the same time. Without a limit hundreds do, and each is so slow that limits of time are met.
private final class Places: Sendable {
    private struct State {
        var free: Int
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    static let shared = Places(4 * ProcessInfo.processInfo.activeProcessorCount)
    private let state: Monitor<State>

    init(_ count: Int) { state = Monitor(State(free: count)) }

    /// Waits for a place without blocking a thread.
    func take() async {
        await withCheckedContinuation { continuation in
            let isFree = state.with { state in
                guard state.free > 0 else {
                    state.waiting.append(continuation)
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
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.free += 1
            return nil
        }
        next?.resume()
    }
}

/// Runs each test of a suite, with its task groups, on separate threads; a few tests at a time.
package struct OwnThreadsTrait: SuiteTrait, TestTrait, TestScoping {
    package init() {}

    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        guard testCase != nil else { return try await function() }
        try await withTaskExecutorPreference(OwnThreads.shared) {
            // Here, where a place that becomes free needs no thread of Swift's pool.
            await Places.shared.take()
            defer { Places.shared.give() }
            try await function()
        }
    }
}

extension Trait where Self == OwnThreadsTrait {
    package static var onOwnThreads: Self { OwnThreadsTrait() }
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
