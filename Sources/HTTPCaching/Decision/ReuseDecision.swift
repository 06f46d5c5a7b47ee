import HTTPCore

/// What becomes of a request that meets a cache (RFC 9111 4).
public enum CacheUse: Hashable, Sendable {
    /// The stored response answers it.
    case reuse(Reuse)
    /// The origin is asked.
    case forward(ForwardReason, validates: Bool)
    /// Nothing stored can be used, and the origin must not be asked (`only-if-cached`, `returnCacheDataDontLoad`), or
    /// cannot be reached where it would have to (`must-revalidate`): 504.
    case gatewayTimeout
}

/// How a stored response is used.
public struct Reuse: Hashable, Sendable {
    public let freshness: Freshness
    /// Whether the origin is to be asked in the background (`stale-while-revalidate`).
    public let revalidates: Bool

    /// What is left of its lifetime, in seconds; negative when it is stale (RFC 9211 2.4).
    public var timeToLive: Int { freshness.lifetime - freshness.age }
}

/// Why a request goes to the origin, by RFC 9211 2.2.
public enum ForwardReason: Hashable, Sendable {
    /// The cache was told not to handle it.
    case bypass
    /// The method is none that a cache answers.
    case method
    /// Nothing is stored for the URI.
    case uriMiss
    /// What is stored for the URI is for other selecting fields.
    case varyMiss
    /// Nothing is stored that could be used; which of the two it was is not known.
    case miss
    /// The request wants it so (`no-cache`, `max-age`).
    case request
    /// What is stored is stale.
    case stale
    /// Only a part is stored.
    case partial
}

/// How an attempt to reach the origin ended.
public enum OriginFailure: Hashable, Sendable {
    /// No connection, or no answer.
    case unreachable
    /// An answer with one of RFC 5861's statuses: 500, 502, 503, 504.
    case serverError(Int)
    /// The server was refused for its key or its certificate. Nothing stale stands in for that, and the origin is in doubt
    /// until a server that passes has answered for it.
    case untrusted
    /// Another failure, such as an access rule, a limit or an invalid response. Nothing stale stands in for that either.
    case other
}

public enum ReuseDecision {
    /// Before the origin is asked.
    ///
    /// - Parameters:
    ///   - stored: the selected response (`StoredResponse.select`).
    ///   - hasVariants: whether something is stored for the URI at all.
    ///   - now: in seconds since 1970.
    ///   - isDoubted: whether a server has failed its check for this origin, and none has passed since: then nothing stale is
    ///     used.
    public static func decide(
        _ request: CacheRequest,
        stored: StoredResponse?,
        hasVariants: Bool,
        now: Int,
        isDoubted: Bool = false,
        _ options: CacheOptions
    ) -> CacheUse {
        guard request.method == .get || request.method == .head else { return .forward(.method, validates: false) }
        guard request.isCacheable else { return .forward(.bypass, validates: false) }
        guard let stored else { return decide(request, hasVariants: hasVariants) }
        return decide(request, stored, now: now, isDoubted: isDoubted)
    }

    /// The same for what a store has found, of which nothing is copied.
    static func decide(
        _ request: borrowing CacheRequest,
        _ found: borrowing CacheStore.Found,
        now: Int,
        isDoubted: Bool
    ) -> CacheUse {
        guard request.method == .get || request.method == .head else { return .forward(.method, validates: false) }
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
        // What has been found changed is not used without a look at the origin.
        guard !stored.isMarkedStale else {
            return elsewhere(request, .stale, validates: stored.hasValidator)
        }
        let staleness = freshness.staleness
        let isYoungEnough = control.maxAge.map { freshness.age <= $0 } ?? true
        let isInGrace = terms.staleWhileRevalidate > 0 && staleness <= terms.staleWhileRevalidate
        if isInGrace, isYoungEnough, control.minFresh == nil, !control.onlyIfCached {
            // A client that said max-age without max-stale wants nothing stale (5.2.1.1).
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

    /// Whether a fresh response is what the request's max-age and min-fresh want (5.2.1.1, 5.2.1.3).
    ///
    /// An immutable response does not change while it is fresh, so that a max-age, which is what a reload sends, does not
    /// ask for a validation (RFC 8246 2).
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

    /// After the origin was asked in vain (RFC 9111 4.2.4 and 4.3.3, RFC 5861 4).
    ///
    /// - Returns: nil when the failure itself is the answer.
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
        var limit = terms.staleIfError
        switch failure {
        case .untrusted, .other:
            return nil
        case .serverError(let status):
            guard [500, 502, 503, 504].contains(status) else { return nil }
        case .unreachable:
            // The origin's word is needed and cannot be had (5.2.2.2).
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
