// SPDX-License-Identifier: Apache-2.0
import HTTP2Core
import HTTPCore
import IOCore
import TestSupport

/// Client connections of HTTP/2: frames in any order, and the heads from their fields.
enum HTTP2Properties {
    /// The result is independent of the division into pieces; an accepted head that is serialised for HTTP/1.1 has the
    /// same meaning for that parser.
    static func connection(_ bytes: [UInt8]) throws(FuzzFinding) {
        for isForOrigin in [false, true] {
            let whole = Server(isForOrigin).read(bytes, pieceSize: max(1, bytes.count))
            for size in [1, 2 + bytes.count % 40] {
                let pieces = Server(isForOrigin).read(bytes, pieceSize: size)
                guard pieces == whole else {
                    throw FuzzFinding("whole \(whole), and in pieces of \(size) \(pieces)")
                }
            }
            for head in whole.heads { try check(head) }
        }
    }

    private static func check(_ head: RequestSummary) throws(FuzzFinding) {
        let again = RequestReading(head.written, pieceSize: 7)
        guard again.fault == nil, let read = again.heads.first, read.method == head.method, read.form == head.form,
            read.scheme == head.scheme, read.host == head.host, read.port == head.port, read.target == head.target,
            read.fields == head.fields
        else { throw FuzzFinding("as HTTP/1.1 the head reads differently") }
        if case .length = head.framing, read.framing != head.framing { throw FuzzFinding("another length") }
        guard head.framing != .chunked, !head.fields.contains(.transferEncoding), !head.fields.contains(.connection)
        else { throw FuzzFinding("a head of HTTP/2 speaks of the connection") }
    }

    /// The result of a connection's bytes.
    struct Reading: Equatable {
        var heads: [RequestSummary] = []
        var faults: [RequestFault] = []
        /// The length of complete bodies only: a malformed body may be detected at different places.
        var bodyBytes = 0
        var trailers: [HeaderFields] = []
        var ends = 0
        var closes: [HTTP2ErrorCode] = []
    }

    private final class Server: HTTP2SessionDelegate {
        let isForOrigin: Bool
        var reading = Reading()

        init(_ isForOrigin: Bool) { self.isForOrigin = isForOrigin }

        func read(_ bytes: [UInt8], pieceSize: Int) -> Reading {
            guard let session = HTTP2Session(.server, HTTP2Settings(), delegate: self) else { return reading }
            let opening = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0]
            let all = opening + bytes
            var position = 0
            while position < all.count {
                let piece = Array(all[position..<min(all.count, position + pieceSize)])
                guard session.receive(piece.span) else { break }
                position += piece.count
            }
            _ = session.produce(upTo: 1 << 20)
            session.abandon(.cancel)
            return reading
        }

        override func sessionDidBeginStream(_ session: HTTP2Session) -> HTTP2Stream? { Request(self) }
    }

    private final class Request: HTTP2Stream {
        private let server: Server
        private var head = RequestHead()
        private var section = RequestSection(limits: HeadLimits(headBytes: 2000, targetBytes: 100, fieldCount: 20))
        private var trailers: TrailerSection?
        private var hasHead = false
        private var bodyBytes = 0

        init(_ server: Server) { self.server = server }

        override func didReceiveField(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
            guard hasHead else { return section.append(name: name, value: value, into: &head) }
            if trailers == nil { trailers = TrailerSection() }
            return trailers?.append(name: name, value: value) ?? false
        }

        override func didReceiveHead(endsStream: Bool) -> Bool {
            if hasHead { return endsStream }
            hasHead = true
            if let fault = section.conclude(isForOrigin: server.isForOrigin, endsStream: endsStream, into: &head) {
                server.reading.faults.append(fault)
            } else {
                server.reading.heads.append(RequestSummary(head))
            }
            return true
        }

        override func didReceiveData(_ bytes: borrowing Span<UInt8>) {
            bodyBytes += bytes.count
            session?.consume(self, bytes.count)
        }

        override func didReceiveEnd() {
            server.reading.ends += 1
            server.reading.bodyBytes += bodyBytes
            if let trailers { server.reading.trailers.append(trailers.fields) }
        }

        override func didClose(_ code: HTTP2ErrorCode, byPeer: Bool) { server.reading.closes.append(code) }
    }
}
