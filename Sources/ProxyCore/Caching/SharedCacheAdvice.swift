// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import SessionCore
package import StrictJSON

/// The warnings of `pinproxy check` about the servers of the shared cache, which no error of the configuration covers. No name is looked
/// up for it.
package enum SharedCacheAdvice {
    /// - Parameter file: the configuration's path, for the places of the warnings.
    package static func warnings(_ snapshot: PolicySnapshot, file: String) -> [DocumentIssue] {
        guard let redis = snapshot.configuration.cache?.redis else { return [] }
        let router = Router(snapshot: snapshot, timeouts: RedisCacheConfiguration.timeouts)
        return redis.addresses.compactMap { address in
            let name = "\(address.host):\(address.port)"
            func issue(_ message: String, _ remedy: String) -> DocumentIssue {
                DocumentIssue(file: file, pointer: "/cache/redis/url", message: message, remedy: remedy)
            }
            switch redis.endpoint(address, router) {
            case .failure(let problem):
                return issue(
                    "\(name) cannot be asked for stored responses: \(problem.details)",
                    "change the rule, or name another server"
                )
            case .success(let endpoint):
                if endpoint.scheme == .https {
                    guard !redis.isSecure else { return nil }
                    return issue(
                        "\(name) is asked over TLS, because a pin file or \"upgrade\" says so for the host",
                        "write rediss in place of redis"
                    )
                }
                let isNear = (endpoint.fixedAddress ?? endpoint.host.address)?.isLoopback ?? false
                guard redis.password != nil || redis.sentinelPassword != nil, !isNear else { return nil }
                return issue(
                    redis.sentinel == nil
                        ? "the password goes to \(name) in the clear"
                        : "passwords go to \(name) and to the servers that it names in the clear",
                    "name the server with rediss; stored responses are sealed in any case"
                )
            }
        }
    }
}
