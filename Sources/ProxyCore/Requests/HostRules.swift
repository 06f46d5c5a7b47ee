import HTTPCore

/// The rules for the requests to one origin, in their order. It belongs to one thread, as the routes do.
final class HostRules {
    private let rules: [CompiledRule]
    private let policy: RequestsConfiguration.Policy
    private let unmatched: RuleTally
    /// Whether some rule has a condition on path or method.
    private let isConditional: Bool
    /// The latest verdicts; nil for a list that costs less than a look here.
    private var known: KnownVerdicts?
    /// The path of the request that is judged.
    private var forms = PathForms()

    init(_ rules: [CompiledRule], _ policy: RequestsConfiguration.Policy, _ unmatched: RuleTally) {
        self.rules = rules
        self.policy = policy
        self.unmatched = unmatched
        isConditional = rules.contains { !$0.isUnconditional }
        if isConditional, rules.count > KnownVerdicts.worthwhile { known = KnownVerdicts() }
    }

    /// Judges a request as it goes out, without counting it.
    ///
    /// - Parameters:
    ///   - isUpgrade: it offers another protocol.
    ///   - target: path and query in origin form.
    ///   - fields: the fields of the request.
    ///   - user: the user's name in the log; nil when no user is known.
    func judge(
        _ method: HTTPMethod,
        isUpgrade: Bool = false,
        target: borrowing Span<UInt8>,
        fields: borrowing HeaderFields,
        user: [UInt8]?
    ) -> RequestVerdict {
        guard isConditional else { return judge(.get, .unseen, isUpgrade: false, user) }
        let place = known?.place(of: method, isUpgrade, target, fields, user) ?? -1
        if place >= 0, let verdict = known?.verdict(at: place, method, isUpgrade, target, user) { return verdict }
        let verdict = judge(method, isUpgrade, target, fields, user)
        if place >= 0 { known?.keep(verdict, at: place, method, isUpgrade, target, user) }
        return verdict
    }

    private func judge(
        _ method: HTTPMethod,
        _ isUpgrade: Bool,
        _ target: borrowing Span<UInt8>,
        _ fields: borrowing HeaderFields,
        _ user: [UInt8]?
    ) -> RequestVerdict {
        let reading = RequestReading(target: target, fields: fields)
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
            case .yes: return RequestVerdict(decision: RequestVerdict.Decision(rule.action), rule: rule)
            }
        }
        switch policy {
        case .deny: return RequestVerdict(decision: .denied, ambiguity: ambiguity)
        case .report: return RequestVerdict(decision: .reported, ambiguity: ambiguity)
        case .allow: return RequestVerdict(decision: .allowed)
        }
    }

    /// Counts a request that was judged.
    func count(_ verdict: RequestVerdict) { (verdict.rule?.tally ?? unmatched).add() }

    // MARK: Explaining

    /// For each rule about the origin, up to the one that decides, the first condition that does not hold, in words.
    func explain(
        _ head: borrowing RequestHead,
        isUpgrade: Bool,
        user: [UInt8]?
    ) -> [(rule: CompiledRule, cause: String)] {
        let reading = RequestReading(target: head.target, fields: head.fields)
        var forms = PathForms(head.target)
        var causes: [(CompiledRule, String)] = []
        for rule in rules {
            guard rule.covers(user: user) else {
                causes.append((rule, user == nil ? "no user is known" : "it is for other users"))
                continue
            }
            let match = rule.matches(head.method, reading, &forms, isUpgrade: isUpgrade)
            guard !forms.isExhausted else { return causes + [(rule, RequestAmbiguity.longPath.explanation)] }
            switch match {
            case .yes: return causes + [(rule, "it matches")]
            case .unclear(let cause) where rule.action.isSent:
                causes.append((rule, "the request can be read in two ways: \(cause.explanation)"))
            case .unclear(let cause):
                return causes + [(rule, "it denies what can be read in two ways: \(cause.explanation)")]
            case .no:
                let isOtherMethod =
                    rule.rule.methods?.contains(head.method, isUpgrade: isUpgrade, isDeny: rule.rule.action == .deny)
                    == false
                causes.append((rule, isOtherMethod ? "its methods are others" : "its paths are others"))
            }
        }
        return causes
    }
}
