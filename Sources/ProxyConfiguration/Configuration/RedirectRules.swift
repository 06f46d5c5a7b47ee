// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// The treatment of an origin's redirects: `redirects` of the defaults or of a host. The first matching rule decides,
/// otherwise the policy.
package struct RedirectRules: Sendable {
    package enum Policy: String, CaseIterable, Sendable {
        /// The response goes to the client.
        case `return`
        /// The proxy sends a request to the redirect's target.
        case follow
        /// The client gets an error.
        case deny
    }

    package var policy = Policy.return
    /// The limit of hops for one request.
    package var max = 20
    package var rules: [RedirectRule] = []

    package init() {}

    /// Whether every redirect goes to the client unchanged.
    package var isTrivial: Bool { policy == .return && rules.isEmpty }

    /// Whether some redirect may be followed.
    package var mayFollow: Bool {
        policy == .follow
            || rules.contains { rule in
                switch rule.action {
                case .follow, .rewrite: true
                case .return, .deny: false
                }
            }
    }

    /// Whether some redirect may be refused or followed: a redirect that cannot be evaluated is then not delivered.
    package var isEvaluated: Bool {
        policy != .return
            || rules.contains {
                if case .deny = $0.action { true } else { false }
            }
    }

    /// The action for a redirect with that status and target.
    ///
    /// - Returns: the action, and the number of the rule, nil for the policy.
    package func action(status: Int, to target: AbsoluteURL) -> (action: RedirectRule.Action, rule: Int?) {
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

/// One of `redirects.rules`. A missing condition matches everything.
package struct RedirectRule: Sendable {
    package enum Action: Sendable {
        case follow
        case `return`
        case deny
        case rewrite(RedirectRewrite)
    }

    package var statuses: Set<Int> = []
    /// The hosts of the redirect's target.
    package var to: HostPatternSet?
    /// The scheme of the request to the target: an upgraded host is reached by https, whatever the response contains.
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

    /// Whether the rule names that host; a rule for any host names none.
    package func names(_ host: Host) -> Bool {
        if case .rewrite(let change) = action, change.host == host { return true }
        guard let to else { return false }
        return HostPatternSet(to.patterns.filter { $0 != .any }).contains(host)
    }

    /// Whether the rule explicitly allows a redirect away from TLS.
    package var namesPlainHTTP: Bool {
        if case .rewrite(let change) = action, change.scheme == .http { return true }
        return scheme == .http
    }
}

/// The changes of `"then": "rewrite"` to the request that follows a redirect.
package struct RedirectRewrite: Sendable {
    package var scheme: RequestHead.Scheme?
    package var host: Host?
    package var port: UInt16?
    /// Replaces the part of the path before the star of the rule's pattern, or is put before the path.
    package var pathPrefix: String?
    package var fields = FieldChanges()

    package init() {}

    /// The URL to request instead.
    package func applied(to url: AbsoluteURL, path: PathPattern?) -> AbsoluteURL {
        let scheme = scheme ?? url.origin.scheme
        // A default port changes with the scheme.
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
