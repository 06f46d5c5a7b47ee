// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// A client's own conditions, evaluated against the stored response that would be used (RFC 9111 4.3.2).
public enum ClientConditions {
    /// Whether the client already has the stored response, so that it gets a 304.
    ///
    /// Only the origin evaluates If-Match and If-Unmodified-Since; `ByteRangeRequest` evaluates If-Range.
    ///
    /// - Parameters:
    ///   - request: the fields of a GET or HEAD.
    ///   - stored: the head of the stored response.
    public static func areMet(_ request: HeaderFields, by stored: borrowing StoredResponse) -> Bool {
        guard stored.status == 200 else { return false }
        if request.contains(.ifNoneMatch) { return matchesTag(request, stored) }
        guard let since = CacheDate.value(.ifModifiedSince, in: request, now: stored.responseTime) else { return false }
        if stored.fields.contains(.lastModified) {
            return stored.lastModified.map { $0 <= since } ?? false
        }
        // `date` is the Date field, otherwise the time of receipt.
        return stored.date <= since
    }

    /// Weak comparison (RFC 9110 13.1.2) with the members of the list.
    private static func matchesTag(_ request: HeaderFields, _ stored: borrowing StoredResponse) -> Bool {
        var found = false
        EntityTagList.forEach(in: request, .ifNoneMatch) { tag in
            switch tag {
            case .any: found = true
            case .tag(let tag): if stored.etag.map(tag.matchesWeakly) == true { found = true }
            }
        }
        return found
    }
}

/// The members of If-None-Match.
enum EntityTagList {
    enum Member {
        case any
        case tag(EntityTag)
    }

    /// Members that are not entity tags are skipped.
    static func forEach(in fields: HeaderFields, _ name: FieldName, _ body: (Member) -> Void) {
        var found = fields.first(name)
        while let index = found {
            let value = fields.value(at: index)
            var members = ListMembers(hasEscapes: false)
            while let range = members.next(in: value) {
                let text = value.extracting(range)
                if text.equals("*") {
                    body(.any)
                } else if let tag = EntityTag(text) {
                    body(.tag(tag))
                }
            }
            found = fields.next(name, after: index)
        }
    }
}
