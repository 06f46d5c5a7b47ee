// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import SessionCore

@Suite("Origins of HTTP/2 that make work without end", .onOwnThreads)
struct HTTP2FieldWorkTests {
    private func origin(_ script: @escaping ScriptedOrigin.Script) throws -> ScriptedOrigin {
        try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), protocols: ["h2"], script: script)
    }

    private func endpoint(_ origin: ScriptedOrigin) throws -> Endpoint {
        try TestSession.endpoint(port: origin.port, httpVersion: .http2)
    }

    /// A value of 4,000 bytes, which becomes the newest entry of the dynamic table (RFC 7541, section 6.2.1).
    private static let entry: [UInt8] =
        [0x40, 3] + Array("x-k".utf8) + [127, 0xA1, 0x1E] + [UInt8](repeating: 118, count: 4000)

    /// A field block in frames of 16 KB.
    private static func send(_ script: HTTP2Script, _ block: [UInt8], stream: Int) throws {
        var rest = block[...]
        var kind = HTTP2Script.Frame.Kind.headers
        repeat {
            let piece = Array(rest.prefix(16 << 10))
            rest = rest.dropFirst(piece.count)
            let flags: UInt8 = (kind == .headers ? 1 : 0) | (rest.isEmpty ? 4 : 0)
            try script.send(kind, flags: flags, stream: stream, piece)
            kind = .continuation
        } while !rest.isEmpty
    }

    @Test("a head of references to a large field is refused in time")
    func references() throws {
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            var number = 0
            while let request = try script.nextRequest() {
                number += 1
                // 240 MB, if somebody looked at them. Entry 8 of the static table is ":status: 200".
                let references = [UInt8](repeating: 0xBE, count: number == 1 ? 60_000 : 3)
                try Self.send(script, [0x88] + (number == 1 ? Self.entry : []) + references, stream: request.stream)
            }
        }
        let session = try TestSession()
        let large = try session.get(endpoint(origin))
        #expect(large.error?.code == .responseInvalid)
        #expect(large.error?.details.contains("response-head-too-large") == true)
        // The compression state has been kept: these are references to the same entry.
        let next = try session.get(endpoint(origin))
        #expect(next.error == nil && next.head?.fields.count == 3)
        #expect(origin.connections.count == 1)
    }

    @Test("endless heads for a finished request end the connection")
    func lateHeads() throws {
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            guard let request = try script.nextRequest() else { return }
            try Self.send(script, [0x88] + Self.entry, stream: request.stream)
            while true {
                try Self.send(script, [0x88] + [UInt8](repeating: 0xBE, count: 49), stream: request.stream)
            }
        }
        let session = try TestSession()
        #expect(try session.get(endpoint(origin)).error == nil)
        try session.run(until: "another connection") {
            let next = try session.get(endpoint(origin))
            return next.error != nil || origin.connections.count > 1
        }
    }

    @Test("endless frames that advance no response end the connection")
    func frames() throws {
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            guard let request = try script.nextRequest() else { return }
            while true { try script.send(.priority, stream: request.stream, [0, 0, 0, 0, 16]) }
        }
        let delegate = try TestSession().get(endpoint(origin))
        #expect(delegate.error?.code == .responseInvalid)
        #expect(delegate.error?.details.contains("frames without end") == true)
    }
}
