import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust

/// What carries a task that may be answered out of the session's cache: the cache itself, or another task that asks the
/// origin, from whose answer the cache learns. Belongs to the loop.
///
/// `@unchecked Sendable`: threads of the disk hand it back to the loop, and do not touch it.
final class CachedExchange: LoopTaskDelegate, @unchecked Sendable {
    private enum State {
        case lookingUp
        /// The origin has been asked.
        case asking
        /// Its head is there, and the cache looks at what it has.
        case deciding
        /// Its answer is the task's.
        case relaying
        /// Its answer is not, and comes to its end; then `next` is done.
        case replacing
        /// What is stored is the task's answer.
        case delivering
    }

    private enum Next {
        case deliver(CacheTransaction.Response)
        case ask(HTTPFields)
        case fail
    }

    /// Held until its end, as this is by the task.
    let task: LoopTask
    private let session: LoopSession
    private let transaction: CacheTransaction
    /// Set for a request that nobody waits for: it only brings what is stored up to date.
    private let refreshFields: HTTPFields?
    private var state = State.lookingUp
    private var isOver = false

    /// What asks the origin; its head, and what came of its body before it was known whose answer that is.
    private var originTask: LoopTask?
    private var head = ResponseHead()
    private var held = ByteBuffer()
    private var heldTrailers = HTTPFields()
    /// The originTask ended before it was known what becomes of its answer: how.
    private var originEnd: SessionError??
    private var next = Next.fail
    private var isInHead = false

    private var delivery: CachedDelivery?
    private var transactions: [TransactionMetrics] = []

    /// nil where the cache has no part: in what is neither GET nor HEAD, or has a body, and where nothing that the server
    /// has said may be used.
    init?(_ task: LoopTask, _ cache: SessionCache, _ session: LoopSession) {
        let request = task.request
        let endpoint = request.endpoint
        guard let policy = request.cachePolicy, request.method == .get || request.method == .head,
            request.bodyLength == .none, !request.isFullDuplex, task.stream == nil,
            let digest = endpoint.cacheDigest(at: session.loop.wallClock / 1_000_000)
        else { return nil }
        self.task = task
        self.session = session
        refreshFields = nil
        transaction = CacheTransaction(
            cache.responses,
            url: request.url,
            CacheRequest(method: request.method, fields: request.fields, policy: policy.requestPolicy),
            digest: digest,
            loop: session.loop
        )
        super.init()
        askBeforeStoring()
    }

    /// For a request in the background, which another transaction has prepared.
    init(_ task: LoopTask, refreshing transaction: CacheTransaction, asking fields: HTTPFields, _ session: LoopSession)
    {
        self.task = task
        self.session = session
        self.transaction = transaction
        refreshFields = fields
        super.init()
        askBeforeStoring()
    }

    private func askBeforeStoring() {
        transaction.willStore = { [weak self] status, fields in
            // What asks for credentials is answered, and not kept.
            guard let self, status != 401 else { return .skip }
            let proposed = CachedResponse(status: status, fields: fields)
            guard let response = task.delegate.task(task, willCache: proposed) else { return .skip }
            return switch response.storagePolicy {
            case .allowed: .store(response.fields, inMemoryOnly: false)
            case .allowedInMemoryOnly: .store(response.fields, inMemoryOnly: true)
            case .notAllowed: .skip
            }
        }
    }

    // MARK: What the task asks for

    func start() {
        // Nobody is told anything while the task is being resumed.
        session.loop.atEndOfTurn { [self] in
            guard !isOver else { return }
            if let refreshFields { return ask(refreshFields) }
            transaction.begin { [self] step in didLookUp(step) }
        }
    }

    func hold(_ isHeld: Bool) {
        guard let originTask else { return }
        if isHeld { originTask.suspend() } else { originTask.resume() }
    }

    /// The task takes more of the answer.
    func continueLater() {
        if let originTask { return originTask.resumeReceiving() }
        session.loop.atEndOfTurn { [self] in delivery?.deliverPieces() }
    }

    /// The task is over, whyever.
    func letGo() {
        guard !isOver else { return }
        isOver = true
        session.forget(self)
        if let delivery {
            transactions.append(delivery.metrics)
            delivery.stop()
        }
        delivery = nil
        transaction.cancel()
        originTask?.cancel()
        originTask = nil
        held.release()
    }

    func collectMetrics(into metrics: inout TaskMetrics) {
        metrics.earlierTransactions = transactions.dropLast()
        metrics.transaction = transactions.last ?? TransactionMetrics()
    }

    /// Of the connection that asks the origin.
    var evaluation: TrustEvaluation? {
        originTask?.evaluation ?? transactions.last?.connection?.evaluation
    }

    // MARK: The cache

    private func didLookUp(_ step: CacheTransaction.Step) {
        guard !isOver else { return }
        switch step {
        case .respond(let answer): deliver(answer)
        case .forward(let fields): ask(fields)
        case .gatewayTimeout: task.finish(.notStored)
        }
    }

    private func ask(_ fields: HTTPFields) {
        state = .asking
        head.removeAll()
        originEnd = nil
        var request = task.request
        request.fields = fields
        request.cachePolicy = nil
        request.timeouts = timeouts
        let originTask = session.makeTask(with: request, delegate: self)
        self.originTask = originTask
        originTask.resume()
        if task.isHeldBack { originTask.suspend() }
    }

    /// What is left of the time that the whole task has.
    private var timeouts: TaskTimeouts {
        var timeouts = task.request.timeouts ?? task.request.endpoint.timeouts
        if let total = timeouts.total {
            let spent = session.loop.now - min(task.startedAt, session.loop.now)
            timeouts.total = TimeSpan(nanoseconds: max(1_000_000, total.nanoseconds - min(spent, total.nanoseconds)))
        }
        return timeouts
    }

    private func deliver(_ answer: CacheTransaction.Response) {
        guard !isOver else { return }
        guard refreshFields == nil else { return task.finish(nil) }
        state = .delivering
        task.isAnsweredByCache = true
        let delivery = CachedDelivery(answer, from: session.cache?.responses.store.disk, to: task, session.loop)
        self.delivery = delivery
        if answer.refreshes { refresh() }
        delivery.start()
    }

    private func refresh() {
        var fields = HTTPFields()
        guard let refreshing = transaction.refresh({ fields = $0 }) else { return }
        session.refresh(task, by: refreshing, asking: fields)
    }

    // MARK: The origin

    override func taskNeedsClientIdentity(_ originTask: LoopTask) -> ClientIdentityDecision {
        task.delegate.taskNeedsClientIdentity(task)
    }

    override func task(_ originTask: LoopTask, mayTrust trust: ConnectionTrust) -> SessionError? {
        task.delegate.task(task, mayTrust: trust)
    }

    override func taskDidConnect(_ originTask: LoopTask) { task.delegate.taskDidConnect(task) }

    override func task(_ originTask: LoopTask, didReceiveInformational head: borrowing ResponseHead) {
        task.delegate.task(task, didReceiveInformational: head)
    }

    override func task(_ originTask: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        guard originTask === self.originTask, !isOver else { return .cancel }
        head = copy response
        state = .deciding
        isInHead = true
        transaction.didReceiveHead(
            status: head.status,
            head.fields,
            length: head.framing.knownLength,
            mayStore: originTask.mayStoreResponse,
            endIsSure: task.request.endIsSure(head)
        ) { [self] step in decided(step) }
        isInHead = false
        return state == .replacing && head.framing.hasBody ? .cancel : .allow
    }

    /// What becomes of the origin's answer; within its head, or later.
    private func decided(_ step: CacheTransaction.HeadStep) {
        guard !isOver else { return }
        switch step {
        case .relay: relay()
        case .respond(let answer): replace(.deliver(answer))
        case .again(let fields): replace(.ask(fields))
        case .gatewayTimeout: replace(.fail)
        }
    }

    private func relay() {
        state = .relaying
        if task.delegate.task(task, didReceive: head) == .cancel { task.cancel() }
        guard !isOver else { return }
        if !held.isEmpty {
            let bytes = [UInt8](copying: held.bytes)
            held.release()
            _ = pass(bytes.span)
        }
        guard !isOver else { return }
        if !heldTrailers.isEmpty { task.delegate.task(task, didReceiveTrailers: heldTrailers) }
        guard !isOver else { return }
        if let originEnd { return conclude(originEnd) }
        if !task.pausedByDelegate { originTask?.resumeReceiving() }
    }

    private func replace(_ next: Next) {
        self.next = next
        state = .replacing
        held.release()
        task.delegate.task(task, didReceiveUnused: head)
        guard !isOver else { return }
        if originTask == nil {
            proceed()
        } else if head.framing.hasBody, !isInHead {
            originTask?.cancel()
        }
    }

    private func proceed() {
        session.loop.atEndOfTurn { [self] in
            guard !isOver, state == .replacing else { return }
            switch next {
            case .deliver(let answer): deliver(answer)
            case .ask(let fields): ask(fields)
            case .fail: task.finish(.notStored)
            }
        }
    }

    override func task(_ originTask: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        guard originTask === self.originTask else { return .proceed }
        switch state {
        case .relaying: return pass(data)
        case .deciding:
            held.append(data)
            return .pause
        default: return .proceed
        }
    }

    private func pass(_ data: borrowing Span<UInt8>) -> BodyFlow {
        transaction.didReceiveBody(data)
        // Nobody is to get what is asked for in the background: what is not stored is not read, it may have no end.
        if refreshFields != nil, !transaction.isStoring {
            originTask?.cancel()
            return .proceed
        }
        guard task.delegate.task(task, didReceive: data) == .pause, !isOver else { return .proceed }
        task.pausedByDelegate = true
        return .pause
    }

    override func task(_ originTask: LoopTask, didReceiveTrailers trailers: borrowing HTTPFields) {
        guard originTask === self.originTask else { return }
        switch state {
        case .relaying: task.delegate.task(task, didReceiveTrailers: trailers)
        case .deciding: heldTrailers = copy trailers
        default: break
        }
    }

    override func taskDidComplete(_ originTask: LoopTask, error: SessionError?) {
        transactions.append(
            originTask.metrics.transaction.later(by: originTask.metrics.fetchStart - task.metrics.fetchStart)
        )
        guard originTask === self.originTask, !isOver else { return }
        self.originTask = nil
        switch state {
        case .asking: failed(error ?? SessionError(.internal, "The origin was asked, and nothing came of it."))
        case .deciding: originEnd = .some(error)
        case .relaying: conclude(error)
        case .replacing: proceed()
        case .lookingUp, .delivering: break
        }
    }

    private func conclude(_ error: SessionError?) {
        transaction.didEnd(isWhole: error == nil)
        task.finish(error)
    }

    private func failed(_ error: SessionError) {
        transaction.originDidFail(error.originFailure) { [self] step in
            guard !isOver else { return }
            if case .respond(let answer)? = step { deliver(answer) } else { task.finish(error) }
        }
    }
}

extension BodyFraming {
    /// nil where the end alone will tell.
    fileprivate var knownLength: Int? {
        switch self {
        case .none: 0
        case .length(let count): count
        case .chunked, .untilClose: nil
        }
    }
}

extension SessionError {
    package static let notStored = SessionError(
        .notStored,
        "Nothing that is stored can answer the request, and its cache policy lets nobody else be asked."
    )
}
