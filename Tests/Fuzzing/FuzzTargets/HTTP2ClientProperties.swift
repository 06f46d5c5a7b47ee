// SPDX-License-Identifier: Apache-2.0
import HTTP2Core
import HTTPCore
import IOCore

/// The client's side of HTTP/2: an origin's frames in any order, behind three requests.
enum HTTP2ClientProperties {
    /// The result is independent of the division into pieces; every stream ends once, and a response is complete only with
    /// its end.
    static func connection(_ bytes: [UInt8]) throws(FuzzFinding) {
        let whole = try Client().read(bytes, pieceSize: max(1, bytes.count))
        for size in [1, 2 + bytes.count % 40] {
            let pieces = try Client().read(bytes, pieceSize: size)
            guard pieces == whole else { throw FuzzFinding("whole \(whole), and in pieces of \(size) \(pieces)") }
        }
    }

    private struct Response: Equatable {
        var statuses: [Int] = []
        /// Of complete bodies only: a malformed body may be detected at different places.
        var bodyBytes = 0
        var trailers = HeaderFields()
        var isComplete = false
        var closes = 0
    }

    private final class Client: HTTP2SessionDelegate {
        func read(_ bytes: [UInt8], pieceSize: Int) throws(FuzzFinding) -> [Response] {
            guard let session = HTTP2Session(.client, HTTP2Settings(), delegate: self) else { return [] }
            let streams = [HTTPMethod.get, .head, .post].map { Exchange($0) }
            for stream in streams {
                _ = session.request(stream, endsStream: stream.method != .post) { block in
                    for (name, value) in [
                        (":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/"),
                    ] {
                        block.add(name: Array(name.utf8).span, value: Array(value.utf8).span)
                    }
                }
            }
            _ = session.produce(upTo: 1 << 20)
            session.output.removeAll()
            let all = [0, 0, 0, 4, 0, 0, 0, 0, 0] + bytes
            var position = 0
            while position < all.count {
                let piece = Array(all[position..<min(all.count, position + pieceSize)])
                guard session.receive(piece.span) else { break }
                position += piece.count
                _ = session.produce(upTo: 1 << 20)
                session.output.removeAll()
            }
            session.abandon(.cancel)
            for stream in streams where stream.response.closes != 1 {
                throw FuzzFinding("a stream has ended \(stream.response.closes) times")
            }
            return streams.map(\.response)
        }
    }

    private final class Exchange: HTTP2Stream {
        let method: HTTPMethod
        var response = Response()
        private var head = ResponseHead()
        private var former = HeaderFields()
        private var section = ResponseSection()
        private var trailers = TrailerSection()
        private var hasHead = false
        private var bodyBytes = 0

        init(_ method: HTTPMethod) { self.method = method }

        override func didReceiveField(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
            hasHead
                ? trailers.append(name: name, value: value, isInResponse: true)
                : section.append(name: name, value: value, into: &head, behind: &former)
        }

        override func didReceiveHead(endsStream: Bool) -> Bool {
            if hasHead { return endsStream }
            guard section.conclude(answering: method, into: &head) == nil else { return false }
            response.statuses.append(head.status)
            hasHead = !head.isInterim
            section = ResponseSection()
            return true
        }

        override func didReceiveData(_ bytes: borrowing Span<UInt8>) {
            bodyBytes += bytes.count
            session?.consume(self, bytes.count)
        }

        override func didReceiveEnd() {
            response.isComplete = true
            response.bodyBytes = bodyBytes
            response.trailers = trailers.fields
        }

        override func didClose(_ code: HTTP2ErrorCode, byPeer: Bool) { response.closes += 1 }
    }
}
