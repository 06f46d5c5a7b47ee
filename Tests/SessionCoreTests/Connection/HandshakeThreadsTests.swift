// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

/// The steps of handshakes are made on other threads; whatever those do, the loop keeps its time, and frees what is its own.
@Suite("TLS handshakes on threads", .onOwnThreads)
struct HandshakeThreadsTests {
    /// Threads that are held by somebody's work until the gate is opened.
    private final class HeldThreads {
        let threads = FairThreads(name: "held", count: 2, nice: 0)
        let gate = Gate()

        init() throws {
            let begun = Latch(count: 2)
            for party in 1...2 as ClosedRange<UInt64> {
                let isTaken = threads.submit(for: party) { [gate] in
                    begun.countDown()
                    gate.hold()
                }
                try #require(isTaken)
            }
            begun.wait()
        }

        deinit {
            gate.open()
            threads.stop()
        }

        var configuration: SessionConfiguration {
            var configuration = SessionConfiguration()
            configuration.handshakes = threads
            return configuration
        }
    }

    @Test("timeouts.connect ends the wait for a thread, and the request never leaves")
    func timeout() throws {
        let held = try HeldThreads()
        let origin = try ScriptedOrigin(TestPKI.shared.server(TestSession.host)) { OriginResponse.text($0.target) }
        let session = try TestSession(held.configuration)
        var timeouts = TaskTimeouts()
        timeouts.connect = .milliseconds(100)
        let delegate = RecordingDelegate()
        try session.start(delegate, TestSession.endpoint(port: origin.port, timeouts: timeouts))
        try session.finish(delegate)
        #expect(delegate.error?.code == .connectTimeout)
        #expect(origin.requests.isEmpty)
        // With free threads the same session reaches it.
        held.gate.open()
        #expect(try session.get(TestSession.endpoint(port: origin.port)).body == Array("/".utf8))
    }

    @Test("a server's early bytes are read on a thread, not on the loop")
    func serverSpeaksFirst() throws {
        let held = try HeldThreads()
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        try #require(socketpair(AF_UNIX, kind, 0, &ends) == 0)
        defer { for end in ends { close(end) } }
        // The fatal alert handshake_failure (RFC 8446, section 6).
        let alert: [UInt8] = [21, 3, 3, 0, 2, 2, 40]
        try #require(write(ends[1], alert, alert.count) == alert.count)
        let loop = try EventLoop()
        let (ssl, _) = try TLSClientContext(threads: held.threads)
            .makeConnection(to: TestSession.endpoint(port: 1), through: .socket(ends[0]), offering: []) { .none }
        var outcomes: [TLSClientHandshake.Outcome] = []
        let handshake = TLSClientHandshake(
            ssl,
            on: ends[0],
            loop: loop,
            threads: held.threads,
            party: 3,
            decision: HandshakeDecision(),
            decide: { .none },
            didEnd: { outcomes.append($0) }
        )
        try handshake.start()
        let patience = TimeSpan.seconds(Int(Patience.seconds))
        loop.run(until: { !outcomes.isEmpty || !held.threads.hasNoWaiting }, atMost: patience)
        #expect(outcomes.isEmpty && !held.threads.hasNoWaiting)
        held.gate.open()
        loop.run(until: { !outcomes.isEmpty }, atMost: patience)
        guard case .failed(let fault) = outcomes.first else {
            Issue.record("it has not failed")
            return
        }
        #expect(fault.alert != nil, "\(fault.words)")
    }

    @Test("a task cancelled during its handshake leaves the socket to the thread")
    func cancelled() throws {
        let held = try HeldThreads()
        let origin = try ScriptedOrigin(TestPKI.shared.server(TestSession.host)) { OriginResponse.text($0.target) }
        let session = try TestSession(held.configuration)
        let delegate = RecordingDelegate()
        let task = try session.start(delegate, TestSession.endpoint(port: origin.port))
        try session.run(until: "the step to wait for a thread") { !held.threads.hasNoWaiting }
        task.cancel()
        try session.finish(delegate)
        #expect(delegate.error?.code == .cancelled)
        #expect(origin.connections.first?.isClosed == false)
        held.gate.open()
        // The origin sees the end of the connection, which only the step's end brings about.
        try session.run(until: "the connection to end") { origin.connections.first?.isClosed == true }
        #expect(origin.requests.isEmpty)
    }

    @Test("a session that ends while a thread has a handshake leaves nothing open")
    func endOfSession() throws {
        let held = try HeldThreads()
        let origin = try ScriptedOrigin(TestPKI.shared.server(TestSession.host)) { OriginResponse.text($0.target) }
        let loop: EventLoop
        do {
            let session = try TestSession(held.configuration)
            loop = session.loop
            try session.start(RecordingDelegate(), TestSession.endpoint(port: origin.port))
            try session.run(until: "the step to wait for a thread") { !held.threads.hasNoWaiting }
        }
        held.gate.open()
        // The step ends behind the session, and what it gives back is dropped by the loop's end.
        held.threads.stop()
        loop.stop()
        loop.run()
        try Patience.poll(for: "the connection to end") { origin.connections.first?.isClosed == true ? true : nil }
        #expect(origin.requests.isEmpty)
    }

    @Test("an origin that occupies its threads leaves one to another origin's handshake")
    func otherOrigin() throws {
        let threads = FairThreads(name: "fair", count: 2, nice: 0)
        let gate = Gate()
        defer {
            gate.open()
            threads.stop()
        }
        let origin = try ScriptedOrigin(TestPKI.shared.server(TestSession.host)) { OriginResponse.text($0.target) }
        let endpoint = try TestSession.endpoint("other.example.com", port: origin.port)
        for _ in 0..<8 { #expect(threads.submit(for: endpoint.party) { gate.hold() }) }
        var configuration = SessionConfiguration()
        configuration.handshakes = threads
        let session = try TestSession(configuration)
        #expect(try session.get(TestSession.endpoint(port: origin.port)).error == nil)
    }
}
