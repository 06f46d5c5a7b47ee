import IOCore
import ServerTrust
import SessionCore

/// The counters of one worker since the start. The worker's loop writes, the admin listener's thread reads, and neither
/// waits for the other.
final class WorkerCounters: Sendable {
    private let table = CounterTable(count: Slot.count)

    /// The positions of the numbers in the table.
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

    /// Counts an accepted client connection.
    func noteConnection() { table.add(1, at: Slot.clientConnections) }

    /// Counts a client connection that was refused because of the limit.
    func noteRefusedConnection() { table.add(1, at: Slot.refusedConnections) }

    /// Counts a request that is over, with the values of its log line.
    ///
    /// - Parameters:
    ///   - status: the status of the response; nil when the client got none.
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

    /// Counts a transaction of a task with an origin.
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

    /// Counts a TLS handshake with an origin by its verdict.
    func noteHandshake(_ verdict: TrustEvaluation.Verdict) {
        if let index = Reading.verdicts.firstIndex(of: verdict) { table.add(1, at: Slot.verdicts + index) }
    }

    // MARK: Any thread

    /// The current numbers. A task may be counted in some of them and not yet in others.
    var reading: Reading {
        var reading = Reading()
        add(to: &reading)
        return reading
    }

    /// Adds this worker's numbers to a sum.
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
        /// In the order of `statusClasses`.
        var tasks = Array(repeating: 0, count: statusClasses.count)
        /// In the order of `codes`.
        var errors = Array(repeating: 0, count: codes.count)
        /// In the order of `verdicts`.
        var handshakes = Array(repeating: 0, count: verdicts.count)
        /// Tasks by the first of `durationBounds` that is not exceeded; the last number counts those beyond every
        /// bound.
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
        /// Heads and bodies of responses.
        var bytesFromOrigins = 0

        /// The first digit of the status; the first class means no response at all.
        static let statusClasses = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"]
        static let codes = Problem.Code.allCases
        static let verdicts = TrustEvaluation.Verdict.allCases
        /// Microseconds, from a response on loopback to the default of `timeouts.firstByte`.
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
