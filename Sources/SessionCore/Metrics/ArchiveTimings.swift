// SPDX-License-Identifier: Apache-2.0
/// The times of a transaction as an HTTP Archive divides them (HAR 1.2, `timings` of an entry), in milliseconds. Nil for a
/// phase that did not happen; a writer has -1 there.
package struct ArchiveTimings: Sendable, Equatable {
    /// The wait for a connection: for a place in the pool, and for the loop.
    package let blocked: Double?
    /// The name lookup.
    package let dns: Double?
    /// The new connection, with `ssl` in it.
    package let connect: Double?
    /// The TLS handshake with the evaluation of the server.
    package let ssl: Double?
    /// The request.
    package let send: Double
    /// From the end of the request to the head of the response.
    package let wait: Double
    /// The response.
    package let receive: Double

    /// `time` of an entry: the sum of all phases. `ssl` is a part of `connect`.
    package var total: Double { [blocked, dns, connect, send, wait, receive].reduce(0) { $0 + ($1 ?? 0) } }

    /// `timings` of an entry: the phases by their names in the format.
    package var phases: [(name: String, milliseconds: Double?)] {
        [
            ("blocked", blocked), ("dns", dns), ("connect", connect), ("ssl", ssl), ("send", send), ("wait", wait),
            ("receive", receive),
        ]
    }

    package init(_ transaction: TransactionMetrics) {
        let begin = [transaction.domainLookupStart, transaction.connectStart, transaction.requestStart]
            .first { $0 != TransactionMetrics.absent }
        blocked = Self.phase(transaction.fetchStart, begin ?? TransactionMetrics.absent)
        dns = Self.phase(transaction.domainLookupStart, transaction.domainLookupEnd)
        connect = Self.phase(transaction.connectStart, transaction.connectEnd)
        ssl = Self.phase(transaction.secureConnectionStart, transaction.secureConnectionEnd)
        send = Self.phase(transaction.requestStart, transaction.requestEnd) ?? 0
        wait = Self.phase(transaction.requestEnd, transaction.responseStart) ?? 0
        receive = Self.phase(transaction.responseStart, transaction.responseEnd) ?? 0
    }

    /// Microseconds to milliseconds. A response may begin before the request is complete: then there was no wait.
    private static func phase(_ start: Int64, _ end: Int64) -> Double? {
        guard start != TransactionMetrics.absent, end != TransactionMetrics.absent else { return nil }
        return Double(max(0, end - start)) / 1000
    }
}
