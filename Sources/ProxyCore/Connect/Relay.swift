// SPDX-License-Identifier: Apache-2.0
import IOCore
import SessionCore

/// A client's connection and a stream to an origin, whose bytes are relayed in both directions until both have ended. A
/// base class: `Tunnel` defines the steps before that.
///
/// The stream is established first, while the client's connection is still HTTP's; `takeOverConnection` takes that
/// over.
class Relay: LoopStreamTaskDelegate, TransportUser {
    enum Phase {
        /// The origin is being dialled; the client's connection is HTTP's.
        case dialling
        /// The client's connection is the relay's; its first bytes are checked.
        case opening
        case relaying
        /// The stream is over; the client still receives the waiting output.
        case finishing
        case closed
    }

    final let services: WorkerServices
    final let owner: any RelayOwner
    final let transport: ClientTransport
    private(set) final var phase = Phase.dialling
    private var output = ByteBuffer()
    private let clientStream: ExchangeStream
    final let endpoint: Endpoint
    /// Bytes that the client sent before its connection was the relay's.
    private var input = ByteBuffer()
    private(set) final var stream: LoopStreamTask!
    private var timer: LoopTimer!
    private var clientHasEnded = false
    private var originHasEnded = false
    private var hasSentEnd = false
    /// The origin is paused because the client reads too slowly.
    private var isHeldBack = false
    /// The error that ended the stream.
    private var failure: SessionError?

    /// More waiting bytes than this, in either direction, pause the other side.
    private static let highWater = 256 << 10
    private static let lowWater = 64 << 10
    /// The limit of bytes read from a client in one turn, so that other connections are served.
    private static let turnLimit = 1 << 20

    init(_ owner: any RelayOwner, _ clientStream: ExchangeStream, to endpoint: Endpoint) {
        self.owner = owner
        self.clientStream = clientStream
        self.endpoint = endpoint
        services = clientStream.services
        transport = clientStream.transport
        super.init()
        timer = LoopTimer { [unowned self] in timeIsUp() }
    }

    final func dial(_ session: LoopSession, _ protocols: [ApplicationProtocol] = []) {
        stream = session.streamTask(with: endpoint, applicationProtocols: protocols, delegate: self)
        stream.resume()
    }

    /// The task for the log, also of a stream that the relay has let go.
    final var task: LoopTask? { stream?.task ?? ended }
    private var ended: LoopTask?

    /// Takes the client's connection over from HTTP.
    ///
    /// - Parameter write: writes the response that ends HTTP on it.
    final func takeOverConnection(_ phase: Phase, _ write: (inout ByteBuffer) -> Void) {
        write(&output)
        self.phase = phase
        clientStream.handOver(to: self) { adopt(input: &$0, output: &$1) }
    }

    /// Begins with the first bytes of the client, which were checked.
    final func beginRelaying(_ first: borrowing Span<UInt8>) {
        phase = .relaying
        send(first)
        stream.resumeReceiving()
    }

    /// Gives the client's connection to another user, and lets the origin go.
    ///
    /// - Parameter next: takes the unread input and the unwritten output over.
    final func passConnectionOn(_ next: (_ input: inout ByteBuffer, _ output: inout ByteBuffer) -> Void) {
        end {
            var early = ByteBuffer()
            swap(&early, &input)
            var pending = ByteBuffer()
            swap(&pending, &output)
            next(&early, &pending)
        }
    }

    private func adopt(input: inout ByteBuffer, output: inout ByteBuffer) {
        swap(&self.input, &input)
        if !output.isEmpty {
            output.append(self.output.bytes)
            swap(&self.output, &output)
        }
        // The end of the input may have been noticed already.
        transport.isReadable = true
        transport.flushLater()
    }

    // MARK: From the client

    /// Processes bytes before the relaying begins.
    func open(_ bytes: borrowing Span<UInt8>) { preconditionFailure("who opens takes bytes") }

    /// The client has ended its input before the relaying began.
    func endedWhileOpening() { close() }

    /// The time set with `arm` is over.
    func timeIsUp() { close() }

    final func arm(after span: TimeSpan) { services.loop.arm(timer, after: span) }
    final func disarm() { services.loop.disarm(timer) }

    final var endsByHalves: Bool { true }

    private var wantsInput: Bool {
        switch phase {
        case .opening: !clientHasEnded
        case .relaying: !clientHasEnded && stream.pendingBytes < Self.highWater
        case .dialling, .finishing, .closed: false
        }
    }

    /// Reads while there is input and the origin takes it.
    final func pump() {
        services.loop.noteWork(.relay)
        if !input.isEmpty, wantsInput {
            var waiting = ByteBuffer()
            swap(&waiting, &input)
            didReceiveFromClient(waiting.bytes)
        }
        var left = Self.turnLimit
        while transport.isReadable, wantsInput {
            guard transport.mayRead(left, of: Self.turnLimit) else { return transport.pumpLater() }
            services.scratch.removeAll()
            switch transport.read(into: &services.scratch) {
            case .bytes(let count):
                left -= max(count, ClientTransport.leastReading)
                var scratch = services.borrowScratch()
                didReceiveFromClient(scratch.bytes)
                services.returnScratch(&scratch)
            case .wouldBlock: break
            case .end: clientEnded()
            case .failed: close()
            }
        }
    }

    private func didReceiveFromClient(_ bytes: borrowing Span<UInt8>) {
        switch phase {
        case .opening: open(bytes)
        case .relaying: send(bytes)
        case .dialling, .finishing, .closed: break
        }
    }

    private func send(_ bytes: borrowing Span<UInt8>) {
        owner.countRelayedBytes(fromClient: bytes.count, toClient: 0)
        stream.send(bytes)
    }

    private func clientEnded() {
        guard !clientHasEnded else { return }
        clientHasEnded = true
        switch phase {
        case .opening: endedWhileOpening()
        case .relaying: stream.closeWrite()
        case .dialling, .finishing, .closed: break
        }
    }

    // MARK: To the client

    /// Writes a message of the proxy's own, as far as there is room, and ends the output.
    final func writeLast(_ bytes: [UInt8]) {
        output.append(bytes)
        flush()
        transport.shutdownWrite()
    }

    /// Delivers bytes of the origin to the client.
    final func deliver(_ bytes: borrowing Span<UInt8>) -> BodyFlow {
        owner.countRelayedBytes(fromClient: 0, toClient: bytes.count)
        if transport.isWriteBlocked {
            output.append(bytes)
        } else if case .failed = transport.write(from: &output, followedBy: bytes) {
            close()
            return .pause
        }
        // After a short write the kernel has not reported that it is full, and would not report room.
        if !output.isEmpty, !transport.isWriteBlocked { transport.flushLater() }
        guard output.count >= Self.highWater else { return .proceed }
        isHeldBack = true
        return .pause
    }

    /// Writes the waiting output, and then the end.
    final func flush() {
        guard phase != .closed, phase != .dialling, !transport.isWriteBlocked else { return }
        loop: while !output.isEmpty {
            switch transport.write(from: &output) {
            case .bytes, .end: break
            case .wouldBlock: break loop
            case .failed: return close()
            }
        }
        if isHeldBack, output.count < Self.lowWater {
            isHeldBack = false
            stream.resumeReceiving()
        }
        guard output.isEmpty, !transport.isWriteBlocked else { return }
        output.release()
        if phase == .finishing { return finishDelivered() }
        if originHasEnded, !hasSentEnd {
            hasSentEnd = true
            transport.shutdownWrite()
        }
    }

    // MARK: From the origin

    override func streamTask(_ task: LoopStreamTask, didReceive bytes: borrowing Span<UInt8>) -> BodyFlow {
        deliver(bytes)
    }

    override func streamTaskHasSpace(_ task: LoopStreamTask) {
        if phase == .relaying { transport.pumpLater() }
    }

    override func streamTaskReadClosed(_ task: LoopStreamTask) {
        originHasEnded = true
        transport.flushLater()
    }

    override func streamTaskDidComplete(_ task: LoopStreamTask, error: SessionError?) {
        switch phase {
        case .closed: break
        case .dialling:
            end { if let error { owner.relayDidFail(error, at: endpoint) } }
        case .opening, .relaying:
            failure = error
            phase = .finishing
            // A client that does not read the rest would hold the connection for ever. This is a time of the connection
            // and not of the request, so it comes from the current policy.
            services.loop.arm(timer, after: services.generation.idleTime)
            transport.flushLater()
        case .finishing: break
        }
    }

    // MARK: The end

    /// Ends without closing the client's connection.
    ///
    /// - Parameter notify: notifies the owner.
    final func end(_ notify: () -> Void) {
        phase = .closed
        notify()
        detach()
    }

    /// The client has received everything.
    private func finishDelivered() {
        // The client must not take a broken connection for a complete one.
        if failure != nil { transport.resetOnClose() }
        finish(failure.map { Problem($0) })
    }

    /// Ends both sides at once.
    final func close() {
        guard phase != .closed else { return }
        if !(output.isEmpty && originHasEnded) { transport.resetOnClose() }
        if services.isDraining {
            finish(Problem(.cancelled, "The connection was ended because pinproxy stops."))
        } else if clientHasEnded || originHasEnded && output.isEmpty {
            // Most clients close like this: they do not wait for the origin to close when they have sent everything, or
            // received everything.
            finish(nil)
        } else {
            finish(Problem(.clientClosed, "The client broke off the connection."))
        }
    }

    /// Writes the log line, closes the client's connection, and cancels the stream.
    final func finish(_ problem: Problem?) {
        phase = .closed
        owner.relayDidEnd(problem)
        output.release()
        input.release()
        transport.close()
        detach()
    }

    /// Releases the stream, which holds this object as its delegate.
    private func detach() {
        services.loop.remove(timer)
        ended = stream?.task
        stream = nil
    }
}
