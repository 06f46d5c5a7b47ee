// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("What a connection of HTTP/2 keeps of its last head", .onOwnThreads)
struct HTTP2HeadMemoryTests {
    enum Course: CaseIterable {
        case final, informational, tooLarge, malformedValue, malformedName, forbiddenName

        /// Whether the request gets its response.
        var isTaken: Bool { [.final, .informational].contains(self) }

        private static let large = (0..<3).map { ("x-large-\($0)", String(repeating: "x", count: 20_000)) }

        func respond(_ script: HTTP2Script, _ stream: Int) throws {
            switch self {
            case .final: return try script.head(200, fields: Self.large, stream: stream, ends: true)
            case .informational: try script.head(103, fields: Self.large, stream: stream)
            case .tooLarge:
                let rest = (0..<12).map { ("x-rest-\($0)", String(repeating: "x", count: 20_000)) }
                try script.head(200, fields: Self.large + rest, stream: stream)
            case .malformedValue: try script.head(200, fields: Self.large + [("content-length", "1x")], stream: stream)
            case .malformedName: try script.head(200, fields: Self.large + [("Upper", "x")], stream: stream)
            case .forbiddenName: try script.head(200, fields: Self.large + [("connection", "close")], stream: stream)
            }
            if isTaken { try script.head(204, stream: stream, ends: true) }
        }
    }

    @Test("the memory of a large head is returned, however the head ends", arguments: Course.allCases)
    func returned(course: Course) throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.next() {
                // The end of the stream that is refused may come between the requests.
                guard request.kind == .headers else { continue }
                if request.stream == 3 {
                    try course.respond(script, request.stream)
                } else {
                    try script.head(204, stream: request.stream, ends: true)
                }
            }
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port, httpVersion: .http2)
        #expect(try session.get(endpoint).error == nil)
        let pool = session.manager.connections.entry(for: endpoint).pool
        let connection = try #require(pool.available.shared.first)
        let response = try session.get(endpoint)
        #expect((response.error == nil) == course.isTaken, "\(String(describing: response.error))")
        #expect(connection.isIdle)
        #expect(connection.head.fields.footprint <= 8 << 10)
        // It is of use.
        #expect(try session.get(endpoint).error == nil)
        #expect(origin.connections.count == 1)
    }

    @Test("a request that is cancelled amid a large head leaves nothing of it")
    func cancelled() throws {
        let isGone = Gate()
        defer { isGone.open() }
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            guard let first = try script.nextRequest() else { return }
            try script.head(204, stream: first.stream, ends: true)
            guard let request = try script.nextRequest() else { return }
            // A field without indexing (RFC 7541, section 6.2.2); the block goes on in another frame.
            let field = [0x00, 1, UInt8(ascii: "x"), 127, 0xA1, 0x1E] + [UInt8](repeating: 118, count: 4000)
            try script.send(.headers, stream: request.stream, [0x88] + field + field + field)
            try isGone.pass()
            try script.send(.continuation, flags: 4, stream: request.stream, field)
            while let next = try script.nextRequest() { try script.head(204, stream: next.stream, ends: true) }
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port, httpVersion: .http2)
        #expect(try session.get(endpoint).error == nil)
        let pool = session.manager.connections.entry(for: endpoint).pool
        let connection = try #require(pool.available.shared.first)
        let delegate = RecordingDelegate()
        let task = try session.start(delegate, endpoint)
        try session.run(until: "the first part") { connection.head.fields.footprint > 8 << 10 }
        task.cancel()
        isGone.open()
        #expect(try session.get(endpoint).error == nil)
        #expect(connection.head.fields.footprint <= 8 << 10)
        #expect(origin.connections.count == 1)
    }
}
