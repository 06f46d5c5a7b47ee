// SPDX-License-Identifier: Apache-2.0
import IOCore
import SessionCore

/// A client's connection and a stream to an origin, whose bytes are relayed in both directions until both have ended. A
/// base class: `Tunnel` defines the steps before that. `RelayFlow` decides; this class acts.
///
/// The stream is established first, while the client's connection is still HTTP's; `takeOverConnection` takes that
/// over.
class Relay: LoopStreamTaskDelegate, TransportUser {
    final let services: WorkerServices
    final let owner: any RelayOwner
    final let transport: ClientTransport
    private var flow = RelayFlow()
    private var output = ByteBuffer()
    private let clientStream: ExchangeStream
    final let endpoint: Endpoint
    /// Bytes that the client sent before its connection was the relay's.
    private var input = ByteBuffer()
    private(set) final var stream: LoopStreamTask!
    private var timer: LoopTimer!
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

    final var phase: RelayFlow.Phase { flow.phase }

    /// Takes the client's connection over from HTTP.
    ///
    /// - Parameters:
    ///   - checksFirstBytes: `open` gets the client's first bytes.
    ///   - write: writes the response that ends HTTP on it.
    final func takeOverConnection(checksFirstBytes: Bool, _ write: (inout ByteBuffer) -> Void) {
        write(&output)
        flow.takeOver(checksFirstBytes: checksFirstBytes)
        clientStream.handOver(to: self) { adopt(input: &$0, output: &$1) }
    }

    /// Begins with the first bytes of the client, which were checked.
    final func beginRelaying(_ first: borrowing Span<UInt8>) {
        flow.beginRelaying()
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

    private var wantsInput: Bool { flow.wantsInput(pending: stream.pendingBytes) }

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
        switch flow.inputEnded() {
        case .refuse: endedWhileOpening()
        case .passOn: stream.closeWrite()
        case .ignore: break
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
        return flow.delivered(waiting: output.count)
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
        if flow.resumes(waiting: output.count) { stream.resumeReceiving() }
        guard output.isEmpty, !transport.isWriteBlocked else { return }
        output.release()
        switch flow.allDelivered() {
        case .wait: break
        case .shutDown: transport.shutdownWrite()
        case .close(let end): finish(end)
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
        flow.originEnded()
        transport.flushLater()
    }

    override func streamTaskDidComplete(_ task: LoopStreamTask, error: SessionError?) {
        switch flow.streamEnded(error) {
        case .ignore: break
        case .giveBack:
            end { if let error { owner.relayDidFail(error, at: endpoint) } }
        case .deliverRest:
            // A client that does not read the rest would hold the connection for ever. This is a time of the connection
            // and not of the request, so it comes from the current policy.
            services.loop.arm(timer, after: services.generation.idleTime)
            transport.flushLater()
        }
    }

    // MARK: The end

    /// Ends without closing the client's connection.
    ///
    /// - Parameter notify: notifies the owner.
    final func end(_ notify: () -> Void) {
        flow.end()
        notify()
        detach()
    }

    /// Ends both sides at once.
    final func close() {
        if let end = flow.close(hasOutput: !output.isEmpty, isDraining: services.isDraining) { finish(end) }
    }

    private func finish(_ end: RelayFlow.End) {
        if end.resets { transport.resetOnClose() }
        finish(end.problem)
    }

    /// Writes the log line, closes the client's connection, and cancels the stream.
    final func finish(_ problem: Problem?) {
        flow.end()
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
