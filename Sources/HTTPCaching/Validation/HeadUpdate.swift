// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// The effect of a response to HEAD on stored responses to GET (RFC 9111 4.3.5).
public enum HeadUpdate: Sendable {
    /// It matches the stored response, which is replaced by this one.
    case update(StoredResponse)
    /// It differs from the stored response, which is stale now.
    case stale(StoredResponse)

    /// - Parameters:
    ///   - head: the fields of a 200 to HEAD.
    ///   - status: the status of the response.
    ///   - stored: the head of the stored response.
    ///   - length: the length of the stored body, in bytes.
    ///   - request: the HEAD.
    ///   - requestTime: of the HEAD, in seconds since 1970.
    ///   - responseTime: the time when the response came, in seconds since 1970.
    ///   - options: the settings of the cache.
    /// - Returns: nil when the HEAD cannot refer to the stored response.
    public init?(
        _ head: HeaderFields,
        status: Int,
        about stored: StoredResponse,
        length: Int,
        to request: CacheRequest,
        requestTime: Int,
        responseTime: Int,
        _ options: CacheOptions
    ) {
        guard status == 200, stored.status == 200 else { return nil }
        guard Self.agrees(head, stored, length) else {
            var stale = stored
            stale.markStale()
            self = .stale(stale)
            return
        }
        var updated = stored.updated(
            by: head,
            to: request,
            requestTime: requestTime,
            responseTime: responseTime,
            options
        )
        // The new fields are used unless Cache-Control restricts storage; a prohibition makes the stored response
        // stale.
        if GoverningControl(head, options).control.noStore {
            updated = stored
            updated.markStale()
            self = .stale(updated)
            return
        }
        self = .update(updated)
    }

    private static func agrees(_ head: HeaderFields, _ stored: StoredResponse, _ length: Int) -> Bool {
        for name in [FieldName.etag, .lastModified] {
            guard let index = head.first(name) else { continue }
            guard let kept = stored.fields.first(name), stored.fields.value(at: kept).equals(head.value(at: index))
            else {
                return false
            }
        }
        if let index = head.first(.contentLength) {
            guard DecimalNumber.parse(head.value(at: index)) == length else { return false }
        }
        return true
    }
}
