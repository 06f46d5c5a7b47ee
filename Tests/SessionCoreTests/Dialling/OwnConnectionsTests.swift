// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("The connections of this process, by both their ends", .onOwnThreads)
struct OwnConnectionsTests {
    private func endpoint(_ scheme: Endpoint.Scheme, _ port: UInt16) throws -> Endpoint {
        Endpoint(
            scheme: scheme,
            host: try Host("127.0.0.1"),
            port: port,
            policy: .unpinned,
            anchors: TestPKI.shared.anchors,
            generation: 1
        )
    }

    /// Whether there is one to this port, which no other test has.
    private func isKnown(to port: UInt16) -> Bool {
        (1...UInt16.max).contains { OwnConnections.all.contains(from: .loopback(port: $0), to: .loopback(port: port)) }
    }

    @Test("a connection is known until something comes on it, or its end")
    func kept() throws {
        OwnConnections.all.watch()
        let gate = Latch(count: 1)
        let origin = try ScriptedOrigin(nil) { connection in
            while let request = try connection.readRequest() {
                if request.target == "/held" { gate.wait() }
                try connection.respond(request.target)
            }
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        try session.start(delegate, endpoint(.http, origin.port), target: "/held")
        try session.run(until: "the request at the origin") { !origin.requests.isEmpty }
        #expect(isKnown(to: origin.port))
        gate.countDown()
        try session.finish(delegate)
        #expect(delegate.text == "/held")
        #expect(origin.connections.count == 1 && !origin.connections[0].isClosed)
        #expect(!isKnown(to: origin.port))
    }

    @Test("a connection that was given up, or reset by the peer, is not known")
    func reset() throws {
        OwnConnections.all.watch()
        let listening = try TestSocket.listen()
        defer { close(listening.descriptor) }
        let client = try TestSocket.connect(port: listening.port)
        defer { close(client) }
        var note = OwnConnections.all.note(client, to: .loopback(port: listening.port))
        #expect(isKnown(to: listening.port))
        note = nil
        #expect(!isKnown(to: listening.port))
        note = OwnConnections.all.note(client, to: .loopback(port: listening.port))
        #expect(isKnown(to: listening.port))
        let accepted = accept(listening.descriptor, nil, nil)
        TestSocket.reset(accepted)
        // Loopback delivers within the call.
        #expect(!isKnown(to: listening.port))
        withExtendedLifetime(note) {}
    }

    @Test("a connection whose server is refused is known no more")
    func refused() throws {
        OwnConnections.all.watch()
        let origin = try ScriptedOrigin(TestPKI.shared.server("other.example")) { OriginResponse.text($0.target) }
        let session = try TestSession()
        #expect(try session.get(endpoint(.https, origin.port)).error != nil)
        #expect(!isKnown(to: origin.port))
    }
}
