// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// The settings of a shared cache, complete and checked.
package struct SharedCacheSettings: Hashable, Sendable {
    package var plan: RedisPlan
    package var prefix: [UInt8]
    package var secret: [UInt8]
    /// For a look-up, an invalidation, and each command of a request.
    package var timeout: TimeSpan = .milliseconds(5)
    /// How long a request waits while another machine asks the origin.
    package var patience: TimeSpan = .seconds(5)
    package var maximumBody = 1 << 20

    package init(plan: RedisPlan, prefix: [UInt8], secret: [UInt8]) {
        self.plan = plan
        self.prefix = prefix
        self.secret = secret
    }

    /// For a command that no request waits for: to store, to give a lease back, to learn of purges.
    var patientTimeout: TimeSpan { max(timeout, .seconds(1)) }

    /// How long a lease is valid, at most.
    var lease: TimeSpan { min(patience, .seconds(5)) }

    /// How long an operator waits for the confirmation of a purge, at most: 2 timeouts and a second, less a moment for the wake-up.
    var publication: TimeSpan {
        TimeSpan(nanoseconds: min(timeout, .seconds(60)).nanoseconds * 2 + 900_000_000)
    }
}
