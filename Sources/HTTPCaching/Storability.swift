public import HTTPCore

/// Whether a response may be stored, and if not, why (RFC 9111 3).
public enum Storability: Hashable, Sendable {
    case storable
    case notStorable(Reason)

    /// The first reason that was found.
    public enum Reason: Hashable, Sendable {
        /// Only answers to GET are stored.
        case method
        /// An interim response, or one to be joined with what is stored (206, 304).
        case status
        /// `must-understand` on a status whose meaning for caches is not known here (RFC 9111 5.2.2.3).
        case statusNotUnderstood
        /// `no-store` in the request (5.2.1.5).
        case requestNoStore
        /// `no-store` in the response (5.2.2.5).
        case responseNoStore
        /// `private` in a shared cache (5.2.2.7).
        case isPrivate
        /// A request with Authorization in a shared cache, and nothing that allows to store its answer (3.5).
        case authorization
        /// No lifetime, no `public`, and a status that does not stand for one.
        case noLifetime
        /// `Vary: *`: no later request ever matches (4.1).
        case variesOnEverything
        /// A Cache-Control that could not be read in full: what it forbids is not known.
        case malformedCacheControl
    }

    /// Judges a complete exchange.
    ///
    /// - Parameters:
    ///   - method: of the request.
    ///   - request: the fields of the request as it was sent.
    ///   - status: of the response.
    ///   - response: the fields of the response as it was received.
    ///   - isShared: whether the cache serves several users.
    public static func judge(
        method: HTTPMethod,
        request: HTTPFields,
        status: Int,
        response: HTTPFields,
        isShared: Bool
    ) -> Storability {
        guard method == .get else { return .notStorable(.method) }
        guard status >= 200, status != 206, status != 304 else { return .notStorable(.status) }

        let asked = CacheControl(request)
        let control = CacheControl(response)
        if asked.isMalformed || control.isMalformed { return .notStorable(.malformedCacheControl) }
        if asked.noStore { return .notStorable(.requestNoStore) }
        // A cache that knows the status goes by the rest and not by the no-store that stands there for the others.
        if control.mustUnderstand {
            guard isUnderstood(status) else { return .notStorable(.statusNotUnderstood) }
        } else if control.noStore {
            return .notStorable(.responseNoStore)
        }
        if isShared {
            if control.isPrivate != nil { return .notStorable(.isPrivate) }
            let allowsAuthorized = control.mustRevalidate || control.isPublic || control.sharedMaxAge != nil
            if request.contains(.authorization), !allowsAuthorized { return .notStorable(.authorization) }
        }
        if response.hasMember("*", of: .vary) { return .notStorable(.variesOnEverything) }

        let saysSo =
            control.isPublic || control.maxAge != nil || response.contains(.expires)
            || (isShared && control.sharedMaxAge != nil) || (!isShared && control.isPrivate != nil)
        guard saysSo || Freshness.isHeuristicallyCacheable(status) else { return .notStorable(.noLifetime) }
        return .storable
    }

    /// The statuses of RFC 9110 whose meaning for a cache is no more than that of the message.
    private static func isUnderstood(_ status: Int) -> Bool {
        switch status {
        case 200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 405, 410, 414, 451, 501: true
        default: false
        }
    }
}
