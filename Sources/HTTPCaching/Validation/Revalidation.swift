public import HTTPCore
import IOCore

/// Asking the origin whether stored responses still hold (RFC 9111 4.3).
public enum Revalidation {
    /// More bytes of entity tags than this could be more than an origin takes: then only the selected one is named.
    private static let tagBytesAtMost = 4096

    /// The fields of the request with the validators of what is stored (4.3.1).
    ///
    /// If-None-Match names the entity tags of the variants of the key, and those of the client with them, but not of
    /// variants that were chosen for other codings than this request's: too many origins have one tag for all codings.
    /// If-Modified-Since bears the date of the one response that the request selects, where one was selected. A client's Range stays: the
    /// origin looks at it only after it has found that what is stored does not hold.
    ///
    /// - Parameters:
    ///   - request: of the client.
    ///   - selected: the index in `variants` of the response that would answer; nil when none does.
    ///   - variants: all that is stored under the key and policy.
    /// - Returns: nil when nothing stored has a validator: the request goes as it is.
    public static func fields(
        of request: CacheRequest,
        selected: Int?,
        variants: [StoredResponse]
    ) -> HTTPFields? {
        var tags: [EntityTag] = []
        for variant in variants where variant.selecting.areCodings(of: request.fields) {
            if let tag = variant.etag, !tags.contains(tag) { tags.append(tag) }
        }
        if tags.reduce(0, { $0 + $1.bytes.count }) > tagBytesAtMost {
            tags = selected.flatMap { variants[$0].etag }.map { [$0] } ?? []
        }
        let dated = selected.flatMap { variants[$0].lastModified == nil ? nil : $0 }
        guard !tags.isEmpty || dated != nil else { return nil }

        var names: [[UInt8]] = tags.map(\.bytes)
        var wantsAny = false
        EntityTagList.forEach(in: request.fields, .ifNoneMatch) { member in
            switch member {
            case .any: wantsAny = true
            case .tag(let tag): if !names.contains(tag.bytes) { names.append(tag.bytes) }
            }
        }
        var fields = request.fields
        fields.remove(.ifNoneMatch)
        fields.remove(.ifModifiedSince)
        // `*` would match what nobody has here.
        if wantsAny, tags.isEmpty { names = [] }
        if !names.isEmpty {
            let list = Array(names.joined(separator: Array(", ".utf8)))
            fields.append(.ifNoneMatch, list.span)
        }
        if let dated {
            let stored = variants[dated].fields
            if let index = stored.first(.lastModified) { fields.append(.ifModifiedSince, stored.value(at: index)) }
        }
        return fields.contains(.ifNoneMatch) || fields.contains(.ifModifiedSince) ? fields : nil
    }

    /// What the cache asks the origin on its own account, when nobody waits (4.3.1): the target, the fields that Vary
    /// names, and the validators.
    public static func backgroundFields(of request: CacheRequest, stored: StoredResponse) -> HTTPFields {
        var fields = HTTPFields()
        for index in 0..<request.fields.count {
            switch request.fields.id(at: index) {
            case .ifNoneMatch, .ifModifiedSince, .ifRange, .range, .cacheControl, .pragma, .expect: continue
            default: fields.append(contentsOf: request.fields, at: index)
            }
        }
        if let tag = stored.etag?.bytes { fields.append(.ifNoneMatch, tag.span) }
        if stored.lastModified != nil, let index = stored.fields.first(.lastModified) {
            fields.append(.ifModifiedSince, stored.fields.value(at: index))
        }
        return fields
    }

    /// What a 304 does to the stored responses (4.3.4).
    public enum Outcome: Hashable, Sendable {
        /// These responses hold, by their indices; the first answers the client (or its own conditions find that the
        /// client has it already).
        case update([Int])
        /// None of ours is meant; the client's own conditions are met: the 304 is for it.
        case forClient
        /// None of ours is meant, and the client has none: ask again without conditions.
        case askAgain
    }

    /// Finds the responses that a 304 updates.
    ///
    /// - Parameters:
    ///   - notModified: the fields of the 304.
    ///   - request: of the client, with its own conditions.
    ///   - selected: as in `fields(of:selected:variants:)`.
    public static func outcome(
        _ notModified: HTTPFields,
        to request: CacheRequest,
        selected: Int?,
        variants: [StoredResponse]
    ) -> Outcome {
        let tag = notModified.first(.etag).flatMap { EntityTag(notModified.value(at: $0)) }
        let none = outcomeForClient(tag, request, variants)
        if let tag, !tag.isWeak {
            // A strong tag names one representation among all of the resource, whichever request it answers.
            let latest = variants.indices.sorted { variants[$0].date > variants[$1].date }
            let matching = latest.filter {
                variants[$0].etag.map(tag.matchesStrongly) == true
                    && variants[$0].selecting.areCodings(of: request.fields)
            }
            guard !matching.isEmpty else { return none }
            // The one that the request selects stands first, if it is among them.
            return .update(matching.filter { $0 == selected } + matching.filter { $0 != selected })
        }
        guard let selected else { return none }
        let stored = variants[selected]
        if let tag { return stored.etag.map(tag.matchesWeakly) == true ? .update([selected]) : none }
        if let index = notModified.first(.lastModified) {
            guard let kept = stored.fields.first(.lastModified),
                stored.fields.value(at: kept).equals(notModified.value(at: index))
            else { return none }
            return .update([selected])
        }
        // No validator at all: it speaks of the one response that was asked about, if it was one.
        return isOnlyNominee(selected, request, variants) ? .update([selected]) : none
    }

    /// Where a 304 means none of ours: it is the client's if its own entity tags brought it about.
    private static func outcomeForClient(
        _ tag: EntityTag?,
        _ request: CacheRequest,
        _ variants: [StoredResponse]
    ) -> Outcome {
        var isMeant = false
        EntityTagList.forEach(in: request.fields, .ifNoneMatch) { member in
            guard case .tag(let own) = member else { return }
            if let tag { isMeant = isMeant || own.matchesWeakly(tag) } else { isMeant = true }
        }
        // Without a tag it may have been one of ours that brought it about.
        if tag == nil, variants.contains(where: { $0.hasValidator }) { isMeant = false }
        return isMeant ? .forClient : .askAgain
    }

    /// Whether the request bore the validators of this response alone.
    private static func isOnlyNominee(
        _ selected: Int,
        _ request: CacheRequest,
        _ variants: [StoredResponse]
    ) -> Bool {
        guard !request.fields.contains(.ifNoneMatch) else { return false }
        for index in variants.indices where index != selected && variants[index].etag != nil {
            if variants[index].selecting.areCodings(of: request.fields) { return false }
        }
        return true
    }
}

extension StoredResponse {
    /// As it is after the origin has said, with a 304, that it holds (RFC 9111 3.2 and 4.3.4).
    ///
    /// - Parameters:
    ///   - request: that was answered so: where the new Vary names other fields, the response is from now on for its.
    ///   - requestTime: when the validation was sent, in seconds since 1970.
    ///   - responseTime: when its answer came.
    public func updated(
        by notModified: HTTPFields,
        to request: CacheRequest,
        requestTime: Int,
        responseTime: Int,
        _ options: CacheOptions
    ) -> StoredResponse {
        var updated = self
        let control = GoverningControl(notModified, options).control
        updated.fields = StorableFields.updated(fields, by: notModified, control, options)
        let names = SelectingFields.names(updated.fields)
        if notModified.contains(.vary), names != selecting.names {
            updated.selecting = SelectingFields(names: names, request: request.fields)
        }
        updated.requestTime = requestTime
        updated.responseTime = responseTime
        updated.initialAge = Freshness.initialAge(notModified, requestTime: requestTime, responseTime: responseTime)
        updated.reset(options)
        return updated
    }
}
