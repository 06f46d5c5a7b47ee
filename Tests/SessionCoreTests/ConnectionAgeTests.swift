// SPDX-License-Identifier: Apache-2.0
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("The age of connections", .onOwnThreads)
struct ConnectionAgeTests {
    private func session(lifetime: Duration) throws -> TestSession {
        var configuration = SessionConfiguration()
        configuration.connectionLifetime = lifetime
        return try TestSession(configuration)
    }

    @Test("a connection takes no new request after ten minutes, or a shorter chosen time")
    func limit() {
        var configuration = SessionConfiguration()
        #expect(configuration.connectionLifetimeLimit == TimeSpan.seconds(600).nanoseconds)
        for (asked, got) in [(Duration.seconds(86_400), 600), (.seconds(30), 30), (.zero, 1), (.seconds(-5), 1)] {
            configuration.connectionLifetime = asked
            #expect(configuration.connectionLifetimeLimit == TimeSpan.seconds(got).nanoseconds)
        }
    }

    @Test("an HTTP/2 connection that is too old closes")
    func idleHTTP2() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                try script.head(200, stream: request.stream, ends: true)
            }
        }
        let session = try session(lifetime: .seconds(1))
        let endpoint = try TestSession.endpoint(port: origin.port, httpVersion: .http2)
        let start = session.loop.now
        while origin.connections.count < 2 {
            #expect(try session.get(endpoint).error == nil)
            let pause = session.loop.now + TimeSpan.milliseconds(20).nanoseconds
            try session.run(until: "the next request") { session.loop.now > pause }
        }
        #expect(session.loop.now - start > TimeSpan.seconds(1).nanoseconds)
        try origin.wait(for: "the old connection's end") { $0[0].isClosed ? true : nil }
        #expect(try session.get(endpoint).transaction.isReusedConnection)
        #expect(origin.connections.count == 2)
    }

    @Test("an old connection is not reused, with TLS and without", arguments: [true, false])
    func idle(isSecure: Bool) throws {
        let origin = try ScriptedOrigin(isSecure ? try TestPKI.shared.server(TestSession.host) : nil) { request in
            OriginResponse.text(request.target)
        }
        let session = try session(lifetime: .seconds(1))
        let endpoint = try TestSession.endpoint(port: origin.port, scheme: isSecure ? .https : .http)
        #expect(try session.get(endpoint).error == nil)
        #expect(try session.get(endpoint).transaction.isReusedConnection)
        let old = session.loop.now + TimeSpan.milliseconds(1100).nanoseconds
        try session.run(until: "the connection's end") { session.loop.now > old }
        let delegate = try session.get(endpoint)
        #expect(delegate.error == nil)
        #expect(!delegate.transaction.isReusedConnection)
        #expect(origin.connections.count == 2)
    }

    @Test("an HTTP/2 connection ages while in use, and finishes what it carries")
    func busy() throws {
        let blob = patternBytes(2 << 20)
        let nginx = try NginxOrigin(try TestPKI.shared.server(TestSession.host), http2: true, files: ["blob": blob])
        let session = try session(lifetime: .seconds(1))
        let endpoint = try TestSession.endpoint(port: nginx.port, httpVersion: .http2)
        let long = RecordingDelegate()
        var isHeld = true
        long.onData = { _ in isHeld ? .pause : .proceed }
        let task = try session.start(long, endpoint, target: "/files/blob")
        try session.run(until: "the first bytes") { !long.body.isEmpty }
        let early = try session.get(endpoint, target: "/plain")
        #expect(early.transaction.isReusedConnection)
        let old = session.loop.now + TimeSpan.milliseconds(1100).nanoseconds
        try session.run(until: "the connection's end") { session.loop.now > old }
        let late = try session.get(endpoint, target: "/plain")
        #expect(late.error == nil)
        #expect(!late.transaction.isReusedConnection)
        #expect(late.transaction.connection?.identifier != early.transaction.connection?.identifier)
        isHeld = false
        task.resumeReceiving()
        try session.finish(long)
        #expect(long.error == nil)
        let isWhole = long.body == blob
        #expect(isWhole)
        #expect(long.transaction.connection?.identifier == early.transaction.connection?.identifier)
        // The old one has ended with what it carried, so that the new one is found.
        let next = try session.get(endpoint, target: "/plain")
        #expect(next.transaction.isReusedConnection)
        #expect(next.transaction.connection?.identifier == late.transaction.connection?.identifier)
    }
}
