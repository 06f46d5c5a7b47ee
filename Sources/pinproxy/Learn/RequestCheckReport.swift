// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import ProxyCore
import StrictJSON

/// The outcome of `check request`, for people and programs.
struct RequestCheckReport {
    var check: RequestCheck
    var user: String?

    private var word: String {
        check.refusal != nil ? "denied" : check.verdict?.decision == .reported ? "reported" : "allowed"
    }

    /// What decided.
    private var decision: String {
        if let rule = check.verdict?.rule { return "rule \"\(rule.rule.id)\" (\(rule.rule.action.rawValue))" }
        if check.verdict != nil { return "the policy of requests: no rule matches" }
        return check.refusal == nil
            ? "there are no rules (requests)" : "not the rules: \(check.refusal?.code.rawValue ?? "")"
    }

    var text: String {
        var rows = [("url", check.url), ("user", user ?? "none known"), ("decided by", decision)]
        if !check.server.isEmpty { rows.append(("server", check.server)) }
        if let refusal = check.refusal {
            rows.append(("response", "\(refusal.status) \(refusal.code.rawValue): \(refusal.details)"))
        }
        var text = "\(word)\n"
        for (name, value) in rows where !value.isEmpty { text += "  \(name.padded(to: 10))  \(value.legible)\n" }
        guard !check.steps.isEmpty else { return text }
        text += "rules about this host, in their order\n"
        for step in check.steps {
            text += "  \(step.rule.id) (\(step.rule.action.rawValue)): \(step.cause)".legible + "\n"
        }
        return text
    }

    var json: JSONLine {
        var line = JSONLine()
        line.add("decision", word)
        if let rule = check.verdict?.rule { line.add("rule", rule.rule.id) }
        if let ambiguity = check.verdict?.ambiguity { line.add("ambiguity", ambiguity.rawValue) }
        if !check.url.isEmpty { line.add("url", check.url) }
        if let user { line.add("user", user) }
        if let refusal = check.refusal {
            line.add("error", refusal.code.rawValue)
            line.add("details", refusal.details)
        }
        line.add(
            "rules",
            array: check.steps.map { step in
                var line = JSONLine()
                line.add("rule", step.rule.id)
                line.add("then", step.rule.action.rawValue)
                line.add("cause", step.cause)
                return line.object
            }
        )
        return line
    }
}

extension String {
    fileprivate func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}
