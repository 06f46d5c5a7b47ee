// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("Task metrics", .onOwnThreads)
struct MetricsTests {
    private static let absent = TransactionMetrics.absent

    private func isOrdered(_ times: [Int64]) -> Bool {
        zip(times, times.dropFirst()).allSatisfy { $0 <= $1 }
    }

    @Test("the times of a part's transactions begin with the task, in order")
    func parts() {
        func part(_ start: Int64, _ fetchStarts: [Int64]) -> TaskMetrics {
            var part = TaskMetrics()
            part.fetchStart = start
            let transactions = fetchStarts.map {
                var transaction = TransactionMetrics()
                transaction.fetchStart = $0
                return transaction
            }
            part.earlierTransactions = transactions.dropLast()
            part.transaction = transactions[transactions.count - 1]
            return part
        }
        var metrics = TaskMetrics()
        metrics.fetchStart = 1000
        metrics.add(part(1000, [1]))
        #expect(metrics.transactions.map(\.fetchStart) == [1])
        metrics.add(part(1500, [2, 3]))
        metrics.add(part(2000, [4]))
        #expect(metrics.transactions.map(\.fetchStart) == [1, 502, 503, 1004])
        #expect(metrics.transaction.requestStart == Self.absent && metrics.fetchStart == 1000)
        metrics.add(part(3000, [Self.absent]))
        #expect(metrics.transactions.map(\.fetchStart) == [1, 502, 503, 1004, Self.absent])
    }

    @Test(
        "a new connection has every phase in order, a reused one none",
        arguments: [true, false]
    )
    func phases(isSecure: Bool) throws {
        let server = isSecure ? try TestPKI.shared.server(TestSession.host) : nil
        let origin = try ScriptedOrigin(server) { _ in OriginResponse.text("hello") }
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
        #expect(one.responseHeaderBytesReceived == OriginResponse.text("hello").utf8.count - 5)
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

    @Test("an upload's request ends before its response begins")
    func upload() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { _ in OriginResponse.text("done")
        }
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

    @Test("an upload's head is counted apart from its body, whatever its framing", arguments: [true, false])
    func uploadHead(hasLength: Bool) throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { _ in OriginResponse.text("done")
        }
        let session = try TestSession()
        // The second request goes out on the connection of the first one, whose bytes must not count again.
        for number in 1...2 {
            let delegate = RecordingDelegate()
            var left = 3
            delegate.onNeedsBodyData = { task in
                if left == 0 { return task.finishSending() }
                left -= 1
                task.send(patternBytes(1000).span)
            }
            let before = origin.applicationBytes
            let endpoint = try TestSession.endpoint(port: origin.port)
            try session.start(delegate, endpoint, .put, bodyLength: hasLength ? .bytes(3000) : .unknown)
            try session.finish(delegate)
            let transaction = delegate.transaction
            let request = try #require(origin.requests.last)
            #expect(origin.requests.count == number && request.body.count == 3000)
            let head =
                request.startLine.utf8.count + 4
                + request.fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 }
            #expect(transaction.requestHeaderBytesSent == Int64(head))
            #expect(Int(transaction.requestBodyBytesSent) == origin.applicationBytes - before - head)
        }
    }

    @Test(
        "a refused server leaves its evaluation, but no request and no response",
        arguments: [Endpoint.HTTPVersion.http1, .http2]
    )
    func refusal(version: Endpoint.HTTPVersion) throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { $0.readToEnd() }
        let session = try TestSession()
        let policy = try SecurityPolicy.pinning(.unrelated(9))
        let delegate = try session.get(
            TestSession.endpoint(port: origin.port, httpVersion: version, policy: policy)
        )
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
        let connection = try #require(transaction.connection)
        #expect(connection.remoteAddress == .loopback(port: origin.port))
        #expect(connection.tlsVersion?.description == "TLSv1.3")
        #expect(connection.cipher?.description.hasPrefix("TLS_") == true)
        #expect(connection.evaluation?.failure == .pinMismatch)
        #expect(!transaction.isReusedConnection)
        let times = [
            transaction.domainLookupStart, transaction.domainLookupEnd, transaction.connectStart,
            transaction.secureConnectionStart, transaction.secureConnectionEnd,
        ]
        #expect(isOrdered(times), "\(times)")
        #expect(transaction.connectEnd == transaction.secureConnectionEnd)
        #expect(delegate.calls == [.completed])
        try origin.waitForClosed()
        #expect(origin.applicationBytes == 0)
    }

    @Test("a server that is refused in TLS 1.2 tells its version and cipher, too")
    func refusalInTLS12() throws {
        let server = try TestPKI.shared.server(TestSession.host)
        let origin = try ScriptedOrigin(server, maximum: .tls12) { $0.readToEnd() }
        let session = try TestSession()
        let policy = try SecurityPolicy.pinning(.unrelated(9))
        let delegate = try session.get(TestSession.endpoint(port: origin.port, policy: policy))
        #expect(delegate.error?.code == .pinMismatch)
        let connection = try #require(delegate.transaction.connection)
        #expect(connection.tlsVersion?.description == "TLSv1.2")
        #expect(connection.cipher?.description.hasPrefix("ECDHE-") == true)
    }

    @Test("a server that aborts the handshake leaves its address, and no verdict")
    func brokenHandshake() throws {
        let origin = try ScriptedOrigin(nil) { connection in
            _ = connection.read()
            try connection.write("no TLS at all\r\n")
        }
        let session = try TestSession()
        let delegate = try session.get(TestSession.endpoint(port: origin.port))
        #expect(delegate.error?.code == .tlsHandshakeFailed)
        let transaction = delegate.transaction
        #expect(transaction.connection?.remoteAddress == .loopback(port: origin.port))
        #expect(transaction.connection?.tlsVersion == nil && transaction.connection?.evaluation == nil)
        #expect(isOrdered([transaction.connectStart, transaction.secureConnectionStart]))
        #expect(transaction.requestStart == Self.absent)
    }

    @Test("of several addresses the metrics name the one whose key was seen")
    func refusalAtOneOfSeveral() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { $0.readToEnd() }
        let session = try TestSession()
        // Both of its addresses may be dialled, in whatever order; only one has a listener.
        let endpoint = Endpoint(
            scheme: .https,
            host: try Host(TestSession.host),
            port: 443,
            resolve: (host: try Host("localhost"), port: origin.port),
            policy: try SecurityPolicy.pinning(.unrelated(9)),
            anchors: TestPKI.shared.anchors,
            generation: 1
        )
        // Several at a time: numbers of closed descriptors come back.
        let delegates = (0..<8).map { _ in RecordingDelegate() }
        for delegate in delegates { try session.start(delegate, endpoint) }
        for delegate in delegates {
            try session.finish(delegate)
            #expect(delegate.error?.code == .pinMismatch)
            #expect(delegate.transaction.connection?.remoteAddress == .loopback(port: origin.port))
        }
        let numbers = Set(delegates.compactMap { $0.transaction.connection?.identifier })
        #expect(numbers.count == delegates.count)
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
