import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust

/// Carries out a task that the session's cache takes part in. The response comes from the cache, or from a second task
/// to the origin, whose response the cache may store. Belongs to the loop.
final class CachedExchange: LoopTaskDelegate, CacheStageDelegate {
    /// Both retain each other until the end of the task.
    let task: LoopTask
    private let session: LoopSession
    private let transaction: CacheTransaction
    /// Fields of a background refresh, which has no client and only updates the stored response; nil for other
    /// requests.
    private let refreshFields: HeaderFields?
    private var stage: CacheStage?
    private var isOver = false

    private var transactions: [TransactionMetrics] = []
    /// The metrics of the response that comes from the cache.
    private var delivery: TransactionMetrics?

    /// nil when the cache takes no part: for methods other than GET and HEAD, for requests with a body, and when the
    /// policy accepts no stored response of this server.
    init?(_ task: LoopTask, _ cache: SessionCache, _ session: LoopSession) {
        let request = task.request
        let endpoint = request.endpoint
        guard let policy = request.cachePolicy, request.method == .get || request.method == .head,
            request.bodyLength == .none, !request.isFullDuplex, task.stream == nil,
            let digest = session.cacheDigest(of: endpoint)
        else { return nil }
        self.task = task
        self.session = session
        refreshFields = nil
        var cached = CacheRequest(method: request.method, fields: request.fields, policy: policy.requestPolicy)
        // What comes over a connection that is authenticated is for this session alone.
        cached.bypasses =
            cache.responses.options.isShared
            && (request.fields.authenticatesConnection || session.connections.hasAuthenticated)
        transaction = CacheTransaction(
            cache.responses,
            url: request.url,
            cached,
            digest: digest,
            loop: session.loop
        )
        super.init()
        prepare()
    }

    /// A background refresh, which another transaction has prepared.
    init(
        _ task: LoopTask,
        refreshing transaction: CacheTransaction,
        asking fields: HeaderFields,
        _ session: LoopSession
    ) {
        self.task = task
        self.session = session
        self.transaction = transaction
        refreshFields = fields
        super.init()
        prepare()
    }

    private func prepare() {
        stage = CacheStage(
            transaction,
            task.request,
            isBackground: refreshFields != nil,
            delegate: self,
            loop: session.loop
        )
        // Only called while the stage has a receiver, which holds the task.
        transaction.willStore = { [unowned task] status, fields in
            // A 401 leads to a second request, and is not stored.
            guard status != 401 else { return .skip }
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
            if let refreshFields { stage?.refresh(asking: refreshFields) } else { stage?.begin() }
        }
    }

    func cancel() { task.cancel() }

    func hold(_ isHeld: Bool) { stage?.hold(isHeld) }

    /// The task can receive more of the response.
    func continueLater() { session.loop.atEndOfTurn { [self] in stage?.resumeReceiving() } }

    /// The task has ended for any reason.
    func detach() {
        guard !isOver else { return }
        isOver = true
        session.forget(self)
        if var delivery {
            delivery.responseEnd = task.elapsed
            transactions.append(delivery)
        }
        if let originTask = stage?.originTask {
            originTask.noteMetrics()
            note(originTask)
        }
        stage?.leave()
        stage = nil
    }

    func collectMetrics(into metrics: inout TaskMetrics) {
        metrics.earlierTransactions = transactions.dropLast()
        metrics.transaction = transactions.last ?? TransactionMetrics()
    }

    /// The evaluation of the connection to the origin.
    var evaluation: TrustEvaluation? {
        stage?.originTask?.evaluation ?? transactions.last?.connection?.evaluation
    }

    // MARK: The origin

    func stage(
        _ stage: CacheStage,
        ask request: SessionRequest,
        delegate: LoopTaskDelegate
    ) -> LoopTask? {
        var request = request
        request.cachePolicy = nil
        request.timeouts = timeouts
        let originTask = session.makeTask(with: request, delegate: delegate)
        originTask.resume()
        if task.isHeldBack { originTask.suspend() }
        return originTask
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

    func stage(
        _ stage: CacheStage,
        didComplete originTask: LoopTask,
        _ error: SessionError?,
        asksAgain: Bool
    ) {
        note(originTask)
    }

    func stage(_ stage: CacheStage, wasHandedBack originTask: LoopTask) {
        note(originTask)
        task.finish(originTask.error)
    }

    private func note(_ originTask: LoopTask) {
        transactions.append(
            originTask.metrics.transaction.later(by: originTask.metrics.fetchStart - task.metrics.fetchStart)
        )
    }

    // MARK: The response

    func stage(_ stage: CacheStage, didReceiveUnused head: borrowing ResponseHead) {
        task.delegate.task(task, didReceiveUnused: head)
    }

    func stageNeedsRefresh(_ stage: CacheStage) {
        var fields = HeaderFields()
        guard let refreshing = transaction.refresh({ fields = $0 }) else { return }
        session.refresh(task, by: refreshing, asking: fields)
    }

    func stage(_ stage: CacheStage, didReceive head: borrowing ResponseHead) -> ResponseDisposition {
        guard !isOver else { return .cancel }
        var disposition: ResponseDisposition
        if stage.isStored {
            task.isAnsweredByCache = true
            var metrics = TransactionMetrics()
            metrics.resourceFetchType = .localCache
            metrics.fetchStart = task.elapsed
            metrics.status = head.status
            metrics.responseStart = task.elapsed
            delivery = metrics
            disposition = task.delegate.task(task, didReceive: withAge(head, stage.storedAge))
        } else {
            disposition = task.delegate.task(task, didReceive: head)
        }
        if disposition == .cancel { task.cancel() }
        if isOver { disposition = .cancel }
        return disposition
    }

    private func withAge(_ head: borrowing ResponseHead, _ age: Int?) -> ResponseHead {
        var head = copy head
        if let age { head.changeFields { $0.append(.age, decimal: age) } }
        return head
    }

    func stage(_ stage: CacheStage, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        guard !isOver, task.delegate.task(task, didReceive: data) == .pause, !isOver else { return .proceed }
        task.pausedByDelegate = true
        return .pause
    }

    func stage(_ stage: CacheStage, didReceiveTrailers trailers: borrowing HeaderFields) {
        if !isOver { task.delegate.task(task, didReceiveTrailers: trailers) }
    }

    func stageMustNotAsk(_ stage: CacheStage) { task.finish(stage.originError ?? .notStored) }

    func stageDidComplete(_ stage: CacheStage, error: SessionError?) { task.finish(error) }
}
