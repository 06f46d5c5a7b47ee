// SPDX-License-Identifier: Apache-2.0
package import ProxyConfiguration

/// What the rules say of a request.
package struct RequestVerdict: Sendable {
    package enum Decision: Sendable {
        case allowed
        /// It is sent, and would be denied if this were in force.
        case reported
        case denied
    }

    package var decision: Decision
    /// The rule that decided; nil when none matched.
    package var rule: CompiledRule?
    /// What of the request can be read in two ways, as far as it made a difference.
    package var ambiguity: RequestAmbiguity?
}

extension RequestVerdict.Decision {
    init(_ action: RequestRule.Action) {
        switch action {
        case .allow: self = .allowed
        case .report: self = .reported
        case .deny: self = .denied
        }
    }
}
