package import HTTPCore
import IOCore

/// The request to the origin, and the effects of its response on the cache.
extension CacheTransaction {
    func forward() {
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
            return makeResponse(reuse, .forward(reason)) { [self] answer in
                guard let answer else { return completion(.relay(relay(status, fields, length, mayStore: false))) }
                outcome = .stale
                cache.count(outcome)
                var told = answer.status
                told.forwardStatus = status
                let stale = Response(head: answer.head, body: answer.body, status: told, refreshes: false)
                completion(.answer(stale))
            }
        }
        let told = relay(status, fields, length, mayStore: mayStore)
        let worthless = Invalidation.keys(after: request.method, of: url, status: status, response: fields)
        guard !worthless.isEmpty else { return completion(.relay(told)) }
        remove(worthless) { completion(.relay(told)) }
    }

    /// Applies the effects of the origin's response, which goes to the client, on the cache.
    func relay(_ status: Int, _ fields: HTTPFields, _ length: Int?, mayStore: Bool) -> CacheStatus {
        cache.count(outcome)
        var told = CacheStatus(.forward(reason))
        if request.method == .head, mayStore { updateStored(status, fields) }
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
            guard isWorthKeeping(response) else {
                told.reason = .noLifetime
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
                told.isStored = true
            } catch {
                told.reason = error.reason
                ending = error.ending
            }
            let freshness = response.freshness(now: now)
            told.timeToLive = freshness.lifetime - freshness.age
        }
        if !isForOthers { release(ending) }
        return told
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
    func isReusableForOthers(_ response: StoredResponse) -> Bool {
        let plain = CacheRequest(method: .get, fields: HTTPFields())
        let use = ReuseDecision.decide(plain, stored: response, hasVariants: true, now: now, cache.options)
        if case .reuse = use { return true }
        return false
    }

    func updateStored(_ status: Int, _ fields: HTTPFields) {
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
        if failure == .untrusted { doubt() }
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
            makeResponse(reuse, .forward(reason)) { [self] answer in
                guard let answer else { return completion(nil) }
                outcome = .stale
                cache.count(outcome)
                completion(.answer(answer))
            }
        case .gatewayTimeout?: completion(.gatewayTimeout(CacheStatus(.forward(reason))))
        case .forward?, nil: completion(nil)
        }
    }

    /// An impostor may respond instead of the origin: no stale response of the origin is used until an accepted server
    /// has responded (`stale-while-revalidate` would hide the problem). The entry is also marked, which survives a
    /// restart.
    func doubt() {
        cache.doubt(url.origin)
        guard let entry = found.entry, !entry.response.freshness(now: now).isFresh, !entry.response.isMarkedStale else {
            return
        }
        var stale = entry.response
        stale.markStale()
        cache.store.update(entry, by: stale)
    }
}
