// SPDX-License-Identifier: Apache-2.0
import IOCore
import ServerTrust

/// The digest of an endpoint's policy, made when a cache first asks.
///
/// `@unchecked Sendable`: `digest` is accessed with `lock` held.
final class EndpointDigest: @unchecked Sendable {
    private let lock = PosixLock()
    private var digest: SecurityPolicyDigest?

    func value(_ make: () -> SecurityPolicyDigest) -> SecurityPolicyDigest {
        lock.withLock {
            if let digest { return digest }
            let made = make()
            digest = made
            return made
        }
    }
}
