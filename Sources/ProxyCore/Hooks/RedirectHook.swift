// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// The rules' decision about the redirects of one request: the counterpart of a session's
/// `taskWillPerformHTTPRedirection`.
///
/// A value without a socket. `RedirectMachine` recognises redirects and makes the next request. This type has the rules
/// of the configuration, and the checks that no rule can switch off: leaving TLS, leaving pins, redirect loops.
struct RedirectHook {
    /// A hop to be made.
    struct Plan {
        var hop: RedirectMachine.Hop
        var leavesTLS: Bool
        /// The changes of a rule to the request's fields.
        var changes: FieldChanges?
    }

    enum Decision {
        /// The response goes to the client: it is no redirect, or the proxy does not follow it.
        case deliver
        case follow(Plan)
        case refuse(Problem)
    }

    /// The state of the request's body.
    enum Body {
        case none
        /// The received part of the body is in the replay buffer.
        case kept
        case lost
    }

    private struct Visit: Hashable {
        var method: HTTPMethod
        var origin: Origin
        var target: [UInt8]
    }

    private var hooks: HostHooks
    private var machine: RedirectMachine
    private var visits: Set<Visit>

    /// - Parameters:
    ///   - hooks: the hooks of the host that the client requested; they apply to all hops of its request.
    ///   - url: the URL of the first request.
    init(_ hooks: HostHooks, url: AbsoluteURL, method: HTTPMethod) {
        self.hooks = hooks
        machine = RedirectMachine(limit: hooks.redirects.max)
        visits = [Visit(method: method, origin: url.origin, target: url.target)]
    }

    /// The same request with other rules for its host: the redirects so far still count.
    func under(_ hooks: HostHooks) -> RedirectHook {
        var changed = self
        changed.hooks = hooks
        changed.machine.limit = hooks.redirects.max
        return changed
    }

    /// The number of hops so far.
    var count: Int { machine.count }

    /// Evaluates the response to the latest request.
    ///
    /// - Parameters:
    ///   - url: the URL of that request.
    ///   - method: the method of that request.
    ///   - router: the router of the current policy, under which the next request would be made.
    ///   - now: seconds since 1970; pin sets expire.
    mutating func decide(
        _ head: borrowing ResponseHead,
        url: AbsoluteURL,
        method: HTTPMethod,
        body: Body,
        router: Router,
        now: Int64 = Clock.seconds
    ) -> Decision {
        var hop: RedirectMachine.Hop
        switch RedirectMachine.propose(head, url: url, method: method) {
        case .noRedirect: return .deliver
        case .otherScheme: return leadsOutOfHTTP(url, own: router.snapshot.policy(for: url.origin.host).hooks)
        case .invalidLocation: return isIllegible(url, own: router.snapshot.policy(for: url.origin.host).hooks)
        case .hop(let proposed): hop = proposed
        }
        hop.url = router.upgraded(hop.url)
        let (action, rule) = hooks.redirects.action(status: head.status, to: hop.url)
        if let refusal = refusal(of: hop.url, status: head.status, from: url, router) { return .refuse(refusal) }
        var changes: FieldChanges?
        switch action {
        case .return: return .deliver
        // `refusal` handles this case.
        case .deny: return .refuse(denied(url, hop.url.origin, hooks.owner, rule))
        case .follow: break
        case .rewrite(let rewrite):
            let path = rule.flatMap { hooks.redirects.rules[$0].path }
            hop.url = router.upgraded(rewrite.applied(to: hop.url, path: path))
            changes = rewrite.fields
        }
        hop.crossesOrigins = hop.url.origin != url.origin
        return follow(hop, from: url, rule: rule.map { hooks.redirects.rules[$0] }, changes, body, router, now)
    }

    private mutating func follow(
        _ hop: RedirectMachine.Hop,
        from url: AbsoluteURL,
        rule: RedirectRule?,
        _ changes: FieldChanges?,
        _ body: Body,
        _ router: Router,
        _ now: Int64
    ) -> Decision {
        let target = hop.url.origin
        // Both checks are independent, so that a rule that waives one does not waive the other.
        let hasPins = router.hasPins(url.origin)
        if RedirectMachine.denial(from: (url.origin.scheme, false), to: (target.scheme, false)) != nil,
            rule?.namesPlainHTTP != true
        {
            return .refuse(losesTLS(url.origin, target))
        }
        if RedirectMachine.denial(from: (.http, hasPins), to: (.http, router.isHeldToPins(target, at: now))) != nil,
            rule?.names(target.host) != true
        {
            return .refuse(leavesPins(url.origin, target))
        }
        if hop.keepsBody, case .lost = body { return .deliver }
        let visit = Visit(method: hop.method, origin: target, target: hop.url.target)
        guard !visits.contains(visit) else { return .refuse(loop(url.origin, target)) }
        guard machine.countHop() else { return .refuse(tooMany(url.origin)) }
        visits.insert(visit)
        let leavesTLS = url.origin.scheme == .https && target.scheme == .http
        return .follow(Plan(hop: hop, leavesTLS: leavesTLS, changes: changes))
    }

    // MARK: What is not followed

    /// Applies the rules of the host that the client requested and those of the redirecting host: deny wins.
    private func refusal(
        of target: AbsoluteURL,
        status: Int,
        from url: AbsoluteURL,
        _ router: Router
    ) -> Problem? {
        if case (.deny, let rule) = hooks.redirects.action(status: status, to: target) {
            return denied(url, target.origin, hooks.owner, rule)
        }
        guard let own = router.snapshot.policy(for: url.origin.host).hooks, own !== hooks else { return nil }
        if case (.deny, let rule) = own.redirects.action(status: status, to: target) {
            return denied(url, target.origin, own.owner, rule)
        }
        return nil
    }

    /// Handles a redirect that cannot be evaluated: it is delivered where every redirect is, and refused where any is
    /// refused or followed.
    private func isIllegible(_ url: AbsoluteURL, own: HostHooks?) -> Decision {
        guard applies(own, where: { $0.isEvaluated }) else { return .deliver }
        return .refuse(
            Problem(
                .redirectDenied,
                "The redirect of \(url.origin) cannot be judged: its Location is no single URL that is read the same way by everyone. Let its redirects be returned (policy \"return\" without a rule that denies) if clients are to read it themselves."
            )
        )
    }

    /// Handles a redirect to `mailto:` or an application's own scheme, which only the client can follow.
    private func leadsOutOfHTTP(_ url: AbsoluteURL, own: HostHooks?) -> Decision {
        guard applies(own, where: { $0.policy == .deny }) else { return .deliver }
        return .refuse(
            Problem(
                .redirectDenied,
                "\(url.origin) redirects to something that is no http or https URL, and the policy of its redirects is \"deny\"."
            )
        )
    }

    private func applies(_ own: HostHooks?, where condition: (RedirectRules) -> Bool) -> Bool {
        if condition(hooks.redirects) { return true }
        guard let own else { return false }
        // Another host's rule to follow redirects does not apply here.
        return own !== hooks && own.redirects.policy != .follow && condition(own.redirects)
    }

    // Messages hold origins only: a query may contain values that must not be logged.

    private func denied(_ from: AbsoluteURL, _ to: Origin, _ owner: String, _ rule: Int?) -> Problem {
        let place = rule.map { "redirects/rules/\($0)" } ?? "redirects/policy"
        return Problem(
            .redirectDenied,
            "The redirect from \(from.origin) to \(to) is denied by \(owner)/\(place). Change the rules if it should be followed."
        )
    }

    private func losesTLS(_ from: Origin, _ to: Origin) -> Problem {
        Problem(
            .redirectDenied,
            "\(from) redirects to \(to), which goes without TLS. If that may be, let a rule with \"scheme\": \"http\" follow it; if the host has TLS, give it \"upgrade\": true."
        )
    }

    private func leavesPins(_ from: Origin, _ to: Origin) -> Problem {
        Problem(
            .redirectDenied,
            "\(from) is pinned and redirects to \(to), which is held to no pins. Pin that host, or name it in \"to\" of a rule that follows."
        )
    }

    private func loop(_ from: Origin, _ to: Origin) -> Problem {
        Problem(
            .redirectDenied,
            "\(from) redirects to a URL of \(to) that was asked already for this request: the redirects go in circles. Where cookies would end that, let the client follow them (policy \"return\")."
        )
    }

    private func tooMany(_ from: Origin) -> Problem {
        Problem(
            .redirectDenied,
            "The response of \(from) is one more redirect after \(machine.count) of them. Raise max of \(hooks.owner)/redirects if that is right."
        )
    }
}

extension Router {
    /// The URL that a request is really sent to: plain http to an upgraded host becomes TLS, and port 80 becomes 443
    /// (rule 8).
    func upgraded(_ url: AbsoluteURL) -> AbsoluteURL {
        let origin = url.origin
        guard origin.scheme == .http, wouldUpgrade(origin.host) else { return url }
        return AbsoluteURL(
            origin: Origin(scheme: .https, host: origin.host, port: origin.port == 80 ? 443 : origin.port),
            rest: url.rest
        )
    }

    /// Whether there are pins for that origin, even expired or report-only ones: a request for such a host is not
    /// redirected to a host without pins.
    func hasPins(_ origin: Origin) -> Bool {
        guard origin.scheme == .https else { return false }
        return snapshot.pinnedDomains.policy(host: origin.host, port: origin.port)?.hasPins ?? false
    }

    /// Whether pins decide at this time which server is accepted (invariant 6).
    func isHeldToPins(_ origin: Origin, at now: Int64) -> Bool {
        origin.scheme == .https && snapshot.pinnedDomains.isHeldToPins(host: origin.host, port: origin.port, at: now)
    }
}
