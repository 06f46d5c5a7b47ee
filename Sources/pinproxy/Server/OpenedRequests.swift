import ProxyCore
import StrictJSON

/// What a reload would let through that `requests` refuses now, as far as one key says it: the key is gone, or its policy opens. A
/// file that was replaced by mistake looks like one that was replaced on purpose.
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
        let isOpened = Self.openness(new.policy) > Self.openness(old.policy)
        change =
            isOpened
            ? "the policy of \"requests\" becomes \"\(new.policy.rawValue)\", from \"\(old.policy.rawValue)\"" : nil
    }

    private static func openness(_ policy: RequestsConfiguration.Policy) -> Int {
        switch policy {
        case .deny: 0
        case .report: 1
        case .allow: 2
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
