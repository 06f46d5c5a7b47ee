// SPDX-License-Identifier: Apache-2.0
import HTTP2Core
import HTTPCore
import IOCore
import TestSupport

/// The server's side of an HTTP/2 connection of a `ScriptedOrigin`, for the thread that runs its script. It responds to GETs by
/// itself, with the path, and gives each extended CONNECT (RFC 8441) to the script.
final class HTTP2ServerSide: HTTP2SessionDelegate {
    /// A stream that the client has opened.
    final class Stream: HTTP2Stream {
        /// The head of the request, with its pseudo-header fields.
        private(set) var request = HTTPMessage()
        fileprivate var received: [UInt8] = []
        private(set) var hasAllOfClient = false
        /// How the stream has ended; nil before.
        private(set) var ending: HTTP2ErrorCode?
        private unowned let side: HTTP2ServerSide

        fileprivate init(_ side: HTTP2ServerSide) {
            self.side = side
            super.init()
        }

        override func didReceiveField(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
            request.fields.append(.init(name: String(copying: name), value: String(copying: value)))
            return true
        }

        override func didReceiveHead(endsStream: Bool) -> Bool {
            side.didReceiveHead(of: self)
            return true
        }

        override func didReceiveData(_ bytes: borrowing Span<UInt8>) { received += [UInt8](copying: bytes) }

        override func didReceiveEnd() { hasAllOfClient = true }

        override func didClose(_ code: HTTP2ErrorCode, byPeer: Bool) { ending = code }
    }

    private let connection: OriginConnection
    private var session: HTTP2Session!
    private var tunnels: [Stream] = []
    /// How an extended CONNECT is refused at once; nil: it is the script's.
    var refusal: HTTP2ErrorCode?

    init(_ connection: OriginConnection, announces: Bool = true, streamLimit: UInt32 = 100) throws {
        self.connection = connection
        super.init()
        let settings = HTTP2Settings(concurrentStreams: streamLimit, allowsExtendedConnect: announces)
        session = HTTP2Session(.server, settings, delegate: self)
        try flush()
    }

    override func sessionDidBeginStream(_ session: HTTP2Session) -> HTTP2Stream? { Stream(self) }

    private func didReceiveHead(of stream: Stream) {
        guard stream.request[":method"] == "CONNECT" else {
            stream.output.append(Array("at \(stream.request[":path"] ?? "")".utf8))
            session.respond(stream, endsStream: false) { $0.add(status: 200) }
            return session.endBody(stream)
        }
        if let refusal { return session.reset(stream, refusal) }
        tunnels.append(stream)
    }

    /// Writes what there is to be written.
    func flush() throws {
        while true {
            guard session.produce(upTo: 64 << 10) else { throw OriginConnection.Gone() }
            guard !session.output.isEmpty else { return }
            let bytes = session.output.withUnsafeBytes { [UInt8]($0) }
            session.output.removeAll()
            try connection.write(bytes)
        }
    }

    /// Waits for bytes of the client.
    ///
    /// - Returns: false at its end.
    func readOn() throws -> Bool {
        let bytes = connection.read()
        guard !bytes.isEmpty, session.receive(bytes.span) else {
            session.abandon(.cancel)
            return false
        }
        try flush()
        return true
    }

    /// Serves GETs until the next extended CONNECT; nil at the end of the connection.
    func nextTunnel() throws -> Stream? {
        while tunnels.isEmpty { guard try readOn() else { return nil } }
        return tunnels.removeFirst()
    }

    func respond(_ stream: Stream, _ status: Int, _ fields: [(String, String)] = [], ends: Bool = false) throws {
        session.respond(stream, endsStream: ends) { block in
            block.add(status: status)
            for (name, value) in fields {
                let (name, value) = (Array(name.utf8), Array(value.utf8))
                block.add(name: name.span, value: value.span)
            }
        }
        try flush()
    }

    /// Writes bytes as far as the client's windows allow, and waits until all have gone.
    func write(_ bytes: [UInt8], to stream: Stream) throws {
        guard !stream.isClosed else { throw OriginConnection.Gone() }
        stream.output.append(bytes)
        session.resume(stream)
        try flush()
        while !stream.isClosed, !stream.output.isEmpty {
            guard try readOn() else { throw OriginConnection.Gone() }
        }
        if stream.isClosed { throw OriginConnection.Gone() }
    }

    /// Bytes of the client; empty at the end of its side, or of the stream.
    func read(from stream: Stream) throws -> [UInt8] {
        while stream.received.isEmpty, !stream.hasAllOfClient, !stream.isClosed {
            guard try readOn() else { return [] }
        }
        var bytes: [UInt8] = []
        swap(&bytes, &stream.received)
        // What nobody reads holds the client up.
        session.consume(stream, bytes.count)
        try flush()
        return bytes
    }

    /// Sends END_STREAM.
    func end(_ stream: Stream) throws {
        session.endBody(stream)
        try flush()
    }

    func reset(_ stream: Stream, _ code: HTTP2ErrorCode) throws {
        session.reset(stream, code)
        try flush()
    }

    /// GOAWAY, behind which the streams that are there go on.
    func announceEnd() throws {
        session.goAway()
        try flush()
    }
}
