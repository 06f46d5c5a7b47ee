// SPDX-License-Identifier: Apache-2.0
package import ProxyConfiguration

/// What a new list of rules sends that the former one refused, as far as single rules say it.
package enum RequestsOpening: Equatable, Sendable {
    /// What becomes of a request that no other rule matches: by the policy, or by a rule without conditions, with its id.
    case otherRequests(RequestsConfiguration.Policy, rule: String?)
    /// A rule that denies is gone, and other requests are sent.
    case denial(String)
}

extension RequestsConfiguration {
    /// What these rules open compared with former ones; nil for nothing. Rules that let more requests through under conditions open
    /// nothing: they say what they let through.
    package func opening(after former: RequestsConfiguration) -> RequestsOpening? {
        let (old, new) = (former.rest, rest)
        if new.policy.openness > old.policy.openness { return .otherRequests(new.policy, rule: new.rule?.id) }
        guard new.policy.openness > 0 else { return nil }
        let denials = rules[..<new.index].filter { $0.action == .deny }
        let unchanged = Set(denials.map(\.withoutID))
        let gone = former.rules[..<old.index].filter { $0.action == .deny && !unchanged.contains($0.withoutID) }
        guard !gone.isEmpty else { return nil }
        let scopes = denials.map { RuleScope($0) }
        var effort = Self.effort
        for denial in gone {
            let scope = RuleScope(denial)
            guard scopes.contains(where: { $0.covers(scope, &effort) }) else { return .denial(denial.id) }
        }
        return nil
    }

    /// How many hosts, paths and users are looked up at most.
    private static let effort = 4_000_000

    /// What decides about requests that no rule with conditions matches: the first rule without any, or the policy.
    private var rest: (policy: Policy, rule: RequestRule?, index: Int) {
        guard let index = rules.firstIndex(where: \.isForAll) else { return (policy, nil, rules.count) }
        let rule = rules[index]
        return (rule.action == .deny ? .deny : rule.action == .report ? .report : .allow, rule, index)
    }
}

extension RequestsConfiguration.Policy {
    fileprivate var openness: Int {
        switch self {
        case .deny: 0
        case .report: 1
        case .allow: 2
        }
    }
}

extension RequestRule {
    /// Whether there is no condition. To a rule that sends a port is none: it opens every host.
    fileprivate var isForAll: Bool {
        !namesHosts && methods == nil && paths.isEmpty && users.isEmpty && (action.isSent || ports.isEmpty)
    }

    fileprivate var withoutID: RequestRule {
        var rule = self
        rule.id = ""
        return rule
    }
}
