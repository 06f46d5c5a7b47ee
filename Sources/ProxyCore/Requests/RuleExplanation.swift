// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration

/// For each rule about a host, up to the one that decides, the first condition that does not hold, in words: for people.
enum RuleExplanation {
    typealias Step = (rule: RequestRule, cause: String)

    enum Subject {
        case request
        /// A CONNECT whose bytes are relayed.
        case tunnel
        /// A CONNECT whose requests are judged one by one.
        case interception
    }

    /// - Parameters:
    ///   - isUpgrade: the request offers another protocol.
    ///   - port: the port that is connected to.
    ///   - defaultPort: the port for rules that let requests through and name none.
    ///   - user: the user's name in the log; nil when no user is known.
    static func steps(
        _ subject: Subject,
        _ head: borrowing RequestHead,
        isUpgrade: Bool,
        to host: Host,
        port: UInt16,
        defaultPort: UInt16,
        user: [UInt8]?,
        under all: RequestRules
    ) -> [Step] {
        var steps: [Step] = []
        @discardableResult
        func note(_ rule: CompiledRule, _ cause: String) -> [Step] {
            steps.append((rule.rule, cause))
            return steps
        }
        let isRequest = subject == .request
        let reading = isRequest ? RequestReading(target: head.target, fields: head.fields) : .unseen
        var forms = isRequest ? PathForms(head.target) : PathForms()
        var rules = all.rules(about: host)
        if reading.host != nil {
            let known = Set(rules.map(\.position))
            rules = (rules + all.denials.filter { !known.contains($0.position) }).sorted { $0.position < $1.position }
        }
        for rule in rules {
            let isDeny = rule.action == .deny
            // It may be meant for any host and port.
            let isUnclear = reading.host != nil && isDeny && rule.rule.namesHosts
            guard isUnclear || rule.covers(port: port, defaultPort: defaultPort) else {
                note(
                    rule,
                    rule.rule.ports.isEmpty
                        ? "its ports are others: without \"port\" it is for \(defaultPort) alone"
                        : "its ports are others"
                )
                continue
            }
            guard rule.covers(user: user) else {
                note(rule, user == nil ? "no user is known" : "it is for other users")
                continue
            }
            if subject == .interception {
                guard isDeny else { return note(rule, "it lets requests in it through, each judged by itself") }
                if rule.isUnconditional { return note(rule, "it matches") }
                note(rule, "it is about single requests, each judged by itself")
                continue
            }
            let match: CompiledRule.Match
            if isUnclear {
                match = .unclear(.hostOverride)
            } else {
                match = rule.matches(isRequest ? head.method : .connect, reading, &forms, isUpgrade: isUpgrade)
            }
            guard !forms.isExhausted else { return note(rule, RequestAmbiguity.longPath.explanation) }
            switch match {
            case .yes: return note(rule, "it matches")
            case .unclear(let cause) where !isDeny:
                note(rule, "the request can be read in two ways: \(cause.explanation)")
            case .unclear(let cause):
                return note(rule, "it denies what can be read in two ways: \(cause.explanation)")
            case .no:
                guard rule.rule.methods?.contains(head.method, isUpgrade: isUpgrade, isDeny: isDeny) == false else {
                    note(rule, "its paths are others")
                    continue
                }
                let offer =
                    isUpgrade ? ": an offer of Upgrade needs \"UPGRADE\", and the method where it is not GET" : ""
                note(rule, "its methods are others\(offer)")
            }
        }
        return steps
    }
}
