// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// A redirect by the rules: the request that follows it, and whether it is denied. A value.
struct RedirectEvaluation {
    /// The next request.
    let following: HTTPSessionRequest
    /// Why the redirect is denied, unless a hook follows it all the same; nil when it is allowed.
    let denial: RedirectMachine.Denial?

    /// - Parameters:
    ///   - hop: the redirect.
    ///   - request: the request that got this response.
    ///   - from: the origin of that request, and its endpoint.
    ///   - to: the endpoint of the redirect; nil when its origin has none, and is refused when the request is made.
    ///   - now: seconds since 1970.
    init(
        _ hop: RedirectMachine.Hop,
        of request: HTTPSessionRequest,
        from: (origin: Origin, endpoint: Endpoint?),
        to: Endpoint?,
        now: Int64
    ) {
        // The endpoints know the scheme that is really used: plain http may be upgraded.
        let isFromTLS = from.endpoint.map { $0.scheme == .https } ?? (from.origin.scheme == .https)
        let isToTLS = to.map { $0.scheme == .https } ?? (hop.url.origin.scheme == .https)
        denial = RedirectMachine.denial(
            from: (isFromTLS ? .https : .http, from.endpoint?.hasPins ?? false),
            to: (isToTLS ? .https : .http, to?.isHeldToPins(at: now) ?? false)
        )
        var following = request
        following.url = hop.url.text
        // RFC 9110, section 10.2.2.
        if !following.url.utf8.contains(UInt8(ascii: "#")), let start = request.url.firstIndex(of: "#") {
            following.url += request.url[start...]
        }
        following.method = hop.method
        if !hop.keepsBody { following.body = .none }
        // They were sent already, so that they are valid; otherwise none of them would be.
        var fields = (try? following.headers.checked()) ?? HeaderFields()
        RedirectMachine.prune(&fields, for: hop, leavesTLS: isFromTLS && !isToTLS)
        following.headers = HTTPHeaders(fields)
        self.following = following
    }
}
