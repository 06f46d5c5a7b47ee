// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The times and sizes of an exchange as they are noted: microseconds since the task was resumed, and bytes.
///
/// Noncopyable, and in place: so it is borrowed from its owner, an object, and not copied out of it.
struct ExchangeTimings: ~Copyable {
    /// When the task was resumed, in nanoseconds of the loop's clock.
    private(set) var taskStart: UInt64 = 0
    /// When the request stopped waiting for the host's connections; 0 where it did not wait.
    var fetchStart: Int64 = 0
    /// The connection of the request, or the one whose handshake has failed.
    var info: ConnectionInfo?
    /// Of the connection that was made for the request, from the begin of the attempt.
    private var connection: ConnectionTimes?
    /// A dial that several requests have waited for may have begun before this one: then it is negative.
    private var attemptStart: Int64 = 0
    var requestStart = TransactionMetrics.absent
    var requestEnd = TransactionMetrics.absent
    var responseStart = TransactionMetrics.absent
    var responseEnd = TransactionMetrics.absent
    /// Of the final head; 0 before it.
    var status = 0
    var protocolVersion = 0
    var requestHeadBytes = 0
    /// With the sizes of chunks.
    var requestBodyBytes = 0
    /// Without these.
    var requestContentBytes = 0
    var responseHeadBytes = 0
    var responseBodyBytes = 0
    private let inPlace = InPlace()

    /// The task's request begins.
    mutating func begin(at taskStart: UInt64) {
        self.taskStart = taskStart
        fetchStart = 0
    }

    /// A connection is being made for the request, or was made.
    ///
    /// - Parameter start: when the attempt began, in nanoseconds of the loop's clock.
    mutating func noteAttempt(_ times: ConnectionTimes, from start: UInt64) {
        connection = times
        attemptStart = Int64(start / 1000) - Int64(taskStart / 1000)
    }

    /// Nothing is known of the exchange that begins; `fetchStart` stays.
    mutating func beginExchange() {
        endExchange()
        requestStart = TransactionMetrics.absent
        requestEnd = TransactionMetrics.absent
        responseStart = TransactionMetrics.absent
        responseEnd = TransactionMetrics.absent
        status = 0
        requestHeadBytes = 0
        requestBodyBytes = 0
        requestContentBytes = 0
        responseHeadBytes = 0
        responseBodyBytes = 0
    }

    /// Lets go of the connection's objects.
    mutating func endExchange() {
        info = nil
        connection = nil
    }

    /// Fills in what is known by now.
    ///
    /// - Parameters:
    ///   - pendingBytes: bytes of the body that the connection has taken and not sent.
    ///   - now: the end of a response that is not complete.
    func write(
        into transaction: inout TransactionMetrics,
        isOnReusedConnection: Bool,
        pendingBytes: Int,
        now: @autoclosure () -> Int64
    ) {
        transaction.fetchStart = fetchStart
        transaction.isReusedConnection = isOnReusedConnection
        if let connection, !isOnReusedConnection { write(connection, into: &transaction) }
        if requestStart != TransactionMetrics.absent {
            transaction.requestStart = requestStart
            transaction.requestEnd = requestEnd == TransactionMetrics.absent ? requestStart : requestEnd
            transaction.requestHeaderBytesSent = Int64(requestHeadBytes)
            transaction.requestBodyBytesSent = Int64(requestBodyBytes - min(pendingBytes, requestBodyBytes))
        }
        if status > 0 {
            transaction.status = status
            transaction.protocolVersion = protocolVersion
            transaction.responseStart = responseStart
            transaction.responseEnd = responseEnd == TransactionMetrics.absent ? now() : responseEnd
        }
        transaction.responseHeaderBytesReceived = Int64(responseHeadBytes)
        transaction.responseBodyBytesReceived = Int64(responseBodyBytes)
        transaction.connection = info
    }

    private func write(_ times: ConnectionTimes, into transaction: inout TransactionMetrics) {
        func time(_ value: Int64) -> Int64 {
            value == TransactionMetrics.absent ? value : max(0, value + attemptStart)
        }
        if times.lookupEnd != TransactionMetrics.absent {
            transaction.domainLookupStart = max(0, attemptStart)
            transaction.domainLookupEnd = time(times.lookupEnd)
        }
        transaction.connectStart = time(times.connectStart)
        transaction.proxySecureConnectionStart = time(times.proxySecureConnectionStart)
        transaction.proxySecureConnectionEnd = time(times.proxySecureConnectionEnd)
        transaction.secureConnectionStart = time(times.secureConnectionStart)
        transaction.secureConnectionEnd = time(times.secureConnectionEnd)
        transaction.connectEnd = time(times.connectEnd)
    }
}
