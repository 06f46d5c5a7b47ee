import HTTPCore
import IOCore

/// Validation of stored responses by a 304.
extension CacheTransaction {
    func notModified(
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
                let answer = makeResponse(reuse, .forward(reason), entry, body)
                var told = answer.status
                told.forwardStatus = 304
                let head = addingCookies(of: fields, answer.head)
                completion(.answer(Response(head: head, body: body, status: told, refreshes: false)))
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
    func changedByRule(_ fields: HTTPFields, of entry: CachedEntry) -> HTTPFields {
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
    func keep(_ updated: StoredResponse, in entry: inout CachedEntry) -> Bool {
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
        let verdict = Storability.judge(
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
    func addingCookies(of notModified: HTTPFields, _ head: CacheResponse) -> CacheResponse {
        guard notModified.contains(.setCookie) else { return head }
        var head = head
        head.keptFields.remove(.setCookie)
        for index in 0..<notModified.count where notModified.id(at: index) == .setCookie {
            head.keptFields.append(contentsOf: notModified, at: index)
        }
        return head
    }

    /// The 304 is for another response, or the entry is gone: requests the complete response from the origin.
    func askAgain(_ completion: (HeadStep) -> Void) {
        validates = false
        found.selected = nil
        requestTime = now
        epoch = cache.store.epoch(of: key)
        completion(.again(request.fields))
    }
}
