// SPDX-License-Identifier: Apache-2.0
package import HTTPCaching
package import HTTPCore
package import IOCore
package import ServerTrust

/// The cache's stage on the way of one request: it asks the cache, and the origin if it has to, and passes on one
/// response, the stored or the origin's. Session, proxy and background refresh use the same.
///
/// While the origin's response is being stored, a receiver without room does not hold it up: the rest is read from what
/// the store has. When the receiver is gone and other requests read the body, or little is missing, the response is
/// received to its end.
///
/// `@unchecked Sendable`: it belongs to its loop; threads of the disk and other loops only submit work to the loop with
/// it.
package final class CacheStage: LoopTaskDelegate, @unchecked Sendable {
    private enum Next {
        case respond(CacheAnswer)
        case ask(HeaderFields)
        case refuse(CacheStatus)
        /// The body has no receiver.
        case nothing
    }

    private enum Phase {
        case lookingUp
        /// The origin has not responded yet.
        case asking
        /// The origin's head is here, and the cache has not decided yet.
        case deciding
        /// The origin's response goes on.
        case relaying
        /// The origin's response is dropped, and this follows.
        case dropping(Next)
        /// A stored response goes on, or one that is being received.
        case serving
        /// The receiver is gone, and the origin's response is received for the store and for others.
        case finishing
        case over
    }

    /// The origin's head and the beginning of its response, until the cache has decided.
    private final class Held {
        let head: ResponseHead
        var body = ByteBuffer()
        var trailers: HeaderFields?
        /// The result of the response, if it has ended.
        var end: SessionError??

        init(_ head: consuming ResponseHead) { self.head = head }
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
    /// The value of Age for a stored response.
    package private(set) var storedAge: Int?
    /// Whether the response is a stored one, or one that another request is receiving.
    package private(set) var isStored = false

    private var delegate: (any CacheStageDelegate)?
    private let loop: EventLoop
    private let isBackground: Bool
    private var phase = Phase.lookingUp
    private var isInHead = false
    private var held: Held?
    private var unwanted = UnwantedBody()
    private var timer: LoopTimer?

    // The origin's response while it is relayed or received for the store.
    private var received = 0
    private var expected: Int?
    /// The origin waits for the other requests that read the body.
    private var isHeldByReaders = false
    private var trailers: HeaderFields?

    // The response that goes on from the store.
    private var body = CacheAnswerBody.memory([])
    private var unsent = 0..<0
    private var isSending = false
    /// A piece is read from the disk, or awaited.
    private var isAwaitingPiece = false
    private var isPaused = false
    private var isHeld = false

    private static let pieceSize = 128 << 10
    /// A rest up to this size is one piece for every receiver.
    private static let smallPiece = 1 << 10
    /// The number of bytes after which others have their turn.
    private static let turnSize = 1 << 20
    /// Limits the time for reading the rest of a dropped response.
    private static let dropTime = TimeSpan.seconds(1)

    /// - Parameters:
    ///   - request: with the fields of the client's request.
    ///   - isBackground: whether this is a refresh, which has no receiver: only what is stored is received.
    package init(
        _ transaction: CacheTransaction,
        _ request: SessionRequest,
        isBackground: Bool = false,
        delegate: any CacheStageDelegate,
        loop: EventLoop
    ) {
        self.transaction = transaction
        self.request = request
        self.isBackground = isBackground
        self.delegate = delegate
        self.loop = loop
        super.init()
    }

    /// The value of Cache-Status for a response that comes neither from the cache nor from the origin.
    package var statusOfRefusal: CacheStatus { status ?? transaction.forwarded }

    // MARK: - The request

    /// Begins with the lookup.
    package func begin() {
        if let step = transaction.begin() { return take(step) }
        transaction.whenDecided { [self] step in take(step) }
    }

    private func take(_ step: consuming CacheTransaction.Step) {
        guard mayContinue() else { return }
        loop.noteWork(.cache)
        switch step {
        case .forward(let fields): ask(fields)
        case .respond(let response): serve(response)
        case .gatewayTimeout(let status): refuse(status)
        }
    }

    private var isOver: Bool {
        if case .over = phase { true } else { false }
    }

    private func mayContinue() -> Bool {
        guard !isOver, let delegate else { return false }
        return delegate.stageMayContinue(self)
    }

    /// Sends the request to the origin with these fields: also for a background refresh, and once more after it was handed back.
    package func ask(_ fields: HeaderFields) {
        phase = .asking
        held = nil
        unwanted = UnwantedBody()
        received = 0
        var request = request
        request.fields = fields
        guard let task = delegate?.stage(self, ask: request, delegate: self) else {
            if !isOver, originTask == nil { leave() }
            return
        }
        // It may have ended already.
        if task.state != .completed, !isOver { originTask = task }
    }

    private func refuse(_ status: CacheStatus) {
        self.status = status
        phase = .over
        let delegate = delegate
        self.delegate = nil
        delegate?.stageMustNotAsk(self)
    }

    /// The end for the receiver.
    private func complete(_ error: SessionError?) {
        guard !isOver else { return }
        let delegate = delegate
        _ = leave()
        delegate?.stageDidComplete(self, error: error)
    }

    /// The receiver is gone, or the request is given up. No method of the delegate is called any more.
    ///
    /// - Returns: whether the origin's response is still received, for the store or for others: then its task must not
    ///   be cancelled.
    @discardableResult
    package func leave() -> Bool {
        if isOver { return false }
        delegate = nil
        stopWaiting()
        dropStored()
        if originTask != nil, isReceiving, isWorthFinishing {
            phase = .finishing
            isPaused = false
            isHeld = false
            resumeOrigin()
            return true
        }
        phase = .over
        transaction.cancel()
        let task = originTask
        originTask = nil
        task?.cancel()
        held = nil
        return false
    }

    /// The origin's response is being received for the client or the store.
    private var isReceiving: Bool {
        switch phase {
        case .relaying, .finishing: true
        case .serving: originTask != nil
        default: false
        }
    }

    /// Whether the rest of the response is received without a receiver of this request.
    private var isWorthFinishing: Bool {
        if transaction.isReadAlong { return true }
        guard transaction.isStoring, let expected else { return false }
        return expected - received <= transaction.cache.completesBelow
    }

    // MARK: - Back-pressure

    /// The receiver has room again.
    package func resumeReceiving() {
        if isPaused {
            isPaused = false
            stopWaiting()
        }
        resumeOrigin()
        send()
    }

    /// Delivers nothing until it is called with false. What is being stored is received nevertheless.
    package func hold(_ isHeld: Bool) {
        self.isHeld = isHeld
        guard isHeld else {
            // What follows comes with `resumeReceiving`, unless the receiver has no room.
            originTask?.resume()
            return
        }
        if case .serving = phase { return }
        if case .relaying = phase {
            if transaction.isReadAlong, let reader = transaction.makeReader(at: received) { return read(from: reader) }
            transaction.whenReadAlong { [self] in othersRead() }
        }
        originTask?.suspend()
    }

    /// The receiver reads the rest from the store, at its own pace.
    private func read(from reader: GrowingReader) {
        phase = .serving
        body = .growing(reader)
        unsent = received..<Int.max
    }

    /// Other requests have begun to read the body, while the receiver has no room.
    private func othersRead() {
        guard case .relaying = phase, isPaused || isHeld, let reader = transaction.makeReader(at: received) else {
            return
        }
        read(from: reader)
        if isHeld { originTask?.resume() }
        resumeOrigin()
    }

    private func resumeOrigin() {
        guard !isHeldByReaders else { return }
        if case .relaying = phase, isPaused { return }
        originTask?.resumeReceiving()
    }

    /// Whether the other requests that read the body let the origin send on.
    private func flowForReaders() -> BodyFlow {
        guard transaction.mayHoldOrigin else { return .proceed }
        let mayHold = transaction.holdsOrigin { [self] in
            isHeldByReaders = false
            originTask?.resume()
            resumeOrigin()
        }
        guard mayHold else { return .proceed }
        isHeldByReaders = true
        // No limit of the origin's time runs while it waits here.
        originTask?.suspend()
        return .pause
    }

    private func stopWaiting() {
        if let timer { loop.remove(timer) }
        timer = nil
    }

    private func wait(_ patience: TimeSpan, _ isOver: @escaping () -> Void) {
        stopWaiting()
        let timer = LoopTimer(isOver)
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
        guard case .asking = phase else { return .cancel }
        originTask = task
        phase = .deciding
        isInHead = true
        defer { isInHead = false }
        expected = response.framing.knownLength(of: request.method)
        var decided: CacheTransaction.HeadStep?
        var isLate = false
        transaction.didReceiveHead(
            status: response.status,
            response.fields,
            length: expected,
            mayStore: task.mayStoreResponse,
            endIsSure: request.endIsSure(response)
        ) { [self] step in
            if isLate { decide(step) } else { decided = step }
        }
        isLate = true
        guard !isOver else { return .cancel }
        switch decided {
        case nil:
            held = Held(copy response)
            return .allow
        case .relay(let status)?: return relay(response, status)
        case .respondWhileReceiving(let stored)?: return serveWhileReceiving(stored)
        case .respond(let stored)?: return drop(response, for: .respond(stored))
        case .again(let fields)?: return drop(response, for: .ask(fields))
        case .gatewayTimeout(let status)?: return drop(response, for: .refuse(status))
        }
    }

    private func relay(_ head: borrowing ResponseHead, _ status: CacheStatus) -> ResponseDisposition {
        self.status = status
        guard !isBackground else {
            phase = transaction.isStoring ? .finishing : .dropping(.nothing)
            return .allow
        }
        phase = .relaying
        let disposition = delegate?.stage(self, didReceive: head) ?? .cancel
        switch phase {
        // The receiver is gone, and the response is received on.
        case .finishing: return .allow
        case .relaying where disposition == .cancel && transaction.isReadAlong:
            // It is not for this receiver, and others have begun to read it.
            phase = .finishing
            loop.atEndOfTurn { [self] in
                complete(SessionError(.cancelled, "The response was received for others, and not for this request."))
            }
            return .allow
        default: return disposition
        }
    }

    private func drop(_ head: borrowing ResponseHead, for next: Next) -> ResponseDisposition {
        phase = .dropping(next)
        delegate?.stage(self, didReceiveUnused: head)
        guard !isOver, UnwantedBody.isWorthReading(head.framing) else { return .cancel }
        if case .none = head.framing { return .allow }
        waitForEndOfDropped()
        return .allow
    }

    private func drop(_ held: Held, for next: Next) {
        let disposition = drop(held.head, for: next)
        if held.end != nil {
            stopWaiting()
            return proceed(next)
        }
        if disposition == .cancel { originTask?.cancel() } else { originTask?.resumeReceiving() }
    }

    private func waitForEndOfDropped() { wait(Self.dropTime) { [unowned self] in originTask?.cancel() } }

    /// The cache has decided after the head arrived.
    private func decide(_ step: CacheTransaction.HeadStep) {
        guard case .deciding = phase else { return }
        guard let held else { return }
        self.held = nil
        let disposition: ResponseDisposition
        switch step {
        case .relay(let status): disposition = relay(held.head, status)
        case .respondWhileReceiving(let stored): disposition = serveWhileReceiving(stored)
        case .respond(let stored): return drop(held, for: .respond(stored))
        case .again(let fields): return drop(held, for: .ask(fields))
        case .gatewayTimeout(let status): return drop(held, for: .refuse(status))
        }
        guard !isOver else { return }
        if disposition == .cancel {
            guard let end = held.end else {
                originTask?.cancel()
                return
            }
            transaction.cancel()
            return complete(end)
        }
        var flow = BodyFlow.proceed
        if held.body.count > 0 { flow = receive(held.body.bytes) }
        guard !isOver else { return }
        if let trailers = held.trailers { receive(trailers) }
        if let end = held.end { return originDidEnd(end) }
        if case .proceed = flow { originTask?.resumeReceiving() }
    }

    override package func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        switch phase {
        case .deciding:
            held?.body.append(data)
            return .pause
        case .relaying, .serving, .finishing: return receive(data)
        case .dropping:
            if !unwanted.didReceive(data.count) { task.cancel() }
            return .proceed
        case .lookingUp, .asking, .over: return .pause
        }
    }

    /// A piece of the origin's body that is relayed, or stored.
    private func receive(_ data: borrowing Span<UInt8>) -> BodyFlow {
        received += data.count
        transaction.didReceiveBody(data)
        guard case .relaying = phase else {
            if case .finishing = phase, !(isBackground ? transaction.isStoring : isWorthFinishing) {
                originTask?.cancel()
                return .pause
            }
            return flowForReaders()
        }
        let flow = delegate?.stage(self, didReceive: data) ?? .pause
        // The receiver may have gone while it took the piece.
        guard case .relaying = phase else { return isOver ? .pause : flowForReaders() }
        guard case .pause = flow else { return flowForReaders() }
        isPaused = true
        // Its receiver does not hold up other requests that read the body: it reads the rest from the store, as they do.
        guard transaction.isReadAlong, let reader = transaction.makeReader(at: received) else {
            transaction.whenReadAlong { [self] in othersRead() }
            return .pause
        }
        read(from: reader)
        if let patience = delegate?.stagePatience(self) { awaitReceiver(patience) }
        return flowForReaders()
    }

    override package func task(_ task: LoopTask, didReceiveTrailers trailers: borrowing HeaderFields) {
        if case .deciding = phase { held?.trailers = copy trailers } else { receive(trailers) }
    }

    private func receive(_ trailers: borrowing HeaderFields) {
        switch phase {
        case .relaying: delegate?.stage(self, didReceiveTrailers: trailers)
        // They follow the body.
        case .serving: self.trailers = copy trailers
        default: break
        }
    }

    override package func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        if case .asking = phase, let error, error.code == .sessionInvalidated {
            originTask = nil
            delegate?.stage(self, wasHandedBack: task)
            return
        }
        var asksAgain = false
        if case .dropping(.ask) = phase, error == nil || !isBackground { asksAgain = true }
        delegate?.stage(self, didComplete: task, error, asksAgain: asksAgain)
        guard !isOver else { return }
        if case .deciding = phase {
            held?.end = .some(error)
            originTask = nil
            return
        }
        originTask = nil
        originDidEnd(error)
    }

    /// The origin's response is over, or there was none.
    private func originDidEnd(_ error: SessionError?) {
        switch phase {
        case .asking:
            let error = error ?? SessionError(.internal, "The origin gave neither a response nor an error.")
            // A refresh that was given up shows nothing about the server.
            if isBackground, error.code == .cancelled { return complete(error) }
            originError = error
            transaction.originDidFail(error.originFailure) { [self] step in
                guard !isOver else { return }
                switch step {
                case .respond(let stored)?: if mayContinue() { serve(stored) }
                case .gatewayTimeout(let status)?: if mayContinue() { refuse(status) }
                case .again, .relay, .respondWhileReceiving, nil: complete(error)
                }
            }
        case .relaying, .finishing:
            transaction.didEnd(isWhole: error == nil)
            complete(error)
        case .serving:
            originError = error
            transaction.didEnd(isWhole: error == nil)
        case .dropping(let next):
            stopWaiting()
            if isBackground, error != nil { return complete(error) }
            proceed(next)
        case .lookingUp, .deciding, .over: break
        }
    }

    /// The dropped response is over.
    private func proceed(_ next: Next) {
        guard mayContinue() else { return }
        switch next {
        case .respond(let stored): serve(stored)
        case .ask(let fields): ask(fields)
        case .refuse(let status): refuse(status)
        case .nothing: complete(nil)
        }
    }

    // MARK: - A response from the store

    private func serve(_ response: CacheAnswer) {
        guard !isBackground else { return complete(nil) }
        beginServing(response)
        send()
    }

    /// A stored response goes on, while the origin's completes it.
    private func serveWhileReceiving(_ response: CacheAnswer) -> ResponseDisposition {
        beginServing(response)
        // The origin's task is in the midst of its head.
        loop.atEndOfTurn { [self] in send() }
        return isOver ? .cancel : .allow
    }

    private func beginServing(_ response: CacheAnswer) {
        isStored = true
        status = response.status
        storedAge = response.head.age
        body = response.body
        unsent = response.head.body
        phase = .serving
        if response.refreshes { delegate?.stageNeedsRefresh(self) }
        let head = ResponseHead(
            status: response.head.status,
            fields: response.head.keptFields,
            contentLength: response.head.contentLength,
            hasBody: !response.head.body.isEmpty
        )
        // A response that is not delivered needs no body: it is a redirect, or refused.
        if delegate?.stage(self, didReceive: head) == .cancel { dropStored() }
    }

    private func dropStored() {
        unsent = 0..<0
        // Not with the last reference, which a piece that is being delivered may hold.
        if case .growing(let reader) = body { reader.close() }
        body = .memory([])
    }

    /// Sends as much as there is room for, and ends the response after the last byte.
    private func send() {
        guard case .serving = phase, !isSending, !isAwaitingPiece else { return }
        loop.noteWork(.cache)
        isSending = true
        let rest = max(0, unsent.count - Self.turnSize)
        while case .serving = phase, !isPaused, !isHeld, !isAwaitingPiece, !unsent.isEmpty {
            guard unsent.count > rest else {
                sendLater()
                break
            }
            sendPiece()
        }
        isSending = false
        guard case .serving = phase, !isPaused, !isHeld, unsent.isEmpty else { return }
        if let trailers { delegate?.stage(self, didReceiveTrailers: trailers) }
        complete(nil)
    }

    /// Continues after the events of others: a receiver that takes everything at once would keep the loop.
    private func sendLater() {
        isAwaitingPiece = true
        loop.submit { [self] in
            isAwaitingPiece = false
            send()
        }
    }

    private func sendPiece() {
        var count = unsent.count
        if count > Self.smallPiece {
            count = max(1, min(Self.pieceSize, delegate?.stagePieceSize(self) ?? Self.pieceSize, count))
        }
        switch body {
        case .memory(let bytes):
            let end = unsent.lowerBound + count
            let piece = bytes.contiguous(unsent.lowerBound..<end)
            unsent = piece.upperBound..<unsent.upperBound
            if piece.upperBound == end { return deliver(bytes.span(piece)) }
            deliver(bytes.span(piece), followedBy: bytes.span(bytes.contiguous(piece.upperBound..<end)))
        case .file(let file):
            if sendCached({ file.readCached(at: $0, count: count, into: &$1) }) { return }
            guard let disk = transaction.disk else { return complete(Self.lostBody) }
            isAwaitingPiece = true
            let loop = loop
            disk.read(file, at: unsent.lowerBound, count: count, deliver: { loop.submit($0) }) { [self] in didRead($0) }
        case .growing(let reader): read(reader, atMost: count)
        }
    }

    private func read(_ reader: GrowingReader, atMost count: Int) {
        let loop = loop
        isAwaitingPiece = true
        let piece = reader.read(at: unsent.lowerBound, atMost: count) { [self] in
            loop.submit { [self] in
                isAwaitingPiece = false
                send()
            }
        }
        switch piece {
        case .bytes(let bytes):
            isAwaitingPiece = false
            unsent = unsent.lowerBound + bytes.count..<unsent.upperBound
            deliver(bytes.span)
        case .file(let file, let count):
            isAwaitingPiece = false
            if sendCached({ file.readCached(at: $0, count: count, into: &$1) }) { return }
            isAwaitingPiece = true
            guard let disk = transaction.disk else { return complete(Self.lostBody) }
            disk.read(file, at: unsent.lowerBound, count: count, deliver: { loop.submit($0) }) { [self] in didRead($0) }
        case .wait: break
        case .end:
            isAwaitingPiece = false
            unsent = 0..<0
        case .broken:
            isAwaitingPiece = false
            complete(originError ?? Self.brokenBody)
        }
    }

    /// Sends the next piece of a file without a thread, if the kernel has it in memory.
    ///
    /// - Returns: false where the disk has to be waited for, which only a thread does.
    private func sendCached(_ read: (Int, inout ByteBuffer) -> Int) -> Bool {
        // A receiver may begin with another body before it returns: that one finds an empty buffer.
        var buffer = ByteBuffer()
        swap(&buffer, &loop.scratch)
        buffer.removeAll()
        let count = read(unsent.lowerBound, &buffer)
        if count > 0 {
            unsent = unsent.lowerBound + count..<unsent.upperBound
            deliver(buffer.bytes)
            buffer.removeAll()
        }
        swap(&buffer, &loop.scratch)
        return count > 0
    }

    private func didRead(_ bytes: [UInt8]?) {
        isAwaitingPiece = false
        guard case .serving = phase else { return }
        guard let bytes, !bytes.isEmpty else { return complete(Self.lostBody) }
        unsent = unsent.lowerBound + bytes.count..<unsent.upperBound
        isSending = true
        deliver(bytes.span)
        isSending = false
        send()
    }

    private func deliver(_ bytes: borrowing Span<UInt8>) {
        if let flow = delegate?.stage(self, didReceive: bytes) { wait(flow) }
    }

    /// The next piece is still among the unsent bytes: the receiver may take it at once.
    private func deliver(_ bytes: borrowing Span<UInt8>, followedBy more: borrowing Span<UInt8>) {
        guard let (taken, flow) = delegate?.stage(self, didReceive: bytes, followedBy: more) else { return }
        // The receiver may have given the response up, and with it all that is unsent.
        guard case .serving = phase else { return }
        unsent = unsent.lowerBound + (taken - bytes.count)..<unsent.upperBound
        wait(flow)
    }

    private func wait(_ flow: BodyFlow) {
        guard case .pause = flow, case .serving = phase else { return }
        isPaused = true
        if let patience = delegate?.stagePatience(self) { awaitReceiver(patience) }
    }

    private func awaitReceiver(_ patience: TimeSpan) {
        wait(patience) { [unowned self] in
            complete(
                SessionError(
                    .stalled,
                    "The client has taken nothing of a stored response within timeouts.stall, or not all of it within timeouts.total."
                )
            )
        }
    }

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

    /// Makes a task for the origin, and resumes it.
    ///
    /// - Parameter delegate: of the task.
    /// - Returns: nil when the request is not sent any more: the stage is over.
    func stage(
        _ stage: CacheStage,
        ask request: SessionRequest,
        delegate: LoopTaskDelegate
    ) -> LoopTask?

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
    package func stage(_ stage: CacheStage, didReceiveTrailers trailers: borrowing HeaderFields) {}
    package func stageMustNotAsk(_ stage: CacheStage) {}
    package func stagePieceSize(_ stage: CacheStage) -> Int { .max }
    package func stagePatience(_ stage: CacheStage) -> TimeSpan? { nil }
    package func stageDidComplete(_ stage: CacheStage, error: SessionError?) {}
}
