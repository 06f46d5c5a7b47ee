// SPDX-License-Identifier: Apache-2.0
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

    @Test("a connection is known as long as it is open")
    func kept() throws {
        OwnConnections.all.watch()
        let origin = try ScriptedOrigin(nil) { OriginResponse.text($0.target) }
        var session: TestSession? = try TestSession()
        #expect(try session?.get(endpoint(.http, origin.port)).text == "/")
        #expect(isKnown(to: origin.port))
        session = nil
        #expect(!isKnown(to: origin.port))
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
