import HTTPCore
import IOCore

/// The origin has said that what is stored holds.
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
            // First of all, since what forbids to store it now has its file go; without it there is nothing to update.
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

    /// - Returns: whether all of them stay stored.
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

    /// What the rule that let a response in does to the fields of its update.
    func changedByRule(_ fields: HTTPFields, of entry: CachedEntry) -> HTTPFields {
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
        // The client's directives neither remove stored responses of others nor keep one that the origin forbids.
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

    /// A cookie that came with a validation is for the client whose request it was, in place of what may be stored for all.
    func addingCookies(of notModified: HTTPFields, _ head: CacheResponse) -> CacheResponse {
        guard notModified.contains(.setCookie) else { return head }
        var head = head
        head.keptFields.remove(.setCookie)
        for index in 0..<notModified.count where notModified.id(at: index) == .setCookie {
            head.keptFields.append(contentsOf: notModified, at: index)
        }
        return head
    }

    /// What is stored was not meant, or is gone: the origin is asked for the whole.
    func askAgain(_ completion: (HeadStep) -> Void) {
        validates = false
        found.selected = nil
        requestTime = now
        epoch = cache.store.epoch(of: key)
        completion(.again(request.fields))
    }
}
