// SPDX-License-Identifier: Apache-2.0
import HTTP2Core
import HTTPCore
import IOCore

/// One end of a connection in memory, which records its events.
final class Peer: HTTP2SessionDelegate {
    private(set) var session: HTTP2Session!
    private(set) var opened: [Recorder] = []
    private(set) var goAways: [HTTP2ErrorCode] = []
    private(set) var pongs = 0
    private(set) var burden = 0.0
    /// What the peer has had decoded, by the steps in which it is asked for, and how much it may.
    private(set) var decoded = 0
    var decodingLeft = Int.max
    /// Whether it pauses whenever it may, and how often it has read on.
    var pauses = false
    private(set) var resumptions = 0
    var refusesStreams = false
    var setUp: (Recorder) -> Void = { _ in }

    init(_ role: HTTP2Session.Role, _ settings: HTTP2Settings = HTTP2Settings()) {
        super.init()
        session = HTTP2Session(role, settings, delegate: self)
    }

    override func sessionDidBeginStream(_ session: HTTP2Session) -> HTTP2Stream? {
        if pauses { session.pause() }
        if refusesStreams { return nil }
        let stream = Recorder()
        setUp(stream)
        opened.append(stream)
        return stream
    }

    override func session(_ session: HTTP2Session, didReceiveCostlyFrame weight: Double) { burden += weight }

    override func session(_ session: HTTP2Session, mayDecode bytes: Int) -> Bool {
        if pauses { session.pause() }
        guard bytes <= decodingLeft else { return false }
        decoded += bytes
        decodingLeft -= bytes
        return true
    }

    override func session(_ session: HTTP2Session, didReceiveGoAway code: HTTP2ErrorCode, lastStream: Int32) {
        goAways.append(code)
    }

    override func sessionDidReceivePong(_ session: HTTP2Session) { pongs += 1 }

    /// The bytes that it sends, up to about a limit.
    func take(upTo limit: Int = 1 << 20) -> [UInt8] {
        _ = session.produce(upTo: limit)
        return session.takeOutput()
    }

    func give(_ bytes: [UInt8]) -> Bool {
        var isWell = session.receive(bytes.span)
        while isWell, session.isPaused {
            isWell = session.resumeReading()
            resumptions += 1
        }
        return isWell
    }
}

extension HTTP2Session {
    /// The bytes that wait to be written.
    func takeOutput() -> [UInt8] {
        let bytes = output.withUnsafeBytes { [UInt8]($0) }
        output.removeAll()
        return bytes
    }
}

/// A stream that records its events.
final class Recorder: HTTP2Stream {
    private(set) var heads: [[String]] = []
    private(set) var fieldCount = 0
    private(set) var body: [UInt8] = []
    private(set) var ended = false
    private(set) var lacksField = false
    private(set) var closed: HTTP2ErrorCode?
    private(set) var closedByPeer = false
    private(set) var roomTold = 0
    private(set) var didEndSaying = false
    var consumes = true
    var refusesFields = false
    private var fields: [String] = []

    override func didReceiveField(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
        fieldCount += 1
        fields.append("\(String(copying: name)): \(String(copying: value))")
        return !refusesFields
    }

    override func didOmitField() { lacksField = true }

    override func didReceiveHead(endsStream: Bool) -> Bool {
        heads.append(fields)
        fields = []
        return true
    }

    override func didReceiveData(_ bytes: borrowing Span<UInt8>) {
        body.append(bytes)
        if consumes { session?.consume(self, bytes.count) }
    }

    override func didReceiveEnd() { ended = true }
    override func hasRoom() { roomTold += 1 }
    override func didEnd() { didEndSaying = true }

    override func didClose(_ code: HTTP2ErrorCode, byPeer: Bool) {
        closed = code
        closedByPeer = byPeer
    }
}

/// A client and a server, joined.
struct Pair {
    let client: Peer
    let server: Peer

    init(client: HTTP2Settings = HTTP2Settings(), server: HTTP2Settings = HTTP2Settings()) {
        self.client = Peer(.client, client)
        self.server = Peer(.server, server)
        exchange()
    }

    /// Transfers bytes until neither end has any.
    @discardableResult
    func exchange() -> Bool {
        var isWell = true
        while isWell {
            let up = client.take()
            if !up.isEmpty { isWell = server.give(up) }
            let down = server.take()
            if !down.isEmpty { isWell = client.give(down) && isWell }
            if up.isEmpty, down.isEmpty { break }
        }
        return isWell
    }

    func respond(
        to stream: Recorder,
        _ status: Int,
        _ fields: HeaderFields = HeaderFields(),
        ends: Bool = true
    ) {
        func fill(_ block: inout HTTP2FieldBlock) {
            block.add(status: status)
            block.add(fields)
        }
        if status < 200 {
            server.session.informational(stream, fill)
        } else {
            server.session.respond(stream, endsStream: ends, fill)
        }
    }

    func request(
        _ method: String = "GET",
        _ path: String = "/",
        fields: [(String, String)] = [],
        body: String? = nil,
        ends: Bool = true
    ) -> Recorder? {
        let stream = Recorder()
        if let body { stream.output.append(Array(body.utf8)) }
        let isSent = client.session.request(stream, endsStream: body == nil && ends) { block in
            block.add(":method", Array(method.utf8).span)
            block.add(":scheme", "http")
            block.add(":authority", "h.example")
            block.add(":path", Array(path.utf8).span)
            for (name, value) in fields { block.add(name: Array(name.utf8).span, value: Array(value.utf8).span) }
        }
        if body != nil, ends { client.session.endBody(stream) }
        return isSent ? stream : nil
    }
}
