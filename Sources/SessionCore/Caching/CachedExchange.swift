import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust

/// Carries out a task that the session's cache takes part in. The response comes from the cache, or from a second task
/// to the origin, whose response the cache may store. Belongs to the loop.
///
/// `@unchecked Sendable`: threads of the disk only submit work to the loop with it, and do not touch it.
final class CachedExchange: LoopTaskDelegate, @unchecked Sendable {
    private enum State {
        case lookingUp
        /// The request to the origin is under way.
        case asking
        /// The origin's head has been received, and the cache decides.
        case deciding
        /// The origin's response is delivered.
        case relaying
        /// The origin's response is discarded; `next` follows at its end.
        case replacing
        /// A stored response is delivered.
        case delivering
    }

    private enum Next {
        case deliver(CacheTransaction.Response)
        case ask(HTTPFields)
        case fail
    }

    /// Both retain each other until the end of the task.
    let task: LoopTask
    private let session: LoopSession
    private let transaction: CacheTransaction
    /// Fields of a background refresh, which has no client and only updates the stored response; nil for other
    /// requests.
    private let refreshFields: HTTPFields?
    private var state = State.lookingUp
    private var isOver = false

    /// The task that asks the origin; its head, and the part of its body that was received before the cache's decision.
    private var originTask: LoopTask?
    private var head = ResponseHead()
    private var held = ByteBuffer()
    private var heldTrailers = HTTPFields()
    /// How the origin task ended, if before the cache's decision.
    private var originEnd: SessionError??
    private var next = Next.fail
    private var isInHead = false

    private var delivery: CachedDelivery?
    private var transactions: [TransactionMetrics] = []

    /// nil when the cache takes no part: for methods other than GET and HEAD, for requests with a body, and when the
    /// policy accepts no stored response of this server.
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

    /// A background refresh, which another transaction has prepared.
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
            // A 401 leads to a second request, and is not stored.
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
        // The delegate is not called while the task is being resumed.
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

    /// The task can receive more of the response.
    func continueLater() {
        if let originTask { return originTask.resumeReceiving() }
        session.loop.atEndOfTurn { [self] in delivery?.deliverPieces() }
    }

    /// The task has ended for any reason.
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

    /// The evaluation of the connection to the origin.
    var evaluation: TrustEvaluation? {
        originTask?.evaluation ?? transactions.last?.connection?.evaluation
    }

    // MARK: The cache

    private func didLookUp(_ step: CacheTransaction.Step) {
        guard !isOver else { return }
        switch step {
        case .respond(let stored): deliver(stored)
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

    /// The limits of the origin task; `total` is the time that the task has left.
    private var timeouts: TaskTimeouts {
        var timeouts = task.request.timeouts ?? task.request.endpoint.timeouts
        if let total = timeouts.total {
            let spent = session.loop.now - min(task.startedAt, session.loop.now)
            timeouts.total = TimeSpan(nanoseconds: max(1_000_000, total.nanoseconds - min(spent, total.nanoseconds)))
        }
        return timeouts
    }

    private func deliver(_ stored: CacheTransaction.Response) {
        guard !isOver else { return }
        guard refreshFields == nil else { return task.finish(nil) }
        state = .delivering
        task.isAnsweredByCache = true
        let delivery = CachedDelivery(stored, from: session.cache?.responses.store.disk, to: task, session.loop)
        self.delivery = delivery
        if stored.refreshes { refresh() }
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

    /// Carries out the cache's decision about the origin's response, during its head or later.
    private func decided(_ step: CacheTransaction.HeadStep) {
        guard !isOver else { return }
        switch step {
        case .relay: relay()
        case .respond(let stored): replace(.deliver(stored))
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
            case .deliver(let stored): deliver(stored)
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
        // A background refresh has no client: a body that is not stored is not read, since it may have no end.
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
        case .asking: failed(error ?? SessionError(.internal, "The origin gave neither a response nor an error."))
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
            if case .respond(let stored)? = step { deliver(stored) } else { task.finish(error) }
        }
    }
}

extension BodyFraming {
    /// The length of the body; nil when it is not known beforehand.
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
        "No stored response can be used, and the cache policy of the request forbids asking the origin."
    )
}
