package import HTTPCore
package import IOCore

/// One request on its way through a cache: what is to be done next, from the lookup to the end of the body.
///
/// In order: `begin`; where that says `forward`, `didReceiveHead` (or `originDidFail`) and, where that says `relay`, `didReceiveBody`
/// and `didEnd`. `cancel` when the client has gone, at any time.
///
/// `@unchecked Sendable`: everything but `identifier`, `key` and `loop` is touched on the thread of `loop` alone; other
/// threads hand it over and submit to the loop.
package final class CacheTransaction: @unchecked Sendable {
    /// What the request is answered with out of the cache.
    package struct Response {
        package let head: CacheResponse
        package let body: Body
        package let status: CacheStatus
        /// Whether the origin is to be asked in the background: see `refresh`.
        package let refreshes: Bool
    }

    /// Where the bytes of a stored body are; `CacheResponse.body` says which of them are sent.
    package enum Body {
        case memory([UInt8])
        /// To be read with `DiskStore.read`, or sent from its descriptor.
        case file(StoredBody)
    }

    package enum Step {
        case answer(Response)
        /// The origin is asked with these fields.
        case forward(HTTPFields)
        /// 504, and the origin is not asked.
        case gatewayTimeout(CacheStatus)
    }

    package enum HeadStep {
        /// The origin's answer is dropped, and this takes its place.
        case answer(Response)
        /// The origin's answer goes to the client; its body is shown to `body` on the way. In the background there is none,
        /// and only a body that `isStoring` is wanted.
        case relay(CacheStatus)
        /// The origin's answer is dropped, and it is asked again with these fields.
        case again(HTTPFields)
        /// 504 in place of the failure.
        case gatewayTimeout(CacheStatus)
    }

    /// Why a request that waited goes on.
    enum Wake {
        case lookUp, goAlone, lead
    }

    let identifier: UInt64
    package let key: CacheKey
    let loop: EventLoop
    package let cache: ResponseCache
    let url: AbsoluteURL
    let request: CacheRequest
    let rules: [CacheRule]
    package let digest: PolicyDigest
    /// What the log says; final when the answer's head is known.
    package internal(set) var outcome = CacheOutcome.bypass
    /// Asked of each response that may be stored, before it is, with the fields as they would be; and again of what a
    /// validation has made of it. Nil: all are stored.
    package var willStore: ((_ status: Int, _ fields: HTTPFields) -> StoreChange)?

    var completion: ((Step) -> Void)?
    var found = CacheStore.Found()
    var reason = ForwardReason.bypass
    var epoch: UInt64 = 0
    var requestTime = 0
    /// Whether the request bears the validators of what is stored.
    var validates = false
    var isLeader = false
    /// The cache's `storedFlightCount` before the store was asked.
    var flightsBeforeLookup: UInt64 = 0
    var isCollapsed = false
    /// Whether the end of the origin's body can be told from its being cut short.
    var endIsSure = true
    /// Asked in the background: nobody waits for an answer.
    var isBackground = false
    var insertion: CacheInsertion?
    var timer: LoopTimer?
    /// Set while an answer waits for the disk.
    private var removalTimer: LoopTimer?
    var isOver = false

    /// - Parameters:
    ///   - url: of the request as the origin gets it.
    ///   - rules: of the host, then of all.
    ///   - digest: of the security policy that holds for the host.
    ///   - loop: whose thread this is used on.
    package init(
        _ cache: ResponseCache,
        url: AbsoluteURL,
        _ request: CacheRequest,
        partition: [UInt8] = [],
        rules: [CacheRule] = [],
        digest: PolicyDigest,
        loop: EventLoop
    ) {
        self.cache = cache
        self.url = url
        self.request = request
        self.rules = rules
        self.digest = digest
        self.loop = loop
        identifier = cache.makeIdentifier()
        key = CacheKey(method: request.method, origin: url.origin, target: url.target.span, partition: partition)
    }

    /// Where the bodies of its answers are read.
    package var disk: DiskStore? { cache.store.disk }

    /// What Cache-Status says as long as the origin has not answered.
    package var forwarded: CacheStatus { CacheStatus(.forward(reason)) }

    /// Seconds since 1970.
    var now: Int { Int(loop.wallClock / 1_000_000) }

    // MARK: - Before the origin

    /// Looks the request up.
    ///
    /// - Parameter completion: is called once, perhaps before `begin` returns, and not after `cancel`.
    package func begin(_ completion: @escaping (Step) -> Void) {
        self.completion = completion
        let isRead = request.method == .get || request.method == .head
        guard isRead, request.isCacheable, request.policy != .reloadIgnoringLocalCacheData else {
            return decide(mayWait: false)
        }
        lookUp(mayWait: true)
    }

    func lookUp(mayWait: Bool) {
        let loop = loop
        flightsBeforeLookup = cache.storedFlightCount
        let lookup = cache.store.find(
            key,
            for: request,
            under: digest,
            deliver: { loop.submit($0) },
            { [self] found in lookedUp(found, mayWait: mayWait) }
        )
        if case .found(let found) = lookup { lookedUp(found, mayWait: mayWait) }
    }

    func lookedUp(_ found: CacheStore.Found, mayWait: Bool) {
        guard !isOver else { return }
        self.found = found
        decide(mayWait: mayWait)
    }

    func decide(mayWait: Bool) {
        switch ReuseDecision.decide(request, found, now: now, isDoubted: cache.doubts(url.origin)) {
        case .reuse(let reuse):
            makeResponse(reuse, isCollapsed ? .forward(reason) : .hit) { [self] answer in
                guard let answer else { return decide(mayWait: mayWait) }
                outcome = reuse.freshness.isFresh ? .hit : .stale
                cache.count(outcome)
                if isCollapsed { cache.countCollapsed() }
                release(.stored)
                finish(.answer(answer))
            }
        case .gatewayTimeout:
            outcome = .miss
            cache.count(outcome)
            release(.abandoned)
            finish(.gatewayTimeout(CacheStatus(.forward(found.entries.isEmpty ? .uriMiss : .miss))))
        case .forward(let reason, let validates):
            if !isCollapsed { self.reason = reason }
            self.validates = validates
            outcome = reason == .method || reason == .bypass ? .bypass : .miss
            if mayWait, isCollapsible { wait() } else { forward() }
        }
    }

    /// Builds the answer out of the selected entry, whose body is opened where it is a file.
    ///
    /// - Parameter completion: gets nil when the body is not there any more; then the entry is not selected any more.
    func makeResponse(_ reuse: Reuse, _ told: CacheStatus.Outcome, _ completion: @escaping (Response?) -> Void) {
        guard let entry = found.entry else { return completion(nil) }
        if case .memory(let bytes) = entry.body { return completion(makeResponse(reuse, told, entry, .memory(bytes))) }
        openBody { [self] body in completion(body.map { makeResponse(reuse, told, entry, $0) }) }
    }

    func makeResponse(_ reuse: Reuse, _ told: CacheStatus.Outcome, _ entry: CachedEntry, _ body: Body) -> Response {
        var status = CacheStatus(told, timeToLive: reuse.timeToLive)
        status.isCollapsed = isCollapsed
        let head = CacheResponse(entry.response, length: entry.body.count, to: request, age: reuse.freshness.age)
        return Response(head: head, body: body, status: status, refreshes: reuse.revalidates)
    }

    /// Opens the body of the selected entry, where it is a file.
    ///
    /// - Parameter completion: gets nil when it is not there any more; then the entry is not selected any more.
    func openBody(_ completion: @escaping (Body?) -> Void) {
        guard let entry = found.entry else { return completion(nil) }
        switch entry.body {
        case .memory(let bytes): completion(.memory(bytes))
        case .file(let file):
            guard let disk = cache.store.disk else {
                forget(entry)
                return completion(nil)
            }
            let loop = loop
            pending = { [self] body in
                if body == nil { forget(entry) }
                completion(body.map { .file($0) })
            }
            disk.open(file, deliver: { loop.submit($0) }, { [self] body in opened(body) })
        }
    }

    /// What waits for a body to be opened.
    var pending: ((StoredBody?) -> Void)?

    func opened(_ body: StoredBody?) {
        let waiting = pending
        pending = nil
        guard !isOver else { return }
        waiting?(body)
    }

    private func forget(_ entry: CachedEntry) {
        found.entries.removeAll { $0 === entry }
        found.selected = nil
    }

    func finish(_ step: Step) {
        let completion = completion
        self.completion = nil
        completion?(step)
    }

    /// A piece of the origin's body, on its way to the client.
    package func didReceiveBody(_ bytes: borrowing Span<UInt8>) {
        guard let insertion else { return }
        insertion.append(bytes)
        guard insertion.isOver else { return }
        // Too large after all, or its room is another's: nobody waits for its end any longer.
        self.insertion = nil
        release(insertion.refusal?.ending ?? .failed)
    }

    /// Whether the body that comes is being stored.
    package var isStoring: Bool { insertion != nil }

    /// The origin's answer has ended.
    ///
    /// - Parameter isWhole: whether it is known to be complete: its length, its last chunk, or the end of a TLS connection
    ///   that said so.
    package func didEnd(isWhole: Bool) {
        isOver = true
        let insertion = insertion
        self.insertion = nil
        guard isWhole, let insertion else {
            insertion?.abort()
            return release(.failed)
        }
        // Those that wait for it look it up: where the disk alone takes it, not before it is there.
        let loop = loop
        let isStored = insertion.finish(deliver: { loop.submit($0) }) { [self] isStored in settled(isStored) }
        if let isStored { settled(isStored) }
    }

    private func settled(_ isStored: Bool) {
        if isStored { cache.countStored() }
        release(isStored ? .stored : .failed)
    }

    /// The client has gone, or the request was given up.
    package func cancel() {
        guard !isOver else { return }
        isOver = true
        completion = nil
        pending = nil
        insertion?.abort()
        insertion = nil
        if timer != nil {
            stopTimer()
            cache.leave(self)
        }
        stopWaitingForDisk()
        release(.abandoned)
    }

    /// Longer than this no answer waits for the disk.
    private static let patienceForDisk = TimeSpan.seconds(2)

    /// Has the answer to an unsafe method wait until what it makes worthless is gone from the disk: if the process died
    /// between the two, the old response would be back after its restart.
    ///
    /// - Parameter completion: is called once, perhaps before this returns, and not after `cancel`.
    func remove(_ keys: [CacheKey], _ completion: @escaping () -> Void) {
        let loop = loop
        var isWaiting = true
        let goOn = { [self] in
            guard isWaiting, !isOver else { return }
            isWaiting = false
            stopWaitingForDisk()
            completion()
        }
        let pending = PendingRemoval(goOn)
        let isPending = cache.store.invalidate(keys, deliver: { loop.submit($0) }) { pending.finish() }
        guard isPending else { return goOn() }
        let timer = LoopTimer(goOn)
        removalTimer = timer
        loop.arm(timer, after: Self.patienceForDisk)
    }

    private func stopWaitingForDisk() {
        if let removalTimer { loop.remove(removalTimer) }
        removalTimer = nil
    }

    /// `@unchecked Sendable`: made and called on the loop's thread; the store's thread only hands it back.
    private final class PendingRemoval: @unchecked Sendable {
        private let goOn: () -> Void
        init(_ goOn: @escaping () -> Void) { self.goOn = goOn }
        func finish() { goOn() }
    }

    func release(_ ending: ResponseCache.Ending) {
        guard isLeader else { return }
        isLeader = false
        cache.leaderDidEnd(self, ending, now: loop.now)
    }
}

extension InsertionRefusal {
    /// Its word in Cache-Status.
    var reason: Storability.Reason {
        switch self {
        case .tooLarge: .tooLarge
        case .noRoom: .noRoom
        }
    }

    /// What it is to those that wait: a body that is too large will be so the next time.
    var ending: ResponseCache.Ending {
        switch self {
        case .tooLarge: .notForOthers
        case .noRoom: .failed
        }
    }
}
