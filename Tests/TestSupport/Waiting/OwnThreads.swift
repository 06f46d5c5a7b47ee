// SPDX-License-Identifier: Apache-2.0
import Dispatch
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

/// Runs each test of a suite, with its task groups, on separate threads.
package struct OwnThreadsTrait: SuiteTrait, TestTrait, TestScoping {
    package init() {}

    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        guard testCase != nil else { return try await function() }
        try await withTaskExecutorPreference(OwnThreads.shared) { try await function() }
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
