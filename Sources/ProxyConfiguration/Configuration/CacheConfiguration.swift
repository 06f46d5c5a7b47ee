// SPDX-License-Identifier: Apache-2.0
package import HTTPCaching
import HTTPCore

/// The cache of a process: `cache` of the configuration. Without it there is none.
package struct CacheConfiguration: Hashable, Sendable {
    /// Whether the cache serves several users (RFC 9111, section 1.1).
    package var isShared = true
    /// Bytes in memory.
    package var memory = 64 << 20
    /// How long a request waits for the response to an identical one.
    package var patience = Milliseconds(5000)
    /// A response of which at most so many bytes are missing is received to its end when its client has gone.
    package var completeBelow = 1 << 20
    /// nil: nothing stays after a restart.
    package var disk: DiskCacheConfiguration?
    /// The last level, which several machines share; nil without one.
    package var redis: RedisCacheConfiguration?

    package init() {}
}

package struct DiskCacheConfiguration: Hashable, Sendable {
    /// The folder of the cache, as an absolute path; created if it does not exist.
    package var path: String
    /// Bytes on disk.
    package var size = 1 << 30

    package init(path: String) { self.path = path }
}

/// The rules of the cache for a host's requests and responses: `cache` of `defaults` and of a host's entry.
package struct CacheRules: Hashable, Sendable {
    /// The request policy when no entry of `requestRules` matches.
    package var requestPolicy = RequestPolicy.useProtocolCachePolicy
    /// The first matching rule decides.
    package var requestRules: [CacheRequestRule<RequestPolicy>] = []
    package var keys = CacheKeyRules()
    /// Every matching rule decides.
    package var bypasses: [CacheRequestRule<CacheBypass>] = []
    package var ignored: [CacheRequestRule<IgnoredDirectives>] = []
    package var graces: [CacheRequestRule<CacheGrace>] = []
    /// The first rule that matches a response decides how it is stored.
    package var rules: [CacheRule] = []

    package init() {}

    package var isTrivial: Bool { self == CacheRules() }

    /// Applies the rules about requests. The origin may read a path with dot segments differently: no rule about it
    /// lets the cache do more, and every bypass that names a path holds.
    ///
    /// - Parameters:
    ///   - target: path and query.
    ///   - tally: where the rules are counted.
    package func apply(to request: inout CacheRequest, target: borrowing Span<UInt8>, tally: CacheTally? = nil) {
        request.policy = requestPolicy
        for rule in requestRules where rule.fits(request.method, target: target) {
            request.policy = rule.value
            tally?.countRule(rule.place)
            break
        }
        guard !bypasses.isEmpty || !ignored.isEmpty || !graces.isEmpty else { return }
        let isAmbiguous = PathPattern.hasDotSegments(target)
        for rule in bypasses where rule.method == nil || rule.method == request.method {
            guard isAmbiguous || rule.fits(request.method, target: target) else { continue }
            guard rule.value.applies(to: request.fields) else { continue }
            request.bypasses = true
            tally?.countRule(rule.place)
        }
        guard !isAmbiguous else { return }
        for rule in ignored where rule.fits(request.method, target: target) {
            request.ignore(rule.value)
            tally?.countRule(rule.place)
            break
        }
        for rule in graces where rule.fits(request.method, target: target) {
            request.grace = rule.value
            tally?.countRule(rule.place)
            break
        }
    }
}
