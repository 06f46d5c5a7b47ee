// SPDX-License-Identifier: Apache-2.0
import IOCore
package import ServerTrust
import SessionCore

/// The counters of one worker since the start. The worker's loop writes, the admin listener's thread reads, and neither
/// waits for the other.
package final class WorkerCounters: Sendable {
    private let places = Places()
    private let table: CounterTable

    /// The positions of the numbers in the table. Stored, because each use of a computed static constant asks first whether it has
    /// been computed.
    private struct Places {
        let tasks = 0
        let errors: Int
        let verdicts: Int
        let durations: Int
        let durationSum: Int
        let clientConnections: Int
        let refusedConnections: Int
        let lastRefusal: Int
        let bodyBytesFromClients: Int
        let bodyBytesToClients: Int
        let requestsOnNewConnections: Int
        let requestsOnKeptConnections: Int
        let bytesToOrigins: Int
        let bytesFromOrigins: Int
        let count: Int

        init() {
            errors = tasks + Reading.statusClasses.count
            verdicts = errors + Reading.codes.count
            durations = verdicts + Reading.verdicts.count * Reading.groups.count
            durationSum = durations + Reading.durationBounds.count + 1
            clientConnections = durationSum + 1
            refusedConnections = clientConnections + 1
            lastRefusal = refusedConnections + 1
            bodyBytesFromClients = lastRefusal + 1
            bodyBytesToClients = bodyBytesFromClients + 1
            requestsOnNewConnections = bodyBytesToClients + 1
            requestsOnKeptConnections = requestsOnNewConnections + 1
            bytesToOrigins = requestsOnKeptConnections + 1
            bytesFromOrigins = bytesToOrigins + 1
            count = bytesFromOrigins + 1
        }
    }

    init() { table = CounterTable(count: places.count) }

    // MARK: The worker's loop

    /// Counts an accepted client connection.
    func noteConnection() { table.add(1, at: places.clientConnections) }

    /// Counts a client connection that was refused because of the limit.
    ///
    /// - Parameter now: seconds since 1970.
    func noteRefusedConnection(at now: Int64) {
        table.add(1, at: places.refusedConnections)
        table.set(Int(now), at: places.lastRefusal)
    }

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
        table.add(1, at: places.tasks + min((status ?? 0) / 100, places.errors - 1))
        if let error, let index = Reading.codes.firstIndex(of: error) { table.add(1, at: places.errors + index) }
        table.add(bytesFromClient, at: places.bodyBytesFromClients)
        table.add(bytesToClient, at: places.bodyBytesToClients)
        table.add(1, at: places.durations + Reading.bucket(of: duration))
        table.add(Int(duration), at: places.durationSum)
    }

    /// Counts a transaction of a task with an origin.
    func note(_ transaction: borrowing TransactionMetrics) {
        guard transaction.requestStart != TransactionMetrics.absent else { return }
        note(
            isKept: transaction.isReusedConnection,
            sent: transaction.requestHeaderBytesSent + transaction.requestBodyBytesSent,
            received: transaction.responseHeaderBytesReceived + transaction.responseBodyBytesReceived
        )
    }

    private func note(isKept: Bool, sent: Int64, received: Int64) {
        table.add(1, at: isKept ? places.requestsOnKeptConnections : places.requestsOnNewConnections)
        table.add(Int(sent), at: places.bytesToOrigins)
        table.add(Int(received), at: places.bytesFromOrigins)
    }

    /// Counts the transactions of a task that is over.
    func noteTransactions(of task: LoopTask) {
        for transaction in task.metrics.earlierTransactions { note(transaction) }
        // Its numbers alone: a copy of the last one costs more than the counting.
        guard task.metrics.transaction.requestStart != TransactionMetrics.absent else { return }
        note(
            isKept: task.metrics.transaction.isReusedConnection,
            sent: task.metrics.transaction.requestHeaderBytesSent + task.metrics.transaction.requestBodyBytesSent,
            received: task.metrics.transaction.responseHeaderBytesReceived
                + task.metrics.transaction.responseBodyBytesReceived
        )
    }

    /// Counts a TLS handshake with an origin by its verdict and the group of its key exchange.
    func noteHandshake(_ verdict: TrustEvaluation.Verdict, _ group: TLSGroup?) {
        table.add(1, at: places.verdicts + Reading.place(verdict, group))
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
        add(places.tasks, to: &reading.tasks)
        add(places.errors, to: &reading.errors)
        add(places.verdicts, to: &reading.handshakes)
        add(places.durations, to: &reading.durations)
        reading.durationSum += table.value(at: places.durationSum)
        reading.clientConnections += table.value(at: places.clientConnections)
        reading.refusedConnections += table.value(at: places.refusedConnections)
        reading.lastRefusal = max(reading.lastRefusal, table.value(at: places.lastRefusal))
        reading.bodyBytesFromClients += table.value(at: places.bodyBytesFromClients)
        reading.bodyBytesToClients += table.value(at: places.bodyBytesToClients)
        reading.requestsOnNewConnections += table.value(at: places.requestsOnNewConnections)
        reading.requestsOnKeptConnections += table.value(at: places.requestsOnKeptConnections)
        reading.bytesToOrigins += table.value(at: places.bytesToOrigins)
        reading.bytesFromOrigins += table.value(at: places.bytesFromOrigins)
    }
}

extension WorkerCounters {
    /// The numbers of one worker, or the sums of several.
    package struct Reading: Equatable, Sendable {
        /// In the order of `statusClasses`.
        package var tasks = Array(repeating: 0, count: statusClasses.count)
        /// In the order of `codes`.
        package var errors = Array(repeating: 0, count: codes.count)
        /// By `place`.
        package var handshakes = Array(repeating: 0, count: verdicts.count * groups.count)
        /// Tasks by the first of `durationBounds` that is not exceeded; the last number counts those beyond every
        /// bound.
        package var durations = Array(repeating: 0, count: durationBounds.count + 1)
        /// Microseconds.
        package var durationSum = 0
        package var clientConnections = 0
        package var refusedConnections = 0
        /// Seconds since 1970; 0 before the first.
        package var lastRefusal = 0
        package var bodyBytesFromClients = 0
        package var bodyBytesToClients = 0
        package var requestsOnNewConnections = 0
        package var requestsOnKeptConnections = 0
        /// Heads and bodies of requests.
        package var bytesToOrigins = 0
        /// Heads and bodies of responses.
        package var bytesFromOrigins = 0

        /// The first digit of the status; the first class means no response at all.
        package static let statusClasses = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"]
        package static let codes = Problem.Code.allCases
        package static let verdicts = TrustEvaluation.Verdict.allCases
        /// The last one stands for a handshake whose key exchange had no group, or had not come to it.
        package static let groups: [TLSGroup?] = TLSGroup.allCases + [nil]

        /// The place of a verdict and a group in `handshakes`.
        package static func place(_ verdict: TrustEvaluation.Verdict, _ group: TLSGroup?) -> Int {
            (verdicts.firstIndex(of: verdict) ?? 0) * groups.count + (groups.firstIndex(of: group) ?? groups.count - 1)
        }

        /// Microseconds, from a response on loopback to the default of `timeouts.firstByte`.
        package static let durationBounds: [Int64] = [
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
