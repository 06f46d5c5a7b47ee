// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

/// The last stage: writes the response for the client, and pauses the origin while the client has no room.
final class ClientWriter: ResponseStage {
    /// Set while the exchange is in use. A write may end the exchange.
    private var exchange: StageOwner?
    private let services: WorkerServices
    private var stream: ExchangeStream!
    private var response = ClientResponse()
    /// Body bytes sent to the client.
    private(set) var bytesSent = 0
    /// The response is paused because the client reads too slowly.
    private var isPaused = false

    /// Smaller pieces are collected before they are written: a copy costs less than a system call.
    static let directWrite = 30 << 10

    /// At most this much of a file is read into the output at once.
    private static let copiedAtOnce = 128 << 10

    init(_ services: WorkerServices) { self.services = services }

    func attach(_ exchange: StageOwner, _ stream: ExchangeStream) {
        self.exchange = exchange
        self.stream = stream
    }

    func detach() {
        exchange = nil
        stream = nil
    }

    /// Makes ready for the response to another request.
    func begin() {
        response = ClientResponse()
        bytesSent = 0
        isPaused = false
    }

    // MARK: The response so far

    var hasBegun: Bool { response.hasBegun }
    /// The status; 0 before the head.
    var status: Int { response.status }
    var trailers: HeaderFields? { response.trailers }
    /// Whether the connection can be used for another request after this response.
    var persists: Bool { response.persists }
    /// Whether the end of the connection ends the body for the client.
    var endsWithConnection: Bool { response.endsWithConnection }

    // MARK: As a stage

    override func receiveHead(_ head: borrowing ResponseHead) -> ResponseDisposition {
        guard let exchange else { return .cancel }
        guard let identity = exchange.requestIdentity else { return begin(head, exchange) }
        return begin(identity.marked(head), exchange)
    }

    @inline(__always)
    private func begin(_ head: borrowing ResponseHead, _ exchange: StageOwner) -> ResponseDisposition {
        guard let route = exchange.admission.route else { return .cancel }
        let context = exchange.responseContext(for: head, on: route)
        let stream: ExchangeStream = stream
        response.begin(head, to: exchange.head, context: context)
        stream.writeHead(head, response.form, to: exchange.head, context: context)
        // The body may take long; pieces that arrive in this turn are written together with the head.
        stream.flushLater()
        return .allow
    }

    override func receiveBody(_ data: borrowing Span<UInt8>) -> BodyFlow {
        let stream: ExchangeStream = stream
        bytesSent += data.count
        response.writePieceHead(data.count, output: &stream.output)
        if stream.output.count + data.count >= Self.directWrite {
            stream.write(data)
            guard let exchange, exchange.isUnderWay else { return .pause }
            response.writePieceEnd(output: &stream.output)
        } else {
            stream.output.append(data)
            response.writePieceEnd(output: &stream.output)
            stream.flushLater()
        }
        if stream.hasRoom { return .proceed }
        isPaused = true
        return .pause
    }

    override func receiveBody(
        _ data: borrowing Span<UInt8>,
        followedBy more: borrowing Span<UInt8>
    ) -> (taken: Int, flow: BodyFlow) {
        guard !response.isChunked, stream.output.count + data.count >= Self.directWrite else {
            return (data.count, receiveBody(data))
        }
        let count = data.count + more.count
        bytesSent += count
        stream.write(data, followedBy: more)
        guard let exchange, exchange.isUnderWay else { return (count, .pause) }
        if stream.hasRoom { return (count, .proceed) }
        isPaused = true
        return (count, .pause)
    }

    override func receive(_ file: FileBytes) -> (taken: Int, flow: BodyFlow)? {
        if response.isChunked { return nil }
        let isLarge = stream.output.count + file.count >= Self.directWrite
        if isLarge, let written = stream.write(file) {
            bytesSent += written.count
            return (written.count, flow(isFull: written.isFull))
        }
        // One copy: TLS and HTTP/2 take the bytes from the output.
        let count = file.first(min(Self.copiedAtOnce, stream.pieceSize)).readCached(into: &stream.output)
        guard count > 0 else { return nil }
        bytesSent += count
        if isLarge { stream.writeOutput() } else { stream.flushLater() }
        return (count, flow(isFull: exchange == nil || !stream.hasRoom))
    }

    private func flow(isFull: Bool) -> BodyFlow {
        guard let exchange, exchange.isUnderWay else { return .pause }
        if isFull { isPaused = true }
        return isFull ? .pause : .proceed
    }

    override var pieceSize: Int { stream?.pieceSize ?? .max }

    override func receiveTrailers(_ trailers: borrowing HeaderFields) {
        guard response.hasBegun else { return }
        if let identity = exchange?.requestIdentity { return response.addTrailers(identity.unmarked(trailers)) }
        response.addTrailers(trailers)
    }

    override func receiveEnd(_ error: SessionError?) {
        if error == nil { writeEnd() }
        exchange?.responseDidEnd(error)
    }

    /// Writes the framing behind the body.
    func writeEnd() { response.writeEnd(output: &stream.output) }

    /// The client can take output again.
    ///
    /// - Returns: whether the response was paused.
    func resume() -> Bool {
        defer { isPaused = false }
        return isPaused
    }

    // MARK: Informational responses

    /// Passes a 1xx head on, unless the client has no room: it is dropped then, because no client depends on one, and it
    /// must not wait for a client that does not read.
    override func receiveInformational(_ head: borrowing ResponseHead) {
        guard let exchange else { return }
        switch exchange.upload.receiveInformational(status: head.status) {
        case .drop: return
        case .askForBody: return writeContinue()
        case .pass: break
        }
        guard stream.hasRoom, let route = exchange.admission.route else { return }
        let context = exchange.responseContext(for: head, on: route)
        if let identity = exchange.requestIdentity {
            stream.writeInformational(identity.unmarked(head), to: exchange.head, context: context)
        } else {
            stream.writeInformational(head, to: exchange.head, context: context)
        }
        stream.flushLater()
    }

    /// Writes 100 (Continue), for a client that waits for it (RFC 9110, section 10.1.1).
    func writeContinue() {
        stream.writeContinue()
        stream.flushLater()
    }

    // MARK: Responses of the proxy's own

    func writeError(_ problem: Problem, keepAlive: Bool, cacheStatus: CacheStatus?) {
        guard let exchange else { return }
        write(
            OwnResponse(
                problem,
                to: exchange.head,
                keepAlive: keepAlive,
                cacheStatus: cacheStatus,
                date: services.httpDate
            )
        )
    }

    func write(_ own: consuming OwnResponse) {
        own.identity = exchange?.requestIdentity
        response.begin(own)
        stream.write(own)
    }

    // MARK: Responses that end HTTP on the connection

    /// Writes the response to a successful CONNECT.
    func writeConnectionEstablished(to output: inout ByteBuffer) {
        response.writeConnected(to: &output, date: services.httpDate, exchange?.requestIdentity)
    }

    /// Writes a 101 response.
    func writeProtocolSwitch(_ head: borrowing ResponseHead, to output: inout ByteBuffer) {
        guard let exchange, let route = exchange.admission.route else { return }
        let context = exchange.responseContext(for: head, on: route)
        guard let identity = exchange.requestIdentity else {
            return response.writeSwitchingProtocols(head, context: context, output: &output)
        }
        response.writeSwitchingProtocols(identity.marked(head), context: context, output: &output)
    }
}
