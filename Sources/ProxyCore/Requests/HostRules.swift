// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration

/// The rules for the requests to one origin, in their order. It belongs to one thread, as the routes do.
final class HostRules {
    private let rules: [CompiledRule]
    private let policy: RequestsConfiguration.Policy
    private let unmatched: RuleTally
    /// The rules about all hosts.
    let all: RequestRules
    let origin: Origin
    /// Whether some rule has a condition on path or method.
    private let isConditional: Bool
    /// The latest verdicts; nil for a list that costs less than a look here.
    private var known: KnownVerdicts?
    /// The path of the request that is judged.
    private var forms = PathForms()

    /// What the requests are for: the port that is connected to, and the one for rules that let requests through and name none.
    struct Origin {
        let host: Host
        let port: UInt16
        let defaultPort: UInt16
    }

    init(_ rules: [CompiledRule], of all: RequestRules, for origin: Origin, _ unmatched: RuleTally) {
        self.rules = rules
        self.all = all
        self.origin = origin
        policy = all.configuration.policy
        self.unmatched = unmatched
        isConditional = rules.contains { !$0.isUnconditional }
        if isConditional, rules.count > KnownVerdicts.worthwhile { known = KnownVerdicts() }
    }

    /// Judges a request as it goes out, without counting it.
    ///
    /// - Parameters:
    ///   - isUpgrade: it offers another protocol.
    ///   - target: path and query in origin form.
    ///   - overridden: what fields of the request may replace (`RequestReading.override`).
    ///   - user: the user's name in the log; nil when no user is known.
    func judge(
        _ method: HTTPMethod,
        isUpgrade: Bool = false,
        target: borrowing Span<UInt8>,
        overridden: RequestReading.Overridden,
        user: [UInt8]?
    ) -> RequestVerdict {
        guard isConditional || overridden.contains(.host) else {
            var verdict = judge(.get, .unseen, isUpgrade: false, user)
            // Of no interest to these rules, but to those that are made of the log.
            if verdict.rule == nil, policy == .report {
                verdict.ambiguity = RequestReading(target: target, overridden).ambiguity
            }
            return verdict
        }
        let place = overridden.isEmpty ? known?.place(of: method, isUpgrade, target, user) ?? -1 : -1
        if place >= 0, let verdict = known?.verdict(at: place, method, isUpgrade, target, user) { return verdict }
        let verdict = judge(method, isUpgrade, target, overridden, user)
        if place >= 0 { known?.keep(verdict, at: place, method, isUpgrade, target, user) }
        return verdict
    }

    /// The same for a request with these fields.
    func judge(
        _ method: HTTPMethod,
        isUpgrade: Bool = false,
        target: borrowing Span<UInt8>,
        fields: borrowing HeaderFields,
        user: [UInt8]?
    ) -> RequestVerdict {
        judge(method, isUpgrade: isUpgrade, target: target, overridden: RequestReading.override(fields), user: user)
    }

    private func judge(
        _ method: HTTPMethod,
        _ isUpgrade: Bool,
        _ target: borrowing Span<UInt8>,
        _ overridden: RequestReading.Overridden,
        _ user: [UInt8]?
    ) -> RequestVerdict {
        let reading = RequestReading(target: target, overridden)
        forms.reset(target.extracting(0..<reading.pathEnd))
        return judge(method, reading, isUpgrade: isUpgrade, user)
    }

    /// Judges a CONNECT whose bytes are relayed: neither the path nor the method of what is in it are seen.
    func judgeTunnel(user: [UInt8]?) -> RequestVerdict {
        judge(.connect, .unseen, isUpgrade: false, user)
    }

    /// Judges a CONNECT whose requests will be judged one by one: it passes where one of them could.
    func judgeInterception(user: [UInt8]?) -> RequestVerdict {
        for rule in rules where rule.covers(user: user) && (rule.action.isSent || rule.isUnconditional) {
            // A request in it decides whether it is only reported.
            return RequestVerdict(decision: rule.action.isSent ? .allowed : .denied, rule: rule)
        }
        return RequestVerdict(decision: policy == .deny ? .denied : .allowed)
    }

    private func judge(
        _ method: HTTPMethod,
        _ reading: RequestReading,
        isUpgrade: Bool,
        _ user: [UInt8]?
    ) -> RequestVerdict {
        var ambiguity: RequestAmbiguity?
        for rule in rules where rule.covers(user: user) {
            let match = rule.matches(method, reading, &forms, isUpgrade: isUpgrade)
            // Whether this one matches is not known, and a later one does not decide before it.
            if forms.isExhausted { return RequestVerdict(decision: .denied, ambiguity: .longPath) }
            switch match {
            case .no: continue
            // An allow that would have matched otherwise explains why nothing did.
            case .unclear(let cause) where rule.action.isSent:
                ambiguity = ambiguity ?? cause
                continue
            case .unclear(let cause): return RequestVerdict(decision: .denied, rule: rule, ambiguity: cause)
            case .yes:
                if let cause = reading.host, let denial = denial(before: rule.position, user) {
                    return RequestVerdict(decision: .denied, rule: denial, ambiguity: cause)
                }
                return RequestVerdict(decision: RequestVerdict.Decision(rule.action), rule: rule)
            }
        }
        if let cause = reading.host, let denial = denial(before: .max, user) {
            return RequestVerdict(decision: .denied, rule: denial, ambiguity: cause)
        }
        switch policy {
        case .deny: return RequestVerdict(decision: .denied, ambiguity: ambiguity)
        case .report:
            return RequestVerdict(decision: .reported, ambiguity: ambiguity ?? reading.ambiguity)
        case .allow: return RequestVerdict(decision: .allowed)
        }
    }

    /// A rule that denies some host and is before another one: a request whose host can be replaced may be for that host.
    private func denial(before position: Int, _ user: [UInt8]?) -> CompiledRule? {
        all.denials.first { $0.position < position && $0.covers(user: user) }
    }

    /// Counts a request that was judged.
    func count(_ verdict: RequestVerdict) { (verdict.rule?.tally ?? unmatched).add() }
}
