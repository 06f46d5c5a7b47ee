// SPDX-License-Identifier: Apache-2.0

/// The bounds of sending spans to a collector. Times are milliseconds.
struct SpanLimits: Sendable {
    /// Requests that wait to be sent; more are dropped.
    var queued = 2048
    /// The memory of waiting requests and of the batch that is sent: a client chooses the length of URLs, and an origin the number of hops.
    var queuedBytes = 4 << 20
    /// Requests in one message.
    var batch = 512
    /// How long the first one waits for others.
    var delay: Int64 = 1000
    /// The number of attempts before a batch is given up.
    var attempts = 5
    /// The longest wait before the second attempt; each further one is twice as long, up to `longestBackOff`.
    var backOff: Int64 = 1000
    var longestBackOff: Int64 = 30_000
    /// The limits of one attempt: for connecting, and for the response.
    var connect = 5000
    var answer = 10_000
    /// How long a stop, or a reload with another collector, waits for unsent spans.
    var atStop: Int64 = 2000
    /// The least interval between two events about dropped spans.
    var lossInterval: Int64 = 60_000
}

/// The reason why spans were not delivered.
package enum SpanLoss: String, Sendable, CaseIterable {
    /// Too many waited.
    case queueFull
    /// The collector could not be reached, or was not ready for them, again and again.
    case undelivered
    /// The collector has refused them, or may not be reached.
    case refused
    /// The program was stopped, or the collector replaced.
    case stopped
}

/// The rules of sending the spans of requests, as a value: which ones are kept, which of them go into a message and when, and what
/// follows from its result. It has no clock, no random numbers and no socket: times are milliseconds that only grow.
struct SpanQueue<Record: Sendable>: Sendable {
    enum Outcome: Equatable, Sendable {
        case delivered
        /// A repeat may succeed.
        ///
        /// - Parameter after: the least wait that the collector has asked for.
        case failed(after: Int64)
        /// A repeat cannot succeed.
        case refused
    }

    private struct Batch: Sendable {
        let records: [Record]
        let bytes: Int
        var attempts = 0
        var due: Int64
        var isUnderWay = false
    }

    private let limits: SpanLimits
    private var waiting: [(record: Record, bytes: Int)] = []
    /// Of `waiting` and `batch`.
    private var bytes = 0
    /// When the thread first saw that something waits.
    private var since: Int64?
    /// The batch that is sent, or will be again. The others wait for it: a collector that is gone gets one attempt at a time.
    private var batch: Batch?
    private var isStopping = false

    /// Requests whose spans the collector has.
    private(set) var delivered = 0
    /// The losses since the start.
    private(set) var lost: [SpanLoss: Int] = [:]

    init(limits: SpanLimits = SpanLimits()) { self.limits = limits }

    var isEmpty: Bool { waiting.isEmpty && batch == nil }

    // MARK: Workers

    /// Adds the record of a request.
    ///
    /// - Parameter size: what it takes in memory.
    /// - Returns: whether the thread has to look at the queue.
    mutating func add(_ record: Record, bytes size: Int = 0) -> Bool {
        if isStopping { lose(1, .stopped); return false }
        guard waiting.count < limits.queued, bytes + size <= limits.queuedBytes else {
            lose(1, .queueFull)
            return false
        }
        bytes += size
        waiting.append((record, size))
        return waiting.count == 1 || waiting.count == limits.batch
    }

    // MARK: The thread

    /// The records to send now; `finished` follows. Nil when nothing is to be sent now.
    mutating func next(now: Int64) -> [Record]? {
        if batch == nil, !waiting.isEmpty {
            let begin = since ?? now
            since = begin
            guard waiting.count >= limits.batch || now - begin >= limits.delay || isStopping else { return nil }
            let first = waiting.prefix(limits.batch)
            batch = Batch(records: first.map(\.record), bytes: first.reduce(0) { $0 + $1.bytes }, due: now)
            waiting.removeFirst(min(limits.batch, waiting.count))
            since = waiting.isEmpty ? nil : now
        }
        guard let batch, !batch.isUnderWay, batch.due <= now || isStopping else { return nil }
        self.batch?.isUnderWay = true
        self.batch?.attempts += 1
        return batch.records
    }

    /// The time at which `next` may have something to send; nil when only `add` or `finished` can lead to it.
    var nextDue: Int64? {
        if let batch { return batch.isUnderWay ? nil : batch.due }
        return since.map { $0 + limits.delay }
    }

    /// An attempt is over.
    ///
    /// - Parameter chance: a number from 0 to 1 that spreads the repeats: the wait is between half and all of the back-off.
    mutating func finished(_ outcome: Outcome, now: Int64, chance: Double) {
        guard let current = batch, current.isUnderWay else { return }
        switch outcome {
        case .delivered:
            delivered += current.records.count
            forget(current)
        case .refused:
            lose(current.records.count, .refused)
            forget(current)
        case .failed(let least):
            guard current.attempts < limits.attempts, !isStopping else {
                lose(current.records.count, isStopping ? .stopped : .undelivered)
                return forget(current)
            }
            var wait = limits.backOff
            for _ in 1..<current.attempts { wait = min(2 * wait, limits.longestBackOff) }
            let spread = wait / 2 + Int64(Double(wait) / 2 * min(max(chance, 0), 1))
            batch?.isUnderWay = false
            batch?.due = now + min(max(spread, least), limits.longestBackOff)
        }
    }

    /// Sends what waits at once, each batch once, and accepts nothing more.
    mutating func startStopping() { isStopping = true }

    /// Drops all that is left.
    mutating func stop() {
        isStopping = true
        lose(waiting.count + (batch?.records.count ?? 0), .stopped)
        waiting = []
        batch = nil
        bytes = 0
    }

    private mutating func forget(_ over: Batch) {
        bytes -= over.bytes
        batch = nil
    }

    private mutating func lose(_ count: Int, _ loss: SpanLoss) {
        if count > 0 { lost[loss, default: 0] += count }
    }
}
