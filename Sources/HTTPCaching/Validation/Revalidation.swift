// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import IOCore

/// Validation of stored responses at the origin (RFC 9111 4.3).
public enum Revalidation {
    /// The limit for entity tags in a request, in bytes: origins may refuse more. Beyond it only the selected
    /// response's tag is sent.
    private static let tagBytesAtMost = 4096

    /// The fields of the request with the validators of stored responses (4.3.1).
    ///
    /// If-None-Match lists the entity tags of the key's variants and those of the client. Variants that were selected
    /// for other codings than this request's are left out, because many origins use one tag for all codings.
    /// If-Modified-Since has the date of the selected response, if there is one. A client's Range stays: the origin
    /// evaluates it only when the stored response is not valid any more.
    ///
    /// - Parameters:
    ///   - request: of the client.
    ///   - selected: the index in `variants` of the selected response; nil without one.
    ///   - variants: all stored responses of the key and policy.
    /// - Returns: nil when no stored response has a validator: the request is sent unchanged.
    public static func fields(
        of request: CacheRequest,
        selected: Int?,
        variants: [StoredResponse]
    ) -> HeaderFields? {
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
        var listed = Set(names)
        var wantsAny = false
        EntityTagList.forEach(in: request.fields, .ifNoneMatch) { member in
            switch member {
            case .any: wantsAny = true
            case .tag(let tag): if listed.insert(tag.bytes).inserted { names.append(tag.bytes) }
            }
        }
        var fields = request.fields
        fields.remove(.ifNoneMatch)
        fields.remove(.ifModifiedSince)
        // `*` would match responses that neither client nor cache has.
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

    /// The fields of a background revalidation's request, without validators (4.3.1): those that Vary may name.
    static func backgroundFields(of request: CacheRequest) -> HeaderFields {
        var fields = HeaderFields()
        for index in 0..<request.fields.count {
            switch request.fields.id(at: index) {
            case .ifNoneMatch, .ifModifiedSince, .ifRange, .range, .cacheControl, .pragma, .expect: continue
            default: fields.append(contentsOf: request.fields, at: index)
            }
        }
        return fields
    }

    /// The same with the validators of the stored response.
    public static func backgroundFields(of request: CacheRequest, stored: StoredResponse) -> HeaderFields {
        var fields = backgroundFields(of: request)
        if let tag = stored.etag?.bytes { fields.append(.ifNoneMatch, tag.span) }
        if stored.lastModified != nil, let index = stored.fields.first(.lastModified) {
            fields.append(.ifModifiedSince, stored.fields.value(at: index))
        }
        return fields
    }

    /// The effect of a 304 on the stored responses (4.3.4).
    public enum Outcome: Hashable, Sendable {
        /// The responses with these indices are valid; the first is used for the client (or its own conditions show
        /// that the client has it already).
        case update([Int])
        /// It refers to no stored response, but to the client's own conditions: the client gets the 304.
        case forClient
        /// It refers to no stored response, and the client has no conditions: send the request again without
        /// conditions.
        case askAgain
    }

    /// Finds the responses that a 304 updates.
    ///
    /// - Parameters:
    ///   - notModified: the fields of the 304.
    ///   - request: the request of the client, with its own conditions.
    ///   - selected: as in `fields(of:selected:variants:)`.
    ///   - variants: the stored responses of the URI.
    public static func outcome(
        _ notModified: HeaderFields,
        to request: CacheRequest,
        selected: Int?,
        variants: [StoredResponse]
    ) -> Outcome {
        let tag = notModified.first(.etag).flatMap { EntityTag(notModified.value(at: $0)) }
        let none = outcomeForClient(tag, request, variants)
        if let tag, !tag.isWeak {
            // A strong tag identifies one representation of the resource, independent of the request.
            let latest = variants.indices.sorted { variants[$0].date > variants[$1].date }
            let matching = latest.filter {
                variants[$0].etag.map(tag.matchesStrongly) == true
                    && variants[$0].selecting.areCodings(of: request.fields)
            }
            guard !matching.isEmpty else { return none }
            // The selected response comes first, if it is among these.
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
        // A 304 without a validator refers to the response of the conditional request, if there was only one.
        return isOnlyNominee(selected, request, variants) ? .update([selected]) : none
    }

    /// Handles a 304 that refers to no stored response: it is for the client if the client's entity tags caused it.
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
        // Without a tag in the 304, a stored response may have caused it.
        if tag == nil, variants.contains(where: { $0.hasValidator }) { isMeant = false }
        return isMeant ? .forClient : .askAgain
    }

    /// Whether the request had the validators of this response only.
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
    /// The response after its validation by a 304 (RFC 9111 3.2 and 4.3.4).
    ///
    /// - Parameters:
    ///   - notModified: the fields of the 304.
    ///   - request: the validated request: if the new Vary names other fields, its values select the response from now
    ///     on.
    ///   - requestTime: the time of the request, in seconds since 1970.
    ///   - responseTime: the time of its response.
    ///   - options: the settings of the cache.
    public func updated(
        by notModified: HeaderFields,
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
