package import HTTPCore
package import IOCore

/// One request on its way through a cache: what is to be done next, from the lookup to the end of the body.
///
/// In order: `begin`; where that says `forward`, `originAnswered` (or `originFailed`) and, where that says `relay`, `body`
/// and `ended`. `cancel` when the client has gone, at any time.
///
/// `@unchecked Sendable`: everything but `identifier`, `key` and `loop` is touched on the thread of `loop` alone; other
/// threads hand it over and submit to the loop.
package final class CacheTransaction: @unchecked Sendable {
    /// What the request is answered with out of the cache.
    package struct Answer {
        package let head: CacheAnswer
        package let body: Body
        package let status: CacheStatus
        /// Whether the origin is to be asked in the background: see `refresh`.
        package let refreshes: Bool
    }

    /// Where the bytes of a stored body are; `CacheAnswer.body` says which of them are sent.
    package enum Body {
        case memory([UInt8])
        /// To be read with `DiskStore.read`, or sent from its descriptor.
        case file(StoredBody)
    }

    package enum Step {
        case answer(Answer)
        /// The origin is asked with these fields.
        case forward(HTTPFields)
        /// 504, and the origin is not asked.
        case gatewayTimeout(CacheStatus)
    }

    package enum HeadStep {
        /// The origin's answer is dropped, and this takes its place.
        case answer(Answer)
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
    private let cache: ResponseCache
    private let url: AbsoluteURL
    private let request: CacheRequest
    private let rules: [CacheRule]
    private let digest: PolicyDigest
    /// What the log says; final when the answer's head is known.
    package private(set) var outcome = CacheOutcome.bypass
    /// Asked of each response that may be stored, before it is, with the fields as they would be; and again of what a
    /// validation has made of it. Nil: all are stored.
    package var willStore: ((_ status: Int, _ fields: HTTPFields) -> StoreChange)?

    private var completion: ((Step) -> Void)?
    private var found = CacheStore.Found()
    private var reason = ForwardReason.bypass
    private var epoch: UInt64 = 0
    private var requestTime = 0
    /// Whether the request bears the validators of what is stored.
    private var validates = false
    private var isLeader = false
    private var isCollapsed = false
    /// Whether the end of the origin's body can be told from its being cut short.
    private var endIsSure = true
    /// Asked in the background: nobody waits for an answer.
    private var isBackground = false
    private var insertion: CacheInsertion?
    private var timer: LoopTimer?
    private var isOver = false

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
    private var now: Int { Int(loop.wallClock / 1_000_000) }

    // MARK: - Before the origin

    /// Looks the request up.
    ///
    /// - Parameter completion: is called once, perhaps before `begin` returns, and not after `cancel`.
    package func begin(_ completion: @escaping (Step) -> Void) {
        self.completion = completion
        let isRead = request.method == .get || request.method == .head
        guard isRead, request.isAnswerable, request.policy != .reloadIgnoringLocalCacheData else {
            return decide(mayWait: false)
        }
        lookUp(mayWait: true)
    }

    private func lookUp(mayWait: Bool) {
        let loop = loop
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
        switch ReuseDecision.decide(request, found, now: now) {
        case .answer(let reuse):
            answer(reuse, isCollapsed ? .forward(reason) : .hit) { [self] answer in
                guard let answer else { return decide(mayWait: mayWait) }
                outcome = reuse.freshness.isFresh ? .hit : .stale
                cache.count(outcome)
                if isCollapsed { cache.countCollapsed() }
                finish(.answer(answer))
            }
        case .gatewayTimeout:
            outcome = .miss
            cache.count(outcome)
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
    private func answer(_ reuse: Reuse, _ told: CacheStatus.Outcome, _ completion: @escaping (Answer?) -> Void) {
        guard let entry = found.entry else { return completion(nil) }
        var status = CacheStatus(told, timeToLive: reuse.timeToLive)
        status.isCollapsed = isCollapsed
        let head = CacheAnswer(entry.response, length: entry.body.count, to: request, age: reuse.freshness.age)
        switch entry.body {
        case .memory(let bytes):
            completion(Answer(head: head, body: .memory(bytes), status: status, refreshes: reuse.revalidates))
        case .file(let file):
            guard let disk = cache.store.disk else { return forget(entry, completion) }
            let loop = loop
            pending = { [self] body in
                guard let body else { return forget(entry, completion) }
                completion(Answer(head: head, body: .file(body), status: status, refreshes: reuse.revalidates))
            }
            disk.open(file, deliver: { loop.submit($0) }, { [self] body in opened(body) })
        }
    }

    /// What waits for a body to be opened.
    private var pending: ((StoredBody?) -> Void)?

    private func opened(_ body: StoredBody?) {
        let waiting = pending
        pending = nil
        guard !isOver else { return }
        waiting?(body)
    }

    private func forget(_ entry: CachedEntry, _ completion: (Answer?) -> Void) {
        found.entries.removeAll { $0 === entry }
        found.selected = nil
        completion(nil)
    }

    private func finish(_ step: Step) {
        let completion = completion
        self.completion = nil
        completion?(step)
    }

    // MARK: - Waiting for another one's answer

    private static let ownConditions: FieldNameSet = [.ifNoneMatch, .ifModifiedSince, .range, .ifRange]

    /// Whether the answer to this request is likely to be for others, and theirs for this one.
    private var isCollapsible: Bool {
        request.method == .get && request.policy == .useProtocolCachePolicy && !request.hasCredentials
            && !request.control.noStore && request.control.noCache == nil
            && !request.fields.containsAny(of: Self.ownConditions)
    }

    private func wait() {
        switch cache.join(self, now: loop.now) {
        case .lead:
            isLeader = true
            forward()
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
            // It has gone in between: the next one leads.
            if wake == .lead { cache.ended(self, .failed, now: loop.now) }
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

    // MARK: - The origin

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

    /// The origin's final head is there.
    ///
    /// - Parameters:
    ///   - length: of its body, where that is known, in bytes.
    ///   - mayStore: false where the evaluation of the server did not pass in full (a failed pin that was only reported).
    ///   - endIsSure: false where the body's end could be its being cut short (RFC 9112 8): it is not stored.
    ///   - completion: is called once, perhaps before this returns, and not after `cancel`.
    package func originAnswered(
        status: Int,
        _ fields: HTTPFields,
        length: Int?,
        mayStore: Bool,
        endIsSure: Bool = true,
        _ completion: @escaping (HeadStep) -> Void
    ) {
        self.endIsSure = endIsSure
        if status == 304, validates { return notModified(fields, mayStore: mayStore, completion) }
        if status >= 500, mayStore,
            case .answer(let reuse)? = ReuseDecision.decide(
                afterFailure: .serverError(status),
                request,
                stored: found.entry?.response,
                now: now,
                cache.options
            )
        {
            release(.failed)
            return answer(reuse, .forward(reason)) { [self] answer in
                guard let answer else { return completion(.relay(relay(status, fields, length, mayStore: false))) }
                outcome = .stale
                cache.count(outcome)
                var told = answer.status
                told.forwardStatus = status
                let stale = Answer(head: answer.head, body: answer.body, status: told, refreshes: false)
                completion(.answer(stale))
            }
        }
        completion(.relay(relay(status, fields, length, mayStore: mayStore)))
    }

    /// What the origin's own answer does to the cache, on its way to the client.
    private func relay(_ status: Int, _ fields: HTTPFields, _ length: Int?, mayStore: Bool) -> CacheStatus {
        cache.count(outcome)
        var told = CacheStatus(.forward(reason))
        for key in Invalidation.keys(after: request.method, of: url, status: status, response: fields) {
            cache.store.invalidate(key)
        }
        if request.method == .head, mayStore { headAnswered(status, fields) }
        guard request.method == .get else { return told }
        guard mayStore, endIsSure else {
            release(.notForOthers)
            return told
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
            told.reason = reason
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
            insertion = cache.store.insertion(
                for: key,
                response,
                epoch: epoch,
                tags: SurrogateKeys.tags(of: kept),
                length: length,
                maximumBytes: maximumBytes,
                // What Vary names may be what this program puts in: a secret.
                inMemoryOnly: inMemoryOnly || (request.hasCredentials && !response.selecting.isEmpty)
            )
            isForOthers = insertion != nil && answersOthers(response)
            told.isStored = insertion != nil
            if insertion == nil { told.reason = .tooLarge }
            let freshness = response.freshness(now: now)
            told.timeToLive = freshness.lifetime - freshness.age
        }
        if !isForOthers { release(.notForOthers) }
        return told
    }

    /// Whether somebody who asks for the same could be answered by it without a question to the origin. Where not, nobody
    /// is kept waiting for the end of a body that is not for them: it may be that of an endless stream.
    private func answersOthers(_ response: StoredResponse) -> Bool {
        let plain = CacheRequest(method: .get, fields: HTTPFields())
        let use = ReuseDecision.decide(plain, stored: response, hasVariants: true, now: now, cache.options)
        if case .answer = use { return true }
        return false
    }

    private func headAnswered(_ status: Int, _ fields: HTTPFields) {
        for index in found.entries.indices {
            let entry = found.entries[index]
            guard entry.response.answers(request, under: digest, cache.options) else { continue }
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
            var mayStay = true
            for index in indices {
                let entry = found.entries[index]
                let response = entry.response.updated(
                    by: changedByRule(fields, of: entry),
                    to: request,
                    requestTime: requestTime,
                    responseTime: now,
                    cache.options
                )
                mayStay = keep(response, in: &found.entries[index]) && mayStay
            }
            found.selected = indices[0]
            if isBackground {
                self.outcome = .revalidated
                cache.count(.revalidated)
                release(mayStay ? .stored : .notForOthers)
                return completion(.relay(CacheStatus(.forward(reason))))
            }
            let freshness = found.entries[indices[0]].response.freshness(now: now)
            answer(Reuse(freshness: freshness, revalidates: false), .forward(reason)) { [self] answer in
                guard let answer else { return askAgain(completion) }
                self.outcome = .revalidated
                cache.count(.revalidated)
                let isForOthers = mayStay && found.entry.map { answersOthers($0.response) } == true
                release(isForOthers ? .stored : .notForOthers)
                var told = answer.status
                told.forwardStatus = 304
                let head = withCookies(of: fields, answer.head)
                completion(.answer(Answer(head: head, body: answer.body, status: told, refreshes: false)))
            }
        }
    }

    /// What the rule that let a response in does to the fields of its update.
    private func changedByRule(_ fields: HTTPFields, of entry: CachedEntry) -> HTTPFields {
        guard !rules.isEmpty else { return fields }
        let target = url.target
        let stored = entry.response
        let rule = rules.first {
            $0.fits(method: .get, target: target.span, status: stored.status, response: stored.fields)
        }
        return rule?.changed(fields) ?? fields
    }

    /// Has an updated response take its entry's place, if it still may be stored. What forbids it now (`no-store`,
    /// `private`) has the whole of the key go; what is only so for this request (its credentials) leaves the store as it
    /// is. The entry is for this request in any case.
    ///
    /// - Returns: whether the store has it.
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
        let asked = CacheRequest(
            method: .get,
            fields: request.fields,
            hasInjectedCredentials: request.hasCredentials
        )
        let verdict = Storability.judge(
            asked,
            status: response.status,
            response: response.fields,
            cache.options,
            hasRuleLifetime: response.ruleLifetime != nil
        )
        switch verdict {
        case .storable:
            entry = cache.store.update(entry, by: response)
            return true
        case .notStorable(.authorization), .notStorable(.requestNoStore): break
        case .notStorable: cache.store.invalidate(key)
        }
        entry = CachedEntry(key: key, response: response, body: entry.body)
        return false
    }

    /// A cookie that came with a validation is for the client whose request it was, and was not stored.
    private func withCookies(of notModified: HTTPFields, _ head: CacheAnswer) -> CacheAnswer {
        guard notModified.contains(.setCookie), !head.keptFields.contains(.setCookie) else { return head }
        var head = head
        for index in 0..<notModified.count where notModified.id(at: index) == .setCookie {
            head.keptFields.append(contentsOf: notModified, at: index)
        }
        return head
    }

    /// What is stored was not meant, or is gone: the origin is asked for the whole.
    private func askAgain(_ completion: (HeadStep) -> Void) {
        validates = false
        found.selected = nil
        requestTime = now
        epoch = cache.store.epoch(of: key)
        completion(.again(request.fields))
    }

    /// The origin gave no answer.
    ///
    /// - Parameter completion: gets nil where the failure itself is the answer.
    package func originFailed(_ failure: OriginFailure, _ completion: @escaping (HeadStep?) -> Void) {
        release(.failed)
        if failure == .untrusted { doubt() }
        let use = ReuseDecision.decide(
            afterFailure: failure,
            request,
            stored: found.entry?.response,
            now: now,
            cache.options
        )
        switch use {
        case .answer(let reuse)?:
            answer(reuse, .forward(reason)) { [self] answer in
                guard let answer else { return completion(nil) }
                outcome = .stale
                cache.count(outcome)
                completion(.answer(answer))
            }
        case .gatewayTimeout?: completion(.gatewayTimeout(CacheStatus(.forward(reason))))
        case .forward?, nil: completion(nil)
        }
    }

    /// Somebody else answers in the origin's place: what is stale is not used by anybody before the origin has said that it
    /// holds (`stale-while-revalidate` would go on without a word of it).
    private func doubt() {
        guard let entry = found.entry, !entry.response.freshness(now: now).isFresh, !entry.response.isMarkedStale else {
            return
        }
        var stale = entry.response
        stale.markStale()
        cache.store.update(entry, by: stale)
    }

    /// A piece of the origin's body, on its way to the client.
    package func body(_ bytes: borrowing Span<UInt8>) {
        guard let insertion else { return }
        insertion.append(bytes)
        guard insertion.isOver else { return }
        // Too large after all: nobody waits for its end any longer.
        self.insertion = nil
        release(.notForOthers)
    }

    /// Whether the body that comes is being stored.
    package var isStoring: Bool { insertion != nil }

    /// The origin's answer has ended.
    ///
    /// - Parameter isWhole: whether it is known to be complete: its length, its last chunk, or the end of a TLS connection
    ///   that said so.
    package func ended(isWhole: Bool) {
        let isStored = isWhole && insertion?.finish() == true
        if !isStored { insertion?.abort() }
        if isStored { cache.countStored() }
        insertion = nil
        release(isStored ? .stored : .failed)
        isOver = true
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
        release(.failed)
    }

    private func release(_ ending: ResponseCache.Ending) {
        guard isLeader else { return }
        isLeader = false
        cache.ended(self, ending, now: loop.now)
    }

    // MARK: - In the background

    /// The request that asks the origin in the background, after an answer that `refreshes`; there is no client for it.
    ///
    /// - Parameter completion: gets the fields to ask with.
    /// - Returns: nil where another one asks already.
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
}
