// SPDX-License-Identifier: Apache-2.0
/// A redirect that may be followed.
public struct RedirectProposal: Sendable {
    /// The next request by the rules of RFC 9110, section 15.4: method and body according to the status, without
    /// `Authorization` and `Cookie` for another origin.
    public let request: HTTPSessionRequest
    /// The reason against the redirect, without which the session follows it.
    public let denial: Denial?

    /// The reasons against a redirect: the next server is trusted less than the last one.
    public enum Denial: Sendable, Equatable {
        /// From https to http.
        case losesTLS
        /// From a host with pins to one without pins that apply now (`SecurityPolicy.isHeldToPins`).
        case leavesPins
    }
}

/// A hook's decision about a redirect.
public enum RedirectDecision: Sendable {
    /// The decision of the session: follow the redirect, or fail with `redirectDenied` when it is denied.
    case proceed
    /// Send this request, even when the redirect is denied; the hook is responsible for that. A host with a security
    /// policy is not reached without TLS in any case.
    case follow(HTTPSessionRequest)
    /// Do not follow the redirect: it is the final response.
    case stop
}
