// SPDX-License-Identifier: Apache-2.0
import IOCore
import ProxyCore
import ServerTrust
import StrictJSON

/// The advice about the pins of a whole configuration, for `check`. A server does not log it: it would at every start.
enum PolicyAdvice {
    static func warnings(_ snapshot: PolicySnapshot) -> [DocumentIssue] {
        let now = Clock.seconds
        return snapshot.pinnedDomains.domains.flatMap { domain in
            (domain.policy.map { PinAdvice.all($0, anchors: snapshot.trustAnchors, at: now) } ?? []).map { advice in
                var issue = DocumentIssue(
                    file: domain.file,
                    message: "\(domain.host): \(advice.text)",
                    remedy: advice.remedy
                )
                issue.code = advice.code
                return issue
            }
        }
    }
}
