// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// The redirects of one task, as a value: heads go in; the next request, or the failure, comes out.
struct TaskRedirects {
    private var machine: RedirectMachine

    /// - Parameter escapesLocation: whether spaces and UTF-8 in `Location` are escaped, instead of refused.
    init(escapesLocation: Bool) { machine = RedirectMachine(escapesLocation: escapesLocation) }

    /// The number of redirects so far.
    var count: Int { machine.count }

    /// Decides about a final head, by the rules and by the hook.
    ///
    /// - Parameters:
    ///   - url: the URL of the request.
    ///   - now: seconds since 1970.
    ///   - endpoint: that of an origin; nil when there is none, and a request there is refused when it is made.
    ///   - hook: asked about a redirect; nil: the rules decide.
    mutating func didReceiveHead(
        _ head: borrowing ResponseHead,
        to request: HTTPSessionRequest,
        at url: AbsoluteURL,
        now: Int64,
        endpoint: (Origin) -> Endpoint?,
        hook: (ResponseHead, RedirectProposal) -> RedirectDecision?
    ) -> ResponseStep {
        let hop: RedirectMachine.Hop
        switch machine.didReceiveHead(head, url: url, method: request.method) {
        case .noRedirect: return .deliver
        case .fail(let fault): return .fail(SessionError(fault, redirects: machine))
        case .follow(let following): hop = following
        }
        let redirect = RedirectEvaluation(
            hop,
            of: request,
            from: (url.origin, endpoint(url.origin)),
            to: endpoint(hop.url.origin),
            now: now
        )
        let proposal = RedirectProposal(
            request: redirect.following,
            denial: redirect.denial.map { RedirectProposal.Denial($0) }
        )
        switch hook(copy head, proposal) ?? .proceed {
        case .stop: return .deliver
        case .follow(let request): return .follow(request)
        case .proceed:
            guard let denial = redirect.denial else { return .follow(redirect.following) }
            return .fail(SessionError(denial, from: url.origin, to: hop.url.origin))
        }
    }
}
