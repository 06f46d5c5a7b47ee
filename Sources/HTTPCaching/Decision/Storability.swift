// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// The decision whether a response may be stored, with the reason if not (RFC 9111 3).
public enum Storability: Hashable, Sendable {
    /// It may be stored.
    case storable
    /// It must not be stored, for this reason.
    case notStorable(Reason)

    /// The first reason against storage.
    public enum Reason: Hashable, Sendable {
        /// Only responses to GET are stored.
        case method
        /// An interim response, a response that completes a stored one (206, 304), or one that concerns only its
        /// request (412, 416, 429 and similar).
        case status
        /// `must-understand` on a status that this cache does not know (RFC 9111 5.2.2.3).
        case statusNotUnderstood
        /// `no-store` in the request (5.2.1.5).
        case requestNoStore
        /// `no-store` in the response (5.2.2.5).
        case responseNoStore
        /// `private` in a shared cache (5.2.2.7).
        case isPrivate
        /// A request with credentials in a shared cache, without a directive that allows storage (3.5).
        case authorization
        /// No lifetime, no `public`, and a status without a heuristic lifetime.
        case noLifetime
        /// `Vary: *`, or a Vary that names more fields than any request has: no later request ever matches (4.1).
        case variesOnEverything
        /// A Cache-Control that could not be parsed completely: its prohibitions are unknown.
        case malformedCacheControl
        /// Fields that a cache depends on contradict each other (two ETags, two Content-Encodings that differ).
        case contradiction
        /// Set-Cookie in a shared cache, without a directive for shared caches: other users must not get one user's
        /// cookie (7.3).
        case setCookie
        /// The response depends on the content of the request.
        case requestBody
        /// A rule of the configuration forbids it.
        case rule
        /// Larger than the cache's limit.
        case tooLarge
        /// The bodies in transit take up all of their space, or the disk is off.
        case noRoom
    }

    /// Evaluates an exchange without its body.
    ///
    /// - Parameters:
    ///   - method: of the request.
    ///   - request: the fields of the request as it was sent.
    ///   - status: of the response.
    ///   - response: the fields of the response as it was received.
    ///   - isShared: whether the cache serves several users.
    public static func evaluate(
        method: HTTPMethod,
        request: HeaderFields,
        status: Int,
        response: HeaderFields,
        isShared: Bool
    ) -> Storability {
        evaluate(
            CacheRequest(method: method, fields: request),
            status: status,
            response: response,
            CacheOptions(isShared: isShared, targets: [])
        )
    }

    /// - Parameters:
    ///   - request: the request.
    ///   - status: the status of the response.
    ///   - response: the response.
    ///   - options: the settings of the cache.
    ///   - hasRuleLifetime: whether a rule of the configuration gives the lifetime.
    public static func evaluate(
        _ request: CacheRequest,
        status: Int,
        response: HeaderFields,
        _ options: CacheOptions,
        hasRuleLifetime: Bool = false
    ) -> Storability {
        guard request.method == .get else { return .notStorable(.method) }
        guard !request.bypasses else { return .notStorable(.rule) }
        guard !request.hasBody else { return .notStorable(.requestBody) }
        guard status >= 200, status != 206, status != 304, !isAboutTheRequest(status) else {
            return .notStorable(.status)
        }

        let governing = GoverningControl(response, options)
        let control = governing.control
        if request.control.isMalformed || control.isMalformed { return .notStorable(.malformedCacheControl) }
        if request.control.noStore { return .notStorable(.requestNoStore) }
        // A cache that knows the status obeys the other directives; the no-store is for caches that do not.
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

    /// Statuses that concern one request: its credentials, conditions, range, framing, size, or the request rate of its
    /// client. They would be wrong for other clients; RFC 6585 forbids storage of 428, 429, 431 and 511.
    private static func isAboutTheRequest(_ status: Int) -> Bool {
        switch status {
        case 401, 407, 408, 411, 412, 413, 416, 417, 421, 425, 428, 429, 431, 511: true
        default: false
        }
    }

    /// The statuses of RFC 9110 without special requirements for caches.
    private static func isUnderstood(_ status: Int) -> Bool {
        switch status {
        case 200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 405, 410, 414, 451, 501: true
        default: false
        }
    }
}
