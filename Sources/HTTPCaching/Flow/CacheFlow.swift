// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import IOCore

/// The course of one request through a cache, as a value: events in, actions out.
///
/// It holds every rule between the lookup and the end of the response, and no clock, store, loop or connection: a
/// carrier does what an action says, and reports the result as the next event. `CacheFlowTable` lists what may follow
/// what; docs/develop/cache.md shows it.
package struct CacheFlow: ~Copyable {
    /// The request, and the conditions of its response. Both are constant.
    struct Question: Sendable {
        let url: AbsoluteURL
        fileprivate(set) var request: CacheRequest
        /// The rules of the host, then those for all hosts.
        let rules: [CacheRule]
        /// The host's rules for keys.
        let keyRules: CacheKeyRules
        /// The digest of the host's security policy.
        let digest: PolicyDigest
        let options: CacheOptions
        let key: CacheKey

        /// Whether a response that another request is receiving could be for this one, or a part of it.
        var mayReadAlong: Bool {
            request.method == .get && request.policy == .useProtocolCachePolicy && !request.hasCredentials
                && !request.control.noStore && request.control.noCache == nil
        }

        /// Whether this request and others are likely to be able to share one response.
        var isCollapsible: Bool { mayReadAlong && !hasOwnConditions }

        /// Whether it is for a part, or conditional.
        var hasOwnConditions: Bool { request.fields.containsAny(of: Self.ownConditions) }

        private static let ownConditions: FieldNameSet = [.ifNoneMatch, .ifModifiedSince, .range, .ifRange]
    }

    /// The circumstances of an event.
    struct Moment {
        /// Seconds since 1970.
        let now: Int
        /// Whether a server was refused for the origin, and none was accepted since.
        let isDoubted: Bool
        /// Seconds since a connection to the origin failed; nil if none did, or the origin has responded since.
        var sinceFailure: Int?
    }

    /// The head of the origin's final response. An object, so that events and the flow itself stay small: a hit has none.
    final class OriginHead {
        let status: Int
        let fields: HeaderFields
        /// The length of its body in bytes, if known.
        let length: Int?
        /// False if the evaluation of the server did not pass completely (a failed pin that was only reported).
        let mayStore: Bool
        /// False if a truncated body could not be recognised (RFC 9112 8): it is not stored.
        let endIsSure: Bool

        init(status: Int, fields: HeaderFields, length: Int?, mayStore: Bool, endIsSure: Bool) {
            self.status = status
            self.fields = fields
            self.length = length
            self.mayStore = mayStore
            self.endIsSure = endIsSure
        }
    }

    enum Event {
        /// The request has arrived.
        case request
        /// The result of a lookup.
        case found(CacheStore.Found)
        /// The result of `join`: nil while it waits. `isLate`: a response was stored since the lookup.
        case joined(FlightWake?, isLate: Bool)
        /// The wait is over.
        case woken(FlightWake)
        /// The response that the shared level has, with its body in memory; nil: none.
        case shared(CachedEntry?)
        /// The stored body is open; nil: it is gone.
        case opened(CacheAnswerBody?)
        case head(OriginHead)
        /// The store takes the body, or not. A reader of the body, if it completes a stored part.
        case began(InsertionRefusal?, GrowingReader?)
        /// The invalidated responses are removed.
        case removed
        /// The request has failed without a response.
        case failed(OriginFailure)
        /// The response has ended; whether it is complete.
        case ended(isWhole: Bool)
        /// The store has the body, or not.
        case settled(isStored: Bool)
        /// The client has disconnected, or the request was given up.
        case cancelled
    }

    /// What follows for the owner of the request. The origin's response, if there is one, is dropped before the first three.
    package enum Step {
        case respond(CacheAnswer)
        /// Send the request to the origin with these fields: `head` or `failed`.
        case forward(HeaderFields)
        /// Respond with 504, without the origin or instead of its failure.
        case gatewayTimeout(CacheStatus)
        /// Relay the origin's response to the client: `ended`. A background revalidation has no client, and needs the
        /// body only if it is stored.
        case relay(CacheStatus)
        /// Respond with this, while the origin's response completes its body: `ended`.
        case respondWhileReceiving(CacheAnswer)
        /// Pass the origin's failure on.
        case pass
    }

    enum Action {
        /// Nothing: another event follows.
        case none
        /// The owner of the request has to do this.
        case give(Step)
        /// Look for stored responses: `found`.
        case lookUp
        /// Ask whether another request for this key is at the origin: `joined`.
        ///
        /// `waits`: whether this one waits for the other's head.
        case join(waits: Bool)
        /// Look in the level that several machines share: `shared`.
        ///
        /// `waits`: whether this one waits while another machine asks the origin.
        case share(waits: Bool)
        /// Open the body of this entry: `opened`.
        case open(CachedEntry)
        /// Begin to store the body: `began`.
        case store(StorePlan)
        /// Remove the responses of these keys, before the response is relayed: `removed`.
        case remove([CacheKey])
        /// The body is complete: finish storing it: `settled`.
        case finish
        /// Give the unfinished body up, if there is one.
        case abort
    }

    /// A response that is about to be stored; an object for the same reason.
    final class StorePlan {
        let response: StoredResponse
        let tags: [[UInt8]]
        let length: Int?
        let maximumBytes: Int?
        let isInMemoryOnly: Bool
        /// Whether other requests for the URI could use it without validation.
        let isForOthers: Bool
        /// The part of a representation that it has; nil for a complete one.
        let part: PartialContent?
        /// The stored part that the origin's response completes.
        let completes: PartCompletion?

        init(
            response: StoredResponse,
            tags: [[UInt8]],
            length: Int?,
            maximumBytes: Int? = nil,
            isInMemoryOnly: Bool,
            isForOthers: Bool,
            part: PartialContent? = nil,
            completes: PartCompletion? = nil
        ) {
            self.response = response
            self.tags = tags
            self.length = length
            self.maximumBytes = maximumBytes
            self.isInMemoryOnly = isInMemoryOnly
            self.isForOthers = isForOthers
            self.part = part
            self.completes = completes
        }
    }

    /// The changes for the store and the other requests, beside the action. The carrier takes it after each event,
    /// before the action, in this order.
    struct Effects {
        /// An accepted server has responded for the origin.
        var trusts = false
        /// A server was refused for the origin.
        var doubts = false
        /// No connection to the origin was possible.
        var notesFailure = false
        /// The origin has responded.
        var notesResponse = false
        /// A response from the shared level, for memory.
        var keeps: CachedEntry?
        /// Entries, each with its new head.
        var updates: [(entry: CachedEntry, response: StoredResponse)] = []
        /// The key must not stay stored.
        var invalidates = false
        /// Stored parts that are in doubt: they must not stay stored.
        var drops: CachedEntry?
        var counts: CacheOutcome?
        var countsCollapsed = false
        var countsStored = false
        /// The place of the rule that decided what is stored of the response.
        var matchedRule: Int?
        /// The requests that wait for this one's response go on.
        var releases: FlightEnding?
        /// The response is not for other requests, here or on other machines.
        var isNotForOthers = false
    }

    package typealias State = CacheFlowState

    /// The purpose of an opened body, with what is needed afterwards.
    private enum Purpose {
        case reuse(Reuse)
        /// In the place of an error response; nil: of a failure.
        case substitute(Reuse, OriginHead?)
        case confirmed([Int], OriginHead)
    }

    let question: Question
    package private(set) var state = State.idle
    private(set) var effects = Effects()
    /// The outcome for the log; final when the response head is known.
    private(set) var outcome = CacheOutcome.bypass
    /// A hook that is called before a response is stored, with the fields to be stored, and again after a validation.
    /// Nil: every storable response is stored.
    var willStore: ((_ status: Int, _ fields: HeaderFields) -> StoreChange)?

    /// Whether there is a level that several machines share, and it was not asked for this request.
    var mayShare = false

    private var found = CacheStore.Found()
    private var mayWait = true
    private var reason = ForwardReason.bypass
    private var requestTime = 0
    /// Whether the request to the origin has validators of stored responses.
    private var validates = false
    private var isLeader = false
    private var isCollapsed = false
    /// Whether the selected response is from the shared level.
    private var isFromShared = false
    /// Whether this is a background revalidation, without a client.
    private let isBackground: Bool
    private var purpose: Purpose?
    /// The head of a response that is about to be relayed, and the status that goes with it.
    private var head: OriginHead?
    private var relayed = CacheStatus(.forward(.bypass))
    private var plan: StorePlan?
    /// The stored part that the origin's response has to complete.
    private var completion: PartCompletion?
    private let inPlace = InPlace()

    init(_ question: consuming Question) {
        self.question = question
        isBackground = false
    }

    /// The Cache-Status before the origin has responded.
    var forwarded: CacheStatus { CacheStatus(.forward(reason)) }

    /// Whether the request to the origin is for the rest of a stored part.
    var completesPart: Bool { completion != nil }

    /// Takes what the store and the other requests have to know.
    mutating func takeEffects() -> Effects {
        var taken = Effects()
        swap(&taken, &effects)
        return taken
    }

    // MARK: - Events

    mutating func handle(_ event: consuming Event, _ moment: Moment) -> Action {
        switch (state, event) {
        case (.over, _), (.finishing, .cancelled): return .none
        case (.finishing, .settled(let isStored)):
            effects.countsStored = isStored
            release(isStored ? .stored : .failed)
            return go(.over, .none)
        case (_, .cancelled):
            release(.abandoned)
            return go(.over, .abort)
        case (.idle, .request): return begin(moment)
        case (.lookingUp, .found(let found)):
            self.found = found
            return decide(moment)
        case (.joining, .joined(nil, _)): return go(.waiting, .none)
        case (.joining, .joined(let wake?, let isLate)): return goOn(wake, isLate: isLate, moment)
        case (.waiting, .woken(let wake)): return goOn(wake, isLate: false, moment)
        case (.sharing, .shared(let entry)): return shared(entry, moment)
        case (.opening, .opened(let body)): return opened(body, moment)
        case (.asking, .head(let head)): return received(head, moment)
        case (.asking, .failed(let failure)): return failed(failure, moment)
        case (.storing, .began(let refusal, let reader)): return began(refusal, reader, moment)
        case (.removing, .removed): return go(.relaying, .relay(relayed))
        case (.relaying, .ended(let isWhole)):
            guard isWhole, plan != nil else {
                release(.failed)
                return go(.over, .abort)
            }
            return go(.finishing, .finish)
        default:
            assertionFailure("\(state) has no \(event)")
            return .none
        }
    }

    private mutating func go(_ next: State, _ action: Action) -> Action {
        assert(CacheFlowTable.permits(state, next), "\(next) does not follow \(state)")
        state = next
        return action
    }

    private mutating func go(_ next: State, _ step: Step) -> Action { go(next, .give(step)) }

    private mutating func conclude(_ outcome: CacheOutcome) {
        self.outcome = outcome
        effects.counts = outcome
    }

    // MARK: - Before the origin

    private mutating func begin(_ moment: Moment) -> Action {
        guard !isBackground else { return share(moment) }
        let isRead = question.request.method == .get || question.request.method == .head
        guard isRead, question.request.isCacheable, question.request.policy != .reloadIgnoringLocalCacheData else {
            mayWait = false
            mayShare = false
            return decide(moment)
        }
        return go(.lookingUp, .lookUp)
    }

    private mutating func decide(_ moment: Moment) -> Action {
        if let entry = found.part,
            let use = PartUse(
                entry,
                for: question.request,
                now: moment.now,
                isDoubted: moment.isDoubted,
                question.options
            )
        {
            return respond(use.reuse, entry, .memory(use.bytes), from: use.start)
        }
        switch ReuseDecision.decide(question.request, found, now: moment.now, isDoubted: moment.isDoubted) {
        case .reuse(let reuse): return self.reuse(reuse, moment)
        case .gatewayTimeout:
            conclude(.miss)
            release(.abandoned)
            return go(.over, .gatewayTimeout(CacheStatus(.forward(found.entries.isEmpty ? .uriMiss : .miss))))
        case .forward(let reason, let validates):
            if !isCollapsed {
                self.reason = found.part != nil && (reason == .uriMiss || reason == .varyMiss) ? .partial : reason
            }
            self.validates = validates
            outcome = reason == .method || reason == .bypass ? .bypass : .miss
            if let reuse = insteadOfConnection(moment) { return self.reuse(reuse, moment) }
            guard mayWait, question.mayReadAlong else { return share(moment) }
            return go(.joining, .join(waits: question.isCollapsible))
        }
    }

    /// Looks in the shared level, once, before the origin is asked. The one for which others wait here waits for other machines, too.
    private mutating func share(_ moment: Moment) -> Action {
        guard mayShare, question.mayReadAlong else { return ask(moment) }
        mayShare = false
        mayWait = false
        isCollapsed = false
        return go(.sharing, .share(waits: isLeader && !isBackground))
    }

    private mutating func shared(_ entry: CachedEntry?, _ moment: Moment) -> Action {
        guard let entry, select(entry) else { return ask(moment) }
        effects.keeps = entry
        isFromShared = true
        guard isBackground else { return decide(moment) }
        // Another machine has refreshed it already.
        if case .reuse(let reuse) = ReuseDecision.decide(
            question.request,
            found,
            now: moment.now,
            isDoubted: moment.isDoubted
        ), reuse.freshness.isFresh {
            release(.stored)
            return go(.over, .pass)
        }
        validates = entry.response.hasValidator
        return ask(moment)
    }

    /// Selects a response of the shared level. One that is not later than the selected one of this machine is not used: here more may be
    /// known about the same response, as that it was made stale.
    private mutating func select(_ entry: CachedEntry) -> Bool {
        guard case .memory = entry.body, entry.key == question.key,
            entry.response.matches(question.request, under: question.digest, question.options)
        else { return false }
        if let known = found.entry, !known.response.isOlder(than: entry.response) { return false }
        if let index = found.entries.firstIndex(where: { entry.replaces($0) }) {
            found.entries[index] = entry
            found.selected = index
        } else {
            found.selected = found.entries.count
            found.entries.append(entry)
        }
        found.part = nil
        return true
    }

    /// The use of a stale response without asking an origin to which a connection has just failed.
    private func insteadOfConnection(_ moment: Moment) -> Reuse? {
        guard let seconds = moment.sinceFailure, seconds < question.request.grace.retryAfter,
            case .reuse(let reuse)? = use(after: .noConnection, isDoubted: moment.isDoubted, moment)
        else { return nil }
        return reuse
    }

    private func use(after failure: OriginFailure, isDoubted: Bool, _ moment: Moment) -> CacheUse? {
        ReuseDecision.decide(
            afterFailure: failure,
            question.request,
            stored: found.entry?.response,
            now: moment.now,
            isDoubted: isDoubted,
            question.options
        )
    }

    private mutating func reuse(_ reuse: Reuse, _ moment: Moment) -> Action {
        guard let entry = found.entry else { return share(moment) }
        if case .memory(let bytes) = entry.body { return respond(reuse, entry, .memory(bytes)) }
        return open(entry, .reuse(reuse))
    }

    /// - Parameter start: the position of the first byte of `body` in the complete body.
    private mutating func respond(
        _ reuse: Reuse,
        _ entry: CachedEntry,
        _ body: CacheAnswerBody,
        from start: Int = 0
    ) -> Action {
        let response = makeResponse(reuse, isCollapsed ? .forward(reason) : .hit, entry, body, from: start)
        conclude(reuse.freshness.isFresh ? .hit : .stale)
        effects.countsCollapsed = isCollapsed
        release(.stored)
        return go(.over, .respond(response))
    }

    private mutating func open(_ entry: CachedEntry, _ purpose: Purpose) -> Action {
        self.purpose = purpose
        return go(.opening, .open(entry))
    }

    private func makeResponse(
        _ reuse: Reuse,
        _ outcome: CacheStatus.Outcome,
        _ entry: CachedEntry,
        _ body: CacheAnswerBody,
        from start: Int = 0,
        forwardStatus: Int? = nil
    ) -> CacheAnswer {
        var status = CacheStatus(outcome, timeToLive: reuse.timeToLive)
        status.forwardStatus = forwardStatus
        status.isCollapsed = isCollapsed
        status.isShared = isFromShared
        var head = CacheResponse(
            entry.response,
            length: entry.body.count,
            to: question.request,
            age: reuse.freshness.age
        )
        if start > 0 { head.body = head.body.lowerBound - start..<head.body.upperBound - start }
        return CacheAnswer(head: head, body: body, status: status, refreshes: reuse.revalidates)
    }

    private mutating func goOn(_ wake: FlightWake, isLate: Bool, _ moment: Moment) -> Action {
        switch wake {
        case .goAlone: return share(moment)
        case .readAlong(let growing): return readAlong(growing, moment)
        case .lead:
            isLeader = true
            // Another request may have stored its response and ended since this one's lookup.
            guard isLate else { return share(moment) }
        case .lookUp: isCollapsed = true
        }
        mayWait = false
        return go(.lookingUp, .lookUp)
    }

    /// Another request receives a response: it is read along if it is for this request, too.
    private mutating func readAlong(_ growing: GrowingResponse, _ moment: Moment) -> Action {
        let response = growing.response
        isCollapsed = true
        guard response.matches(question.request, under: question.digest, question.options),
            case .reuse(let reuse) = ReuseDecision.decide(
                question.request,
                stored: response,
                hasVariants: true,
                now: moment.now,
                isDoubted: moment.isDoubted,
                question.options
            ), let reader = growing.body.makeReader()
        else { return share(moment) }
        conclude(.hit)
        effects.countsCollapsed = true
        var status = CacheStatus(.forward(reason), timeToLive: reuse.timeToLive)
        status.isCollapsed = true
        let head = CacheResponse(response, growing: growing.length, to: question.request, age: reuse.freshness.age)
        let given = CacheAnswer(head: head, body: .growing(reader), status: status, refreshes: false)
        return go(.over, .respond(given))
    }

    private mutating func opened(_ body: CacheAnswerBody?, _ moment: Moment) -> Action {
        guard let entry = found.entry, let body else {
            // The body is gone: the entry counts as not stored.
            if let gone = found.entry { found.entries.removeAll { $0 === gone } }
            found.selected = nil
            switch purpose {
            case .reuse?: return decide(moment)
            case .substitute(_, let head?)?: return relay(head, mayStore: false, moment)
            case .substitute(_, nil)?: return go(.over, .pass)
            case .confirmed, nil: return askAgain(moment)
            }
        }
        switch purpose {
        case nil: return askAgain(moment)
        case .reuse(let reuse)?: return respond(reuse, entry, body)
        case .substitute(let reuse, let head)?:
            conclude(.stale)
            let response = makeResponse(reuse, .forward(reason), entry, body, forwardStatus: head?.status)
            return go(.over, .respond(response))
        case .confirmed(let indices, let head)?: return confirm(indices, head, body, moment)
        }
    }

    // MARK: - The request to the origin

    private mutating func ask(_ moment: Moment) -> Action {
        requestTime = moment.now
        isCollapsed = false
        if let completion = makeCompletion() {
            self.completion = completion
            validates = false
            return go(.asking, .forward(completion.fields(question.request.fields)))
        }
        var fields = question.request.fields
        if validates {
            let conditional = Revalidation.fields(
                of: question.request,
                selected: found.selected,
                variants: found.entries.map(\.response)
            )
            validates = conditional != nil
            fields = conditional ?? fields
        }
        return go(.asking, .forward(fields))
    }

    /// The stored part whose rest is requested, in the place of the complete response.
    private func makeCompletion() -> PartCompletion? {
        let request = question.request
        guard request.method == .get, request.policy == .useProtocolCachePolicy, !request.control.noStore,
            !question.hasOwnConditions, found.entries.isEmpty
        else { return nil }
        return found.part.flatMap { PartCompletion($0) }
    }

    /// The 304 is for another response, or the entry is gone: requests the complete response from the origin.
    private mutating func askAgain(_ moment: Moment) -> Action {
        validates = false
        found.selected = nil
        found.part = nil
        requestTime = moment.now
        return go(.asking, .forward(question.request.fields))
    }

    private mutating func received(_ head: OriginHead, _ moment: Moment) -> Action {
        effects.trusts = head.mayStore
        effects.notesResponse = true
        if let completion {
            self.completion = nil
            switch head.status {
            case 206: return complete(completion, head, moment)
            case 404, 410: break
            // The origin, or a cache before it, does not understand the condition.
            case 300..<500:
                if head.mayStore { effects.drops = completion.entry }
                return askAgain(moment)
            default: break
            }
        }
        if head.status == 304, validates { return notModified(head, moment) }
        if head.status >= 500, head.mayStore, let entry = found.entry,
            case .reuse(let reuse)? = use(after: .serverError(head.status), isDoubted: false, moment)
        {
            release(.failed)
            return open(entry, .substitute(reuse, head))
        }
        return relay(head, mayStore: head.mayStore, moment)
    }

    private mutating func failed(_ failure: OriginFailure, _ moment: Moment) -> Action {
        release(.failed)
        if failure == .untrusted { recordDoubt(moment) }
        effects.notesFailure = failure == .noConnection && question.request.grace.retryAfter > 0
        switch use(after: failure, isDoubted: moment.isDoubted || failure == .untrusted, moment) {
        case .reuse(let reuse)?:
            guard let entry = found.entry else { return go(.over, .pass) }
            return open(entry, .substitute(reuse, nil))
        case .gatewayTimeout?: return go(.over, .gatewayTimeout(CacheStatus(.forward(reason))))
        case .forward?, nil: return go(.over, .pass)
        }
    }

    /// An impostor may respond instead of the origin: no stale response of the origin is used until an accepted server
    /// has responded (`stale-while-revalidate` would hide the problem). The entry is also marked, which survives a
    /// restart.
    private mutating func recordDoubt(_ moment: Moment) {
        effects.doubts = true
        guard let entry = found.entry, !entry.response.freshness(now: moment.now).isFresh,
            !entry.response.isMarkedStale
        else { return }
        var stale = entry.response
        stale.markStale()
        effects.updates.append((entry, stale))
    }

    // MARK: - The origin's response goes to the client

    private mutating func relay(_ head: OriginHead, mayStore: Bool, _ moment: Moment) -> Action {
        effects.counts = outcome
        relayed = CacheStatus(.forward(reason))
        self.head = head
        if mayStore { dropPartInDoubt(head) }
        if question.request.method == .head, mayStore { updateStored(head, moment) }
        guard question.request.method == .get else { return invalidateOthers() }
        guard mayStore, head.endIsSure, let plan = makePlan(head, moment) else {
            release(.notForOthers)
            return invalidateOthers()
        }
        self.plan = plan
        return go(.storing, .store(plan))
    }

    /// Decides what is stored of a response to GET.
    ///
    /// - Returns: nil when nothing is stored; the reason is in `relayed` then.
    private mutating func makePlan(_ head: OriginHead, _ moment: Moment) -> StorePlan? {
        guard head.status == 206 else {
            return makePlan(status: head.status, head.fields, length: head.length, part: nil, moment)
        }
        relayed.reason = .status
        guard let part = PartialContent(head.fields, length: head.length), found.selected == nil,
            question.request.fields.contains(.range)
        else { return nil }
        if let entry = found.part {
            relayed.reason = nil
            return makePlan(renewing: entry, by: head, part: part, moment)
        }
        // A 206 to a request with If-Range lacks the fields that its client has.
        guard !question.request.fields.contains(.ifRange) else { return nil }
        relayed.reason = nil
        var fields = head.fields
        fields.remove(.contentRange)
        fields.removeDigestsOfContent()
        return makePlan(status: 200, fields, length: part.range.count, part: part, moment)
    }

    /// The same for the head of the complete response.
    ///
    /// - Parameter part: the part of it that was received; nil for all.
    private mutating func makePlan(
        status: Int,
        _ fields: HeaderFields,
        length: Int?,
        part: PartialContent?,
        _ moment: Moment
    ) -> StorePlan? {
        let rule = self.rule(status: status, fields)
        effects.matchedRule = rule?.place
        var verdict = StoreVerdict(question.request, status: status, response: fields, rule: rule, question.options)
        var isInMemoryOnly = false
        if let willStore, case .store(let kept, _, _) = verdict {
            switch willStore(status, kept) {
            case .skip: verdict = .skip(.rule)
            case .store(let changed, let onlyThere):
                verdict = verdict.revised(changed, question.request, status: status, question.options)
                isInMemoryOnly = onlyThere
            }
        }
        switch verdict {
        case .skip(let reason):
            relayed.reason = reason
            return nil
        case .store(let kept, let ruleLifetime, let maximumBytes):
            let response = StoredResponse(
                status: status,
                response: kept,
                to: question.request,
                requestTime: requestTime,
                responseTime: moment.now,
                digest: question.digest,
                ruleLifetime: ruleLifetime,
                siblings: found.entries.map(\.response),
                question.options
            )
            guard isWorthKeeping(response) else {
                relayed.reason = .noLifetime
                return nil
            }
            if let part {
                guard response.strongTag != nil else {
                    relayed.reason = .status
                    return nil
                }
                guard part.total <= maximumBytes ?? .max else {
                    relayed.reason = .tooLarge
                    return nil
                }
            }
            let freshness = response.freshness(now: moment.now)
            relayed.timeToLive = freshness.lifetime - freshness.age
            return StorePlan(
                response: response,
                tags: SurrogateKeys.tags(of: kept),
                length: length,
                maximumBytes: maximumBytes,
                // Vary may name a field that this program adds: a secret.
                isInMemoryOnly: isInMemoryOnly || (question.request.hasCredentials && !response.selecting.isEmpty),
                isForOthers: part == nil && isReusableForOthers(response, moment),
                part: part
            )
        }
    }

    /// The owner's rule that decides about a response.
    private func rule(status: Int, _ fields: HeaderFields) -> CacheRule? {
        guard !question.rules.isEmpty else { return nil }
        let target = question.url.target
        return question.rules.first {
            $0.fits(method: question.request.method, target: target.span, status: status, response: fields)
        }
    }

    private mutating func began(_ refusal: InsertionRefusal?, _ reader: GrowingReader?, _ moment: Moment) -> Action {
        if let plan, plan.completes != nil {
            guard refusal == nil, let reader else {
                self.plan = nil
                return askAgain(moment)
            }
            return respond(plan, reader, moment)
        }
        if let refusal {
            plan = nil
            relayed.reason = refusal.reason
            release(refusal.ending)
        } else {
            relayed.isStored = true
            if plan?.isForOthers != true { release(.notForOthers) }
        }
        return invalidateOthers()
    }

    /// The store has given the body up: it is too large after all, or has lost its space to another body.
    mutating func lostStorage(_ refusal: InsertionRefusal?) {
        plan = nil
        release(refusal?.ending ?? .failed)
    }

    private mutating func invalidateOthers() -> Action {
        guard let head else { return go(.relaying, .relay(relayed)) }
        self.head = nil
        let keys = Invalidation.keys(
            after: question.request.method,
            of: question.url,
            status: head.status,
            response: head.fields,
            question.keyRules
        )
        guard !keys.isEmpty else { return go(.relaying, .relay(relayed)) }
        return go(.removing, .remove(keys))
    }

    // MARK: - Parts (RFC 9111 3.3 and 3.4)

    /// Gives up stored parts when the origin's response shows that they are of another representation.
    private mutating func dropPartInDoubt(_ head: OriginHead) {
        guard let entry = found.part, let parts = entry.parts else { return }
        let isInDoubt = entry.response.isContradicted(
            byStatus: head.status,
            head.fields,
            length: head.length,
            total: parts.total,
            isHead: question.request.method == .head
        )
        guard isInDoubt else { return }
        effects.drops = entry
        found.part = nil
    }

    /// The origin has sent the rest of a stored part: both together are the complete response. In any doubt the complete
    /// response is requested, and the stored part goes.
    private mutating func complete(_ completion: PartCompletion, _ head: OriginHead, _ moment: Moment) -> Action {
        guard head.mayStore, head.endIsSure else { return askAgain(moment) }
        relayed = CacheStatus(.forward(reason))
        guard completion.isMet(by: head.fields, length: head.length),
            let plan = makePlan(renewing: completion.entry, by: head, completes: completion, moment)
        else {
            effects.drops = completion.entry
            return askAgain(moment)
        }
        self.plan = plan
        return go(.storing, .store(plan))
    }

    private mutating func respond(_ plan: StorePlan, _ reader: GrowingReader, _ moment: Moment) -> Action {
        effects.counts = outcome
        relayed.isStored = true
        relayed.forwardStatus = 206
        if !plan.isForOthers { release(.notForOthers) }
        let age = plan.response.freshness(now: moment.now).age
        let head = CacheResponse(plan.response, growing: plan.length, to: question.request, age: age)
        let answer = CacheAnswer(head: head, body: .growing(reader), status: relayed, refreshes: false)
        return go(.relaying, .respondWhileReceiving(answer))
    }

    /// Decides what is stored of a 206 with the validator of stored parts.
    ///
    /// - Parameters:
    ///   - part: a further part of the same representation.
    ///   - completion: its rest, in place of `part`.
    /// - Returns: nil when nothing is stored; the reason is in `relayed` then.
    private mutating func makePlan(
        renewing entry: CachedEntry,
        by head: OriginHead,
        part: PartialContent? = nil,
        completes completion: PartCompletion? = nil,
        _ moment: Moment
    ) -> StorePlan? {
        let total = entry.body.count
        let rule = rule(status: entry.response.status, head.fields)
        effects.matchedRule = rule?.place
        if let rule, rule.action == .skip || total > rule.maximumBytes ?? .max {
            relayed.reason = .rule
            effects.drops = entry
            return nil
        }
        var fields = rule?.changed(head.fields) ?? head.fields
        fields.removeDigestsOfContent()
        var response = entry.response.updated(
            by: fields,
            to: question.request,
            requestTime: requestTime,
            responseTime: moment.now,
            question.options
        )
        var isInMemoryOnly = entry.parts?.isInMemoryOnly ?? true
        if let willStore {
            switch willStore(response.status, response.fields) {
            case .skip:
                relayed.reason = .rule
                effects.drops = entry
                return nil
            case .store(let fields, let onlyThere):
                response = response.with(fields, question.options)
                isInMemoryOnly = isInMemoryOnly || onlyThere
            }
        }
        switch mayStay(response) {
        case .storable: break
        case .notStorable(let reason):
            relayed.reason = reason
            if reason != .authorization { effects.drops = entry }
            return nil
        }
        guard !question.request.control.noStore, !question.request.control.isMalformed, response.strongTag != nil
        else {
            relayed.reason = .requestNoStore
            return nil
        }
        let freshness = response.freshness(now: moment.now)
        relayed.timeToLive = freshness.lifetime - freshness.age
        let tags = SurrogateKeys.tags(of: response.fields)
        return StorePlan(
            response: response,
            tags: tags + entry.tags.filter { !tags.contains($0) },
            length: completion?.total ?? part?.range.count,
            isInMemoryOnly: isInMemoryOnly || (question.request.hasCredentials && !response.selecting.isEmpty),
            isForOthers: completion != nil && isReusableForOthers(response, moment),
            part: part,
            completes: completion
        )
    }

    /// Whether a stored response could ever be used under RFC 9111. In a shared cache a response without lifetime and
    /// validator, like most responses of APIs, would only cost disk writes. A policy that accepts old responses, and a
    /// private cache, may use it.
    private func isWorthKeeping(_ response: StoredResponse) -> Bool {
        guard question.options.isShared, question.request.policy == .useProtocolCachePolicy, found.entries.isEmpty
        else {
            return true
        }
        let terms = response.terms
        return response.hasValidator || terms.lifetime > 0 || terms.staleWhileRevalidate ?? 0 > 0
            || terms.staleIfError ?? 0 > 0 || question.options.staleWhenDisconnected > 0
    }

    /// Whether other requests for the URI could use the response without validation. If not, they must not wait for the
    /// end of its body, which may be an endless stream.
    private func isReusableForOthers(_ response: StoredResponse, _ moment: Moment) -> Bool {
        var plain = CacheRequest(method: .get, fields: HeaderFields())
        plain.grace = question.request.grace
        let use = ReuseDecision.decide(
            plain,
            stored: response,
            hasVariants: true,
            now: moment.now,
            question.options
        )
        if case .reuse = use { return true }
        return false
    }

    /// The effect of a response to HEAD on the stored responses to GET (RFC 9111 4.3.5).
    private mutating func updateStored(_ head: OriginHead, _ moment: Moment) {
        for index in found.entries.indices {
            let entry = found.entries[index]
            guard entry.response.matches(question.request, under: question.digest, question.options) else { continue }
            let update = HeadUpdate(
                changedByRule(head.fields, of: entry),
                status: head.status,
                about: entry.response,
                length: entry.body.count,
                to: question.request,
                requestTime: requestTime,
                responseTime: moment.now,
                question.options
            )
            switch update {
            case .update(let response)?: _ = keep(response, at: index)
            // One mark is enough. Another one would keep a validation on its way from updating the entry in memory, and
            // not on the disk, where the head is the same.
            case .stale(let response)?: if !entry.response.isMarkedStale { effects.updates.append((entry, response)) }
            case nil: break
            }
        }
    }

    // MARK: - Validation by a 304

    private mutating func notModified(_ head: OriginHead, _ moment: Moment) -> Action {
        let revalidation = Revalidation.outcome(
            head.fields,
            to: question.request,
            selected: found.selected,
            variants: found.entries.map(\.response)
        )
        switch revalidation {
        case .forClient: return relay(head, mayStore: head.mayStore, moment)
        case .askAgain: return askAgain(moment)
        case .update(let indices):
            guard head.mayStore else { return askAgain(moment) }
            if isBackground {
                let mayStay = update(indices, by: head.fields, moment)
                conclude(.revalidated)
                release(mayStay ? .stored : .notForOthers)
                return go(.relaying, .relay(CacheStatus(.forward(reason))))
            }
            found.selected = indices[0]
            // The body is opened first, because an update that forbids storage removes its file; without the file there
            // is nothing to update.
            return open(found.entries[indices[0]], .confirmed(indices, head))
        }
    }

    private mutating func confirm(
        _ indices: [Int],
        _ head: OriginHead,
        _ body: CacheAnswerBody,
        _ moment: Moment
    ) -> Action {
        let mayStay = update(indices, by: head.fields, moment)
        guard let entry = found.entry else { return askAgain(moment) }
        conclude(.revalidated)
        release(mayStay && isReusableForOthers(entry.response, moment) ? .stored : .notForOthers)
        let reuse = Reuse(freshness: entry.response.freshness(now: moment.now), revalidates: false)
        let response = makeResponse(reuse, .forward(reason), entry, body, forwardStatus: 304)
        let kept = Self.addingCookies(of: head.fields, response.head)
        return go(.over, .respond(.init(head: kept, body: body, status: response.status, refreshes: false)))
    }

    /// - Returns: whether all of the entries stay stored.
    private mutating func update(_ indices: [Int], by fields: HeaderFields, _ moment: Moment) -> Bool {
        var mayStay = true
        for index in indices {
            let entry = found.entries[index]
            let response = entry.response.updated(
                by: changedByRule(fields, of: entry),
                to: question.request,
                requestTime: requestTime,
                responseTime: moment.now,
                question.options
            )
            mayStay = keep(response, at: index) && mayStay
        }
        return mayStay
    }

    /// Applies the changes of the rule under which a response was stored to the fields of its update.
    private func changedByRule(_ fields: HeaderFields, of entry: CachedEntry) -> HeaderFields {
        guard !question.rules.isEmpty else { return fields }
        let target = question.url.target
        let stored = entry.response
        let rule = question.rules.first {
            $0.fits(method: .get, target: target.span, status: stored.status, response: stored.fields)
        }
        return rule?.changed(fields) ?? fields
    }

    /// Replaces an entry by its updated response if that may still be stored. A response that forbids storage now
    /// (`no-store`, `private`) removes the whole key; a reason that concerns only this request (its credentials) leaves
    /// the store unchanged. In each case this request uses the updated entry.
    ///
    /// - Returns: whether the store has the entry.
    private mutating func keep(_ updated: StoredResponse, at index: Int) -> Bool {
        let entry = found.entries[index]
        var response = updated
        if let willStore {
            switch willStore(updated.status, updated.fields) {
            case .store(let fields, _): response = updated.with(fields, question.options)
            case .skip:
                effects.invalidates = true
                found.entries[index] = CachedEntry(key: question.key, response: updated, body: entry.body)
                return false
            }
        }
        found.entries[index] = CachedEntry(key: question.key, response: response, body: entry.body)
        switch mayStay(response) {
        case .storable where question.request.control.noStore || question.request.control.isMalformed: break
        case .storable:
            effects.updates.append((entry, response))
            return true
        case .notStorable(.authorization): break
        case .notStorable: effects.invalidates = true
        }
        return false
    }

    /// Whether a response may be stored after an update. The client's directives neither remove stored responses of other
    /// clients nor keep a response that the origin forbids.
    private func mayStay(_ response: StoredResponse) -> Storability {
        var fields = question.request.fields
        fields.remove(.cacheControl)
        let asked = CacheRequest(
            method: .get,
            fields: fields,
            hasInjectedCredentials: question.request.hasCredentials
        )
        return Storability.evaluate(
            asked,
            status: response.status,
            response: response.fields,
            question.options,
            hasRuleLifetime: response.ruleLifetime != nil
        )
    }

    /// A cookie in a 304 is for the client of this request; it replaces stored cookies in its response.
    private static func addingCookies(of notModified: HeaderFields, _ head: CacheResponse) -> CacheResponse {
        guard notModified.contains(.setCookie) else { return head }
        var head = head
        head.keptFields.remove(.setCookie)
        for index in 0..<notModified.count where notModified.id(at: index) == .setCookie {
            head.keptFields.append(contentsOf: notModified, at: index)
        }
        return head
    }

    // MARK: - Others

    private mutating func release(_ ending: FlightEnding) {
        if case .notForOthers = ending { effects.isNotForOthers = true }
        guard isLeader else { return }
        isLeader = false
        effects.releases = ending
    }

    // MARK: - Background revalidation

    /// The course of a background revalidation, after a response that `refreshes`; it has no client. It is the leader of its key, and
    /// begins at the shared level, or at the origin.
    ///
    /// - Returns: nil when nothing was selected.
    func refreshing() -> CacheFlow? {
        guard let entry = found.entry else { return nil }
        var refreshing = question
        refreshing.request = CacheRequest(
            method: .get,
            fields: Revalidation.backgroundFields(of: question.request),
            hasInjectedCredentials: question.request.hasCredentials
        )
        // A response within its grace is not replaced by an error.
        refreshing.request.grace = question.request.grace
        return CacheFlow(refreshing: entry, refreshing)
    }

    private init(refreshing entry: CachedEntry, _ question: Question) {
        self.question = question
        isBackground = true
        isLeader = true
        found = CacheStore.Found(entries: [entry], selected: 0)
        reason = .stale
        outcome = .miss
        validates = entry.response.hasValidator
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
    fileprivate var ending: FlightEnding {
        switch self {
        case .tooLarge: .notForOthers
        case .noRoom: .failed
        }
    }
}
