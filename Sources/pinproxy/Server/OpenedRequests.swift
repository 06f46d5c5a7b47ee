// SPDX-License-Identifier: Apache-2.0
import ProxyConfiguration
import ProxyCore
import StrictJSON

/// What a reload would let through that `requests` refuses now, as far as one place says it: the key is gone, its policy opens, a rule
/// without conditions comes, or one that denies goes. A file that was replaced by mistake looks like one that was replaced on purpose.
struct OpenedRequests {
    /// Nil: nothing.
    let change: String?

    init(from old: RequestsConfiguration?, to new: RequestsConfiguration?) {
        guard let old else {
            change = nil
            return
        }
        guard let new else {
            change = "\"requests\" is gone, so that every request may be sent"
            return
        }
        switch new.opening(after: old) {
        case nil: change = nil
        case .otherRequests(let policy, let rule?):
            change = "the rule \"\(rule)\" has no condition, and is \"\(policy.rawValue)\""
        case .otherRequests(let policy, nil):
            change = "the policy of \"requests\" becomes \"\(policy.rawValue)\", from \"\(old.policy.rawValue)\""
        case .denial(let rule): change = "the rule \"\(rule)\" no longer denies, and what no rule matches is sent"
        }
    }

    static let code = "requests_opened"

    /// The issue that explains why changed files alone are not enough for this; nil for no change.
    func refusal(file: String) -> DocumentIssue? {
        change.map {
            DocumentIssue(
                file: file,
                message: "the changed file would let more requests through, which changed files alone never do: \($0)",
                remedy:
                    "if this is meant, send SIGHUP to pinproxy (with exec, start it anew); if not, put the file right"
            )
        }
    }
}
