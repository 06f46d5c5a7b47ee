// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration

/// What the rules have said of one request and of the hops that it followed, for its error response and its log line.
struct RequestRuling {
    /// The latest verdict; of another request until `hasVerdict`, because to forget it costs as much as to replace it.
    private var verdict = RequestVerdict(decision: .denied)
    private var hasVerdict = false
    /// Whether a rule, or the policy, has let a part of it through that would be denied if that were in force.
    private var wouldDeny = false

    /// Begins a request.
    mutating func begin() {
        hasVerdict = false
        wouldDeny = false
    }

    /// Takes a verdict down, and counts it.
    ///
    /// - Returns: the refusal; nil when the request may be sent.
    mutating func note(_ verdict: RequestVerdict, by rules: HostRules) -> Problem? {
        rules.count(verdict)
        self.verdict = verdict
        hasVerdict = true
        if verdict.decision == .reported { wouldDeny = true }
        return verdict.decision == .denied ? Problem(verdict) : nil
    }

    /// The rule that lets the request through, by its place in the configuration; nil where none does.
    var allowingRule: Int? {
        guard hasVerdict, verdict.decision != .denied else { return nil }
        return verdict.rule?.position
    }

    /// Writes the members of the log line.
    func write(to line: inout ByteBuffer) {
        guard hasVerdict else { return }
        if let rule = verdict.rule { line.append(rule.logText) }
        if wouldDeny { line.append(",\"wouldDeny\":true") }
        if let ambiguity = verdict.ambiguity {
            line.append(",\"ambiguity\":")
            line.append(jsonString: ambiguity.rawValue)
        }
    }
}

extension Problem {
    /// The refusal of a request. It names the rule or the cause, and no other rule: a program is not to learn what it may send.
    ///
    /// - Parameter isForOperator: leaves out the command that tells more, because its user reads this.
    init(_ verdict: RequestVerdict, isForOperator: Bool = false) {
        let cause = verdict.ambiguity.map { " The request can be read in two ways: \($0.explanation)." } ?? ""
        let ruled =
            verdict.rule.map { "The rule \"\($0.rule.id)\" of requests denies it." }
            ?? "No rule of requests lets it be sent."
        let command = isForOperator ? "" : " (pinproxy check request METHOD URL shows the operator why.)"
        self.init(.requestDenied, "\(ruled)\(cause)\(command)")
    }
}
