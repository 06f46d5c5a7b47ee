// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// The use of stored parts for a request, without the origin: they are fresh, and have all of the range that is wanted.
struct PartUse {
    let reuse: Reuse
    let bytes: StoredBytes
    /// The position of the first of the bytes in the complete body.
    let start: Int

    /// - Parameter entry: whose selecting fields match the request.
    /// - Returns: nil when the origin has to be asked, and for conditional requests.
    init?(_ entry: CachedEntry, for request: CacheRequest, now: Int, isDoubted: Bool, _ options: CacheOptions) {
        guard request.method == .get, let parts = entry.parts, !request.fields.containsAny(of: Self.conditions),
            case .part(let range) = ByteRangeRequest(request.fields, of: entry.response, length: parts.total),
            let run = parts.run(with: range)
        else { return nil }
        let use = ReuseDecision.decide(
            request,
            stored: entry.response,
            hasVariants: true,
            now: now,
            isDoubted: isDoubted,
            options
        )
        guard case .reuse(let reuse) = use, reuse.freshness.isFresh else { return nil }
        self.reuse = reuse
        bytes = run.bytes
        start = run.start
    }

    private static let conditions: FieldNameSet = [.ifNoneMatch, .ifModifiedSince]
}
