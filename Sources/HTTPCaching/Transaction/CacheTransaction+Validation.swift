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
    func withCookies(of notModified: HTTPFields, _ head: CacheAnswer) -> CacheAnswer {
        guard notModified.contains(.setCookie), !head.keptFields.contains(.setCookie) else { return head }
        var head = head
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
