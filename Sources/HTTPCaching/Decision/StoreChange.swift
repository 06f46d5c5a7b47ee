package import HTTPCore

/// What somebody who is asked of each response makes of one that is about to be stored: what the hook
/// `dataTaskWillCacheResponse` says.
package enum StoreChange: Sendable {
    /// To be stored with these fields: those that came, or others.
    case store(HTTPFields, inMemoryOnly: Bool)
    case skip
}

extension StoreVerdict {
    /// The verdict when other fields take the place of those that would be stored. They are judged once more: they may
    /// forbid what was allowed, and cannot allow what was forbidden, since then nobody is asked.
    func revised(_ fields: HTTPFields, _ request: CacheRequest, status: Int, _ options: CacheOptions) -> StoreVerdict {
        guard case .store(_, let lifetime, let maximumBytes) = self else { return self }
        let verdict = Storability.judge(
            request,
            status: status,
            response: fields,
            options,
            hasRuleLifetime: lifetime != nil
        )
        return switch verdict {
        case .storable: .store(fields: fields, ruleLifetime: lifetime, maximumBytes: maximumBytes)
        case .notStorable(let reason): .skip(reason)
        }
    }
}

extension StoredResponse {
    /// The same with other fields, which are read anew.
    func with(_ fields: HTTPFields, _ options: CacheOptions) -> StoredResponse {
        var changed = self
        changed.fields = StorableFields.kept(of: fields, GoverningControl(fields, options).control, options)
        changed.reset(options)
        return changed
    }
}
