import HTTPCaching
package import HTTPCore

/// What a request wants of the session's cache; the names are those of `URLRequest.CachePolicy`.
public enum CachePolicy: Sendable, Hashable, CaseIterable {
    /// What RFC 9111 makes of what is stored, of the answer's fields and of the request's.
    case useProtocolCachePolicy
    /// The origin is asked, whatever is stored; its answer takes the place of that.
    case reloadIgnoringLocalCacheData
    /// The same, and caches on the way are told to ask, too (`Cache-Control: no-cache`).
    case reloadIgnoringLocalAndRemoteCacheData
    /// The origin is asked whether what is stored still holds; caches on the way are told to ask, too.
    case reloadRevalidatingCacheData
    /// What is stored, however old, unless its origin forbids that (`no-cache`, or `must-revalidate` where it is stale);
    /// else the origin is asked.
    case returnCacheDataElseLoad
    /// The same, but nothing goes out: without a usable answer, and in sessions without a cache, the task fails with
    /// `notStored`.
    case returnCacheDataDontLoad

    /// What decides about stored answers.
    var requestPolicy: RequestPolicy {
        switch self {
        case .useProtocolCachePolicy, .reloadRevalidatingCacheData: .useProtocolCachePolicy
        case .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData: .reloadIgnoringLocalCacheData
        case .returnCacheDataElseLoad: .returnCacheDataElseLoad
        case .returnCacheDataDontLoad: .returnCacheDataDontLoad
        }
    }

    /// Says in a request's fields what caches on the way have to know (RFC 9111, section 5.2.1.4).
    package func addDirectives(to fields: inout HTTPFields) {
        switch self {
        case .reloadIgnoringLocalAndRemoteCacheData, .reloadRevalidatingCacheData:
            fields.append(.cacheControl, "no-cache")
        default: break
        }
    }
}
