// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
package import HTTPCore

/// A request's use of the session's cache; the names are those of `URLRequest.CachePolicy`.
public enum CachePolicy: Sendable, Hashable, CaseIterable {
    /// RFC 9111, with the fields of the stored response and of the request.
    case useProtocolCachePolicy
    /// The request goes to the origin, whatever is stored; its response replaces the stored one.
    case reloadIgnoringLocalCacheData
    /// The same, with `Cache-Control: no-cache` for the caches between.
    case reloadIgnoringLocalAndRemoteCacheData
    /// The origin validates the stored response; the caches between get `Cache-Control: no-cache`.
    case reloadRevalidatingCacheData
    /// A stored response of any age, unless its origin forbids that (`no-cache`, or `must-revalidate` when it is
    /// stale); otherwise the request goes to the origin.
    case returnCacheDataElseLoad
    /// The same, but no request is sent: without a usable stored response, and in sessions without a cache, the task
    /// fails with `notStored`.
    case returnCacheDataDontLoad

    /// The policy for stored responses.
    var requestPolicy: RequestPolicy {
        switch self {
        case .useProtocolCachePolicy, .reloadRevalidatingCacheData: .useProtocolCachePolicy
        case .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData: .reloadIgnoringLocalCacheData
        case .returnCacheDataElseLoad: .returnCacheDataElseLoad
        case .returnCacheDataDontLoad: .returnCacheDataDontLoad
        }
    }

    /// Adds the directives for the caches between to a request's fields (RFC 9111, section 5.2.1.4).
    package func addDirectives(to fields: inout HeaderFields) {
        switch self {
        case .reloadIgnoringLocalAndRemoteCacheData, .reloadRevalidatingCacheData:
            fields.append(.cacheControl, "no-cache")
        default: break
        }
    }
}

extension SessionError {
    package static let notStored = SessionError(
        .notStored,
        "No stored response can be used, and the cache policy of the request forbids asking the origin."
    )
}
