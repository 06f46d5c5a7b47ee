// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// A 401 that is held back until a hook decides whether it is the task's response. Belongs to the loop.
///
/// `@unchecked Sendable`: the thread of the hook only hands the object back to the loop, and does not touch it.
final class DeferredResponse: @unchecked Sendable {
    let head: ResponseHead
    /// The received part of the body.
    private(set) var body = ByteBuffer()
    var trailers = HeaderFields()
    private var work: Task<Void, Never>?
    private let timer: LoopTimer?
    private let loop: EventLoop
    /// Where the hook decides.
    private let threads: BlockingThreads

    /// At most so much of the body is kept meanwhile; then the transfer is paused.
    private static let limit = 64 << 10

    /// - Parameters:
    ///   - timeLimit: the longest wait, over all questions to the hook; nil for none.
    ///   - onTimeout: called when it is over, unless the wait is cancelled before.
    init(
        _ head: ResponseHead,
        on loop: EventLoop,
        threads: BlockingThreads,
        timeLimit: TimeSpan?,
        onTimeout: @escaping () -> Void
    ) {
        self.threads = threads
        self.head = head
        self.loop = loop
        timer = timeLimit.map { _ in LoopTimer(onTimeout) }
        if let timer, let timeLimit { loop.arm(timer, after: timeLimit) }
    }

    /// Lets a hook decide on a thread that may block.
    func start(
        _ decision: @escaping @Sendable () async -> ChallengeDisposition,
        then completion: @escaping @Sendable (ChallengeDisposition) -> Void
    ) {
        work = Task(executorPreference: threads) { [loop] in
            let disposition = await decision()
            loop.submit { completion(disposition) }
        }
    }

    /// - Returns: false when the transfer has to be paused.
    func append(_ bytes: borrowing Span<UInt8>) -> Bool {
        body.append(bytes)
        return body.count < Self.limit
    }

    func cancel() {
        work?.cancel()
        if let timer { loop.remove(timer) }
    }
}
