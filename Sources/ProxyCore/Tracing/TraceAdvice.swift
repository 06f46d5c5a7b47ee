// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import SessionCore
package import StrictJSON

/// The warnings of `pinproxy check` about the collector of spans, which no error of the configuration covers. No name is looked up for it.
package enum TraceAdvice {
    /// - Parameter file: the configuration's path, for the places of the warnings.
    package static func warnings(_ snapshot: PolicySnapshot, file: String) -> [DocumentIssue] {
        guard let tracing = snapshot.configuration.tracing, let collector = tracing.collector else { return [] }
        switch Router(snapshot: snapshot, timeouts: TaskTimeouts()).endpoint(named: collector.url.origin) {
        case .failure(let problem):
            return [
                DocumentIssue(
                    file: file,
                    pointer: "/tracing/otlp",
                    message: "spans cannot go to \(collector.url.origin): \(problem.details)",
                    remedy: "change the rule, or name another collector"
                )
            ]
        case .success(let endpoint):
            let isNear = (endpoint.fixedAddress ?? endpoint.host.address)?.isLoopback ?? false
            guard tracing.headers.givesCredentials, endpoint.scheme == .http, !isNear else { return [] }
            return [
                DocumentIssue(
                    file: file,
                    pointer: "/tracing/headers",
                    message: "each message to \(collector.url.origin) carries these credentials in the clear",
                    remedy: "name the collector with https"
                )
            ]
        }
    }
}
