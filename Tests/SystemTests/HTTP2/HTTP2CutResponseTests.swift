// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// A response without Content-Length has no other end than END_STREAM: whatever else ends it has cut it.
@Suite("Responses over HTTP/2 that are cut", .onOwnThreads)
struct HTTP2CutResponseTests {
    enum Cut: CaseIterable {
        /// RST_STREAM(NO_ERROR) without END_STREAM.
        case reset
        /// A PING of five bytes, which is a connection error (RFC 9113, section 6.7).
        case badPing
        /// Trailers that no HPACK decoder understands.
        case badFieldBlock
        case goAway
        case closeNotify
        case endOfTransport
    }

    /// - Returns: whether the connection goes on.
    private static func cut(
        _ script: HTTP2Script,
        _ connection: OriginConnection,
        stream: Int,
        _ cut: Cut
    ) throws -> Bool {
        switch cut {
        case .reset:
            try script.send(.resetStream, stream: stream, [0, 0, 0, 0])
            return true
        case .badPing: try script.send(.ping, stream: 0, [1, 2, 3, 4, 5])
        // An index of the dynamic table that does not exist (RFC 7541, section 2.3.3).
        case .badFieldBlock: try script.send(.headers, flags: 5, stream: stream, [0xFF, 0xFF, 0x7F])
        case .goAway:
            try script.send(.goAway, stream: 0, [0, 0, 0, UInt8(stream), 0, 0, 0, 0])
            connection.close(.clean)
            return false
        case .closeNotify, .endOfTransport:
            connection.close(cut == .closeNotify ? .clean : .cut)
            return false
        }
        connection.readToEnd()
        return false
    }

    @Test("the client sees a broken response, and the cache keeps nothing of it", arguments: Cut.allCases)
    func broken(cut: Cut) throws {
        let server = try Stage.pki.server(Stage.host)
        let fields = [("cache-control", "max-age=600"), ("content-type", "text/plain")]
        let origin = try ScriptedOrigin(server, protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                try script.head(200, fields: fields, stream: request.stream)
                if connection.number == 0, request.stream == 1 {
                    try script.body("the whole", stream: request.stream, ends: false)
                    guard try Self.cut(script, connection, stream: request.stream, cut) else { return }
                } else {
                    try script.body("the whole body", stream: request.stream)
                }
            }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = "2"
        settings.members["workers"] = 1
        settings.members["cache"] = [String: Any]()
        let proxy = try ProxyUnderTest(settings)
        let url = "http://\(Stage.host)/"
        let broken = try proxy.get(url)
        #expect(broken.isTruncated || broken.status == 502, "\(broken.startLine) \(broken.text)")
        let line = try #require(try proxy.waitForTaskLines(1).first)
        #expect(["response_truncated", "response_invalid"].contains(line.string("error")), "\(line.text)")
        for _ in 0..<2 { #expect(try proxy.get(url).text == "the whole body") }
        // A stream that is reset leaves its connection in use.
        #expect(origin.connections.count == (cut == .reset ? 1 : 2))
        #expect(try proxy.waitForTaskLines(3).map { $0.string("cache") ?? "" } == ["miss", "miss", "hit"])
    }
}
