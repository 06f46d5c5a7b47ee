// SPDX-License-Identifier: Apache-2.0
import IOCore
import SessionCore

/// Feeds a task with its body, and reads at most one piece ahead of the transfer.
///
/// `@unchecked Sendable`: its constants are Sendable, and everything else is for the loop's thread.
final class BodyFeed: @unchecked Sendable {
    private let body: RequestBody
    private let loop: EventLoop
    /// Where a source is read.
    private let threads: BlockingThreads
    /// Called on the loop when the body cannot be read.
    private let onFailure: (SessionError) -> Void
    /// Bytes given to the task so far.
    private var sent = 0
    private var reader: (any BodyReader)?
    private var reading: Task<Void, Never>?
    private var task: LoopTask?
    /// Whether nothing more is read and handed over, since the task is suspended.
    private var isHeld = false
    /// Gets each piece that is handed over; nil for no such watcher.
    var didSend: ((_ bytes: borrowing Span<UInt8>) -> Void)?

    init(
        _ body: RequestBody,
        loop: EventLoop,
        threads: BlockingThreads,
        _ onFailure: @escaping (SessionError) -> Void
    ) {
        self.body = body
        self.threads = threads
        self.loop = loop
        self.onFailure = onFailure
    }

    /// Sends the first bytes of the body.
    ///
    /// - Parameter isHeld: as by `hold`.
    func start(_ task: LoopTask, isHeld: Bool) {
        self.task = task
        self.isHeld = isHeld
        if case .bytes(let bytes) = body, !bytes.isEmpty { return sendMore() }
        guard case .source(let source) = body else { return task.finishSending() }
        do throws(SessionError) {
            reader = try source.open()
            sendMore()
        } catch {
            onFailure(error)
        }
    }

    /// Sends more, since there is room again.
    func sendMore() {
        guard let task, !isHeld else { return }
        switch body {
        case .none:
            break
        case .bytes(let bytes):
            guard sent < bytes.count else { return }
            let end = min(bytes.count, sent + BodySource.pieceSize)
            pass(bytes.span.extracting(sent..<end), to: task)
            sent = end
            if sent == bytes.count { task.finishSending() }
        case .source:
            guard let reader, reading == nil, task.pendingBodyBytes < BodySource.pieceSize else { return }
            reading = Task(executorPreference: threads) { [self, loop] in
                let result: Result<[UInt8], SessionError>
                do throws(SessionError) {
                    result = .success(try await reader.readPiece(atMost: BodySource.pieceSize))
                } catch {
                    result = .failure(error)
                }
                loop.submit { self.didRead(result) }
            }
        }
    }

    private func pass(_ bytes: borrowing Span<UInt8>, to task: LoopTask) {
        didSend?(bytes)
        task.send(bytes)
    }

    private func didRead(_ result: Result<[UInt8], SessionError>) {
        reading = nil
        guard let task else { return }
        switch result {
        case .failure(let error):
            onFailure(error)
        case .success(let bytes):
            sent += bytes.count
            guard isAsDeclared(hasEnded: bytes.isEmpty) else {
                return onFailure(
                    SessionError(.requestInvalid, "The body's source gave more or fewer bytes than its length says.")
                )
            }
            guard bytes.isEmpty else {
                pass(bytes.span, to: task)
                return sendMore()
            }
            reader = nil
            task.finishSending()
        }
    }

    /// Whether the length matches the declared one. The server would take surplus bytes for the next request, and would
    /// wait for missing ones.
    private func isAsDeclared(hasEnded: Bool) -> Bool {
        guard case .source(let source) = body, let length = source.length else { return true }
        return hasEnded ? sent == length : sent <= length
    }

    /// Hands over no more while the task is suspended.
    func hold(_ isHeld: Bool) {
        guard self.isHeld != isHeld else { return }
        self.isHeld = isHeld
        if !isHeld { sendMore() }
    }

    /// Stops reading; called when the task is over.
    func stop() {
        task = nil
        reader = nil
        didSend = nil
        reading?.cancel()
        reading = nil
    }
}
