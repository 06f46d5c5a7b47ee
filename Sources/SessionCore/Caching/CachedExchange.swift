// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust

/// Carries out a task that the session's cache takes part in. The response comes from the cache, or from a second task
/// to the origin, whose response the cache may store. Belongs to the loop.
final class CachedExchange: TaskCarrier, CacheStageDelegate {
    /// Both retain each other until the end of the task.
    let task: LoopTask
    private let tasks: CachedTasks
    private let transaction: CacheTransaction
    private var stage: CacheStage?

    private var transactions: [TransactionMetrics] = []
    /// The metrics of the response that comes from the cache.
    private var delivery: TransactionMetrics?

    /// nil when the cache takes no part: for methods other than GET and HEAD, for requests with a body, and when the
    /// policy accepts no stored response of this server.
    init?(_ task: LoopTask, in tasks: CachedTasks) {
        let request = task.request
        let endpoint = request.endpoint
        guard let policy = request.cachePolicy, request.method == .get || request.method == .head,
            request.bodyLength == .none, !request.isFullDuplex, task.taker == nil,
            let digest = tasks.digest(of: endpoint)
        else { return nil }
        self.task = task
        self.tasks = tasks
        var cached = CacheRequest(method: request.method, fields: request.fields, policy: policy.requestPolicy)
        cached.bypasses = tasks.bypasses(request)
        transaction = CacheTransaction(
            tasks.cache.responses,
            url: request.url,
            cached,
            digest: digest,
            loop: tasks.session.loop
        )
        super.init()
        stage = CacheStage(transaction, request, delegate: self)
        // Only called while the stage has a receiver, which holds the task.
        transaction.willStore = { [unowned task] status, fields in
            StoreChange(by: task.delegate, of: task, status: status, fields)
        }
    }

    // MARK: What the task asks for

    private var loop: EventLoop { tasks.session.loop }

    override func start() {
        // The delegate is not called while the task is being resumed.
        loop.atEndOfTurn { [self] in stage?.begin() }
    }

    override func holdDidChange() { stage?.hold(isHeldBack) }

    override func continueLater() { loop.atEndOfTurn { [self] in stage?.resumeReceiving() } }

    override func end() {
        tasks.forget(task)
        stage?.leave()
        stage = nil
    }

    override func collectMetrics(into metrics: inout TaskMetrics) {
        var all = transactions
        if var delivery {
            delivery.responseEnd = task.elapsed
            all.append(delivery)
        }
        if let originTask = stage?.originTask {
            originTask.noteMetrics()
            all.append(originTask.metrics.transaction(from: metrics.fetchStart))
        }
        metrics.earlierTransactions = all.dropLast()
        metrics.transaction = all.last ?? TransactionMetrics()
    }

    /// The evaluation of the connection to the origin.
    override var evaluation: TrustEvaluation? {
        stage?.originTask?.evaluation ?? transactions.last?.connection?.evaluation
    }

    // MARK: The origin

    func stage(_ stage: CacheStage, ask request: SessionRequest) -> LoopTask? {
        var request = request
        request.cachePolicy = nil
        request.timeouts = timeouts
        let originTask = tasks.session.makeTask(with: request, delegate: stage)
        originTask.resume()
        if isHeldBack { originTask.suspend() }
        return originTask
    }

    /// The limits of the origin task; `total` is the time that the task has left.
    private var timeouts: TaskTimeouts {
        var timeouts = task.request.timeouts ?? task.request.endpoint.timeouts
        if let total = timeouts.spans.total {
            let spent = loop.now - min(task.startedAt, loop.now)
            let left = max(1_000_000, total.nanoseconds - min(spent, total.nanoseconds))
            timeouts.spans.total = TimeSpan(nanoseconds: left)
        }
        return timeouts
    }

    func taskNeedsClientIdentity(_ originTask: LoopTask) -> ClientIdentityDecision {
        task.delegate.taskNeedsClientIdentity(task)
    }

    func task(_ originTask: LoopTask, mayTrust trust: ConnectionTrust) -> SessionError? {
        task.delegate.task(task, mayTrust: trust)
    }

    func taskDidConnect(_ originTask: LoopTask) { task.delegate.taskDidConnect(task) }

    func task(_ originTask: LoopTask, didReceiveInformational head: borrowing ResponseHead) {
        task.delegate.task(task, didReceiveInformational: head)
    }

    func stage(_ stage: CacheStage, didComplete originTask: LoopTask, _ error: SessionError?, asksAgain: Bool) {
        note(originTask)
    }

    func stage(_ stage: CacheStage, wasHandedBack originTask: LoopTask) {
        note(originTask)
        task.finish(originTask.error)
    }

    private func note(_ originTask: LoopTask) {
        transactions.append(originTask.metrics.transaction(from: task.metrics.fetchStart))
    }

    // MARK: The response

    func stage(_ stage: CacheStage, didReceiveUnused head: borrowing ResponseHead) {
        task.delegate.task(task, didReceiveUnused: head)
    }

    func stageNeedsRefresh(_ stage: CacheStage) {
        CacheStage.refresh(transaction, like: task.request, delegate: SessionRefresh(of: task, in: tasks.session))
    }

    func stage(_ stage: CacheStage, didReceive head: borrowing ResponseHead) -> ResponseDisposition {
        let disposition: ResponseDisposition
        if let age = stage.storedAge {
            task.isAnsweredByCache = true
            var metrics = TransactionMetrics()
            metrics.resourceFetchType = .localCache
            metrics.fetchStart = task.elapsed
            metrics.status = head.status
            metrics.responseStart = task.elapsed
            delivery = metrics
            disposition = task.delegate.task(task, didReceive: withAge(head, age))
        } else {
            disposition = task.delegate.task(task, didReceive: head)
        }
        if disposition == .cancel { task.cancel() }
        return disposition
    }

    private func withAge(_ head: borrowing ResponseHead, _ age: Int) -> ResponseHead {
        var head = copy head
        head.changeFields { $0.append(.age, decimal: age) }
        return head
    }

    func stage(_ stage: CacheStage, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        guard task.delegate.task(task, didReceive: data) == .pause else { return .proceed }
        isPausedByDelegate = true
        return .pause
    }

    func stage(_ stage: CacheStage, didReceiveTrailers trailers: borrowing HeaderFields) {
        task.delegate.task(task, didReceiveTrailers: trailers)
    }

    func stageMustNotAsk(_ stage: CacheStage) { task.finish(stage.originError ?? .notStored) }

    func stageDidComplete(_ stage: CacheStage, error: SessionError?) { task.finish(error) }
}
