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
        case respond(Response)
        /// Send the request to the origin with these fields.
        case forward(HTTPFields)
        /// Respond with 504, without the origin.
        case gatewayTimeout(CacheStatus)
    }

    package enum HeadStep {
        /// Drop the origin's response, and use this one.
        case respond(Response)
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
    private let url: AbsoluteURL
    private let request: CacheRequest
    private let rules: [CacheRule]
    package let digest: PolicyDigest
    /// The outcome for the log; final when the response head is known.
    package private(set) var outcome = CacheOutcome.bypass
    /// A hook that is called before a response is stored, with the fields to be stored, and again after a validation.
    /// Nil: every storable response is stored.
    package var willStore: ((_ status: Int, _ fields: HTTPFields) -> StoreChange)?

    private var completion: ((Step) -> Void)?
    private var found = CacheStore.Found()
    private var reason = ForwardReason.bypass
    private var epoch: UInt64 = 0
    private var requestTime = 0
    /// Whether the request to the origin has validators of stored responses.
    private var validates = false
    private var isLeader = false
    /// The cache's `storedFlightCount` before the lookup.
    private var flightsBeforeLookup: UInt64 = 0
    private var isCollapsed = false
    /// Whether a truncated body of the origin can be recognised.
    private var endIsSure = true
    /// Whether this is a background revalidation, without a client.
    private var isBackground = false
    private var insertion: CacheInsertion?
    private var timer: LoopTimer?
    /// Set while a response waits for the disk.
    private var removalTimer: LoopTimer?
    private var isOver = false

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
    private var now: Int { Int(loop.wallClock / 1_000_000) }

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

    private func lookUp(mayWait: Bool) {
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

    private func lookedUp(_ found: CacheStore.Found, mayWait: Bool) {
        guard !isOver else { return }
        self.found = found
        decide(mayWait: mayWait)
    }

    private func decide(mayWait: Bool) {
        switch ReuseDecision.decide(request, found, now: now, isDoubted: cache.doubts(url.origin)) {
        case .reuse(let reuse):
            makeResponse(reuse, isCollapsed ? .forward(reason) : .hit) { [self] response in
                guard let response else { return decide(mayWait: mayWait) }
                outcome = reuse.freshness.isFresh ? .hit : .stale
                cache.count(outcome)
                if isCollapsed { cache.countCollapsed() }
                release(.stored)
                finish(.respond(response))
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
    private func makeResponse(
        _ reuse: Reuse,
        _ outcome: CacheStatus.Outcome,
        _ completion: @escaping (Response?) -> Void
    ) {
        guard let entry = found.entry else { return completion(nil) }
        if case .memory(let bytes) = entry.body {
            return completion(makeResponse(reuse, outcome, entry, .memory(bytes)))
        }
        openBody { [self] body in completion(body.map { makeResponse(reuse, outcome, entry, $0) }) }
    }

    private func makeResponse(_ reuse: Reuse, _ outcome: CacheStatus.Outcome, _ entry: CachedEntry, _ body: Body)
        -> Response
    {
        var status = CacheStatus(outcome, timeToLive: reuse.timeToLive)
        status.isCollapsed = isCollapsed
        let head = CacheResponse(entry.response, length: entry.body.count, to: request, age: reuse.freshness.age)
        return Response(head: head, body: body, status: status, refreshes: reuse.revalidates)
    }

    /// Opens the body of the selected entry if it is a file.
    ///
    /// - Parameter completion: gets nil when the body is gone; the entry is deselected then.
    private func openBody(_ completion: @escaping (Body?) -> Void) {
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
    private var pending: ((StoredBody?) -> Void)?

    private func opened(_ body: StoredBody?) {
        let waiting = pending
        pending = nil
        guard !isOver else { return }
        waiting?(body)
    }

    private func forget(_ entry: CachedEntry) {
        found.entries.removeAll { $0 === entry }
        found.selected = nil
    }

    private func finish(_ step: Step) {
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
    private func remove(_ keys: [CacheKey], _ completion: @escaping () -> Void) {
        let loop = loop
        var isWaiting = true
        let resume = { [self] in
            guard isWaiting, !isOver else { return }
            isWaiting = false
            stopWaitingForDisk()
            completion()
        }
        let pending = PendingRemoval(resume)
        let isPending = cache.store.invalidate(keys, deliver: { loop.submit($0) }) { pending.finish() }
        guard isPending else { return resume() }
        let timer = LoopTimer(resume)
        removalTimer = timer
        loop.arm(timer, after: Self.patienceForDisk)
    }

    private func stopWaitingForDisk() {
        if let removalTimer { loop.remove(removalTimer) }
        removalTimer = nil
    }

    /// `@unchecked Sendable`: only the loop's thread makes and calls it; the store's thread only passes it back.
    private final class PendingRemoval: @unchecked Sendable {
        private let resume: () -> Void
        init(_ resume: @escaping () -> Void) { self.resume = resume }
        func finish() { resume() }
    }

    private func release(_ ending: ResponseCache.Ending) {
        guard isLeader else { return }
        isLeader = false
        cache.leaderDidEnd(self, ending, now: loop.now)
    }
}

/// Waiting for the response to another request.
extension CacheTransaction {
    private static let ownConditions: FieldNameSet = [.ifNoneMatch, .ifModifiedSince, .range, .ifRange]

    /// Whether this request and others are likely to be able to share one response.
    private var isCollapsible: Bool {
        request.method == .get && request.policy == .useProtocolCachePolicy && !request.hasCredentials
            && !request.control.noStore && request.control.noCache == nil
            && !request.fields.containsAny(of: Self.ownConditions)
    }

    private func wait() {
        switch cache.join(self, now: loop.now) {
        case .lead:
            isLeader = true
            // Another request may have stored its response and ended since this one's lookup.
            if cache.storedFlightCount == flightsBeforeLookup { forward() } else { lookUp(mayWait: false) }
        case .goAlone:
            forward()
        case .wait(let until):
            let timer = LoopTimer { [weak self] in
                guard let self else { return }
                cache.expire(key, now: max(loop.now, until))
            }
            self.timer = timer
            loop.arm(timer, at: until)
        }
    }

    func wake(_ wake: Wake) {
        stopTimer()
        guard !isOver else {
            // It was cancelled meanwhile: the next one leads.
            if wake == .lead { cache.leaderDidEnd(self, .abandoned, now: loop.now) }
            return
        }
        switch wake {
        case .goAlone: forward()
        case .lead:
            isLeader = true
            forward()
        case .lookUp:
            isCollapsed = true
            lookUp(mayWait: false)
        }
    }

    private func stopTimer() {
        if let timer { loop.remove(timer) }
        timer = nil
    }
}

/// The request to the origin, and the effects of its response on the cache.
extension CacheTransaction {
    private func forward() {
        epoch = cache.store.epoch(of: key)
        requestTime = now
        isCollapsed = false
        var fields = request.fields
        if validates {
            let conditional = Revalidation.fields(
                of: request,
                selected: found.selected,
                variants: found.entries.map(\.response)
            )
            validates = conditional != nil
            fields = conditional ?? fields
        }
        finish(.forward(fields))
    }

    /// Handles the origin's final response head.
    ///
    /// - Parameters:
    ///   - length: the length of its body in bytes, if known.
    ///   - mayStore: false if the evaluation of the server did not pass completely (a failed pin that was only
    ///     reported).
    ///   - endIsSure: false if a truncated body could not be recognised (RFC 9112 8): it is not stored.
    ///   - completion: is called once, perhaps before this returns, and not after `cancel`.
    package func didReceiveHead(
        status: Int,
        _ fields: HTTPFields,
        length: Int?,
        mayStore: Bool,
        endIsSure: Bool = true,
        _ completion: @escaping (HeadStep) -> Void
    ) {
        self.endIsSure = endIsSure
        if mayStore { cache.trust(url.origin) }
        if status == 304, validates { return notModified(fields, mayStore: mayStore, completion) }
        if status >= 500, mayStore,
            case .reuse(let reuse)? = ReuseDecision.decide(
                afterFailure: .serverError(status),
                request,
                stored: found.entry?.response,
                now: now,
                cache.options
            )
        {
            release(.failed)
            return makeResponse(reuse, .forward(reason)) { [self] response in
                guard let response else { return completion(.relay(relay(status, fields, length, mayStore: false))) }
                outcome = .stale
                cache.count(outcome)
                var cacheStatus = response.status
                cacheStatus.forwardStatus = status
                let stale = Response(head: response.head, body: response.body, status: cacheStatus, refreshes: false)
                completion(.respond(stale))
            }
        }
        let cacheStatus = relay(status, fields, length, mayStore: mayStore)
        let invalidated = Invalidation.keys(after: request.method, of: url, status: status, response: fields)
        guard !invalidated.isEmpty else { return completion(.relay(cacheStatus)) }
        remove(invalidated) { completion(.relay(cacheStatus)) }
    }

    /// Applies the effects of the origin's response, which goes to the client, on the cache.
    private func relay(_ status: Int, _ fields: HTTPFields, _ length: Int?, mayStore: Bool) -> CacheStatus {
        cache.count(outcome)
        var cacheStatus = CacheStatus(.forward(reason))
        if request.method == .head, mayStore { updateStored(status, fields) }
        guard request.method == .get else { return cacheStatus }
        guard mayStore, endIsSure else {
            release(.notForOthers)
            return cacheStatus
        }
        let target = url.target
        var verdict = StoreVerdict(
            request,
            target: target.span,
            status: status,
            response: fields,
            rules: rules,
            cache.options
        )
        var inMemoryOnly = false
        var isForOthers = false
        var ending = ResponseCache.Ending.notForOthers
        if let willStore, case .store(let kept, _, _) = verdict {
            switch willStore(status, kept) {
            case .skip: verdict = .skip(.rule)
            case .store(let changed, let onlyThere):
                verdict = verdict.revised(changed, request, status: status, cache.options)
                inMemoryOnly = onlyThere
            }
        }
        switch verdict {
        case .skip(let reason):
            cacheStatus.reason = reason
        case .store(let kept, let ruleLifetime, let maximumBytes):
            let response = StoredResponse(
                status: status,
                response: kept,
                to: request,
                requestTime: requestTime,
                responseTime: now,
                digest: digest,
                ruleLifetime: ruleLifetime,
                siblings: found.entries.map(\.response),
                cache.options
            )
            guard isWorthKeeping(response) else {
                cacheStatus.reason = .noLifetime
                break
            }
            do throws(InsertionRefusal) {
                insertion = try cache.store.beginning(
                    for: key,
                    response,
                    epoch: epoch,
                    tags: SurrogateKeys.tags(of: kept),
                    length: length,
                    maximumBytes: maximumBytes,
                    // Vary may name a field that this program adds: a secret.
                    inMemoryOnly: inMemoryOnly || (request.hasCredentials && !response.selecting.isEmpty)
                )
                isForOthers = isReusableForOthers(response)
                cacheStatus.isStored = true
            } catch {
                cacheStatus.reason = error.reason
                ending = error.ending
            }
            let freshness = response.freshness(now: now)
            cacheStatus.timeToLive = freshness.lifetime - freshness.age
        }
        if !isForOthers { release(ending) }
        return cacheStatus
    }

    /// Whether a stored response could ever be used under RFC 9111. In a shared cache a response without lifetime and
    /// validator, like most responses of APIs, would only cost disk writes. A policy that accepts old responses, and a
    /// private cache, may use it.
    private func isWorthKeeping(_ response: StoredResponse) -> Bool {
        guard cache.options.isShared, request.policy == .useProtocolCachePolicy, found.entries.isEmpty else {
            return true
        }
        let terms = response.terms
        return response.hasValidator || terms.lifetime > 0 || terms.staleWhileRevalidate > 0 || terms.staleIfError > 0
            || cache.options.staleWhenDisconnected > 0
    }

    /// Whether other requests for the URI could use the response without validation. If not, they must not wait for the
    /// end of its body, which may be an endless stream.
    private func isReusableForOthers(_ response: StoredResponse) -> Bool {
        let plain = CacheRequest(method: .get, fields: HTTPFields())
        let use = ReuseDecision.decide(plain, stored: response, hasVariants: true, now: now, cache.options)
        if case .reuse = use { return true }
        return false
    }

    private func updateStored(_ status: Int, _ fields: HTTPFields) {
        for index in found.entries.indices {
            let entry = found.entries[index]
            guard entry.response.matches(request, under: digest, cache.options) else { continue }
            let update = HeadUpdate(
                changedByRule(fields, of: entry),
                status: status,
                about: entry.response,
                length: entry.body.count,
                to: request,
                requestTime: requestTime,
                responseTime: now,
                cache.options
            )
            switch update {
            case .update(let response)?: _ = keep(response, in: &found.entries[index])
            case .stale(let response)?: cache.store.update(entry, by: response)
            case nil: break
            }
        }
    }

    /// Handles a request to the origin that failed without a response.
    ///
    /// - Parameter completion: gets nil when the failure itself is passed on.
    package func originDidFail(_ failure: OriginFailure, _ completion: @escaping (HeadStep?) -> Void) {
        release(.failed)
        if failure == .untrusted { recordDoubt() }
        let use = ReuseDecision.decide(
            afterFailure: failure,
            request,
            stored: found.entry?.response,
            now: now,
            isDoubted: cache.doubts(url.origin),
            cache.options
        )
        switch use {
        case .reuse(let reuse)?:
            makeResponse(reuse, .forward(reason)) { [self] response in
                guard let response else { return completion(nil) }
                outcome = .stale
                cache.count(outcome)
                completion(.respond(response))
            }
        case .gatewayTimeout?: completion(.gatewayTimeout(CacheStatus(.forward(reason))))
        case .forward?, nil: completion(nil)
        }
    }

    /// An impostor may respond instead of the origin: no stale response of the origin is used until an accepted server
    /// has responded (`stale-while-revalidate` would hide the problem). The entry is also marked, which survives a
    /// restart.
    private func recordDoubt() {
        cache.doubt(url.origin)
        guard let entry = found.entry, !entry.response.freshness(now: now).isFresh, !entry.response.isMarkedStale else {
            return
        }
        var stale = entry.response
        stale.markStale()
        cache.store.update(entry, by: stale)
    }
}

/// Validation of stored responses by a 304.
extension CacheTransaction {
    private func notModified(
        _ fields: HTTPFields,
        mayStore: Bool,
        _ completion: @escaping (HeadStep) -> Void
    ) {
        let outcome = Revalidation.outcome(
            fields,
            to: request,
            selected: found.selected,
            variants: found.entries.map(\.response)
        )
        switch outcome {
        case .forClient:
            completion(.relay(relay(304, fields, nil, mayStore: mayStore)))
        case .askAgain:
            askAgain(completion)
        case .update(let indices):
            guard mayStore else { return askAgain(completion) }
            let received = now
            if isBackground {
                let mayStay = update(indices, by: fields, received)
                self.outcome = .revalidated
                cache.count(.revalidated)
                release(mayStay ? .stored : .notForOthers)
                return completion(.relay(CacheStatus(.forward(reason))))
            }
            found.selected = indices[0]
            // The body is opened first, because an update that forbids storage removes its file; without the file there
            // is nothing to update.
            openBody { [self] body in
                guard let body else { return askAgain(completion) }
                let mayStay = update(indices, by: fields, received)
                guard let entry = found.entry else { return askAgain(completion) }
                self.outcome = .revalidated
                cache.count(.revalidated)
                release(mayStay && isReusableForOthers(entry.response) ? .stored : .notForOthers)
                let reuse = Reuse(freshness: entry.response.freshness(now: now), revalidates: false)
                let response = makeResponse(reuse, .forward(reason), entry, body)
                var cacheStatus = response.status
                cacheStatus.forwardStatus = 304
                let head = addingCookies(of: fields, response.head)
                completion(.respond(Response(head: head, body: body, status: cacheStatus, refreshes: false)))
            }
        }
    }

    /// - Returns: whether all of the entries stay stored.
    private func update(_ indices: [Int], by fields: HTTPFields, _ received: Int) -> Bool {
        var mayStay = true
        for index in indices {
            let entry = found.entries[index]
            let response = entry.response.updated(
                by: changedByRule(fields, of: entry),
                to: request,
                requestTime: requestTime,
                responseTime: received,
                cache.options
            )
            mayStay = keep(response, in: &found.entries[index]) && mayStay
        }
        return mayStay
    }

    /// Applies the changes of the rule under which a response was stored to the fields of its update.
    private func changedByRule(_ fields: HTTPFields, of entry: CachedEntry) -> HTTPFields {
        guard !rules.isEmpty else { return fields }
        let target = url.target
        let stored = entry.response
        let rule = rules.first {
            $0.fits(method: .get, target: target.span, status: stored.status, response: stored.fields)
        }
        return rule?.changed(fields) ?? fields
    }

    /// Replaces an entry by its updated response if that may still be stored. A response that forbids storage now
    /// (`no-store`, `private`) removes the whole key; a reason that concerns only this request (its credentials) leaves
    /// the store unchanged. In each case this request uses the updated entry.
    ///
    /// - Returns: whether the store has the entry.
    private func keep(_ updated: StoredResponse, in entry: inout CachedEntry) -> Bool {
        var response = updated
        if let willStore {
            switch willStore(updated.status, updated.fields) {
            case .store(let fields, _): response = updated.with(fields, cache.options)
            case .skip:
                cache.store.invalidate(key)
                entry = CachedEntry(key: key, response: updated, body: entry.body)
                return false
            }
        }
        // The client's directives neither remove stored responses of other clients nor keep a response that the origin
        // forbids.
        var fields = request.fields
        fields.remove(.cacheControl)
        let asked = CacheRequest(
            method: .get,
            fields: fields,
            hasInjectedCredentials: request.hasCredentials
        )
        let verdict = Storability.evaluate(
            asked,
            status: response.status,
            response: response.fields,
            cache.options,
            hasRuleLifetime: response.ruleLifetime != nil
        )
        switch verdict {
        case .storable where request.control.noStore || request.control.isMalformed: break
        case .storable:
            entry = cache.store.update(entry, by: response)
            return true
        case .notStorable(.authorization): break
        case .notStorable: cache.store.invalidate(key)
        }
        entry = CachedEntry(key: key, response: response, body: entry.body)
        return false
    }

    /// A cookie in a 304 is for the client of this request; it replaces stored cookies in its response.
    private func addingCookies(of notModified: HTTPFields, _ head: CacheResponse) -> CacheResponse {
        guard notModified.contains(.setCookie) else { return head }
        var head = head
        head.keptFields.remove(.setCookie)
        for index in 0..<notModified.count where notModified.id(at: index) == .setCookie {
            head.keptFields.append(contentsOf: notModified, at: index)
        }
        return head
    }

    /// The 304 is for another response, or the entry is gone: requests the complete response from the origin.
    private func askAgain(_ completion: (HeadStep) -> Void) {
        validates = false
        found.selected = nil
        requestTime = now
        epoch = cache.store.epoch(of: key)
        completion(.again(request.fields))
    }
}

/// Background revalidation.
extension CacheTransaction {
    /// The transaction of a background revalidation, after a response that `refreshes`; it has no client.
    ///
    /// - Parameter completion: gets the fields of the request.
    /// - Returns: nil when another request goes to the origin already, or has done so since this one's lookup.
    package func refresh(_ completion: (HTTPFields) -> Void) -> CacheTransaction? {
        guard let entry = found.entry else { return nil }
        let fields = Revalidation.backgroundFields(of: request, stored: entry.response)
        var plain = fields
        plain.remove(.ifNoneMatch)
        plain.remove(.ifModifiedSince)
        let refreshing = CacheTransaction(
            cache,
            url: url,
            CacheRequest(method: .get, fields: plain, hasInjectedCredentials: request.hasCredentials),
            partition: key.partition,
            rules: rules,
            digest: digest,
            loop: loop
        )
        guard cache.leads(refreshing, now: loop.now) else { return nil }
        refreshing.isLeader = true
        if cache.storedFlightCount != flightsBeforeLookup, isFreshByNow {
            refreshing.cancel()
            return nil
        }
        refreshing.isBackground = true
        refreshing.found = CacheStore.Found(entries: [entry], selected: 0)
        refreshing.reason = .stale
        refreshing.outcome = .miss
        refreshing.validates = entry.response.hasValidator
        refreshing.epoch = cache.store.epoch(of: key)
        refreshing.requestTime = now
        completion(fields)
        return refreshing
    }

    /// Whether the entry in memory is fresh now, because another revalidation has ended since this one's lookup.
    private var isFreshByNow: Bool {
        let found = cache.store.inMemory(key, for: request, under: digest)
        let use = ReuseDecision.decide(request, found, now: now, isDoubted: cache.doubts(url.origin))
        guard case .reuse(let reuse) = use else { return false }
        return !reuse.revalidates
    }
}

extension InsertionRefusal {
    /// Its reason in Cache-Status.
    fileprivate var reason: Storability.Reason {
        switch self {
        case .tooLarge: .tooLarge
        case .noRoom: .noRoom
        }
    }

    /// Its meaning for followers: a body that is too large will probably be so the next time.
    fileprivate var ending: ResponseCache.Ending {
        switch self {
        case .tooLarge: .notForOthers
        case .noRoom: .failed
        }
    }
}
