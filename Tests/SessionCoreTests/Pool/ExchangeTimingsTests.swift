// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Testing

@testable import SessionCore

@Suite("The times and sizes of an exchange")
struct ExchangeTimingsTests {
    private static let absent = TransactionMetrics.absent

    private func transaction(
        _ timings: borrowing ExchangeTimings,
        reused: Bool = false,
        pendingBytes: Int = 0,
        now: Int64 = 900
    ) -> TransactionMetrics {
        var transaction = TransactionMetrics()
        timings.write(
            into: &transaction,
            isOnReusedConnection: reused,
            pendingBytes: pendingBytes,
            now: now
        )
        return transaction
    }

    private static let taskStart: UInt64 = 1_000_000

    /// Of a task whose connection was begun some microseconds after it.
    private func connected(after microseconds: Int = 10, lookupEnd: Int64 = 20) -> ExchangeTimings {
        var timings = ExchangeTimings()
        timings.begin(at: Self.taskStart)
        timings.fetchStart = 5
        let times = ConnectionTimes(
            lookupEnd: lookupEnd,
            connectStart: 21,
            secureConnectionStart: 30,
            secureConnectionEnd: 40,
            connectEnd: 41
        )
        timings.noteAttempt(times, from: UInt64(Int(Self.taskStart) + microseconds * 1000))
        return timings
    }

    @Test("connection times begin with the attempt, and absent phases stay absent")
    func connection() {
        let metrics = transaction(connected())
        #expect(metrics.fetchStart == 5)
        #expect(metrics.domainLookupStart == 10 && metrics.domainLookupEnd == 30)
        #expect(metrics.connectStart == 31 && metrics.connectEnd == 51)
        #expect(metrics.secureConnectionStart == 40 && metrics.secureConnectionEnd == 50)
        #expect(metrics.proxySecureConnectionStart == Self.absent && metrics.proxySecureConnectionEnd == Self.absent)
        #expect(metrics.requestStart == Self.absent && metrics.responseStart == Self.absent)
    }

    @Test("TLS to a proxy has times of its own")
    func proxy() {
        var timings = ExchangeTimings()
        timings.begin(at: Self.taskStart)
        let times = ConnectionTimes(connectStart: 1, proxySecureConnectionStart: 2, proxySecureConnectionEnd: 3)
        timings.noteAttempt(times, from: Self.taskStart + 10_000)
        let metrics = transaction(timings)
        #expect(metrics.proxySecureConnectionStart == 12 && metrics.proxySecureConnectionEnd == 13)
        #expect(metrics.secureConnectionStart == Self.absent && metrics.secureConnectionEnd == Self.absent)
    }

    @Test("the connection is named until the exchange ends")
    func info() {
        var timings = connected()
        let info = ConnectionInfo(
            remoteAddress: SocketAddress(ipv4: 0xc000_0201, port: 443),
            tlsVersion: nil,
            cipher: nil,
            evaluation: nil
        )
        timings.info = info
        #expect(transaction(timings).connection === info)
        timings.endExchange()
        #expect(transaction(timings).connection == nil)
    }

    @Test("a name that was not looked up has no times")
    func noLookup() {
        let metrics = transaction(connected(lookupEnd: Self.absent))
        #expect(metrics.domainLookupStart == Self.absent && metrics.domainLookupEnd == Self.absent)
        #expect(metrics.connectStart == 31)
    }

    @Test("a dial that began before the request does not begin before the task")
    func sharedDial() {
        let metrics = transaction(connected(after: -25))
        #expect(metrics.domainLookupStart == 0 && metrics.domainLookupEnd == 0)
        #expect(metrics.connectStart == 0 && metrics.secureConnectionStart == 5 && metrics.connectEnd == 16)
    }

    @Test("a kept connection has no times of its making")
    func reused() {
        let metrics = transaction(connected(), reused: true)
        #expect(metrics.isReusedConnection)
        #expect(metrics.connectStart == Self.absent && metrics.domainLookupStart == Self.absent)
    }

    @Test("the request that left last counts; one without an end ends at once")
    func request() {
        var timings = ExchangeTimings()
        timings.requestStart = 100
        timings.requestHeadBytes = 50
        timings.requestBodyBytes = 1_000
        var metrics = transaction(timings, pendingBytes: 300)
        #expect(metrics.requestStart == 100 && metrics.requestEnd == 100)
        #expect(metrics.requestHeaderBytesSent == 50 && metrics.requestBodyBytesSent == 700)
        // A head that waits counts among the pending bytes.
        metrics = transaction(timings, pendingBytes: 1_040)
        #expect(metrics.requestBodyBytesSent == 0)
        timings.requestEnd = 120
        #expect(transaction(timings).requestEnd == 120)
    }

    @Test("a response that is cut off ends now; a missing head has no times")
    func response() {
        var timings = ExchangeTimings()
        timings.responseStart = 200
        timings.responseHeadBytes = 80
        #expect(transaction(timings).responseStart == Self.absent)
        #expect(transaction(timings).responseHeaderBytesReceived == 80)
        timings.status = 200
        timings.protocolVersion = 11
        timings.responseBodyBytes = 7
        var metrics = transaction(timings)
        #expect(metrics.status == 200 && metrics.protocolVersion == 11)
        #expect(metrics.responseStart == 200 && metrics.responseEnd == 900 && metrics.responseBodyBytesReceived == 7)
        timings.responseEnd = 300
        metrics = transaction(timings)
        #expect(metrics.responseEnd == 300)
    }

    @Test("a second exchange starts without the first one's times, except waiting")
    func secondExchange() {
        var timings = connected()
        timings.requestStart = 100
        timings.requestEnd = 110
        timings.responseStart = 200
        timings.responseEnd = 210
        timings.status = 103
        timings.requestHeadBytes = 1
        timings.requestBodyBytes = 2
        timings.requestContentBytes = 3
        timings.responseHeadBytes = 4
        timings.responseBodyBytes = 5
        timings.beginExchange()
        #expect(timings.fetchStart == 5)
        let metrics = transaction(timings)
        #expect(metrics.connectStart == Self.absent && metrics.requestStart == Self.absent && metrics.status == 0)
        #expect(metrics.responseHeaderBytesReceived == 0 && metrics.responseBodyBytesReceived == 0)
        #expect(timings.requestContentBytes == 0 && timings.responseStart == Self.absent)
        #expect(timings.requestEnd == Self.absent && timings.responseEnd == Self.absent)
        #expect(timings.requestHeadBytes == 0 && timings.requestBodyBytes == 0)
    }

    @Test("the next task's request has waited for nothing yet")
    func nextTask() {
        var timings = connected()
        timings.begin(at: 2 * Self.taskStart)
        #expect(timings.fetchStart == 0 && timings.taskStart == 2 * Self.taskStart)
        timings.endExchange()
        #expect(transaction(timings).connectStart == Self.absent)
    }
}
