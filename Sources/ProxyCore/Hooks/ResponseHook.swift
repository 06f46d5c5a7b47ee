// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration

/// The rules' decision about a response whose head has arrived: the counterpart of a session's
/// `dataTaskDidReceiveResponse`. A value without a socket.
struct ResponseHook {
    enum Decision {
        /// - Parameter limit: the largest number of body bytes that are delivered.
        case allow(limit: Int)
        case cancel(Problem)
        case becomeDownload(directory: String, quota: Int, limit: Int)
    }

    /// - Parameters:
    ///   - hooks: the hooks of the host that the client requested.
    ///   - own: the hooks of the responding host, if that is another one: a response that it refuses is refused.
    static func decide(_ head: borrowing ResponseHead, _ hooks: HostHooks, own: HostHooks? = nil) -> Decision {
        let decision = decide(head, hooks.responses, hooks.owner)
        guard let own, own !== hooks else { return decision }
        let limit: Int
        switch decide(head, own.responses, own.owner) {
        case .cancel(let problem): return .cancel(problem)
        case .allow(let bytes), .becomeDownload(_, _, let bytes): limit = bytes
        }
        switch decision {
        case .allow(let bytes): return .allow(limit: min(bytes, limit))
        case .becomeDownload(let directory, let quota, let bytes):
            return .becomeDownload(directory: directory, quota: quota, limit: min(bytes, limit))
        case .cancel: return decision
        }
    }

    private static func decide(
        _ head: borrowing ResponseHead,
        _ responses: ResponseRules,
        _ owner: String
    ) -> Decision {
        let limit = responses.maxBytes ?? Int.max
        if case .length(let count) = head.framing, count > limit { return .cancel(tooLarge(limit)) }
        for (index, rule) in responses.rules.enumerated() where matches(rule, head) {
            switch rule.action {
            case .allow: return .allow(limit: limit)
            case .cancel:
                return .cancel(
                    Problem(
                        .responseDenied,
                        "The response (status \(head.status)\(described(head))) is refused by \(owner)/responses/rules/\(index)."
                    )
                )
            case .becomeDownload(let directory, let quota):
                return .becomeDownload(directory: directory, quota: quota, limit: limit)
            }
        }
        if let acceptable = responses.acceptableStatusCodes, !acceptable.contains(head.status) {
            return .cancel(
                Problem(
                    .responseDenied,
                    "The response's status is \(head.status); \(owner)/responses/acceptableStatusCodes takes \(acceptable)."
                )
            )
        }
        if let acceptable = responses.acceptableContentTypes, head.framing.hasBody, !acceptable.matchOnly(head.fields) {
            let listed = acceptable.map(\.description).joined(separator: ", ")
            return .cancel(
                Problem(
                    .responseDenied,
                    "The response's content type is not acceptable\(described(head)); \(owner)/responses/acceptableContentTypes takes \(listed)."
                )
            )
        }
        return .allow(limit: limit)
    }

    static func tooLarge(_ limit: Int) -> Problem {
        Problem(
            .responseTooLarge,
            "The response's body is longer than responses.maxBytes (\(limit) bytes). Raise it if such responses are right."
        )
    }

    private static func matches(_ rule: ResponseRule, _ head: borrowing ResponseHead) -> Bool {
        if let statuses = rule.statuses, !statuses.contains(head.status) { return false }
        if let types = rule.contentTypes, !types.matchAny(head.fields) { return false }
        if rule.minBytes != nil || rule.maxBytes != nil {
            // For HEAD, Content-Length counts as for GET.
            guard let count = head.contentLength else { return false }
            if let minimum = rule.minBytes, count < minimum { return false }
            if let maximum = rule.maxBytes, count > maximum { return false }
        }
        if case .becomeDownload = rule.action { return canBeStored(head) }
        return true
    }

    /// Whether the body is a complete file: not a missing body, a part, or the text of an error.
    private static func canBeStored(_ head: borrowing ResponseHead) -> Bool {
        head.framing != .none && (200..<300).contains(head.status) && head.status != 206
    }

    private static func described(_ head: borrowing ResponseHead) -> String {
        guard let index = head.fields.first(.contentType) else { return ", no content type" }
        return ", \(String(copying: head.fields.value(at: index)))"
    }
}
