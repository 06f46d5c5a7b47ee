import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("Task metrics")
struct MetricsTests {
    private static let absent = TransactionMetrics.absent

    private func isOrdered(_ times: [Int64]) -> Bool {
        zip(times, times.dropFirst()).allSatisfy { $0 <= $1 }
    }

    @Test(
        "a new connection has every phase, in order; a reused one has no phase of connecting",
        arguments: [true, false]
    )
    func phases(isSecure: Bool) throws {
        let server = isSecure ? try TestSession.pki.server(TestSession.host) : nil
        let origin = try ScriptedOrigin(server) { _ in OriginAnswer.text("hello") }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port, scheme: isSecure ? .https : .http)
        let before = Clock.realtime
        let first = try session.get(endpoint)
        let one = first.transaction
        #expect(first.metrics.fetchStart >= before - 1_000_000 && first.metrics.fetchStart <= Clock.realtime)
        #expect(!one.isReusedConnection)
        var times = [one.fetchStart, one.domainLookupStart, one.domainLookupEnd, one.connectStart]
        if isSecure { times += [one.secureConnectionStart, one.secureConnectionEnd] }
        times += [one.connectEnd, one.requestStart, one.requestEnd, one.responseStart, one.responseEnd]
        #expect(times.allSatisfy { $0 >= 0 }, "\(times)")
        #expect(isOrdered(times), "\(times)")
        #expect(first.metrics.duration >= one.responseEnd)
        if !isSecure {
            #expect(one.secureConnectionStart == Self.absent)
            #expect(one.secureConnectionEnd == Self.absent)
        }
        #expect(one.status == 200)
        #expect(one.protocolVersion == 11)
        #expect(one.responseBodyBytesReceived == 5)
        #expect(one.responseHeaderBytesReceived == OriginAnswer.text("hello").utf8.count - 5)
        #expect(one.requestHeaderBytesSent == origin.applicationBytes)
        #expect(one.requestBodyBytesSent == 0)
        #expect((one.connection?.tlsVersion != nil) == isSecure)
        #expect((one.connection?.cipher != nil) == isSecure)
        #expect((one.connection?.evaluation != nil) == isSecure)
        #expect(one.connection?.remoteAddressText == "127.0.0.1:\(origin.port)")

        let second = try session.get(endpoint)
        let two = second.transaction
        #expect(two.isReusedConnection)
        let connecting = [
            two.domainLookupStart, two.domainLookupEnd, two.connectStart, two.secureConnectionStart,
            two.secureConnectionEnd, two.connectEnd,
        ]
        #expect(connecting.allSatisfy { $0 == Self.absent }, "\(connecting)")
        let rest = [two.fetchStart, two.requestStart, two.requestEnd, two.responseStart, two.responseEnd]
        #expect(rest.allSatisfy { $0 >= 0 }, "\(rest)")
        #expect(isOrdered(rest), "\(rest)")
        if isSecure { #expect(two.connection?.identifier == one.connection?.identifier) }
        #expect(origin.connections.count == 1)
    }

    @Test("an upload's request ends before its answer begins")
    func upload() throws {
        let origin = try ScriptedOrigin(try TestSession.pki.server(TestSession.host)) { _ in OriginAnswer.text("done") }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        var left = 20
        delegate.onNeedsBodyData = { task in
            if left == 0 { return task.finishSending() }
            left -= 1
            task.send(patternBytes(10_000).span)
        }
        try session.start(
            delegate,
            TestSession.endpoint(port: origin.port),
            .put,
            bodyLength: .bytes(200_000)
        )
        try session.finish(delegate)
        let times = [
            delegate.transaction.requestStart, delegate.transaction.requestEnd, delegate.transaction.responseStart,
            delegate.transaction.responseEnd,
        ]
        #expect(isOrdered(times), "\(times)")
        #expect(delegate.transaction.requestBodyBytesSent == 200_000)
    }

    @Test("a refused server leaves no request and no response, but its evaluation")
    func refusal() throws {
        let origin = try ScriptedOrigin(try TestSession.pki.server(TestSession.host)) { $0.readToEnd() }
        let session = try TestSession()
        let policy = try SecurityPolicy.pinning(.unrelated(9))
        let delegate = try session.get(TestSession.endpoint(port: origin.port, policy: policy))
        #expect(delegate.error?.code == .pinMismatch)
        #expect(delegate.error?.evaluation?.verdict == .fail)
        let transaction = delegate.transaction
        for time in [
            transaction.requestStart, transaction.requestEnd, transaction.responseStart, transaction.responseEnd,
        ] {
            #expect(time == Self.absent)
        }
        #expect(transaction.status == 0)
        #expect(transaction.requestHeaderBytesSent == 0)
        #expect(transaction.connection == nil)
        #expect(delegate.calls == [.completed])
        try origin.waitForClosed()
        #expect(origin.applicationBytes == 0)
    }

    @Test("a connection that is refused by the system has no phase after connecting")
    func unreachable() throws {
        let (descriptor, port) = try TestSocket.reserveRefusingPort()
        defer { _ = descriptor }
        let session = try TestSession()
        let delegate = try session.get(TestSession.endpoint(port: port))
        #expect(delegate.error?.code == .connectFailed)
        #expect(delegate.transaction.requestStart == Self.absent)
        #expect(delegate.transaction.secureConnectionStart == Self.absent)
        #expect(delegate.transaction.connection == nil)
    }
}
