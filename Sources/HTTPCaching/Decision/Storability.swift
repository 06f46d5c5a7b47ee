public import HTTPCore

/// Whether a response may be stored, and if not, why (RFC 9111 3).
public enum Storability: Hashable, Sendable {
    case storable
    case notStorable(Reason)

    /// The first reason that was found.
    public enum Reason: Hashable, Sendable {
        /// Only answers to GET are stored.
        case method
        /// An interim response, one to be joined with what is stored (206, 304), or one about its request alone (412, 416,
        /// 429 and the like).
        case status
        /// `must-understand` on a status whose meaning for caches is not known here (RFC 9111 5.2.2.3).
        case statusNotUnderstood
        /// `no-store` in the request (5.2.1.5).
        case requestNoStore
        /// `no-store` in the response (5.2.2.5).
        case responseNoStore
        /// `private` in a shared cache (5.2.2.7).
        case isPrivate
        /// A request with credentials in a shared cache, and nothing that allows to store its answer (3.5).
        case authorization
        /// No lifetime, no `public`, and a status that does not stand for one.
        case noLifetime
        /// `Vary: *`, or a Vary that names more fields than any request has: no later request ever matches (4.1).
        case variesOnEverything
        /// A Cache-Control that could not be read in full: what it forbids is not known.
        case malformedCacheControl
        /// Several fields that a cache goes by contradict each other (two ETags, two Content-Encodings that differ).
        case contradiction
        /// Set-Cookie in a shared cache, and nothing that is meant for shared caches: one user's cookie must not become
        /// everybody's (7.3).
        case setCookie
        /// The content of the request decided the answer.
        case requestBody
        /// A rule of the cache's owner says so.
        case rule
        /// Larger than the cache takes.
        case tooLarge
        /// Bodies that are on their way take up all the room there is for them, or the disk is off.
        case noRoom
    }

    /// Judges an exchange, its body aside.
    ///
    /// - Parameters:
    ///   - method: of the request.
    ///   - request: the fields of the request as it was sent.
    ///   - status: of the response.
    ///   - response: the fields of the response as it was received.
    ///   - isShared: whether the cache serves several users.
    public static func evaluate(
        method: HTTPMethod,
        request: HTTPFields,
        status: Int,
        response: HTTPFields,
        isShared: Bool
    ) -> Storability {
        judge(
            CacheRequest(method: method, fields: request),
            status: status,
            response: response,
            CacheOptions(isShared: isShared, targets: [])
        )
    }

    /// - Parameter hasRuleLifetime: whether a rule of the cache's owner gives the lifetime.
    public static func judge(
        _ request: CacheRequest,
        status: Int,
        response: HTTPFields,
        _ options: CacheOptions,
        hasRuleLifetime: Bool = false
    ) -> Storability {
        guard request.method == .get else { return .notStorable(.method) }
        guard !request.hasBody else { return .notStorable(.requestBody) }
        guard status >= 200, status != 206, status != 304, !isAboutTheRequest(status) else {
            return .notStorable(.status)
        }

        let governing = GoverningControl(response, options)
        let control = governing.control
        if request.control.isMalformed || control.isMalformed { return .notStorable(.malformedCacheControl) }
        if request.control.noStore { return .notStorable(.requestNoStore) }
        // A cache that knows the status goes by the rest and not by the no-store that stands there for the others.
        if control.mustUnderstand {
            guard isUnderstood(status) else { return .notStorable(.statusNotUnderstood) }
        } else if control.noStore {
            return .notStorable(.responseNoStore)
        }
        if options.isShared {
            if control.isPrivate == .wholeResponse { return .notStorable(.isPrivate) }
            let allowsAuthorized = control.mustRevalidate || control.isPublic || control.sharedMaxAge != nil
            if request.hasCredentials, !allowsAuthorized { return .notStorable(.authorization) }
            if response.contains(.setCookie), !governing.isForAll, control.isPrivate?.names("set-cookie") != true {
                return .notStorable(.setCookie)
            }
        }
        if response.hasMember("*", of: .vary) { return .notStorable(.variesOnEverything) }
        if response.contains(.vary), SelectingFields.names(response).count > SelectingFields.namesAtMost {
            return .notStorable(.variesOnEverything)
        }
        if response.count(of: .etag) > 1 { return .notStorable(.contradiction) }

        let hasExpires = !governing.isTargeted && response.contains(.expires)
        let saysSo =
            hasRuleLifetime || control.isPublic || control.maxAge != nil || hasExpires
            || (options.isShared && control.sharedMaxAge != nil) || (!options.isShared && control.isPrivate != nil)
        guard saysSo || Freshness.isHeuristicallyCacheable(status) else { return .notStorable(.noLifetime) }
        return .storable
    }

    /// Statuses that speak of one request: its credentials, conditions, range, framing, size, or its client's habits. For
    /// the next client they would be wrong; RFC 6585 forbids to store 428, 429, 431 and 511.
    private static func isAboutTheRequest(_ status: Int) -> Bool {
        switch status {
        case 401, 407, 408, 411, 412, 413, 416, 417, 421, 425, 428, 429, 431, 511: true
        default: false
        }
    }

    /// The statuses of RFC 9110 whose meaning for a cache is no more than that of the message.
    private static func isUnderstood(_ status: Int) -> Bool {
        switch status {
        case 200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 405, 410, 414, 451, 501: true
        default: false
        }
    }
}
