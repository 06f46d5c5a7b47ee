// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@testable import SessionCore

@Suite("Unrequested bytes on connections that would be reused", .onOwnThreads)
struct UnaskedBytesTests {
    private static let poison = OriginResponse.text("poison")

    /// Sends another answer behind the first one of its first connection, when the gate opens.
    private func origin(isSecure: Bool, protocols: [String] = [], _ gate: Gate) throws -> ScriptedOrigin {
        try ScriptedOrigin(
            isSecure ? try TestPKI.shared.server(TestSession.host) : nil,
            protocols: protocols
        ) { connection in
            while let request = try connection.readRequest() {
                try connection.respond(request.target)
                guard connection.number == 0 else { continue }
                try gate.pass()
                try connection.write(Self.poison)
            }
        }
    }

    @Test(
        "an origin that chose HTTP/1.1 over HTTP/2 is watched like any other",
        arguments: [[], ["http/1.1"]]
    )
    func fallback(protocols: [String]) throws {
        let gate = Gate()
        let origin = try origin(isSecure: true, protocols: protocols, gate)
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port, httpVersion: .http2)
        let first = try session.get(endpoint, target: "/first")
        #expect(first.text == "/first" && first.transaction.protocolVersion == 11)
        let written = origin.connections[0].bytesWritten
        gate.open()
        try origin.wait(for: "the excess") { $0[0].bytesWritten > written ? true : nil }
        session.settle()
        let second = try session.get(endpoint, target: "/second")
        #expect(second.text == "/second")
        #expect(!second.transaction.isReusedConnection)
        // And the new one is kept.
        let third = try session.get(endpoint, target: "/third")
        #expect(third.text == "/third" && third.transaction.isReusedConnection)
    }

    @Test(
        "bytes in the very turn of the reuse count too",
        arguments: [true, false],
        [Endpoint.HTTPVersion.http1, .http2]
    )
    func sameTurn(isSecure: Bool, httpVersion: Endpoint.HTTPVersion) throws {
        let gate = Gate()
        let origin = try origin(isSecure: isSecure, gate)
        let isLate = Monitor(false)
        let excessArrived = Gate()
        let relay = try RecordRelay(to: origin.port) { stream in
            while let bytes = stream.nextBytes() {
                // The bytes for the first task pass before `isLate` is set.
                let late = isLate.with { $0 }
                try stream.deliver(bytes)
                try stream.waitUntilArrived()
                if late { excessArrived.open() }
            }
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(
            port: relay.port,
            scheme: isSecure ? .https : .http,
            httpVersion: httpVersion
        )
        #expect(try session.get(endpoint, target: "/first").text == "/first")
        isLate.with { $0 = true }
        gate.open()
        try excessArrived.pass()
        // The loop has not looked at its descriptors since: the next request chooses the connection before it does.
        let second = try session.get(endpoint, target: "/second")
        #expect(second.error == nil && second.text == "/second")
        #expect(!second.transaction.isReusedConnection)
        let third = try session.get(endpoint, target: "/third")
        #expect(third.text == "/third" && third.transaction.isReusedConnection)
    }
}
