// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// The first stage: asks the cache, if the host has one, and the origin; sends the request body; passes the one response
/// to the next stage.
final class OriginStage: LoopTaskDelegate, CacheStageDelegate {
    /// Set while the exchange is in use: a task may still know this stage when the exchange has gone.
    private var exchange: StageOwner?
    private let services: WorkerServices
    /// The stage that receives the response.
    private var next: ResponseStage?
    private(set) var task: LoopTask?
    /// The cache's part; nil when nothing is cached.
    private(set) var cache: CacheStage?
    /// The stored response that the request has got at once.
    private(set) var hit: CacheHit?
    /// For the key that a stored response is looked up by.
    private var keyMemory: [UInt8] = []
    /// Body bytes that a former task received and did not send.
    private var carried = ByteBuffer()
    /// The request was sent before, without effect.
    private var isRepetition = false
    /// The latest task, of which nothing was sent; for the log.
    private var unsent: LoopTask?
    /// A request without body and hooks is sent again when its credential is refused (401), and can be renewed.
    private var repeatsRefused = false
    /// The refused fields, while the response to them is being broken off.
    private var refused: CredentialFields?

    /// The client is paused while more of the request body than this waits for the origin.
    private static let highWater = 128 << 10

    init(_ services: WorkerServices) { self.services = services }

    func attach(_ exchange: StageOwner) { self.exchange = exchange }

    /// Whether the exchange's request is under way. To ask costs less than `current`, which takes a reference.
    private var isCurrent: Bool { exchange?.isUnderWay ?? false }

    /// The exchange, unless its request is over.
    private var current: StageOwner? {
        guard let exchange, exchange.isUnderWay else { return nil }
        return exchange
    }

    // MARK: The request

    /// Makes ready for another request.
    func reset() {
        if cache != nil { cache = nil }
        if hit != nil { hit = nil }
        isRepetition = false
        repeatsRefused = false
        if refused != nil { refused = nil }
    }

    /// Determines whether the response to the client's request is dropped if it refuses a credential that can be renewed. A request
    /// with hooks has none of it: its hops have credentials of their own, and the stage of hooks sends them again.
    func repeatRefused(_ repeats: Bool) { repeatsRefused = repeats }

    /// Releases everything that belongs to a request.
    func detach() {
        exchange = nil
        next = nil
        if task != nil { task = nil }
        if cache != nil { cache = nil }
        if hit != nil { hit = nil }
        if keyMemory.count > Self.keptKeyBytes { keyMemory = [] }
        if carried.hasMemory { carried.release() }
    }

    /// The longest key whose memory is kept.
    private static let keptKeyBytes = 2 << 10

    /// Looks for a stored response that the client's request gets at once: it is in `hit` then, and nothing else is done for the
    /// request. Only a request without credentials and hooks may ask.
    ///
    /// - Parameter limit: the longest body, in bytes.
    /// - Returns: whether there is one.
    func findHit(on route: Route, atMost limit: Int) -> Bool {
        guard let responses = services.cache, let terms = route.cache, let exchange,
            !exchange.stream.transport.ownsConnections
        else { return false }
        services.loop.noteWork(.cache)
        let now = services.loop.wallClock / 1_000_000
        hit = terms.hit(in: responses, for: exchange.head, at: now, atMost: limit, &keyMemory)
        guard hit != nil else { return false }
        // A start under a former policy, which ended before anything was sent, has no part in the response.
        if unsent != nil { unsent = nil }
        return true
    }

    /// Sends a request, or responds to it with a stored response.
    ///
    /// - Parameters:
    ///   - changes: the fields that a redirect's rule has changed.
    ///   - next: the stage that receives the response.
    func send(
        _ request: consuming SessionRequest,
        on route: Route,
        with changes: FieldChanges? = nil,
        to next: ResponseStage
    ) {
        guard let exchange else { return }
        self.next = next
        if task != nil { task = nil }
        if cache != nil { cache = nil }
        guard let responses = services.cache, let terms = route.cache,
            let digest = terms.digest(at: services.loop.wallClock / 1_000_000, with: changes)
        else { return dispatch(consume request, delegate: self, to: next) }
        let transaction = terms.transaction(
            in: responses,
            for: request,
            under: digest,
            user: exchange.user,
            givesCredentials: route.hooks?.givesCredentials == true || changes?.givesCredentials == true,
            credentials: exchange.credentials?.partition,
            bypasses: request.fields.authenticatesConnection
                || connectionOwner(for: exchange, isNew: false)?.owns(request.endpoint) == true,
            level: services.level,
            loop: services.loop
        )
        let cache = CacheStage(transaction, consume request, delegate: self)
        self.cache = cache
        cache.begin()
    }

    private func dispatch(_ request: consuming SessionRequest, delegate: LoopTaskDelegate, to next: ResponseStage) {
        guard let exchange, let generation = exchange.generation else { return }
        request.isRepetition = isRepetition
        let guarded = exchange.admission.credentials.fields(of: request)
        let owner = connectionOwner(for: exchange, isNew: request.fields.authenticatesConnection)
        let task = generation.manager.dataTask(with: consume request, delegate: delegate)
        self.task = task
        if let owner { task.owner = owner }
        if guarded != nil { task.guarded = guarded }
        if unsent != nil { unsent = nil }
        if !next.sendKeptBody(to: task) {
            if !carried.isEmpty { task.send(taking: &carried) }
            if exchange.upload.isComplete { endBody(of: exchange) }
        }
        task.resume()
    }

    /// The owner of the connections to origins that the client authenticates; nil as long as it has authenticated none.
    ///
    /// - Parameter isNew: the client is about to.
    private func connectionOwner(for exchange: StageOwner, isNew: Bool) -> ConnectionOwner? {
        guard let transport = exchange.stream?.transport, isNew || transport.ownsConnections else { return nil }
        return transport.connectionOwner(for: exchange.user, isNew: isNew)
    }

    // MARK: The request body

    /// Whether there is room for more of the body.
    var hasRoom: Bool { task.map { $0.pendingBodyBytes < Self.highWater } ?? false }

    /// Body bytes that were not sent yet.
    var waitingBytes: Int { carried.count + (task?.pendingBodyBytes ?? 0) }

    func send(_ bytes: borrowing Span<UInt8>) { task?.send(bytes) }

    /// The origin gets the end of the body, with the trailers that may go there.
    ///
    /// - Parameter route: of a hop; nil: that of the client's request.
    func endBody(of exchange: StageOwner, on route: Route? = nil) {
        guard exchange.upload.hasTrailers else {
            if let task, !task.uploadEnded { task.finishSending(trailers: HeaderFields()) }
            return
        }
        let trailers = exchange.upload.trailers(
            to: route ?? exchange.admission.route,
            with: exchange.credentials,
            as: exchange.requestIdentity
        )
        task?.finishSending(trailers: trailers ?? HeaderFields())
    }

    /// Sends the bytes that the former task did not.
    func sendCarried(by send: (borrowing Span<UInt8>) -> Void) {
        guard !carried.isEmpty else { return }
        var bytes = ByteBuffer()
        swap(&bytes, &carried)
        send(bytes.bytes)
    }

    /// Takes back a task that has sent nothing, and its part of the body.
    ///
    /// - Parameter keeps: whether the bytes are for the next task.
    func recover(_ unsent: LoopTask, keeps: Bool) {
        isRepetition = unsent.wasRepeated
        self.unsent = unsent
        task = nil
        var bytes = ByteBuffer()
        unsent.takeUnsentBody(into: &bytes)
        if keeps { swap(&carried, &bytes) }
    }

    /// The request is sent again, which is its one repeat.
    func noteRepetition() { isRepetition = true }

    /// Adds bytes behind those that a former task did not send.
    func carry(_ bytes: borrowing Span<UInt8>) { carried.append(bytes) }

    // MARK: A body that is signed

    /// Begins to keep the whole body, for a signature.
    ///
    /// - Parameter then: the step that follows the end of the body.
    /// - Returns: why it is not kept.
    func gatherBody(_ then: @escaping () -> Void) -> Problem? {
        guard let exchange else { return nil }
        // A body whose length is known finds its room before it comes.
        let length = exchange.admission.credentials.body.begin(exchange.head.framing, then)
        if length > 0 {
            guard exchange.stream.hold(length) else { return Self.heldTooMuch }
            carried.reserve(max(0, length - carried.count))
        }
        // Bytes that came before a reload are still here.
        var bytes = ByteBuffer()
        swap(&bytes, &carried)
        defer { swap(&bytes, &carried) }
        return count(bytes.bytes, exchange)
    }

    /// Keeps the next bytes of it.
    ///
    /// - Returns: why it may not become longer.
    func gather(_ bytes: borrowing Span<UInt8>) -> Problem? {
        guard let exchange else { return nil }
        carried.append(bytes)
        return count(bytes, exchange)
    }

    private func count(_ bytes: borrowing Span<UInt8>, _ exchange: StageOwner) -> Problem? {
        guard let more = exchange.admission.credentials.body.add(bytes) else { return SignedBody.tooLong }
        return more == 0 || exchange.stream.hold(more) ? nil : Self.heldTooMuch
    }

    private static let heldTooMuch = Problem(
        .limitReached,
        "The process holds as many bytes as limits.heldBytes allows, and the body of this request is signed as a whole. Try again, or raise the limit."
    )

    // MARK: The end

    /// The request starts again: no stored response is used any more.
    func leaveCache() {
        cache?.leave()
        cache = nil
        hit = nil
    }

    /// The task of an earlier start of the request is not needed any more.
    func forgetTask() { task = nil }

    /// The origin's response is not wanted any more.
    func cancel() { task?.cancel() }

    /// The request is over.
    ///
    /// - Parameter relayed: the task of a relay.
    /// - Returns: the last task, for the log.
    func end(_ relayed: LoopTask?) -> LoopTask? {
        let ended = task ?? relayed ?? unsent
        // The response may go on to the cache, and to others that read it along.
        if cache?.leave() == true { ended?.noteMetrics() } else { ended?.cancel() }
        task = nil
        if unsent != nil { unsent = nil }
        return ended
    }

    // MARK: - From the origin

    override func taskDidConnect(_ task: LoopTask) {
        guard let exchange, exchange.isUnderWay, !exchange.upload.isComplete else { return }
        exchange.originDidConnect()
    }

    override func taskNeedsBodyData(_ task: LoopTask) {
        guard let exchange = current, next?.continueReplay() != true else { return }
        exchange.stream.exchangeNeedsBody()
    }

    override func task(_ task: LoopTask, didReceiveInformational head: borrowing ResponseHead) {
        if isCurrent { next?.receiveInformational(head) }
    }

    override func task(_ task: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        receiveHead(response)
    }

    override func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow { receiveBody(data) }

    override func task(_ task: LoopTask, didReceiveTrailers trailers: borrowing HeaderFields) {
        receiveTrailers(trailers)
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        if let error, error.code == .sessionInvalidated, let exchange = current { return exchange.restart(after: task) }
        receiveEnd(error)
    }

    @inline(__always)
    private func receiveHead(_ head: borrowing ResponseHead) -> ResponseDisposition {
        guard isCurrent, let next else { return .cancel }
        if unsent != nil { unsent = nil }
        if repeatsRefused, head.status == 401 {
            if let fields = renewableCredentials {
                refused = fields
                // It is not read to its end, which could be long in coming.
                return .cancel
            }
            if task != nil { exchange?.admission.credentials.noteRefusal() }
        }
        if head.fields.offersConnectionAuthentication, let exchange,
            let owner = connectionOwner(for: exchange, isNew: true)
        {
            task?.giveConnection(to: owner)
        }
        return next.receiveHead(head)
    }

    /// The fields of the request that the server has refused (401), if there may be others: the request can be sent again then.
    var renewableCredentials: CredentialFields? {
        task?.wasRepeated == false ? exchange?.admission.credentials.renewable : nil
    }

    private func receiveBody(_ data: borrowing Span<UInt8>) -> BodyFlow {
        guard isCurrent, let next else { return .pause }
        return refused == nil ? next.receiveBody(data) : .proceed
    }

    private func receiveTrailers(_ trailers: borrowing HeaderFields) {
        if isCurrent, refused == nil { next?.receiveTrailers(trailers) }
    }

    private func receiveEnd(_ error: SessionError?) {
        guard let exchange = current else { return }
        guard let fields = refused.take() else { next?.receiveEnd(error); return }
        exchange.renewCredentials(fields) { [weak exchange] in exchange?.sendAgain() }
    }

    /// The next stage has room again.
    func resumeReceiving() {
        if let cache { cache.resumeReceiving() } else { task?.resumeReceiving() }
    }

    // MARK: - From the cache

    func stageMayContinue(_ stage: CacheStage) -> Bool { exchange?.canContinue() ?? false }

    func stage(_ stage: CacheStage, ask request: SessionRequest) -> LoopTask? {
        guard let next else { return nil }
        dispatch(request, delegate: stage, to: next)
        return task
    }

    func stage(_ stage: CacheStage, wasHandedBack task: LoopTask) {
        if let exchange = current { exchange.restart(after: task) }
    }

    func stageMustNotAsk(_ stage: CacheStage) {
        exchange?.refuseUnsent(
            Problem(
                .notStored,
                "No stored response may be used for this request, and it forbids a request to the origin. Leave out only-if-cached (or the policy returnCacheDataDontLoad)."
            )
        )
    }

    /// Starts the background refresh of a stored response that is being served stale.
    func stageNeedsRefresh(_ stage: CacheStage) { exchange?.refresh(stage) }

    func stage(_ stage: CacheStage, didReceive head: borrowing ResponseHead) -> ResponseDisposition {
        receiveHead(head)
    }

    func stage(_ stage: CacheStage, didReceive data: borrowing Span<UInt8>) -> BodyFlow { receiveBody(data) }

    func stage(
        _ stage: CacheStage,
        didReceive data: borrowing Span<UInt8>,
        followedBy more: borrowing Span<UInt8>
    ) -> (taken: Int, flow: BodyFlow) {
        guard isCurrent, let next else { return (data.count, .pause) }
        guard refused == nil else { return (data.count, .proceed) }
        return next.receiveBody(data, followedBy: more)
    }

    func stage(_ stage: CacheStage, didReceive file: FileBytes) -> (taken: Int, flow: BodyFlow)? {
        guard isCurrent, refused == nil else { return nil }
        return next?.receive(file)
    }

    func stage(_ stage: CacheStage, didReceiveTrailers trailers: borrowing HeaderFields) {
        receiveTrailers(trailers)
    }

    func stagePieceSize(_ stage: CacheStage) -> Int { next?.pieceSize ?? .max }

    func stagePatience(_ stage: CacheStage) -> TimeSpan? {
        let timeouts = (stage.request.timeouts ?? stage.request.endpoint.timeouts).spans
        guard let total = timeouts.total else { return timeouts.stall }
        guard let exchange else { return min(timeouts.stall, total) }
        return min(timeouts.stall, exchange.life.rest(of: total, at: services.loop.now) ?? TimeSpan(nanoseconds: 0))
    }

    func stageDidComplete(_ stage: CacheStage, error: SessionError?) { receiveEnd(error) }
}
