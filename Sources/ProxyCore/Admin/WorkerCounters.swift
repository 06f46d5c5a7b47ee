import IOCore
import ServerTrust
import SessionCore

/// What one worker has done since the start, in numbers. The worker's loop counts, the admin listener's thread reads:
/// neither waits for the other.
final class WorkerCounters: Sendable {
    private let table = CounterTable(count: Slot.count)

    /// Where each number stands in the table.
    private enum Slot {
        static let tasks = 0
        static let errors = tasks + Reading.statusClasses.count
        static let verdicts = errors + Reading.codes.count
        static let durations = verdicts + Reading.verdicts.count
        static let durationSum = durations + Reading.durationBounds.count + 1
        static let clientConnections = durationSum + 1
        static let refusedConnections = clientConnections + 1
        static let bodyBytesFromClients = refusedConnections + 1
        static let bodyBytesToClients = bodyBytesFromClients + 1
        static let requestsOnNewConnections = bodyBytesToClients + 1
        static let requestsOnKeptConnections = requestsOnNewConnections + 1
        static let bytesToOrigins = requestsOnKeptConnections + 1
        static let bytesFromOrigins = bytesToOrigins + 1
        static let count = bytesFromOrigins + 1
    }

    // MARK: The worker's loop

    /// A client was let in.
    func noteConnection() { table.add(1, at: Slot.clientConnections) }

    /// A client was one too many.
    func noteRefusedConnection() { table.add(1, at: Slot.refusedConnections) }

    /// A task is over, as its log line tells it.
    ///
    /// - Parameters:
    ///   - status: of the answer; nil when the client got none.
    ///   - duration: in microseconds.
    func noteTask(
        status: Int?,
        error: Problem.Code?,
        bytesFromClient: Int,
        bytesToClient: Int,
        duration: Int64
    ) {
        table.add(1, at: Slot.tasks + min((status ?? 0) / 100, Reading.statusClasses.count - 1))
        if let error, let index = Reading.codes.firstIndex(of: error) { table.add(1, at: Slot.errors + index) }
        table.add(bytesFromClient, at: Slot.bodyBytesFromClients)
        table.add(bytesToClient, at: Slot.bodyBytesToClients)
        table.add(1, at: Slot.durations + Reading.bucket(of: duration))
        table.add(Int(duration), at: Slot.durationSum)
    }

    /// What a task has had to do with origins.
    func note(_ transaction: borrowing TransactionMetrics) {
        guard transaction.requestStart != TransactionMetrics.absent else { return }
        let isKept = transaction.isReusedConnection
        let sent = transaction.requestHeaderBytesSent + transaction.requestBodyBytesSent
        let received = transaction.responseHeaderBytesReceived + transaction.responseBodyBytesReceived
        table.add(1, at: isKept ? Slot.requestsOnKeptConnections : Slot.requestsOnNewConnections)
        table.add(Int(sent), at: Slot.bytesToOrigins)
        table.add(Int(received), at: Slot.bytesFromOrigins)
    }

    /// Counts the transactions of a task that is over.
    func noteTransactions(of task: LoopTask) {
        for transaction in task.metrics.earlierTransactions { note(transaction) }
        note(task.metrics.transaction)
    }

    /// A TLS handshake with an origin has come to its verdict.
    func noteHandshake(_ verdict: TrustEvaluation.Verdict) {
        if let index = Reading.verdicts.firstIndex(of: verdict) { table.add(1, at: Slot.verdicts + index) }
    }

    // MARK: Any thread

    /// The numbers at this moment. Those of one task may be in it in part.
    var reading: Reading {
        var reading = Reading()
        add(to: &reading)
        return reading
    }

    /// Adds this worker's numbers to those of others.
    func add(to reading: inout Reading) {
        func add(_ start: Int, to numbers: inout [Int]) {
            for index in numbers.indices { numbers[index] += table.value(at: start + index) }
        }
        add(Slot.tasks, to: &reading.tasks)
        add(Slot.errors, to: &reading.errors)
        add(Slot.verdicts, to: &reading.handshakes)
        add(Slot.durations, to: &reading.durations)
        reading.durationSum += table.value(at: Slot.durationSum)
        reading.clientConnections += table.value(at: Slot.clientConnections)
        reading.refusedConnections += table.value(at: Slot.refusedConnections)
        reading.bodyBytesFromClients += table.value(at: Slot.bodyBytesFromClients)
        reading.bodyBytesToClients += table.value(at: Slot.bodyBytesToClients)
        reading.requestsOnNewConnections += table.value(at: Slot.requestsOnNewConnections)
        reading.requestsOnKeptConnections += table.value(at: Slot.requestsOnKeptConnections)
        reading.bytesToOrigins += table.value(at: Slot.bytesToOrigins)
        reading.bytesFromOrigins += table.value(at: Slot.bytesFromOrigins)
    }
}

extension WorkerCounters {
    /// The numbers of one worker, or the sums of several.
    struct Reading: Equatable, Sendable {
        /// By `statusClasses`.
        var tasks = Array(repeating: 0, count: statusClasses.count)
        /// By `codes`.
        var errors = Array(repeating: 0, count: codes.count)
        /// By `verdicts`.
        var handshakes = Array(repeating: 0, count: verdicts.count)
        /// Tasks by the first of `durationBounds` that they kept to; the last is of those that kept to none.
        var durations = Array(repeating: 0, count: durationBounds.count + 1)
        /// Microseconds.
        var durationSum = 0
        var clientConnections = 0
        var refusedConnections = 0
        var bodyBytesFromClients = 0
        var bodyBytesToClients = 0
        var requestsOnNewConnections = 0
        var requestsOnKeptConnections = 0
        /// Heads and bodies of requests.
        var bytesToOrigins = 0
        /// Heads and bodies of answers.
        var bytesFromOrigins = 0

        /// By the first digit of the status; 0 is no answer at all.
        static let statusClasses = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"]
        static let codes = Problem.Code.allCases
        static let verdicts = TrustEvaluation.Verdict.allCases
        /// Microseconds, from an answer on loopback to the default of `timeouts.firstByte`.
        static let durationBounds: [Int64] = [
            1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
            10_000_000, 30_000_000, 60_000_000,
        ]

        static func bucket(of duration: Int64) -> Int {
            var index = 0
            while index < durationBounds.count, duration > durationBounds[index] { index += 1 }
            return index
        }
    }
}
