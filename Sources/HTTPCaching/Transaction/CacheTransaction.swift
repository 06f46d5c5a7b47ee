package import HTTPCore
package import IOCore

/// The steps of one request through a cache, from the lookup to the end of the body.
///
/// The caller calls `begin`; after `forward`, `didReceiveHead` (or `originDidFail`); after `relay`, `didReceiveBody`
/// and `didEnd`. It calls `cancel` at any time when the client has disconnected.
///
/// `@unchecked Sendable`: only the thread of `loop` uses it, apart from the constants `identifier`, `key` and `loop`;
/// other threads only pass references and submit work to the loop.
package final class CacheTransaction: @unchecked Sendable {
    /// A response from the cache.
    package struct Response {
        package let head: CacheResponse
        package let body: Body
        package let status: CacheStatus
        /// Whether a background revalidation is needed: see `refresh`.
        package let refreshes: Bool
    }

    /// The location of a stored body; `CacheResponse.body` is the range to send.
    package enum Body {
        case memory([UInt8])
        /// A file: to be read with `DiskStore.read`, or sent from its descriptor.
        case file(StoredBody)
    }

    package enum Step {
        case answer(Response)
        /// Send the request to the origin with these fields.
        case forward(HTTPFields)
        /// Respond with 504, without the origin.
        case gatewayTimeout(CacheStatus)
    }

    package enum HeadStep {
        /// Drop the origin's response, and use this one.
        case answer(Response)
        /// Relay the origin's response to the client, and pass its body to `didReceiveBody`. A background revalidation
        /// has no client, and needs the body only if `isStoring`.
        case relay(CacheStatus)
        /// Drop the origin's response, and send the request again with these fields.
        case again(HTTPFields)
        /// Respond with 504 instead of the failure.
        case gatewayTimeout(CacheStatus)
    }

    /// The reason why a waiting request continues.
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
    /// The outcome for the log; final when the response head is known.
    package internal(set) var outcome = CacheOutcome.bypass
    /// A hook that is called before a response is stored, with the fields to be stored, and again after a validation.
    /// Nil: every storable response is stored.
    package var willStore: ((_ status: Int, _ fields: HTTPFields) -> StoreChange)?

    var completion: ((Step) -> Void)?
    var found = CacheStore.Found()
    var reason = ForwardReason.bypass
    var epoch: UInt64 = 0
    var requestTime = 0
    /// Whether the request to the origin has validators of stored responses.
    var validates = false
    var isLeader = false
    /// The cache's `storedFlightCount` before the lookup.
    var flightsBeforeLookup: UInt64 = 0
    var isCollapsed = false
    /// Whether a truncated body of the origin can be recognised.
    var endIsSure = true
    /// Whether this is a background revalidation, without a client.
    var isBackground = false
    var insertion: CacheInsertion?
    var timer: LoopTimer?
    /// Set while a response waits for the disk.
    private var removalTimer: LoopTimer?
    var isOver = false

    /// - Parameters:
    ///   - url: the URL of the request to the origin.
    ///   - rules: the rules of the host, then those for all hosts.
    ///   - digest: the digest of the host's security policy.
    ///   - loop: the loop on whose thread this is used.
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

    /// The store that reads bodies in files.
    package var disk: DiskStore? { cache.store.disk }

    /// The Cache-Status before the origin has responded.
    package var forwarded: CacheStatus { CacheStatus(.forward(reason)) }

    /// Seconds since 1970.
    var now: Int { Int(loop.wallClock / 1_000_000) }

    // MARK: - Before the origin

    /// Starts with the lookup.
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

    /// Makes the response from the selected entry, and opens its body if it is a file.
    ///
    /// - Parameter completion: gets nil when the body is gone; the entry is deselected then.
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

    /// Opens the body of the selected entry if it is a file.
    ///
    /// - Parameter completion: gets nil when the body is gone; the entry is deselected then.
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

    /// The continuation after the opening of a body.
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

    /// Handles a piece of the origin's body.
    package func didReceiveBody(_ bytes: borrowing Span<UInt8>) {
        guard let insertion else { return }
        insertion.append(bytes)
        guard insertion.isOver else { return }
        // It is too large after all, or has lost its space to another body: followers must not wait for its end.
        self.insertion = nil
        release(insertion.refusal?.ending ?? .failed)
    }

    /// Whether the body is being stored.
    package var isStoring: Bool { insertion != nil }

    /// Handles the end of the origin's response.
    ///
    /// - Parameter isWhole: whether it is known to be complete: by its length, its last chunk, or the proper end of a
    ///   TLS connection.
    package func didEnd(isWhole: Bool) {
        isOver = true
        let insertion = insertion
        self.insertion = nil
        guard isWhole, let insertion else {
            insertion?.abort()
            return release(.failed)
        }
        // Followers look it up; a response that only the disk stores must be there before.
        let loop = loop
        let isStored = insertion.finish(deliver: { loop.submit($0) }) { [self] isStored in settled(isStored) }
        if let isStored { settled(isStored) }
    }

    private func settled(_ isStored: Bool) {
        if isStored { cache.countStored() }
        release(isStored ? .stored : .failed)
    }

    /// Cancels: the client has disconnected, or the request was given up.
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

    /// The longest wait of a response for the disk.
    private static let patienceForDisk = TimeSpan.seconds(2)

    /// Delays the response to an unsafe method until the responses that it invalidates are removed from the disk. If
    /// the process died between the two, the old response would be used again after its restart.
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

    /// `@unchecked Sendable`: only the loop's thread makes and calls it; the store's thread only passes it back.
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
    /// Its reason in Cache-Status.
    var reason: Storability.Reason {
        switch self {
        case .tooLarge: .tooLarge
        case .noRoom: .noRoom
        }
    }

    /// Its meaning for followers: a body that is too large will probably be so the next time.
    var ending: ResponseCache.Ending {
        switch self {
        case .tooLarge: .notForOthers
        case .noRoom: .failed
        }
    }
}
