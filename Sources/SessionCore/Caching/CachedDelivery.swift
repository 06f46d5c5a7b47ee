import HTTPCaching
import HTTPCore
import IOCore

/// Delivers a stored response to a task, at the task's speed. Belongs to the loop.
///
/// `@unchecked Sendable`: threads of the disk only submit work to the loop with it, and do not touch it.
final class CachedDelivery: @unchecked Sendable {
    private let task: LoopTask
    private let loop: EventLoop
    private let response: CacheTransaction.Response
    private let disk: DiskStore?
    private var position: Int
    private var isReading = false
    private var isPassing = false
    private var isOver = false
    private var transaction = TransactionMetrics()

    private static let pieceSize = 64 << 10

    init(_ response: CacheTransaction.Response, from disk: DiskStore?, to task: LoopTask, _ loop: EventLoop) {
        self.response = response
        self.disk = disk
        self.task = task
        self.loop = loop
        position = response.head.body.lowerBound
        transaction.resourceFetchType = .localCache
        transaction.fetchStart = task.elapsed
    }

    /// The metrics up to now.
    var metrics: TransactionMetrics {
        var metrics = transaction
        metrics.responseEnd = task.elapsed
        return metrics
    }

    /// Stops the delivery.
    func stop() { isOver = true }

    func start() {
        let stored = response.head
        let head = ResponseHead(
            status: stored.status,
            fields: stored.fields,
            contentLength: stored.contentLength,
            hasBody: task.request.method != .head && stored.status != 204 && stored.status != 304
        )
        transaction.status = head.status
        transaction.responseStart = task.elapsed
        if task.delegate.task(task, didReceive: head) == .cancel { task.cancel() }
        deliverPieces()
    }

    func deliverPieces() {
        guard !isPassing else { return }
        isPassing = true
        defer { isPassing = false }
        while !isOver, !isReading, !task.isReceivePaused {
            let end = min(position + Self.pieceSize, response.head.body.upperBound)
            guard position < end else { return task.finish(nil) }
            switch response.body {
            case .memory(let bytes):
                let piece = bytes.span.extracting(position..<end)
                position = end
                pass(piece)
            case .file(let file):
                read(file, upTo: end)
            }
        }
    }

    private func pass(_ bytes: borrowing Span<UInt8>) {
        if task.delegate.task(task, didReceive: bytes) == .pause, !isOver { task.pausedByDelegate = true }
    }

    private func read(_ file: StoredBody, upTo end: Int) {
        isReading = true
        let loop = loop
        guard let disk else { return didRead(nil, count: end - position) }
        disk.read(file, at: position, count: end - position, deliver: { loop.submit($0) }) { [self, position] bytes in
            didRead(bytes, count: end - position)
        }
    }

    private func didRead(_ bytes: [UInt8]?, count: Int) {
        isReading = false
        guard !isOver else { return }
        guard let bytes, bytes.count == count else {
            return task.finish(SessionError(.fileFailed, "The stored response cannot be read to its end. Try again."))
        }
        position += count
        pass(bytes.span)
        deliverPieces()
    }
}
