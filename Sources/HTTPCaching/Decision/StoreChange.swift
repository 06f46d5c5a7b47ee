// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// The decision of the hook `dataTaskWillCacheResponse` about a response that is about to be stored.
package enum StoreChange: Sendable {
    /// Store it with these fields, changed or not.
    case store(HeaderFields, inMemoryOnly: Bool)
    case skip
}

extension StoreVerdict {
    /// The verdict when the hook replaces the fields that would be stored. They are evaluated again: they can forbid
    /// what was allowed. They cannot allow what was forbidden, because the hook is not called then.
    func revised(_ fields: HeaderFields, _ request: CacheRequest, status: Int, _ options: CacheOptions) -> StoreVerdict
    {
        guard case .store(_, let lifetime, let maximumBytes) = self else { return self }
        let verdict = Storability.evaluate(
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
    /// The same response with other fields, which are parsed again.
    func with(_ fields: HeaderFields, _ options: CacheOptions) -> StoredResponse {
        var changed = self
        changed.fields = StorableFields.kept(of: fields, GoverningControl(fields, options).control, options)
        changed.reset(options)
        return changed
    }
}
