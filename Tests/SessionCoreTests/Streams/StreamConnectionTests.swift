// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("A stream's connection is dialled and evaluated like a request's", .onOwnThreads)
struct StreamConnectionTests {
    private static let server = try! TestPKI.shared.server(TestSession.host)

    private static func echo(_ protocols: [String] = []) throws -> ScriptedOrigin {
        try ScriptedOrigin(server, protocols: protocols) { connection in
            while case let bytes = connection.read(), !bytes.isEmpty { try connection.write(bytes) }
        }
    }

    @Test("with the right pin bytes go both ways, and the metrics are complete")
    func rightPin() throws {
        let origin = try Self.echo()
        let session = try TestSession()
        var told: [TrustEvaluation.Verdict] = []
        session.manager.sessionDidEvaluateServerTrust = { trust, _ in told.append(trust.evaluation.verdict) }
        let delegate = RecordingStream()
        delegate.onConnect = { $0.send("hello") }
        delegate.onData = { stream in
            stream.closeWrite()
            return .proceed
        }
        let stream = session.open(
            delegate,
            try TestSession.endpoint(port: origin.port, policy: .pinning(Self.server.pin))
        )
        try session.finish(delegate)
        #expect(delegate.text == "hello")
        #expect(delegate.error == nil && delegate.isReadClosed && delegate.completions == 1)
        #expect(told == [.pass])
        #expect(stream.evaluation?.verdict == .pass)
        #expect((stream.bytesSent, stream.bytesReceived) == (5, 5))
        let transaction = stream.metrics.transaction
        #expect(transaction.connection?.tlsVersion?.description == "TLSv1.3")
        #expect(transaction.connection?.cipher != nil)
        #expect(transaction.connection?.remoteAddress == .loopback(port: origin.port))
        #expect(transaction.secureConnectionStart >= transaction.connectStart)
        #expect(transaction.secureConnectionEnd == transaction.connectEnd)
        #expect(stream.metrics.duration > 0)
        #expect(session.manager.taskCount == 0)
    }

    @Test("with a wrong pin no byte reaches the origin")
    func wrongPin() throws {
        let origin = try Self.echo()
        let session = try TestSession()
        let delegate = RecordingStream()
        delegate.onConnect = { $0.send("secret") }
        let stream = session.open(
            delegate,
            try TestSession.endpoint(port: origin.port, policy: .pinning(.unrelated(7)))
        )
        stream.send("secret")
        try session.finish(delegate)
        #expect(delegate.error?.code == .pinMismatch)
        #expect(delegate.error?.evaluation?.verdict == .fail)
        #expect(!delegate.isConnected)
        #expect(try origin.waitForClosed().map(\.applicationBytes) == [0])
    }

    @Test("a delegate can refuse an accepted server before any byte leaves")
    func delegateRefuses() throws {
        let origin = try Self.echo()
        let session = try TestSession()
        let delegate = RecordingStream()
        delegate.mayTrust = { _ in SessionError(.certificateUntrusted, "Not today.") }
        session.open(delegate, try TestSession.endpoint(port: origin.port))
        try session.finish(delegate)
        #expect(delegate.error?.details == "Not today.")
        #expect(!delegate.isConnected)
        #expect(try origin.waitForClosed().map(\.applicationBytes) == [0])
    }

    @Test("the address rules hold", arguments: [Endpoint.Scheme.http, .https])
    func addressRules(scheme: Endpoint.Scheme) throws {
        let origin = try Self.echo()
        let session = try TestSession()
        let delegate = RecordingStream()
        let endpoint = try TestSession.endpoint(port: origin.port, scheme: scheme) { _ in DialRefusal(rule: "loopback")
        }
        session.open(delegate, endpoint)
        try session.finish(delegate)
        #expect(delegate.error?.code == .addressDenied)
        #expect(delegate.error?.details.contains("loopback") == true)
        #expect(origin.connections.isEmpty)
    }

    @Test("a server that never responds to the hello is given up after timeouts.connect")
    func connectTimeout() throws {
        let (listener, port) = try TestSocket.listen()
        defer { close(listener) }
        var timeouts = TaskTimeouts()
        timeouts.connect = .milliseconds(100)
        let session = try TestSession()
        let delegate = RecordingStream()
        session.open(delegate, try TestSession.endpoint(port: port, timeouts: timeouts))
        try session.finish(delegate)
        #expect(delegate.error?.code == .connectTimeout)
    }

    @Test("a port where nobody listens is an error of the connection")
    func refused() throws {
        let (held, port) = try TestSocket.reserveRefusingPort()
        defer { close(held) }
        let session = try TestSession()
        let delegate = RecordingStream()
        session.open(delegate, try TestSession.endpoint(port: port, scheme: .http))
        try session.finish(delegate)
        #expect(delegate.error?.code == .connectFailed)
    }

    @Test("the server's choice of protocol is reported; without offers there is none")
    func applicationProtocols() throws {
        let origin = try Self.echo(["h2", "http/1.1"])
        let choices: [([ApplicationProtocol], ApplicationProtocol?)] = [
            ([.http2], .http2), ([.http1], .http1), ([.http1, .http2], .http2), ([], nil),
        ]
        for (offered, chosen) in choices {
            let session = try TestSession()
            let delegate = RecordingStream()
            var response: ApplicationProtocol?
            delegate.onConnect = { stream in
                response = stream.applicationProtocol
                stream.closeWrite()
            }
            session.open(delegate, try TestSession.endpoint(port: origin.port), offered)
            try session.finish(delegate)
            #expect(delegate.error == nil)
            #expect(response == chosen)
        }
    }

    @Test("a server without the protocol chooses none, and the stream opens")
    func noCommonProtocol() throws {
        let origin = try Self.echo()
        let session = try TestSession()
        let delegate = RecordingStream()
        delegate.onConnect = { $0.closeWrite() }
        let stream = session.open(delegate, try TestSession.endpoint(port: origin.port), [.http2])
        try session.finish(delegate)
        #expect(delegate.isConnected && delegate.error == nil)
        #expect(stream.applicationProtocol == nil)
    }

    @Test("no request ever takes a stream's connection; both count against connectionsPerHost", arguments: [1, 2])
    func neverShared(limit: Int) throws {
        let origin = try ScriptedOrigin(Self.server) { connection in
            if connection.number == 0 {
                while case let bytes = connection.read(), !bytes.isEmpty { try connection.write(bytes) }
            } else {
                while try connection.readRequest() != nil { try connection.respond() }
            }
        }
        var configuration = SessionConfiguration()
        configuration.connectionsPerHost = limit
        let session = try TestSession(configuration)
        let endpoint = try TestSession.endpoint(port: origin.port)
        let delegate = RecordingStream()
        let stream = session.open(delegate, endpoint)
        try session.run(until: "the connection") { delegate.isConnected }
        let request = RecordingDelegate()
        try session.start(request, endpoint)
        if limit > 1 { try session.finish(request) } else { session.settle() }
        #expect(request.completions == limit - 1)
        stream.send("still here")
        try session.run(until: "the echo") { delegate.text == "still here" }
        #expect(request.completions == limit - 1)
        stream.closeWrite()
        try session.finish(delegate)
        try session.finish(request)
        #expect(delegate.error == nil && request.error == nil)
        #expect(origin.connections.count == 2)
    }

    @Test(
        "a stream goes through the endpoint's proxy, under the server's pins",
        arguments: [true, false]
    )
    func throughProxy(isRight: Bool) throws {
        let origin = try Self.echo()
        let proxy = try TunnelProxy(to: origin.port)
        let endpoint = Endpoint(
            scheme: .https,
            host: try Host(TestSession.host),
            port: 443,
            policy: try .pinning(isRight ? Self.server.pin : .unrelated(2)),
            anchors: TestPKI.shared.anchors,
            proxy: SessionProxy(host: try Host("127.0.0.1"), port: proxy.port)
        )
        let session = try TestSession()
        let delegate = RecordingStream()
        delegate.onConnect = { stream in
            stream.send("x")
            stream.closeWrite()
        }
        session.open(delegate, endpoint)
        try session.finish(delegate)
        #expect(delegate.error?.code == (isRight ? nil : .pinMismatch))
        #expect(delegate.text == (isRight ? "x" : ""))
        #expect(
            proxy.asked.with { $0.map { $0.prefix { $0 != "\r\n" } } } == ["CONNECT \(TestSession.host):443 HTTP/1.1"]
        )
        #expect(try origin.waitForClosed().map(\.applicationBytes) == [isRight ? 1 : 0])
    }

    @Test("a waiting stream sends nothing of HTTP at its turn")
    func queued() throws {
        let origin = try Self.echo()
        var configuration = SessionConfiguration()
        configuration.connectionsPerHost = 1
        let session = try TestSession(configuration)
        let endpoint = try TestSession.endpoint(port: origin.port)
        let first = RecordingStream()
        let stream = session.open(first, endpoint)
        try session.run(until: "the connection") { first.isConnected }
        let second = RecordingStream()
        second.onConnect = { stream in
            stream.send("second")
            stream.closeWrite()
        }
        session.open(second, endpoint)
        session.settle(20)
        #expect(!second.isConnected)
        stream.closeWrite()
        try session.finish(second)
        #expect(second.text == "second" && second.error == nil)
    }

    @Test("OpenSSL's own server exchanges lines")
    func opensslServer() throws {
        let server = try OpenSSLServer(Self.server, mode: .printing, arguments: ["-rev"])
        let session = try TestSession()
        let delegate = RecordingStream()
        delegate.onConnect = { $0.send("stream\n") }
        let stream = session.open(
            delegate,
            try TestSession.endpoint(port: server.port, policy: .pinning(Self.server.pin))
        )
        try session.run(until: "the line, reversed") { delegate.text == "maerts\n" }
        stream.closeWrite()
        try session.finish(delegate)
        #expect(delegate.error == nil)
    }

    @Test("an ended session ends its streams on request, otherwise it waits")
    func invalidation() throws {
        let origin = try Self.echo()
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        let first = RecordingStream()
        let stream = session.open(first, endpoint)
        let dialling = RecordingStream()
        try session.run(until: "the connection") { first.isConnected }
        session.open(dialling, endpoint)
        var isInvalid = false
        session.manager.sessionDidBecomeInvalid = { isInvalid = true }
        session.manager.invalidateSession(cancelingTasks: false)
        stream.send("on")
        try session.run(until: "the echo, and the other connection") { first.text == "on" && dialling.isConnected }
        stream.closeWrite()
        try session.finish(first)
        #expect(first.error == nil && !isInvalid)
        session.manager.invalidateSession(cancelingTasks: true)
        try session.finish(dialling)
        #expect(dialling.error?.code == .cancelled)
        try session.run(until: "the session's end") { isInvalid }
    }

    @Test("a stream that is dropped before it is resumed is forgotten")
    func dropped() throws {
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: 1)
        do { _ = session.manager.streamTask(with: endpoint, delegate: RecordingStream()) }
        #expect(session.manager.taskCount == 0)
    }
}
