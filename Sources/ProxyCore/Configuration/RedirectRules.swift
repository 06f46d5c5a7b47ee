package import HTTPCore

/// What becomes of an origin's redirects: `redirects` of the defaults or of a host. The first rule that matches decides,
/// else the policy.
package struct RedirectRules: Sendable {
    package enum Policy: String, CaseIterable, Sendable {
        /// The answer is handed to the client.
        case `return`
        /// The proxy asks the place that the answer names.
        case follow
        /// The client gets an error instead.
        case deny
    }

    package var policy = Policy.return
    /// How many hops are made for one request at most.
    package var max = 20
    package var rules: [RedirectRule] = []

    package init() {}

    /// Whether every redirect goes to the client as it is.
    var isTrivial: Bool { policy == .return && rules.isEmpty }

    /// Whether some redirect may be followed.
    var mayFollow: Bool {
        policy == .follow
            || rules.contains { rule in
                switch rule.action {
                case .follow, .rewrite: true
                case .return, .deny: false
                }
            }
    }

    /// Whether some redirect may be refused, or followed: then one that cannot be judged is no answer.
    var isEvaluated: Bool {
        policy != .return
            || rules.contains {
                if case .deny = $0.action { true } else { false }
            }
    }

    /// What an answer with that status gets, when it leads to that place.
    ///
    /// - Returns: the action, and the number of the rule, nil for the policy.
    func action(status: Int, to target: AbsoluteURL) -> (action: RedirectRule.Action, rule: Int?) {
        if let index = rules.firstIndex(where: { $0.matches(status: status, target) }) {
            return (rules[index].action, index)
        }
        switch policy {
        case .return: return (.return, nil)
        case .follow: return (.follow, nil)
        case .deny: return (.deny, nil)
        }
    }
}

/// One of `redirects.rules`. What it does not say matches everything.
package struct RedirectRule: Sendable {
    package enum Action: Sendable {
        case follow
        case `return`
        case deny
        case rewrite(RedirectRewrite)
    }

    package var statuses: Set<Int> = []
    /// The hosts that the redirect leads to.
    package var to: HostPatternSet?
    /// As it would be asked for: a host that is upgraded is reached by https whatever the answer says.
    package var scheme: RequestHead.Scheme?
    package var path: PathPattern?
    package var action: Action

    package init(_ action: Action) { self.action = action }

    func matches(status: Int, _ target: AbsoluteURL) -> Bool {
        if !statuses.isEmpty, !statuses.contains(status) { return false }
        if let scheme, scheme != target.origin.scheme { return false }
        if let to, !to.contains(target.origin.host) { return false }
        if let path, !path.matches(target.target.span) { return false }
        return true
    }

    /// Whether it names that host: a rule for any host names none.
    func names(_ host: Host) -> Bool {
        if case .rewrite(let change) = action, change.host == host { return true }
        guard let to else { return false }
        return HostPatternSet(to.patterns.filter { $0 != .any }).contains(host)
    }

    /// Whether it says that a redirect may lead away from TLS.
    var namesPlainHTTP: Bool {
        if case .rewrite(let change) = action, change.scheme == .http { return true }
        return scheme == .http
    }
}

/// What `"then": "rewrite"` makes of the request that a redirect leads to.
package struct RedirectRewrite: Sendable {
    package var scheme: RequestHead.Scheme?
    package var host: Host?
    package var port: UInt16?
    /// Put in the place of what the rule's path has before its star, or in front of the path.
    package var pathPrefix: String?
    package var fields = FieldChanges()

    package init() {}

    /// The place to ask instead.
    func applied(to url: AbsoluteURL, path: PathPattern?) -> AbsoluteURL {
        let scheme = scheme ?? url.origin.scheme
        // A port that nobody has chosen changes with the scheme.
        let kept = url.origin.port == url.origin.scheme.defaultPort ? nil : url.origin.port
        let origin = Origin(scheme: scheme, host: host ?? url.origin.host, port: port ?? kept)
        guard let pathPrefix else { return AbsoluteURL(origin: origin, rest: url.rest) }
        let target = url.target
        let prefix = Array(pathPrefix.utf8)
        let rest = path?.rest(of: target) ?? target
        let isJoined = prefix.last == UInt8(ascii: "/") && rest.first == UInt8(ascii: "/")
        return AbsoluteURL(origin: origin, rest: prefix + (isJoined ? Array(rest.dropFirst()) : rest))
    }
}
