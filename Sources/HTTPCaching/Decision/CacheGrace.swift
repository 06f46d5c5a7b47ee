// SPDX-License-Identifier: Apache-2.0
/// How long a stale response may be used, in seconds, where its origin says nothing about that: the owner's word in the
/// place of RFC 5861's directives.
///
/// It prolongs a lifetime. A response that never had one (`max-age=0`, or no lifetime at all) was not meant for others, and
/// gets none; nor does an error response, nor one whose origin forbids stale use (`must-revalidate`, `proxy-revalidate`,
/// `s-maxage`, `no-cache`).
package struct CacheGrace: Hashable, Sendable {
    /// As `stale-while-revalidate`.
    package var whileRevalidating: Int
    /// As `stale-if-error`.
    package var onErrors: Int

    /// After a connection to the origin has failed, no other is tried for so long where a stale response may stand in
    /// for the error.
    package var retryAfter: Int

    package init(whileRevalidating: Int = 0, onErrors: Int = 0, retryAfter: Int = 0) {
        self.whileRevalidating = whileRevalidating
        self.onErrors = onErrors
        self.retryAfter = retryAfter
    }
}
