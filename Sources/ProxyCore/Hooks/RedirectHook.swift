import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// The hook that `taskWillPerformHTTPRedirection` is in a session, driven by rules: what becomes of the redirects that
/// one request meets.
///
/// A value without a socket. What a redirect is, and what its next request looks like, `RedirectMachine` says; here
/// stand the rules of the configuration, and what no rule lets by: leaving TLS, leaving pins, going in circles.
struct RedirectHook {
    /// A hop that is to be made.
    struct Plan {
        var hop: RedirectMachine.Hop
        var leavesTLS: Bool
        /// What a rule changes in the request's fields.
        var changes: FieldChanges?
    }

    enum Decision {
        /// The answer goes to the client: it is no redirect, or one that is not for us to follow.
        case deliver
        case follow(Plan)
        case refuse(Problem)
    }

    /// What has become of the request's body.
    enum Body {
        case none
        /// All that has come of it is at hand.
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
    ///   - hooks: those of the host that the client asked for: they hold for all hops of its request.
    ///   - url: where the request went first.
    init(_ hooks: HostHooks, url: AbsoluteURL, method: HTTPMethod) {
        self.hooks = hooks
        machine = RedirectMachine(limit: hooks.redirects.max)
        visits = [Visit(method: method, origin: url.origin, target: url.target)]
    }

    /// The same request under other rules for its host: what it has met so far counts.
    func under(_ hooks: HostHooks) -> RedirectHook {
        var changed = self
        changed.hooks = hooks
        changed.machine.limit = hooks.redirects.max
        return changed
    }

    /// How many hops were made.
    var count: Int { machine.count }

    /// Judges the answer to the latest request.
    ///
    /// - Parameters:
    ///   - url: where that request went.
    ///   - method: what it asked.
    ///   - router: by the policy of this moment, under which the next request would be made.
    ///   - now: seconds since 1970: pin sets expire.
    mutating func decide(
        _ head: borrowing ResponseHead,
        url: AbsoluteURL,
        method: HTTPMethod,
        body: Body,
        router: Router,
        now: Int64 = Clock.realtime / 1_000_000
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
        // `refusal` has found it.
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
        // Both as they are in themselves, so that a rule that waives one does not waive the other.
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

    /// The rules of the host that the client asked for, and those of the host that redirects: deny wins.
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

    /// What cannot be judged is handed on where everything is, and refused where something is refused or followed.
    private func isIllegible(_ url: AbsoluteURL, own: HostHooks?) -> Decision {
        guard applies(own, where: { $0.isEvaluated }) else { return .deliver }
        return .refuse(
            Problem(
                .redirectDenied,
                "The redirect of \(url.origin) cannot be judged: its Location is no single URL that is read the same way by everyone. Let its redirects be returned (policy \"return\" without a rule that denies) if clients are to read it themselves."
            )
        )
    }

    /// To `mailto:` or an application's own scheme: for the client, if for anybody.
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
        // Another host's wish to follow is not ours.
        return own !== hooks && own.redirects.policy != .follow && condition(own.redirects)
    }

    // Origins alone: a query may hold what the log must not.

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
            "The answer of \(from) is one more redirect after \(machine.count) of them. Raise max of \(hooks.owner)/redirects if that is right."
        )
    }
}

extension Router {
    /// Where a URL leads: plain http to a host that is upgraded is TLS, port 80 becomes 443 (rule 8).
    func upgraded(_ url: AbsoluteURL) -> AbsoluteURL {
        let origin = url.origin
        guard origin.scheme == .http, wouldUpgrade(origin.host) else { return url }
        return AbsoluteURL(
            origin: Origin(scheme: .https, host: origin.host, port: origin.port == 80 ? 443 : origin.port),
            rest: url.rest
        )
    }

    /// Whether there are pins for that place, held to now or not: what came for such a host does not leave to a host
    /// without pins. Pins that lapse, or are only reported on, do not open that way.
    func hasPins(_ origin: Origin) -> Bool {
        guard origin.scheme == .https else { return false }
        return snapshot.pinnedDomains.policy(host: origin.host, port: origin.port)?.hasPins ?? false
    }

    /// Whether pins decide now who may serve there (invariant 6).
    func isHeldToPins(_ origin: Origin, at now: Int64) -> Bool {
        origin.scheme == .https && snapshot.pinnedDomains.isHeldToPins(host: origin.host, port: origin.port, at: now)
    }
}
