// SPDX-License-Identifier: Apache-2.0
package import HTTPCaching
package import HTTPCore
package import IOCore
package import ServerTrust

/// The cache's stage on the way of one request: it asks the cache, and the origin if it has to, and passes on one
/// response, the stored or the origin's. Session, proxy and background refresh use the same. `CacheDelivery` has its phases.
///
/// While the origin's response is being stored, a receiver without room does not hold it up: the rest is read from what
/// the store has. When the receiver is gone and other requests read the body, or little is missing, the response is
/// received to its end.
///
/// `@unchecked Sendable`: it belongs to its loop; threads of the disk and other loops only submit work to the loop with
/// it.
package final class CacheStage: LoopTaskDelegate, @unchecked Sendable {
    /// The origin's head and the beginning of its response, until the cache has decided.
    private final class Held {
        let task: LoopTask
        let head: ResponseHead
        var body = ByteBuffer()
        /// The result of the response, if it has ended.
        var end: SessionError??

        init(_ task: LoopTask, _ head: consuming ResponseHead) {
            self.task = task
            self.head = head
        }
    }

    package let transaction: CacheTransaction
    /// The request, without the fields that the cache adds.
    package let request: SessionRequest
    /// The task that asks the origin, while there is one.
    package private(set) var originTask: LoopTask?
    /// The failure of the request to the origin.
    package private(set) var originError: SessionError?
    /// The value of Cache-Status for the response.
    package private(set) var status: CacheStatus?
    /// The value of Age for a stored response, or one that another request is receiving; nil for the origin's.
    package private(set) var storedAge: Int?

    private var delegate: (any CacheStageDelegate)?
    private let loop: EventLoop
    private var delivery: CacheDelivery
    private var held: Held?
    private var timer: LoopTimer?
    /// The trailers of a body that has not gone on yet.
    private var trailers: HeaderFields?
    /// The body of the response that goes on from the store.
    private var body = CacheAnswerBody.memory([])

    /// Limits the time for reading the rest of a dropped response.
    private static let dropTime = TimeSpan.seconds(1)

    /// - Parameters:
    ///   - request: with the fields of the client's request.
    ///   - isBackground: whether this is a refresh.
    package init(
        _ transaction: CacheTransaction,
        _ request: SessionRequest,
        isBackground: Bool = false,
        delegate: any CacheStageDelegate
    ) {
        self.transaction = transaction
        self.request = request
        self.delegate = delegate
        loop = transaction.loop
        delivery = CacheDelivery(isBackground: isBackground)
        super.init()
    }

    /// The value of Cache-Status for a response that comes neither from the cache nor from the origin.
    package var statusOfRefusal: CacheStatus { status ?? transaction.forwarded }

    // MARK: - The request

    /// Begins with the lookup.
    package func begin() { take(transaction.begin()) }

    /// Refreshes the stored response that was served stale, unless another request for it is under way, or another machine has done so. A
    /// refresh has no receiver: only what is stored is received.
    ///
    /// - Parameters:
    ///   - request: the one that has found the response.
    ///   - delegate: is made only for a request that is sent.
    package static func refresh(
        _ served: CacheTransaction,
        like request: consuming SessionRequest,
        delegate: @autoclosure () -> any CacheStageDelegate
    ) {
        request.method = .get
        guard let transaction = served.refresh() else { return }
        CacheStage(transaction, request, isBackground: true, delegate: delegate()).begin()
    }

    /// Goes on, with or without a request to the origin.
    ///
    /// - Parameter step: nil when the cache cannot tell yet.
    private func take(_ step: consuming CacheTransaction.Step?) {
        guard let step else { return transaction.whenDecided { [self] step in take(step) } }
        if case .pass = step { return complete(originError) }
        guard !delivery.isOver, let delegate, delegate.stageMayContinue(self) else { return }
        loop.noteWork(.cache)
        switch step {
        case .forward(let fields): ask(fields)
        case .respond where delivery.isBackground: complete(nil)
        case .respond(let response):
            serve(response)
            send()
        case .gatewayTimeout(let status):
            self.status = status
            delivery.leave(finishes: false)
            self.delegate = nil
            delegate.stageMustNotAsk(self)
        // They come with a response of the origin.
        case .relay, .respondWhileReceiving, .pass: break
        }
    }

    /// Sends the request to the origin with these fields: as a step of the cache, for a refresh, and once more after it was handed
    /// back.
    package func ask(_ fields: HeaderFields) {
        delivery.ask()
        held = nil
        var request = request
        request.fields = fields
        guard let task = delegate?.stage(self, ask: request) else {
            if !delivery.isOver, originTask == nil { leave() }
            return
        }
        // It may have ended already.
        if task.state != .completed, !delivery.isOver { originTask = task }
    }

    /// The end for the receiver.
    private func complete(_ error: SessionError?) {
        guard !delivery.isOver else { return }
        let delegate = delegate
        leave()
        delegate?.stageDidComplete(self, error: error)
    }

    /// The receiver is gone, or the request is given up. No method of the delegate is called any more.
    ///
    /// - Returns: whether the origin's response is still received, for the store or for others: then its task must not
    ///   be cancelled.
    @discardableResult
    package func leave() -> Bool {
        if delivery.isOver { return false }
        delegate = nil
        arm(nil)
        // Not with the last reference, which a piece that is being delivered may hold.
        if case .growing(let reader) = body { reader.close() }
        body = .memory([])
        let finishes = originTask != nil && delivery.isReceiving && delivery.isWorthFinishing(transaction)
        delivery.leave(finishes: finishes)
        if finishes {
            guard delivery.letsOriginSend else { return true }
            originTask?.resume()
            originTask?.resumeReceiving()
            return true
        }
        transaction.cancel()
        originTask.take()?.cancel()
        held = nil
        return false
    }

    // MARK: - Back-pressure

    /// The receiver has room again.
    package func resumeReceiving() {
        if delivery.resume() { arm(nil) }
        if delivery.letsOriginSend { originTask?.resumeReceiving() }
        send()
    }

    /// Delivers nothing until it is called with false. What is being stored is received nevertheless.
    package func hold(_ isHeld: Bool) {
        delivery.isHeld = isHeld
        // What follows comes with `resumeReceiving`, unless the receiver has no room.
        guard isHeld else { originTask?.resume(); return }
        if delivery.phase == .serving || (delivery.phase == .relaying && readFromStore()) { return }
        originTask?.suspend()
    }

    /// A receiver without room does not hold up other requests that read the body: it reads the rest from the store, as they do.
    ///
    /// - Returns: false as long as no other request reads the body.
    private func readFromStore(isRead: Bool? = nil) -> Bool {
        if isRead ?? transaction.isReadAlong, let reader = transaction.makeReader(at: delivery.received) {
            delivery.serveRest()
            body = .growing(reader)
            return true
        }
        guard isRead == nil else { return false }
        transaction.whenReadAlong { [self] in
            guard delivery.isHeldUp, readFromStore(isRead: true) else { return }
            if delivery.isHeld { originTask?.resume() }
            if delivery.letsOriginSend { originTask?.resumeReceiving() }
        }
        return false
    }

    /// Whether the other requests that read the body let the origin send on.
    private func flowForReaders() -> BodyFlow {
        guard transaction.mayHoldOrigin else { return .proceed }
        let mayHold = transaction.holdsOrigin { [self] in
            delivery.isHeldByReaders = false
            originTask?.resume()
            if delivery.letsOriginSend { originTask?.resumeReceiving() }
        }
        guard mayHold else { return .proceed }
        delivery.isHeldByReaders = true
        // No limit of the origin's time runs while it waits here.
        originTask?.suspend()
        return .pause
    }

    /// Limits the time of the dropped response, or of the receiver without room.
    ///
    /// - Parameter patience: nil: for any time.
    private func arm(_ patience: TimeSpan?) {
        if let timer { loop.remove(timer) }
        timer = nil
        guard let patience else { return }
        let timer = LoopTimer { [unowned self] in
            if delivery.phase == .dropping { originTask?.cancel() } else { complete(Self.stalledReceiver) }
        }
        loop.arm(timer, after: patience)
        self.timer = timer
    }

    // MARK: - The origin's response

    override package func taskNeedsClientIdentity(_ task: LoopTask) -> ClientIdentityDecision {
        delegate?.taskNeedsClientIdentity(task) ?? .none
    }

    override package func task(_ task: LoopTask, mayTrust trust: ConnectionTrust) -> SessionError? {
        delegate?.task(task, mayTrust: trust)
    }

    override package func taskDidConnect(_ task: LoopTask) { delegate?.taskDidConnect(task) }

    override package func taskNeedsBodyData(_ task: LoopTask) { delegate?.taskNeedsBodyData(task) }

    override package func task(_ task: LoopTask, didReceiveInformational head: borrowing ResponseHead) {
        delegate?.task(task, didReceiveInformational: head)
    }

    override package func task(_ task: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        guard delivery.receiveHead(length: response.framing.knownLength(of: request.method)) else { return .cancel }
        originTask = task
        let step = transaction.didReceiveHead(
            status: response.status,
            response.fields,
            length: delivery.length,
            mayStore: task.mayStoreResponse,
            endIsSure: request.endIsSure(response)
        )
        guard !delivery.isOver else { return .cancel }
        if let step { return useOrigin(step, response) }
        held = Held(task, copy response)
        transaction.whenDecided { [self] step in didDecide(step) }
        return .allow
    }

    /// Does with the origin's response what the cache has decided.
    private func useOrigin(_ step: CacheTransaction.Step, _ head: borrowing ResponseHead) -> ResponseDisposition {
        switch step {
        case .relay(let status):
            self.status = status
            guard delivery.relay(isStoring: transaction.isStoring) else { return .allow }
            let disposition = delegate?.stage(self, didReceive: head) ?? .cancel
            // The receiver is gone, and the response is received on.
            if delivery.phase == .finishing { return .allow }
            guard delivery.phase == .relaying, disposition == .cancel, transaction.isReadAlong else {
                return disposition
            }
            // It is not for this receiver, and others have begun to read it.
            delivery.leave(finishes: true)
            loop.atEndOfTurn { [self] in complete(Self.receivedForOthers) }
            return .allow
        case .respondWhileReceiving(let response):
            serve(response)
            // The origin's task is in the midst of its head.
            loop.atEndOfTurn { [self] in send() }
            return delivery.isOver ? .cancel : .allow
        case .respond, .forward, .gatewayTimeout, .pass:
            delivery.drop(followedBy: step)
            trailers = nil
            delegate?.stage(self, didReceiveUnused: head)
            guard !delivery.isOver, UnwantedBody.isWorthReading(head.framing) else { return .cancel }
            if case .none = head.framing { return .allow }
            arm(Self.dropTime)
            return .allow
        }
    }

    /// The same when the cache has decided after the head arrived.
    private func didDecide(_ step: CacheTransaction.Step) {
        guard delivery.phase == .deciding, let held else { return }
        self.held = nil
        let disposition = useOrigin(step, held.head)
        guard !delivery.isOver else { return }
        if disposition == .cancel {
            guard let end = held.end else { originTask?.cancel(); return }
            return delivery.phase == .dropping ? originDidEnd(end) : complete(end)
        }
        let flow = held.body.count > 0 ? task(held.task, didReceive: held.body.bytes) : .proceed
        guard !delivery.isOver else { return }
        if delivery.phase == .relaying, let trailers = trailers.take() {
            delegate?.stage(self, didReceiveTrailers: trailers)
        }
        if let end = held.end { return originDidEnd(end) }
        if case .proceed = flow { originTask?.resumeReceiving() }
    }

    override package func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        switch delivery.receive(data.count) {
        case .hold:
            held?.body.append(data)
            return .pause
        case .relay:
            transaction.didReceiveBody(data)
            let flow = delegate?.stage(self, didReceive: data) ?? .pause
            // The receiver may have gone while it took the piece.
            guard delivery.phase == .relaying else { return delivery.isOver ? .pause : flowForReaders() }
            guard case .pause = flow else { return flowForReaders() }
            delivery.pause()
            guard readFromStore() else { return .pause }
            wait(flow)
            return flowForReaders()
        case .store:
            transaction.didReceiveBody(data)
            guard delivery.phase == .finishing, !delivery.isWorthFinishing(transaction) else { return flowForReaders() }
            task.cancel()
            return .pause
        case .drop: return .proceed
        case .cancel:
            task.cancel()
            return .proceed
        case .refuse: return .pause
        }
    }

    override package func task(_ task: LoopTask, didReceiveTrailers trailers: borrowing HeaderFields) {
        switch delivery.phase {
        case .relaying: delegate?.stage(self, didReceiveTrailers: trailers)
        // They follow the body.
        case .deciding, .serving: self.trailers = copy trailers
        default: break
        }
    }

    override package func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        if delivery.phase == .deciding, held == nil, let error, error.code == .sessionInvalidated {
            originTask = nil
            delegate?.stage(self, wasHandedBack: task)
            return
        }
        let asksAgain = delivery.asksAgain(afterFailure: error != nil)
        delegate?.stage(self, didComplete: task, error, asksAgain: asksAgain)
        guard !delivery.isOver else { return }
        originTask = nil
        if let held { held.end = .some(error) } else { originDidEnd(error) }
    }

    /// The origin's response is over, or there was none.
    private func originDidEnd(_ error: SessionError?) {
        switch delivery.originDidEnd(error) {
        case .failure:
            let error = error ?? SessionError(.internal, "The origin gave neither a response nor an error.")
            originError = error
            take(transaction.originDidFail(error.originFailure))
        case .relayed:
            transaction.didEnd(isWhole: error == nil)
            complete(error)
        case .stored:
            originError = error
            transaction.didEnd(isWhole: error == nil)
        case .followedBy(let step):
            arm(nil)
            take(step)
        case .givenUp: complete(error)
        }
    }

    // MARK: - A response from the store

    /// Begins with a response's head.
    private func serve(_ response: CacheAnswer) {
        status = response.status
        storedAge = response.head.age
        body = response.body
        delivery.serve(response.head.body)
        if response.refreshes { delegate?.stageNeedsRefresh(self) }
        let head = ResponseHead(
            status: response.head.status,
            fields: response.head.keptFields,
            contentLength: response.head.contentLength,
            hasBody: !response.head.body.isEmpty
        )
        guard delegate?.stage(self, didReceive: head) == .cancel else { return }
        // A response that is not delivered needs no body: it is a redirect, or refused.
        if case .growing(let reader) = body { reader.close() }
        body = .memory([])
        delivery.dropUnsent()
    }

    /// Sends as much as there is room for, and ends the response after the last byte.
    private func send() {
        guard delivery.beginSending() else { return }
        loop.noteWork(.cache)
        while true {
            let range: Range<Int>
            switch delivery.next(wanted: { delegate?.stagePieceSize(self) ?? .max }) {
            case .piece(let next): range = next
            // A receiver that takes everything at once would keep the loop.
            case .later: return sendLater()
            case .nothing: return
            case .end:
                if let trailers { delegate?.stage(self, didReceiveTrailers: trailers) }
                return complete(nil)
            }
            switch body {
            case .memory(let bytes):
                let piece = bytes.contiguous(range)
                delivery.didSend(piece.count)
                guard piece.upperBound < range.upperBound else {
                    deliver(bytes.span(piece))
                    continue
                }
                let rest = bytes.contiguous(piece.upperBound..<range.upperBound)
                let result = delegate?.stage(self, didReceive: bytes.span(piece), followedBy: bytes.span(rest))
                // The receiver may have given the response up, and with it all that is unsent.
                guard let (taken, flow) = result, delivery.phase == .serving else { continue }
                delivery.didSend(taken - piece.count)
                wait(flow)
            case .file(let file): if !pass(file.bytes(delivery.turn)) { send(range, of: file) }
            case .growing(let reader):
                switch reader.read(at: range.lowerBound, atMost: range.count, wake: { [self] in sendLater() }) {
                case .bytes(let bytes):
                    delivery.didSend(bytes.count)
                    deliver(bytes.span)
                case .file(let file, let count):
                    let range = range.lowerBound..<range.lowerBound + count
                    if !pass(file.bytes(range)) { send(range, of: file) }
                case .wait: delivery.awaitPiece()
                case .end: delivery.dropUnsent()
                case .broken: complete(originError ?? Self.brokenBody)
                }
            }
        }
    }

    /// Continues after the events of others.
    private func sendLater() {
        loop.submit { [self] in
            delivery.endWait()
            send()
        }
    }

    /// Lets the receiver take bytes of a file without a copy, if it can.
    ///
    /// - Returns: false when it needs the bytes themselves.
    private func pass(_ file: FileBytes) -> Bool {
        guard let (taken, flow) = delegate?.stage(self, didReceive: file) else { return false }
        // The receiver may have given the response up, and with it all that is unsent.
        guard delivery.phase == .serving else { return true }
        delivery.didSend(taken)
        wait(flow)
        return true
    }

    /// Sends a piece of a file: without a thread what the kernel has in memory; only a thread waits for the disk.
    private func send(_ range: Range<Int>, of file: some BodyFile) {
        // A receiver may begin with another body before it returns: that one finds an empty buffer.
        var buffer = ByteBuffer()
        swap(&buffer, &loop.scratch)
        buffer.removeAll()
        let count = file.bytes(range).readCached(into: &buffer)
        if count > 0 {
            delivery.didSend(count)
            deliver(buffer.bytes)
            buffer.removeAll()
        }
        swap(&buffer, &loop.scratch)
        guard count == 0 else { return }
        guard let disk = transaction.disk else { return complete(Self.lostBody) }
        delivery.awaitPiece()
        let toLoop: Delivery = { [loop] in loop.submit($0) }
        disk.read(file, at: range.lowerBound, count: range.count, deliver: toLoop) { [self] bytes in
            delivery.endWait()
            guard delivery.beginSending() else { return }
            guard let bytes, !bytes.isEmpty else { return complete(Self.lostBody) }
            delivery.didSend(bytes.count)
            deliver(bytes.span)
            delivery.endSending()
            send()
        }
    }

    private func deliver(_ bytes: borrowing Span<UInt8>) {
        if let flow = delegate?.stage(self, didReceive: bytes) { wait(flow) }
    }

    private func wait(_ flow: BodyFlow) {
        if case .pause = flow, delivery.pause(), let patience = delegate?.stagePatience(self) { arm(patience) }
    }

    private static let stalledReceiver = SessionError(
        .stalled,
        "The client has taken nothing of a stored response within timeouts.stall, or not all of it within timeouts.total."
    )
    private static let receivedForOthers = SessionError(
        .cancelled,
        "The response was received for others, and not for this request."
    )
    private static let lostBody = SessionError(
        .fileFailed,
        "The stored response could not be read from the disk to its end. Ask again: the origin is asked then."
    )
    private static let brokenBody = SessionError(
        .responseTruncated,
        "The response that another request was receiving for this one, too, has broken off. Ask again."
    )
}

extension BodyFraming {
    /// The length of the body of a response to `method`; nil when it is not known beforehand.
    fileprivate func knownLength(of method: HTTPMethod) -> Int? {
        switch self {
        case .none: method == .head ? nil : 0
        case .length(let count): count
        case .chunked, .untilClose: nil
        }
    }
}

/// The owner of a `CacheStage`: it makes the requests to the origin, and takes the one response, whether it is a
/// stored one or the origin's.
///
/// Those that a `LoopTaskDelegate` has, too, are called with the task that asks the origin.
package protocol CacheStageDelegate: AnyObject {
    func taskNeedsClientIdentity(_ task: LoopTask) -> ClientIdentityDecision
    func task(_ task: LoopTask, mayTrust trust: ConnectionTrust) -> SessionError?
    func taskDidConnect(_ task: LoopTask)
    func taskNeedsBodyData(_ task: LoopTask)
    func task(_ task: LoopTask, didReceiveInformational head: borrowing ResponseHead)

    /// Whether the request may go on. False when it has begun anew, under another policy, or is given up: the stage
    /// does nothing more then.
    func stageMayContinue(_ stage: CacheStage) -> Bool

    /// Makes a task for the origin, whose delegate is the stage, and resumes it.
    ///
    /// - Returns: nil when the request is not sent any more: the stage is over.
    func stage(_ stage: CacheStage, ask request: SessionRequest) -> LoopTask?

    /// The session of the task takes no more requests, and has sent nothing of it.
    func stage(_ stage: CacheStage, wasHandedBack task: LoopTask)

    /// A stored response is served stale, and has to be revalidated in the background.
    func stageNeedsRefresh(_ stage: CacheStage)

    /// The head of an origin's response that is not delivered.
    func stage(_ stage: CacheStage, didReceiveUnused head: borrowing ResponseHead)

    /// A request to the origin is over.
    ///
    /// - Parameter asksAgain: whether the stage sends another one.
    func stage(_ stage: CacheStage, didComplete task: LoopTask, _ error: SessionError?, asksAgain: Bool)

    /// The final head of the response.
    func stage(_ stage: CacheStage, didReceive head: borrowing ResponseHead) -> ResponseDisposition

    /// A piece of its body.
    func stage(_ stage: CacheStage, didReceive data: borrowing Span<UInt8>) -> BodyFlow

    /// A piece of its body, and the next one, for a receiver that can take both at once.
    ///
    /// - Returns: how many bytes were taken: those of the first piece, or of both.
    func stage(
        _ stage: CacheStage,
        didReceive data: borrowing Span<UInt8>,
        followedBy more: borrowing Span<UInt8>
    ) -> (taken: Int, flow: BodyFlow)

    /// A part of the body in its file, for a receiver that can send it from there.
    ///
    /// - Returns: how many bytes were taken, of which there are none only with a pause; nil when the bytes are needed.
    func stage(_ stage: CacheStage, didReceive file: FileBytes) -> (taken: Int, flow: BodyFlow)?

    func stage(_ stage: CacheStage, didReceiveTrailers trailers: borrowing HeaderFields)

    /// No stored response may be used, and the origin must not be asked, or has failed (`originError`) where a stored
    /// response would have had to be validated.
    func stageMustNotAsk(_ stage: CacheStage)

    /// The largest piece of a stored body that its receiver wants now.
    func stagePieceSize(_ stage: CacheStage) -> Int

    /// The longest time that a stored response waits for a receiver without room; nil for any time.
    func stagePatience(_ stage: CacheStage) -> TimeSpan?

    /// The response is over, or there was none. The last call of the stage.
    func stageDidComplete(_ stage: CacheStage, error: SessionError?)
}

extension CacheStageDelegate {
    package func taskNeedsClientIdentity(_ task: LoopTask) -> ClientIdentityDecision { .none }
    package func task(_ task: LoopTask, mayTrust trust: ConnectionTrust) -> SessionError? { nil }
    package func taskDidConnect(_ task: LoopTask) {}
    package func taskNeedsBodyData(_ task: LoopTask) {}
    package func task(_ task: LoopTask, didReceiveInformational head: borrowing ResponseHead) {}
    package func stageMayContinue(_ stage: CacheStage) -> Bool { true }
    package func stageNeedsRefresh(_ stage: CacheStage) {}
    package func stage(_ stage: CacheStage, didReceiveUnused head: borrowing ResponseHead) {}
    package func stage(_ stage: CacheStage, didComplete task: LoopTask, _ error: SessionError?, asksAgain: Bool) {}
    package func stage(_ stage: CacheStage, didReceive head: borrowing ResponseHead) -> ResponseDisposition { .allow }
    package func stage(_ stage: CacheStage, didReceive data: borrowing Span<UInt8>) -> BodyFlow { .proceed }
    package func stage(
        _ stage: CacheStage,
        didReceive data: borrowing Span<UInt8>,
        followedBy more: borrowing Span<UInt8>
    ) -> (taken: Int, flow: BodyFlow) {
        (data.count, self.stage(stage, didReceive: data))
    }
    package func stage(_ stage: CacheStage, didReceive file: FileBytes) -> (taken: Int, flow: BodyFlow)? { nil }
    package func stage(_ stage: CacheStage, didReceiveTrailers trailers: borrowing HeaderFields) {}
    package func stageMustNotAsk(_ stage: CacheStage) {}
    package func stagePieceSize(_ stage: CacheStage) -> Int { .max }
    package func stagePatience(_ stage: CacheStage) -> TimeSpan? { nil }
    package func stageDidComplete(_ stage: CacheStage, error: SessionError?) {}
}
