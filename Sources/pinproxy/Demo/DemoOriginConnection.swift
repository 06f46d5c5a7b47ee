// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyCore
import ServerTrust

/// One connection of the demo's origin: TLS, then one request after the other. The loop's registration keeps it alive.
final class DemoOriginConnection: EventHandler {
    private let stream: StreamSocket
    private let tls: TLSLayer
    private unowned let loop: EventLoop
    private let counts: RequestByteCounts

    private var input = ByteBuffer()
    private var output = ByteBuffer()
    private var parser = RequestParser()
    private var head = RequestHead()
    private var body = Body.none
    /// Nothing more is read; the rest of `output` is still written.
    private var isEnding = false

    /// The rest of the body of the current request.
    private enum Body {
        case none
        case bytes(Int)
        case chunks(ChunkedDecoder)
    }

    init(stream: consuming StreamSocket, session: TLSServerSession, loop: EventLoop, counts: RequestByteCounts) {
        self.stream = stream
        tls = TLSLayer(session)
        self.loop = loop
        self.counts = counts
        super.init()
    }

    func open() {
        stream.setNoDelay()
        try? loop.register(stream.descriptor, .readable, self)
    }

    override func ready(_ readiness: Readiness) {
        tls.noteReadable(peerHasEnded: false)
        while !isEnding {
            let outcome = tls.read(into: &input, upTo: 16 << 10, from: stream)
            guard case .bytes(let count) = outcome else {
                isEnding = outcome != .wouldBlock
                break
            }
            counts.add(count, for: tls.session.serverName)
            readInput()
        }
        write()
    }

    private func write() {
        repeat {
            switch tls.write(from: &output, to: stream) {
            case .bytes: continue
            case .wouldBlock, .end: return awaitRoom()
            case .failed: return close()
            }
        } while !output.isEmpty
        guard isEnding else { return loop.modify(stream.descriptor, .readable) }
        if tls.end(to: stream) == .wouldBlock { awaitRoom() } else { close() }
    }

    private func awaitRoom() {
        loop.modify(stream.descriptor, isEnding ? .writable : [.readable, .writable])
    }

    private func close() {
        loop.unregister(stream.descriptor)
    }

    // MARK: Requests

    private func readInput() {
        while !input.isEmpty, !isEnding {
            switch body {
            case .none: readHead()
            case .bytes(let left):
                let count = min(left, input.count)
                input.consume(count)
                body = .bytes(left - count)
                if count == left { sendResponse() }
            case .chunks(var decoder):
                switch decoder.next(input.bytes) {
                case .data(_, let consumed), .needMore(let consumed):
                    input.consume(consumed)
                    body = .chunks(decoder)
                case .end(let consumed):
                    input.consume(consumed)
                    sendResponse()
                case .failed:
                    refuse()
                }
            }
        }
    }

    private func readHead() {
        let (consumed, outcome) = parser.parse(input.bytes, into: &head)
        input.consume(consumed)
        switch outcome {
        case .needMore: return
        case .failed: refuse()
        case .complete:
            switch head.framing {
            case .length(let count) where count > 0: body = .bytes(count)
            case .chunked: body = .chunks(ChunkedDecoder())
            default: sendResponse()
            }
        }
    }

    private func sendResponse() {
        body = .none
        var target: [UInt8] = []
        for index in 0..<head.target.count { target.append(head.target[index]) }
        let text = """
            Hello from the origin of the demo. It was asked for
            \(head.method) https://\(tls.session.serverName)\(String(decoding: target, as: UTF8.self))
            over \(tls.session.version).

            """
        write(status: "200 OK", text, isHead: head.method == .head)
        if !head.keepAlive { isEnding = true }
    }

    private func refuse() {
        write(status: "400 Bad Request", "The origin of the demo did not understand the request.\n", isHead: false)
        isEnding = true
    }

    private func write(status: String, _ text: String, isHead: Bool) {
        output.append(text: "HTTP/1.1 \(status)\r\nDate: ")
        output.append(HTTPDate.format(unixSeconds: Int(loop.wallClock / 1_000_000)))
        output.append(text: "\r\nContent-Type: text/plain\r\nContent-Length: \(text.utf8.count)\r\n")
        if !head.keepAlive || isEnding { output.append("Connection: close\r\n") }
        output.append("\r\n")
        if !isHead { output.append(text: text) }
    }
}
