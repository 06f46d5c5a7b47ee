// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import IOCore

/// Carries one request through a cache: it does what its `CacheFlow` decides, with a store, a clock and timers.
///
/// The caller calls `begin`; after `forward`, `didReceiveHead` (or `originDidFail`); after `relay` and
/// `respondWhileReceiving`, `didReceiveBody` and `didEnd`. It calls `cancel` at any time when the client has
/// disconnected. The first three return the next step; nil when the cache cannot tell yet: `whenDecided` follows.
///
/// `@unchecked Sendable`: only the thread of `loop` uses it, apart from the constants `identifier`, `key`, `digest` and
/// `loop`; other threads only pass references and submit work to the loop.
package final class CacheTransaction: @unchecked Sendable {
    package typealias Response = CacheAnswer
    package typealias Step = CacheFlow.Step

    let identifier: UInt64
    package let key: CacheKey
    package let digest: PolicyDigest
    package let loop: EventLoop
    package let cache: ResponseCache
    private let origin: Origin
    private let tally: CacheTally?
    private let level: (any SharedLevel)?
    private var flow: CacheFlow

    private var completion: ((Step) -> Void)?
    /// A call that returns a step has not returned yet, and the step that it returns.
    private var isDeciding = false
    private var decided: Step?
    /// The flow handles an event, and was cancelled meanwhile.
    private var isHandling = false
    private var isCancelled = false
    private var epoch: UInt64 = 0
    /// The key's epoch before the lookup: stored bytes that were removed since are not stored again.
    private var epochBeforeLookup: UInt64 = 0
    /// What follows the origin's body in a response that it completes: stored bytes, from this position on.
    private var rest: (bytes: StoredParts.Run, start: Int)?
    /// The cache's `storedFlightCount` before the lookup.
    private var flightsBeforeLookup: UInt64 = 0
    private var insertion: CacheInsertion?
    /// Others can begin to read the body along.
    private var isOffered = false
    /// A body that is not stored after all, and still read along.
    private var unstored: GrowingBody?
    /// Set while the request waits for another one, or its response for the disk and the shared level.
    private var timer: LoopTimer?
    /// The number of stores that have not removed what the response invalidates.
    private var removalsLeft = 0

    /// The look-up in the shared level that is under way.
    private var sharedLookUp: (any SharedLookUp)?
    /// What the shared level takes the response with, until it was given back.
    private var ticket: (any SharedTicket)?
    /// The response for the shared level.
    private var entryToShare: CachedEntry?
    private var isNotForOthers = false

    /// - Parameters:
    ///   - url: the URL of the request to the origin.
    ///   - rules: the rules of the host, then those for all hosts.
    ///   - keyRules: the host's rules for keys. A request that has no key under them does not use the cache.
    ///   - digest: the digest of the host's security policy.
    ///   - tally: where it is counted beside the cache's own counts.
    ///   - level: the loop's level that several machines share; nil without one.
    ///   - loop: the loop on whose thread this is used.
    package convenience init(
        _ cache: ResponseCache,
        url: AbsoluteURL,
        _ request: consuming CacheRequest,
        partition: [UInt8] = [],
        rules: [CacheRule] = [],
        keyRules: CacheKeyRules = CacheKeyRules(),
        digest: PolicyDigest,
        tally: CacheTally? = nil,
        level: (any SharedLevel)? = nil,
        loop: EventLoop
    ) {
        var matchedRule: Int?
        let key = keyRules.key(
            of: url,
            method: request.method,
            fields: request.fields,
            partition: partition,
            matched: &matchedRule
        )
        if let matchedRule { tally?.countRule(matchedRule) }
        if key == nil { request.bypasses = true }
        let method = request.method
        let question = CacheFlow.Question(
            url: url,
            request: consume request,
            rules: rules,
            keyRules: keyRules,
            digest: digest,
            options: cache.options,
            key: key ?? CacheKey(method: method, origin: url.origin, target: url.target.span, partition: partition)
        )
        self.init(cache, CacheFlow(consume question), tally, level, loop)
    }

    private init(
        _ cache: ResponseCache,
        _ flow: consuming CacheFlow,
        _ tally: CacheTally?,
        _ level: (any SharedLevel)?,
        _ loop: EventLoop
    ) {
        self.tally = tally
        self.level = level
        self.cache = cache
        self.loop = loop
        identifier = cache.makeIdentifier()
        key = flow.question.key
        origin = flow.question.url.origin
        digest = flow.question.digest
        self.flow = flow
        self.flow.mayShare = level != nil
    }

    /// The store that reads bodies in files.
    package var disk: DiskStore? { cache.store.disk }

    /// The Cache-Status before the origin has responded.
    package var forwarded: CacheStatus { flow.forwarded }

    /// The outcome for the log; final when the response head is known.
    package var outcome: CacheOutcome { flow.outcome }

    /// A hook that is called before a response is stored, with the fields to be stored, and again after a validation.
    /// Nil: every storable response is stored.
    package var willStore: ((_ status: Int, _ fields: HeaderFields) -> StoreChange)? {
        get { flow.willStore }
        set { flow.willStore = newValue }
    }

    // MARK: - The request

    /// Starts with the lookup; a background revalidation, with the shared level or the origin.
    package func begin() -> Step? { decide(by: .request) }

    private func decide(by event: consuming CacheFlow.Event) -> Step? {
        isDeciding = true
        handle(event)
        isDeciding = false
        return decided.take()
    }

    /// - Parameter completion: is called once, later, and not after `cancel`.
    package func whenDecided(_ completion: @escaping (Step) -> Void) { self.completion = completion }

    /// Handles the origin's final response head.
    ///
    /// - Parameters:
    ///   - length: the length of its body in bytes, if known.
    ///   - mayStore: false if the evaluation of the server did not pass completely (a failed pin that was only
    ///     reported).
    ///   - endIsSure: false if a truncated body could not be recognised (RFC 9112 8): it is not stored.
    package func didReceiveHead(
        status: Int,
        _ fields: HeaderFields,
        length: Int?,
        mayStore: Bool,
        endIsSure: Bool = true
    ) -> Step? {
        decide(
            by: .head(
                CacheFlow.OriginHead(
                    status: status,
                    fields: fields,
                    length: length,
                    mayStore: mayStore,
                    endIsSure: endIsSure
                )
            )
        )
    }

    /// Handles a request to the origin that failed without a response.
    package func originDidFail(_ failure: OriginFailure) -> Step? { decide(by: .failed(failure)) }

    /// Handles a piece of the origin's body.
    package func didReceiveBody(_ bytes: borrowing Span<UInt8>) {
        guard let insertion else {
            unstored?.append(bytes)
            return
        }
        insertion.append(bytes)
        if ticket != nil, let level, insertion.length > level.largestBody {
            // Other machines do not wait for what they will not get.
            isNotForOthers = true
            returnTicket()
        }
        if isOffered, !insertion.canBeReadAlong {
            isOffered = false
            cache.withdrawOffer(of: self)
        }
        guard insertion.isOver else { return }
        // It is too large after all, or has lost its space to another body. Its readers get the rest.
        self.insertion = nil
        if insertion.body.hasReaders { unstored = insertion.body }
        flow.lostStorage(insertion.refusal)
        applyEffects()
        returnTicket()
    }

    /// Whether the body is being stored.
    package var isStoring: Bool { insertion != nil }

    private var body: GrowingBody? { insertion?.body ?? unstored }

    /// Whether other requests read the body while it is received.
    package var isReadAlong: Bool { body?.hasReaders ?? false }

    /// A reader of what is being received, for a client that is slower than the origin.
    ///
    /// - Parameter position: in the body, from which on it reads.
    /// - Returns: nil when the body cannot be read like that.
    package func makeReader(at position: Int) -> GrowingReader? {
        guard let insertion, insertion.canBeReadAlong else { return nil }
        return insertion.body.makeReader(at: position)
    }

    /// Has `notice` called on the loop, once, when another request begins to read along.
    package func whenReadAlong(_ notice: @escaping @Sendable () -> Void) {
        let loop = loop
        body?.whenRead { loop.submit(notice) }
    }

    /// Whether `holdsOrigin` may be true now.
    package var mayHoldOrigin: Bool { body?.isFullForReaders ?? false }

    /// Whether the origin has to wait for the readers of the body.
    ///
    /// - Parameter resume: called once on the loop when it need not wait any longer; only after true.
    package func holdsOrigin(_ resume: @escaping @Sendable () -> Void) -> Bool {
        let loop = loop
        return body?.holdsOrigin { loop.submit(resume) } ?? false
    }

    /// Handles the end of the origin's response.
    ///
    /// - Parameter isWhole: whether it is known to be complete: by its length, its last chunk, or the proper end of a
    ///   TLS connection.
    package func didEnd(isWhole: Bool) {
        if let rest {
            self.rest = nil
            if isWhole { rest.bytes.forEachPiece(of: rest.start..<rest.bytes.range.upperBound) { didReceiveBody($0) } }
        }
        if let unstored {
            if isWhole { _ = unstored.complete() } else { unstored.fail() }
            self.unstored = nil
        }
        handle(.ended(isWhole: isWhole))
    }

    /// Cancels: the client has disconnected, or the request was given up.
    package func cancel() {
        // A hook that the flow calls may cancel the request.
        guard !isHandling else {
            isCancelled = true
            return
        }
        // After most hits nothing is left to do.
        if flow.state == .over, completion == nil, unstored == nil { return }
        completion = nil
        stopTimer()
        unstored?.fail()
        unstored = nil
        if flow.state == .waiting { cache.leave(self) }
        sharedLookUp.take()?.cancel()
        handle(.cancelled)
    }

    // MARK: - Events and actions

    private func handle(_ event: consuming CacheFlow.Event) {
        let moment = CacheFlow.Moment(
            now: now,
            isDoubted: cache.doubts(origin),
            sinceFailure: cache.failures.seconds(since: origin, now: loop.now)
        )
        isHandling = true
        let action = flow.handle(event, moment)
        isHandling = false
        applyEffects()
        if flow.state == .over { returnTicket() }
        if isCancelled {
            isCancelled = false
            return cancel()
        }
        perform(action)
    }

    /// Seconds since 1970.
    private var now: Int { Int(loop.wallClock / 1_000_000) }

    private func noteAsking() { epoch = flow.completesPart ? epochBeforeLookup : cache.store.epoch(of: key) }

    private func perform(_ action: consuming CacheFlow.Action) {
        switch action {
        case .none: break
        case .give(let step):
            if case .forward = step { noteAsking() }
            if isDeciding { decided = step } else { completion.take()?(step) }
        case .lookUp: lookUp()
        case .join(let waits): join(waits: waits)
        case .share(let waits): lookUpShared(waits: waits)
        case .open(let entry): open(entry)
        case .store(let plan): beginStoring(plan)
        case .remove(let keys): remove(keys)
        case .finish: finishStoring()
        case .abort:
            insertion?.abort()
            insertion = nil
        }
    }

    private func applyEffects() {
        let effects = flow.takeEffects()
        if effects.trusts { cache.trust(origin) }
        if effects.doubts { cache.doubt(origin) }
        if effects.notesFailure { cache.failures.note(origin, now: loop.now) }
        if effects.notesResponse { cache.failures.forget(origin) }
        if let entry = effects.keeps { cache.store.insert(entry, unlessRemovedSince: epochBeforeLookup) }
        for (entry, response) in effects.updates {
            let updated = cache.store.update(entry, by: response)
            if ticket != nil, entryToShare == nil, !response.isMarkedStale { entryToShare = updated }
        }
        if effects.invalidates {
            cache.store.invalidate(key)
            level?.invalidate([key]) {}
        }
        if let part = effects.drops { cache.store.memory.remove(part) }
        if let outcome = effects.counts {
            cache.counters.count(outcome)
            tally?.counters.count(outcome)
        }
        if effects.countsCollapsed {
            cache.counters.countCollapsed()
            tally?.counters.countCollapsed()
        }
        if effects.countsStored {
            cache.counters.countStored()
            tally?.counters.countStored()
        }
        if let place = effects.matchedRule { tally?.countRule(place) }
        if let ending = effects.releases { cache.leaderDidEnd(self, ending, now: loop.now) }
        if effects.isNotForOthers { noteNotForOthers() }
    }

    private func lookUp() {
        epochBeforeLookup = cache.store.epoch(of: key)
        flightsBeforeLookup = cache.storedFlightCount
        if let found = cache.store.findAtOnce(key, for: flow.question.request, under: digest) {
            return handle(.found(found))
        }
        let loop = loop
        let lookup = cache.store.find(
            key,
            for: flow.question.request,
            under: digest,
            deliver: { loop.submit($0) },
            { [self] found in handle(.found(found)) }
        )
        if case .found(let found) = lookup { handle(.found(found)) }
    }

    /// Opens a body in a file.
    private func open(_ entry: CachedEntry) {
        switch entry.body {
        case .memory(let bytes): handle(.opened(.memory(bytes)))
        // Parts are never selected as a complete response.
        case .parts: handle(.opened(nil))
        case .file(let file):
            guard let disk = cache.store.disk else { return handle(.opened(nil)) }
            let loop = loop
            disk.open(
                file,
                deliver: { loop.submit($0) },
                { [self] body in handle(.opened(body.map { .file($0) })) }
            )
        }
    }

    private func beginStoring(_ plan: CacheFlow.StorePlan) {
        var refusal: InsertionRefusal?
        var reader: GrowingReader?
        do throws(InsertionRefusal) {
            let insertion = try cache.store.beginning(
                for: key,
                plan.response,
                epoch: epoch,
                tags: plan.tags,
                length: plan.length,
                maximumBytes: plan.maximumBytes,
                inMemoryOnly: plan.isInMemoryOnly,
                part: plan.part
            )
            self.insertion = insertion
            if plan.completes != nil { reader = insertion.body.makeReader() }
            if plan.isForOthers, insertion.canBeReadAlong {
                let growing = GrowingResponse(response: plan.response, length: plan.length, body: insertion.body)
                isOffered = true
                cache.offer(growing, by: self, epoch: epoch)
            }
        } catch { refusal = error }
        handle(.began(refusal, reader))
        if ticket != nil, flow.state != .asking, !mayShare(plan) {
            // Other machines do not wait for what they will not get.
            isNotForOthers = isNotForOthers || refusal == nil
            returnTicket()
        }
        if refusal == nil, let completion = plan.completes { receiveStored(completion) }
    }

    /// The stored bytes before those that the origin sends now. What follows them is for the end.
    private func receiveStored(_ completion: PartCompletion) {
        guard flow.state == .relaying, let runs = completion.entry.parts?.runs else { return }
        if let first = runs.first, first.start == 0 {
            first.forEachPiece(of: 0..<completion.gap.lowerBound) { didReceiveBody($0) }
        }
        if let last = runs.last, completion.gap.upperBound < completion.total {
            rest = (last, completion.gap.upperBound)
        }
    }

    private func finishStoring() {
        guard let insertion else { return handle(.settled(isStored: false)) }
        self.insertion = nil
        // Followers look it up; a response that only the disk stores must be there before.
        let loop = loop
        let isStored = insertion.finish(deliver: { loop.submit($0) }) { [self] isStored in
            handle(.settled(isStored: isStored))
        }
        if ticket != nil { entryToShare = insertion.entry }
        if let isStored { handle(.settled(isStored: isStored)) }
    }

    // MARK: - The level that several machines share

    private func lookUpShared(waits: Bool) {
        guard let level else { return handle(.shared(nil)) }
        let question = SharedQuestion(key: key, request: flow.question.request, digest: digest, waits: waits)
        sharedLookUp = level.lookUp(question) { [self] finding in didLookUpShared(finding) }
    }

    private func didLookUpShared(_ finding: SharedFinding) {
        sharedLookUp = nil
        guard flow.state == .sharing else { return }
        switch finding {
        case .nothing(let ticket):
            self.ticket = ticket
            handle(.shared(nil))
        case .found(let entry, let ticket):
            self.ticket = ticket
            // What was removed here meanwhile may be older than the removal.
            let isCurrent = cache.store.epoch(of: key) == epochBeforeLookup
            handle(.shared(isCurrent ? entry.packed(in: cache.store.memory.pool) : nil))
        }
    }

    /// Whether the shared level may get a response that is being stored.
    private func mayShare(_ plan: CacheFlow.StorePlan) -> Bool {
        guard let level, let insertion, insertion.isInMemory else { return false }
        return plan.part == nil && !plan.isInMemoryOnly && !plan.response.selecting.hasSecrets
            && plan.length ?? 0 <= level.largestBody
    }

    /// The response is not for others. If it is stored nevertheless, to be validated, the level gets it, unless its end may never come.
    private func noteNotForOthers() {
        isNotForOthers = true
        if entryToShare == nil, insertion?.hasKnownLength != true { returnTicket() }
    }

    /// Gives the ticket back, if there is one, with the response or without.
    private func returnTicket() {
        guard let level, let ticket = ticket.take() else { return }
        if let entry = entryToShare.take(), case .memory = entry.body, !entry.response.selecting.hasSecrets,
            cache.store.epoch(of: key) == epoch
        {
            level.store(entry, with: ticket)
        } else {
            level.giveBack(ticket, isForOthers: !isNotForOthers)
        }
    }

    // MARK: - Removals

    /// The longest wait of a response for the disk and the shared level.
    private static let patienceForRemovals = TimeSpan.seconds(2)

    /// Delays the response to an unsafe method until the responses that it invalidates are removed from the disk and from the shared
    /// level. If the process died between the two, the old response would be used again after its restart, or by another machine.
    private func remove(_ keys: [CacheKey]) {
        let loop = loop
        // One is this call.
        removalsLeft = 1
        // The shared level is the first: from then on it finds nothing that could come into memory behind the removal there.
        if let level {
            removalsLeft += 1
            level.invalidate(keys) { [weak self] in self?.didRemove() }
        }
        if cache.store.invalidate(keys, deliver: { loop.submit($0) }, { [weak self] in self?.didRemove() }) {
            removalsLeft += 1
        }
        didRemove()
        guard flow.state == .removing else { return }
        let timer = LoopTimer { [weak self] in self?.removed() }
        self.timer = timer
        loop.arm(timer, after: Self.patienceForRemovals)
    }

    private func didRemove() {
        removalsLeft -= 1
        if removalsLeft == 0 { removed() }
    }

    /// All have removed them, or the patience is over.
    private func removed() {
        guard flow.state == .removing else { return }
        stopTimer()
        handle(.removed)
    }

    // MARK: - Waiting for the response to another request

    private func join(waits: Bool) {
        switch cache.join(self, waits: waits, now: loop.now) {
        case .now(let wake):
            handle(.joined(wake, isLate: cache.storedFlightCount != flightsBeforeLookup))
        case .wait(let until):
            handle(.joined(nil, isLate: false))
            let timer = LoopTimer { [weak self] in
                guard let self else { return }
                cache.expire(key, now: max(loop.now, until))
            }
            self.timer = timer
            loop.arm(timer, at: until)
        }
    }

    func wake(_ wake: FlightWake) {
        stopTimer()
        guard flow.state == .waiting else {
            // It was cancelled meanwhile: the next one leads.
            if case .lead = wake { cache.leaderDidEnd(self, .abandoned, now: loop.now) }
            return
        }
        handle(.woken(wake))
    }

    private func stopTimer() {
        if let timer { loop.remove(timer) }
        timer = nil
    }

    // MARK: - Background revalidation

    /// The transaction of a background revalidation, after a response that `refreshes`; it has no client. The next call is its `begin`.
    /// The step that follows is `pass` when another machine has refreshed the response already.
    ///
    /// - Returns: nil when another request goes to the origin already, or has done so since this one's lookup.
    package func refresh() -> CacheTransaction? {
        guard let course = flow.refreshing() else { return nil }
        let refreshing = CacheTransaction(cache, course, tally, level, loop)
        guard cache.leads(refreshing) else { return nil }
        if cache.storedFlightCount != flightsBeforeLookup, isFreshByNow {
            refreshing.cancel()
            return nil
        }
        refreshing.epochBeforeLookup = epochBeforeLookup
        return refreshing
    }

    /// Whether the entry in memory is fresh now, because another revalidation has ended since this one's lookup.
    private var isFreshByNow: Bool {
        let request = flow.question.request
        let found = cache.store.inMemory(key, for: request, under: digest)
        let use = ReuseDecision.decide(request, found, now: now, isDoubted: cache.doubts(origin))
        guard case .reuse(let reuse) = use else { return false }
        return !reuse.revalidates
    }
}
