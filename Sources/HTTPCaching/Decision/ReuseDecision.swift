// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// The decision of a cache about a request (RFC 9111 4).
public enum CacheUse: Hashable, Sendable {
    /// The stored response is used.
    case reuse(Reuse)
    /// The request goes to the origin.
    case forward(ForwardReason, validates: Bool)
    /// No stored response can be used, and the request must not go to the origin (`only-if-cached`,
    /// `returnCacheDataDontLoad`), or a required validation fails because the origin cannot be reached
    /// (`must-revalidate`): 504.
    case gatewayTimeout
}

/// The use of a stored response.
public struct Reuse: Hashable, Sendable {
    /// Its lifetime and age at the time of the decision.
    public let freshness: Freshness
    /// Whether it is revalidated in the background (`stale-while-revalidate`).
    public let revalidates: Bool

    /// The rest of its lifetime, in seconds; negative when it is stale (RFC 9211 2.4).
    public var timeToLive: Int { freshness.lifetime - freshness.age }
}

/// The reason why a request goes to the origin (RFC 9211 2.2).
public enum ForwardReason: Hashable, Sendable {
    /// The cache is configured not to handle the request.
    case bypass
    /// Caches do not handle the method.
    case method
    /// Nothing is stored for the URI.
    case uriMiss
    /// The stored responses of the URI have other selecting fields.
    case varyMiss
    /// No usable response is stored; it is unknown which of the two reasons applies.
    case miss
    /// The request demands it (`no-cache`, `max-age`).
    case request
    /// The stored response is stale.
    case stale
    /// Only a part of the response is stored.
    case partial
}

/// The failure of a request to the origin.
public enum OriginFailure: Hashable, Sendable {
    /// No connection: no address, or none that takes a connection.
    case noConnection
    /// No response on a connection.
    case unreachable
    /// A response with one of RFC 5861's statuses: 500, 502, 503, 504.
    case serverError(Int)
    /// The server was refused for its key or its certificate. No stale response replaces this failure, and the origin
    /// is in doubt until an accepted server has responded for it.
    case untrusted
    /// Another failure, such as an access rule, a limit or an invalid response. No stale response replaces it either.
    case other
}

/// Decides whether stored responses may be used (RFC 9111, section 4).
public enum ReuseDecision {
    /// The decision before a request goes to the origin.
    ///
    /// - Parameters:
    ///   - request: the request.
    ///   - stored: the selected response (`StoredResponse.select`).
    ///   - hasVariants: whether any response is stored for the URI.
    ///   - now: in seconds since 1970.
    ///   - isDoubted: whether a server was refused for this origin, and none has been accepted since: no stale response
    ///     is used then.
    ///   - options: the settings of the cache.
    public static func decide(
        _ request: CacheRequest,
        stored: StoredResponse?,
        hasVariants: Bool,
        now: Int,
        isDoubted: Bool = false,
        _ options: CacheOptions
    ) -> CacheUse {
        guard request.method == .get || request.method == .head else { return .forward(.method, validates: false) }
        guard !request.bypasses else { return elsewhere(request, .bypass, validates: false) }
        guard request.isCacheable else { return .forward(.bypass, validates: false) }
        guard let stored else { return decide(request, hasVariants: hasVariants) }
        return decide(request, stored, now: now, isDoubted: isDoubted)
    }

    /// The same for the result of a lookup, without a copy.
    static func decide(
        _ request: borrowing CacheRequest,
        _ found: borrowing CacheStore.Found,
        now: Int,
        isDoubted: Bool
    ) -> CacheUse {
        guard request.method == .get || request.method == .head else { return .forward(.method, validates: false) }
        guard !request.bypasses else { return elsewhere(request, .bypass, validates: false) }
        guard request.isCacheable else { return .forward(.bypass, validates: false) }
        guard let index = found.selected else { return decide(request, hasVariants: !found.entries.isEmpty) }
        return decide(request, found.entries[index].response, now: now, isDoubted: isDoubted)
    }

    private static func decide(_ request: borrowing CacheRequest, hasVariants: Bool) -> CacheUse {
        elsewhere(request, hasVariants ? .varyMiss : .uriMiss, validates: hasVariants)
    }

    private static func decide(
        _ request: borrowing CacheRequest,
        _ stored: borrowing StoredResponse,
        now: Int,
        isDoubted: Bool
    ) -> CacheUse {
        let freshness = stored.freshness(now: now)
        let terms = stored.terms
        let mayBeStale = !terms.mustRevalidate && !isDoubted
        switch request.policy {
        case .reloadIgnoringLocalCacheData:
            return elsewhere(request, .bypass, validates: false)
        case .returnCacheDataElseLoad, .returnCacheDataDontLoad:
            let isForbidden = terms.needsValidation || (!freshness.isFresh && !mayBeStale)
            guard isForbidden else { return .reuse(Reuse(freshness: freshness, revalidates: false)) }
            return elsewhere(request, terms.needsValidation ? .request : .stale, validates: stored.hasValidator)
        case .useProtocolCachePolicy:
            break
        }
        if terms.needsValidation { return elsewhere(request, .stale, validates: stored.hasValidator) }
        if request.control.noCache != nil || request.control.isMalformed {
            return elsewhere(request, .request, validates: stored.hasValidator)
        }
        if freshness.isFresh {
            guard fits(freshness, request.control, terms) else {
                return elsewhere(request, .request, validates: stored.hasValidator)
            }
            return .reuse(Reuse(freshness: freshness, revalidates: false))
        }
        guard mayBeStale else { return elsewhere(request, .stale, validates: stored.hasValidator) }
        return decideStale(request, stored, freshness)
    }

    private static func decideStale(
        _ request: borrowing CacheRequest,
        _ stored: borrowing StoredResponse,
        _ freshness: Freshness
    ) -> CacheUse {
        let terms = stored.terms
        let control = request.control
        // A response that is known to have changed is not used without validation.
        guard !stored.isMarkedStale else {
            return elsewhere(request, .stale, validates: stored.hasValidator)
        }
        let staleness = freshness.staleness
        let isYoungEnough = control.maxAge.map { freshness.age <= $0 } ?? true
        let grace = terms.staleWhileRevalidate(request.grace)
        let isInGrace = grace > 0 && staleness <= grace
        if isInGrace, isYoungEnough, control.minFresh == nil, !control.onlyIfCached {
            // A client that sends max-age without max-stale does not accept stale responses (5.2.1.1).
            if control.maxAge == nil || control.maxStale != nil {
                return .reuse(Reuse(freshness: freshness, revalidates: true))
            }
        }
        if let limit = control.maxStale, isYoungEnough, control.minFresh == nil, !terms.impliesRevalidation {
            let isWanted =
                switch limit {
                case .any: true
                case .seconds(let seconds): staleness <= seconds
                }
            if isWanted { return .reuse(Reuse(freshness: freshness, revalidates: false)) }
        }
        return elsewhere(request, .stale, validates: stored.hasValidator)
    }

    /// Whether a fresh response meets the request's max-age and min-fresh (5.2.1.1, 5.2.1.3).
    ///
    /// An immutable response does not change while it is fresh, so that a max-age, which browsers send on reload, does
    /// not force a validation (RFC 8246 2).
    private static func fits(_ freshness: Freshness, _ control: CacheControl, _ terms: ReuseTerms) -> Bool {
        if let maxAge = control.maxAge, !terms.isImmutable, freshness.age > maxAge { return false }
        if let minFresh = control.minFresh, freshness.lifetime - freshness.age < minFresh { return false }
        return true
    }

    private static func elsewhere(_ request: borrowing CacheRequest, _ reason: ForwardReason, validates: Bool)
        -> CacheUse
    {
        if request.control.onlyIfCached || request.policy == .returnCacheDataDontLoad { return .gatewayTimeout }
        return .forward(reason, validates: validates)
    }

    /// The decision after a failed request to the origin (RFC 9111 4.2.4 and 4.3.3, RFC 5861 4).
    ///
    /// - Returns: *nil when the failure itself is passed on.
    public static func decide(
        afterFailure failure: OriginFailure,
        _ request: CacheRequest,
        stored: StoredResponse?,
        now: Int,
        isDoubted: Bool = false,
        _ options: CacheOptions
    ) -> CacheUse? {
        guard let stored, request.isCacheable else { return nil }
        let freshness = stored.freshness(now: now)
        let terms = stored.terms
        var limit = terms.staleIfError(request.grace)
        switch failure {
        case .untrusted, .other:
            return nil
        case .serverError(let status):
            guard [500, 502, 503, 504].contains(status) else { return nil }
        case .noConnection, .unreachable:
            // The validation that is required is impossible (5.2.2.2).
            if (terms.mustRevalidate && !freshness.isFresh) || terms.needsValidation { return .gatewayTimeout }
            if !terms.impliesRevalidation { limit = max(limit, options.staleWhenDisconnected) }
        }
        guard !terms.mustRevalidate, !terms.needsValidation, request.control.noCache == nil else { return nil }
        guard !stored.isMarkedStale, !isDoubted else { return nil }
        if !terms.impliesRevalidation, let asked = request.control.staleIfError { limit = max(limit, asked) }
        guard freshness.staleness <= limit, limit > 0 || freshness.isFresh else { return nil }
        return .reuse(Reuse(freshness: freshness, revalidates: false))
    }
}
