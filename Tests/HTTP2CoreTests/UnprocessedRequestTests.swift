// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTP2Core

@Suite("Requests that a server has not processed (RFC 9113, section 6.8)")
struct UnprocessedRequestTests {
    private final class Request: HTTP2Stream {
        var code: HTTP2ErrorCode?

        override func didClose(_ code: HTTP2ErrorCode, byPeer: Bool) { self.code = code }
    }

    private static func request(_ session: HTTP2Session) -> Request {
        let stream = Request()
        let isSent = session.request(stream, endsStream: true) { block in
            block.add(":method", "GET")
            block.add(":scheme", "https")
            block.add(":authority", "a.example")
            block.add(":path", "/")
        }
        #expect(isSent)
        return stream
    }

    @Test("an unsent request is refused when the connection ends, a sent one is not")
    func unsent() throws {
        let delegate = HTTP2SessionDelegate()
        let session = try #require(HTTP2Session(.client, HTTP2Settings(), delegate: delegate))
        let sent = Self.request(session)
        _ = session.produce(upTo: 1 << 20)
        let unsent = Self.request(session)
        session.abandon(.internalError)
        #expect(sent.code == .internalError)
        #expect(unsent.code == .refusedStream)
    }

    @Test("a request above GOAWAY's last stream is refused, also at the connection's end")
    func excluded() throws {
        let delegate = HTTP2SessionDelegate()
        let session = try #require(HTTP2Session(.client, HTTP2Settings(), delegate: delegate))
        let first = Self.request(session)
        let second = Self.request(session)
        _ = session.produce(upTo: 1 << 20)
        let goAway: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0] + [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]
        let isWell = session.receive(goAway.span)
        #expect(isWell)
        session.abandon(.internalError)
        #expect(first.code == .internalError)
        #expect(second.code == .refusedStream)
    }
}
