import HTTPCore
import HTTPSession
import IOCore
import SessionCore

/// What the threads of a fetch find out, and the one that waits for it.
///
/// `@unchecked Sendable`: what changes is behind `lock`; the latch is for all threads.
final class FetchOutcome: @unchecked Sendable {
    struct State {
        /// Each that was asked for, in their order.
        var urls: [String]
        var head: ResponseHead?
        var error: SessionError?
        var metrics: TaskMetrics?
        /// Where the whole file is.
        var path: String?
        var resumeData: [UInt8]?
        /// What the task has received so far, with an earlier one's share.
        var received: Int64 = 0
        /// Why the standard output takes nothing more: an `errno` value, or 0.
        var outputError: Int32 = 0
        /// The body is none for a terminal.
        var isBinary = false
        /// The signal that ended it, or 0.
        var signal: Int32 = 0
        /// The task under way.
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
