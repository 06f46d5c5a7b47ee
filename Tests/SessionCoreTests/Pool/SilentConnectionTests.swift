// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

/// A router forgets a connection, a machine stands still: nobody is told, and what is sent is lost.
@Suite("Kept connections that are silently dead", .onOwnThreads)
struct SilentConnectionTests {
    /// Between two looks at a connection, as `timeouts.firstByte` has its default of a minute.
    private static let interval = TimeSpan.seconds(5)

    /// Connections that answer one request, all of them together, and then do what `silence` says. Later ones answer.
    private static func origin(
        kept count: Int,
        scheme: Endpoint.Scheme,
        silence: @escaping @Sendable (OriginConnection) throws -> Void
    ) throws -> ScriptedOrigin {
        let waiting = Monitor(0)
        let server = scheme == .https ? try TestPKI.shared.server(TestSession.host) : nil
        return try ScriptedOrigin(server) { connection in
            if connection.number < count {
                guard try connection.readRequest() != nil else { return }
                waiting.with { $0 += 1 }
                _ = try waiting.wait(for: "all connections") { $0 >= count ? true : nil }
                try connection.respond("first")
                try silence(connection)
                return connection.readToEnd()
            }
            while let request = try connection.readRequest() { try connection.respond(request.target) }
        }
    }

    /// A session whose clock stands still, with so many connections, all of them silent.
    private static func session(keeping count: Int, _ endpoint: Endpoint, silent: Monitor<Int>) throws -> TestSession {
        let session = try TestSession(clock: .byHand)
        let first = (0..<count).map { _ in RecordingDelegate() }
        for delegate in first { try session.start(delegate, endpoint) }
        for delegate in first { try session.finish(delegate) }
        _ = try silent.wait(for: "silence") { $0 == count ? true : nil }
        return session
    }

    /// Lines of proc_net_tcp(5) about this process's connections to a port that are established.
    private static func lines(to port: UInt16) throws -> [[Substring]] {
        let remote = ":" + String(port, radix: 16, uppercase: true)
        let table = try FileContents.read("/proc/self/net/tcp", limit: 64 << 20).get()
        return String(decoding: table, as: UTF8.self).split(separator: "\n").map { $0.split(separator: " ") }
            .filter { $0.count > 6 && $0[2].hasSuffix(remote) && $0[3] == "01" }
    }

    /// Turns the loop until the system has sent something twice again without an acknowledgement.
    static func waitForRetransmissions(_ session: TestSession, to port: UInt16) throws {
        try session.run(until: "retransmissions") {
            try lines(to: port).contains { Int($0[6], radix: 16) ?? 0 >= 2 }
        }
    }

    @Test(
        "of five silent connections one costs a GET five seconds, the others nothing",
        arguments: [Endpoint.Scheme.https, .http]
    )
    func forgotten(scheme: Endpoint.Scheme) throws {
        let silent = Monitor(0)
        let origin = try Self.origin(kept: 5, scheme: scheme) { connection in
            connection.goDeaf()
            silent.with { $0 += 1 }
        }
        let endpoint = try TestSession.endpoint(port: origin.port, scheme: scheme)
        let session = try Self.session(keeping: 5, endpoint, silent: silent)
        let delegate = RecordingDelegate()
        session.loop.advance(by: .milliseconds(1))
        try session.start(delegate, endpoint, target: "/again")
        try Self.waitForRetransmissions(session, to: origin.port)
        #expect(!delegate.isComplete)
        session.loop.advance(by: Self.interval)
        try session.finish(delegate)
        #expect(delegate.error == nil && delegate.text == "/again")
        // Five requests at once would take the silent ones.
        let more = (0..<5).map { _ in RecordingDelegate() }
        for delegate in more { try session.start(delegate, endpoint, .post, target: "/more") }
        for delegate in more { try session.finish(delegate) }
        #expect(more.allSatisfy { $0.text == "/more" })
        #expect(origin.connections.count == 10)
    }

    @Test("a POST is not repeated for a missing acknowledgement: it times out")
    func post() throws {
        let silent = Monitor(0)
        let origin = try Self.origin(kept: 1, scheme: .http) { connection in
            connection.goDeaf()
            silent.with { $0 += 1 }
        }
        let endpoint = try TestSession.endpoint(port: origin.port, scheme: .http)
        let session = try Self.session(keeping: 1, endpoint, silent: silent)
        let delegate = RecordingDelegate()
        try session.start(delegate, endpoint, .post, target: "/once")
        try Self.waitForRetransmissions(session, to: origin.port)
        session.loop.advance(by: Self.interval)
        session.settle()
        #expect(!delegate.isComplete)
        session.loop.advance(by: .seconds(60))
        try session.finish(delegate)
        #expect(delegate.error?.code == .responseTimeout)
        #expect(origin.connections.count == 1)
    }

    @Test("a PUT is repeated if its body has not begun", arguments: [false, true])
    func put(hasBegun: Bool) throws {
        let silent = Monitor(0)
        let origin = try Self.origin(kept: 1, scheme: .http) { connection in
            connection.goDeaf()
            silent.with { $0 += 1 }
        }
        let endpoint = try TestSession.endpoint(port: origin.port, scheme: .http)
        let session = try Self.session(keeping: 1, endpoint, silent: silent)
        let delegate = RecordingDelegate()
        let task = try session.start(delegate, endpoint, .put, target: "/file", bodyLength: .bytes(4))
        if hasBegun { task.send(Array("bo".utf8).span) }
        try Self.waitForRetransmissions(session, to: origin.port)
        session.loop.advance(by: Self.interval)
        session.settle()
        task.send(Array(hasBegun ? "dy".utf8 : "body".utf8).span)
        task.finishSending()
        session.settle()
        if hasBegun { session.loop.advance(by: .seconds(60)) }
        try session.finish(delegate)
        #expect(delegate.text == (hasBegun ? "" : "/file"))
        #expect(origin.connections.count == (hasBegun ? 1 : 2))
    }

    /// The origin's system acknowledges, and nothing else comes.
    @Test(
        "after one timeout idle siblings close, and a rested GET is repeated",
        arguments: [true, false]
    )
    func withoutResponse(hasRested: Bool) throws {
        let silent = Monitor(0)
        let origin = try Self.origin(kept: 5, scheme: .https) { _ in silent.with { $0 += 1 } }
        let endpoint = try TestSession.endpoint(port: origin.port)
        let session = try Self.session(keeping: 5, endpoint, silent: silent)
        session.loop.advance(by: .milliseconds(hasRested ? 1000 : 999))
        let delegate = RecordingDelegate()
        try session.start(delegate, endpoint, target: "/again")
        session.settle()
        session.loop.advance(by: .seconds(59))
        session.settle()
        #expect(!delegate.isComplete)
        session.loop.advance(by: .seconds(1))
        try session.finish(delegate)
        if hasRested {
            #expect(delegate.error == nil && delegate.text == "/again")
        } else {
            #expect(delegate.error?.code == .responseTimeout)
        }
        try origin.wait(for: "the end of the five") { $0.prefix(5).allSatisfy(\.isClosed) ? true : nil }
        #expect(try session.get(endpoint, target: "/next").text == "/next")
    }

    @Test("a slow server that acknowledges gets no request twice")
    func slow() throws {
        let asked = Monitor(0)
        let responses = Gate()
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.respond("first")
            guard try connection.readRequest() != nil else { return }
            asked.with { $0 += 1 }
            try responses.pass()
            try connection.respond("slow")
        }
        let endpoint = try TestSession.endpoint(port: origin.port)
        let session = try TestSession(clock: .byHand)
        #expect(try session.get(endpoint).error == nil)
        session.loop.advance(by: .seconds(60))
        let delegate = RecordingDelegate()
        try session.start(delegate, endpoint)
        try session.run(until: "the request") { asked.with { $0 } == 1 }
        for _ in 0..<11 {
            session.loop.advance(by: Self.interval)
            session.settle(2)
        }
        responses.open()
        try session.finish(delegate)
        #expect(delegate.text == "slow" && origin.connections.count == 1)
    }

    // MARK: - HTTP/2

    /// The first connection answers one request, and then does what `then` says. Later ones answer.
    private static func sharedOrigin(
        then: @escaping @Sendable (OriginConnection, HTTP2Script) throws -> Void
    ) throws -> ScriptedOrigin {
        try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            if connection.number == 0 {
                guard let first = try script.nextRequest() else { return }
                try script.head(200, stream: first.stream, ends: true)
                return try then(connection, script)
            }
            while let request = try script.nextRequest() {
                try script.head(200, stream: request.stream)
                try script.body("fresh", stream: request.stream)
            }
        }
    }

    @Test("without acknowledgements eight HTTP/2 requests move to another connection")
    func eightForgotten() throws {
        let silent = Gate()
        let origin = try Self.sharedOrigin { connection, _ in
            connection.goDeaf()
            silent.open()
            connection.readToEnd()
        }
        try Self.expectEight(origin, silent) { session in
            try Self.waitForRetransmissions(session, to: origin.port)
            session.loop.advance(by: .milliseconds(4900))
            try session.run(until: "another connection") { origin.connections.count == 2 }
            session.loop.advance(by: Self.interval)
        }
    }

    @Test("without a reply to PING eight HTTP/2 requests move to another connection")
    func eightWithoutResponse() throws {
        let silent = Gate()
        let pings = Monitor(0)
        let origin = try Self.sharedOrigin { connection, script in
            script.acknowledgesPings = false
            silent.open()
            while try script.nextPing() { pings.with { $0 += 1 } }
        }
        try Self.expectEight(origin, silent) { session in
            session.loop.advance(by: Self.interval)
            try session.run(until: "PING") { pings.with { $0 } == 1 }
            for _ in 0..<2 {
                session.loop.advance(by: Self.interval)
                session.settle()
            }
            // New requests do not wait for it. Those that are there do: it may be busy.
            let endpoint = try TestSession.endpoint(port: origin.port, httpVersion: .http2)
            #expect(try session.get(endpoint).text == "fresh")
            for _ in 0..<2 {
                #expect(origin.connections.map(\.requestFrames).last == 1)
                session.loop.advance(by: Self.interval)
                session.settle()
            }
        }
        #expect(pings.with { $0 } == 1)
    }

    private static func expectEight(
        _ origin: ScriptedOrigin,
        _ silent: Gate,
        _ pass: (TestSession) throws -> Void
    ) throws {
        let endpoint = try TestSession.endpoint(port: origin.port, httpVersion: .http2)
        let session = try TestSession(clock: .byHand)
        #expect(try session.get(endpoint).error == nil)
        try silent.pass()
        let delegates = (0..<8).map { _ in RecordingDelegate() }
        for (number, delegate) in delegates.enumerated() {
            // They look at the connection one after another, and leave it for the same one.
            if number == 4 { session.loop.advance(by: .milliseconds(100)) }
            try session.start(delegate, endpoint)
            session.settle(2)
        }
        try pass(session)
        for delegate in delegates { try session.finish(delegate) }
        #expect(delegates.allSatisfy { $0.error == nil && $0.text == "fresh" })
        #expect(origin.connections.count == 2)
    }

    @Test("a slow server that replies to PING keeps its HTTP/2 requests")
    func slowWithPing() throws {
        let pings = Monitor(0)
        let origin = try Self.sharedOrigin { _, script in
            guard let request = try script.nextRequest() else { return }
            if try script.nextPing() { pings.with { $0 += 1 } }
            let other = try script.nextRequest()
            pings.with { $0 = script.pings }
            for stream in [request.stream, other?.stream ?? 0] {
                try script.head(200, stream: stream)
                try script.body("slow", stream: stream)
            }
            while try script.next() != nil {}
        }
        let endpoint = try TestSession.endpoint(port: origin.port, httpVersion: .http2)
        let session = try TestSession(clock: .byHand)
        #expect(try session.get(endpoint).error == nil)
        let delegate = RecordingDelegate()
        try session.start(delegate, endpoint)
        session.settle()
        session.loop.advance(by: Self.interval)
        try session.run(until: "PING") { pings.with { $0 } == 1 }
        for _ in 0..<9 {
            session.settle()
            session.loop.advance(by: Self.interval)
        }
        let other = try session.get(endpoint)
        try session.finish(delegate)
        #expect(delegate.text == "slow" && other.text == "slow" && origin.connections.count == 1)
        #expect(pings.with { $0 } == 1)
    }

    // MARK: - The system's keep-alive

    @Test("the system asks the peer of a quiet connection for a sign of life")
    func keepAlive() throws {
        let origin = try ScriptedOrigin(nil) { request in OriginResponse.text(request.target) }
        let session = try TestSession()
        #expect(try session.get(try TestSession.endpoint(port: origin.port, scheme: .http)).error == nil)
        // The timer 02 is that of keep-alive.
        try session.run(until: "the timer") { try Self.lines(to: origin.port).contains { $0[5].hasPrefix("02:") } }
    }
}
