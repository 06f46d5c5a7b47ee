// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// A fresh response in memory for a plain GET, which gets it at once: no disk, no other request and no origin has a part in it, and so
/// there is no `CacheTransaction`, whose decision it would be, too.
package struct CacheHit {
    private let entry: CachedEntry
    private let freshness: Freshness

    /// The request fields that the owner of a cache or its rules decide by. A request with one of them is no plain GET.
    package static let decisive: FieldNameSet = [
        .authorization, .cacheControl, .pragma, .ifMatch, .ifNoneMatch, .ifModifiedSince, .ifUnmodifiedSince, .ifRange,
        .range,
    ]

    /// What Vary may name: a client's fields of these names go to the origin as they are.
    private static let selecting: FieldNameSet = [.accept, .acceptEncoding, .acceptLanguage, .userAgent]

    /// The response that the transaction of a plain GET would select, if that would be used at once.
    ///
    /// - Parameters:
    ///   - entries: the stored responses of the key.
    ///   - fields: of the client's request; none of `decisive` is among them, nor are they named by its Connection.
    ///   - now: in seconds since 1970.
    ///   - limit: the longest body, in bytes.
    init?(
        among entries: [CachedEntry],
        for fields: borrowing HeaderFields,
        under digest: PolicyDigest,
        now: Int,
        atMost limit: Int,
        _ options: CacheOptions
    ) {
        var found: CachedEntry?
        for entry in entries {
            if case .parts = entry.body { continue }
            guard entry.response.digest == digest, entry.response.isShared || !options.isShared else { continue }
            if !entry.response.selecting.isEmpty {
                guard entry.response.selecting.names.allSatisfy({ Self.selecting.contains(FieldName($0.span)) }) else {
                    return nil
                }
                guard entry.response.selecting.matches(copy fields) else { continue }
            }
            if let found, entry.response.isOlder(than: found.response) { continue }
            found = entry
        }
        guard let found, !found.response.terms.needsValidation, case .memory(let bytes) = found.body,
            bytes.count <= limit, bytes.contiguous(0..<bytes.count).upperBound == bytes.count
        else { return nil }
        freshness = found.response.freshness(now: now)
        guard freshness.isFresh else { return nil }
        entry = found
        entry.markUsed()
    }

    /// The value of Age, in seconds.
    package var age: Int { freshness.age }

    package var status: CacheStatus { CacheStatus(.hit, timeToLive: freshness.lifetime - freshness.age) }

    /// The head, without Age and Content-Length.
    package var head: ResponseHead {
        let length = entry.body.count
        return ResponseHead(
            status: entry.response.status,
            fields: entry.response.fields,
            contentLength: entry.response.status == 204 ? nil : length,
            hasBody: length > 0
        )
    }

    /// Calls `use` with the whole body.
    package func withBody(_ use: (borrowing Span<UInt8>) -> Void) {
        if case .memory(let bytes) = entry.body { use(bytes.span(0..<bytes.count)) }
    }
}

extension ResponseCache {
    /// The stored response that a plain GET gets at once. It is counted then.
    ///
    /// - Parameters: as those of `CacheHit`.
    package func hit(
        _ key: CacheKey,
        for fields: borrowing HeaderFields,
        under digest: PolicyDigest,
        tally: CacheTally?,
        now: Int,
        atMost limit: Int
    ) -> CacheHit? {
        let entries = store.memory.entries(for: key)
        guard !entries.isEmpty,
            let hit = CacheHit(among: entries, for: fields, under: digest, now: now, atMost: limit, options)
        else { return nil }
        counters.count(.hit)
        tally?.counters.count(.hit)
        return hit
    }
}
