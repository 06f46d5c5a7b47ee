// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import SessionCore

@Suite("Informational responses of an origin", .onOwnThreads)
struct InformationalResponseTests {
    private static let hint = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"

    private func origin(_ version: Endpoint.HTTPVersion, _ heads: Int) throws -> ScriptedOrigin {
        let server = try TestPKI.shared.server(TestSession.host)
        guard version == .http2 else {
            return try ScriptedOrigin(server) { connection in
                while try connection.readRequest() != nil {
                    try connection.write(String(repeating: Self.hint, count: heads) + OriginResponse.text("final"))
                }
            }
        }
        return try ScriptedOrigin(server, protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                for _ in 0..<heads { try script.head(103, fields: [("link", "</style.css>")], stream: request.stream) }
                try script.head(200, stream: request.stream)
                try script.body("final", stream: request.stream)
            }
        }
    }

    private func get(_ version: Endpoint.HTTPVersion, _ heads: Int) throws -> (delegate: RecordingDelegate, count: Int)
    {
        let origin = try origin(version, heads)
        let session = try TestSession()
        let delegate = RecordingDelegate()
        var count = 0
        delegate.onInformational = { _ in count += 1 }
        try session.start(delegate, TestSession.endpoint(port: origin.port, httpVersion: version))
        try session.finish(delegate)
        return (delegate, count)
    }

    @Test(
        "the first 16 reach the delegate, and the response behind 40 is whole",
        arguments: [Endpoint.HTTPVersion.http1, .http2]
    )
    func some(version: Endpoint.HTTPVersion) throws {
        let (delegate, count) = try get(version, 40)
        #expect(delegate.error == nil && delegate.text == "final")
        #expect(count == 16)
    }

    @Test(
        "an origin that sends them without end gets an error",
        arguments: [Endpoint.HTTPVersion.http1, .http2]
    )
    func flood(version: Endpoint.HTTPVersion) throws {
        let (delegate, count) = try get(version, 5000)
        #expect(delegate.error?.code == .responseInvalid)
        #expect(delegate.error?.details.contains("informational responses without end") == true)
        #expect(count == 16)
    }

    @Test("each one restarts timeouts.firstByte, and timeouts.total limits all", arguments: [false, true])
    func processing(hasTotal: Bool) throws {
        let gates = (0..<4).map { _ in Gate() }
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            guard try connection.readRequest() != nil else { return }
            for gate in gates {
                try gate.pass()
                try connection.write("HTTP/1.1 102 Processing\r\n\r\n")
            }
            if !hasTotal { try connection.respond("worked") }
            connection.readToEnd()
        }
        defer { for gate in gates { gate.open() } }
        var timeouts = TaskTimeouts()
        timeouts.firstByte = .seconds(20)
        if hasTotal { timeouts.total = .seconds(50) }
        let session = try TestSession(clock: .byHand)
        let delegate = RecordingDelegate()
        var count = 0
        delegate.onInformational = { _ in count += 1 }
        try session.start(delegate, TestSession.endpoint(port: origin.port, timeouts: timeouts))
        for (index, gate) in gates.enumerated() {
            try session.run(until: "a 102") { count == index && origin.requests.count == 1 || delegate.isComplete }
            session.loop.advance(by: .seconds(15))
            session.settle()
            gate.open()
            if delegate.isComplete { break }
        }
        try session.finish(delegate)
        #expect(delegate.error?.code == (hasTotal ? .responseTimeout : nil))
        #expect(delegate.text == (hasTotal ? "" : "worked"))
    }
}
