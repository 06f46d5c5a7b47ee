// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// The body of a response between the session's loop, which appends pieces, and one consumer on any thread, which takes
/// them. At most a quarter of a megabyte waits; then the origin waits, too.
///
/// `@unchecked Sendable`: what changes is in `shared`, accessed with `lock` held. No foreign code is called with it held.
final class ByteStream: @unchecked Sendable {
    private let lock = PosixLock()
    private var shared = Shared()

    private struct Shared {
        var pieces: [[UInt8]] = []
        var first = 0
        var count = 0
        var head: ResponseHead?
        var isOver = false
        var error: SessionError?
        var isClaimed = false
        /// The loop appends nothing until `onRoom` is called.
        var isFull = false
        var onRoom: (@Sendable () -> Void)?
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    /// So many bytes wait at most before the transfer is paused.
    static let limit = 256 << 10
    /// One piece of a coded body may be a thousand times as long when it is decoded.
    static let hardLimit = 16 << 20

    // MARK: The loop

    /// - Parameter onRoom: called when there is room again after `append` has returned `.full`.
    func start(onRoom: @escaping @Sendable () -> Void) {
        lock.withLock { shared.onRoom = onRoom }
    }

    func didReceive(_ head: ResponseHead) {
        change { $0.head = head }
    }

    enum Appended {
        case more
        case full
        case tooMuch
    }

    func append(_ bytes: borrowing Span<UInt8>) -> Appended {
        let piece = [UInt8](copying: bytes)
        return change { shared in
            guard !shared.isOver, !piece.isEmpty else { return .more }
            guard shared.count + piece.count <= Self.hardLimit else { return .tooMuch }
            shared.pieces.append(piece)
            shared.count += piece.count
            shared.isFull = shared.count >= Self.limit
            return shared.isFull ? .full : .more
        }
    }

    /// The end, well or not; the first one counts.
    func end(_ error: SessionError?) {
        change { shared in
            guard !shared.isOver else { return }
            shared.isOver = true
            shared.error = error
            shared.onRoom = nil
        }
    }

    private func change<Result>(_ work: (inout Shared) -> Result) -> Result {
        let (result, waiting) = lock.withLock {
            let result = work(&shared)
            defer { shared.waiting = [] }
            return (result, shared.waiting)
        }
        for continuation in waiting { continuation.resume() }
        return result
    }

    // MARK: The consumer

    /// Whether the caller is the first one, and may read.
    func claim() -> Bool {
        lock.withLock {
            defer { shared.isClaimed = true }
            return !shared.isClaimed
        }
    }

    /// Waits until the head is there.
    ///
    /// - Throws: the error of a task that ended before.
    func head() async throws(SessionError) -> ResponseHead {
        while true {
            let (head, isOver, error) = lock.withLock { (shared.head, shared.isOver, shared.error) }
            if let head { return head }
            if isOver {
                throw error ?? SessionError(.internal, "The task ended without a response and without an error.")
            }
            await wait { $0.head == nil && !$0.isOver }
        }
    }

    /// The next piece; nil at the end of a complete body.
    func next() async throws(SessionError) -> [UInt8]? {
        while true {
            let step = takeNow()
            step.onRoom?()
            if let piece = step.piece { return piece }
            if step.isOver {
                if let error = step.error { throw error }
                return nil
            }
            await wait { $0.first == $0.pieces.count && !$0.isOver }
        }
    }

    private struct Step {
        var piece: [UInt8]?
        var isOver = false
        var error: SessionError?
        var onRoom: (@Sendable () -> Void)?
    }

    private func takeNow() -> Step {
        lock.withLock {
            guard shared.first < shared.pieces.count else { return Step(isOver: shared.isOver, error: shared.error) }
            let piece = shared.pieces[shared.first]
            shared.pieces[shared.first] = []
            shared.first += 1
            shared.count -= piece.count
            if shared.first == shared.pieces.count {
                shared.pieces.removeAll(keepingCapacity: true)
                shared.first = 0
            }
            guard shared.isFull, shared.count < Self.limit / 2 else { return Step(piece: piece) }
            shared.isFull = false
            return Step(piece: piece, onRoom: shared.onRoom)
        }
    }

    /// Waits for a change, unless there was one.
    private func wait(while isToWait: (borrowing Shared) -> Bool) async {
        await withCheckedContinuation { continuation in
            let isDone = lock.withLock {
                guard isToWait(shared) else { return true }
                shared.waiting.append(continuation)
                return false
            }
            if isDone { continuation.resume() }
        }
    }
}
