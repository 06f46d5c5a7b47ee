// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionCore
import IOCore
import SessionCore

/// The results that the threads of a fetch collect for the thread that waits for it.
///
/// `@unchecked Sendable`: everything that changes is behind `lock`; the latch may be used by all threads.
final class FetchOutcome: @unchecked Sendable {
    struct State {
        /// The requested URLs, in their order.
        var urls: [String]
        var head: ResponseHead?
        var error: SessionError?
        var metrics: TaskMetrics?
        /// The path of the complete file.
        var path: String?
        var resumeData: [UInt8]?
        /// The bytes received so far, including those of an earlier task.
        var received: Int64 = 0
        /// The `errno` value of a failed write to the standard output, or 0.
        var outputError: Int32 = 0
        /// The body should not be written to a terminal.
        var isBinary = false
        /// The signal that ended the fetch, or 0.
        var signal: Int32 = 0
        /// The current task.
        var task: SessionTask?
    }

    private let lock = PosixLock()
    private var state: State
    private let ending = Latch(count: 1)

    init(url: String) { state = State(urls: [url]) }

    var now: State { lock.withLock { state } }

    func change(_ change: (inout State) -> Void) { lock.withLock { change(&state) } }

    func end() { ending.countDown() }

    /// Returns when the task has ended.
    func wait() { ending.wait() }
}
