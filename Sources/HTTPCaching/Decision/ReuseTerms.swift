// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// The conditions for the reuse of a stored response, parsed once from its fields, so that a hit parses nothing.
struct ReuseTerms: Hashable, Sendable {
    private(set) var lifetime: Int
    private(set) var source: Freshness.Source
    /// It may be used only after a validation (`no-cache`, 5.2.2.4).
    let needsValidation: Bool
    /// It must not be used stale (`must-revalidate`, and `proxy-revalidate` in a shared cache).
    let mustRevalidate: Bool
    /// s-maxage in a shared cache implies proxy-revalidate (5.2.2.10), but the same response's directives of RFC 5861
    /// still apply.
    let impliesRevalidation: Bool
    let isImmutable: Bool
    /// Seconds of RFC 5861's directives; nil without one.
    let staleWhileRevalidate: Int?
    let staleIfError: Int?
    /// Whether the owner may prolong its use (`CacheGrace`).
    private let isProlongable: Bool

    init(status: Int, fields: HeaderFields, responseTime: Int, ruleLifetime: Int?, _ options: CacheOptions) {
        let governing = GoverningControl(fields, options)
        let control = governing.control
        (lifetime, source) = Freshness.lifetime(
            status: status,
            fields: fields,
            governing,
            responseTime: responseTime,
            options
        )
        if let ruleLifetime { (lifetime, source) = (ruleLifetime, .rule) }
        // The part that could not be parsed may have forbidden more.
        needsValidation = control.noCache == .wholeResponse || control.isMalformed
        mustRevalidate = control.mustRevalidate || (options.isShared && control.proxyRevalidate)
        impliesRevalidation = options.isShared && control.sharedMaxAge != nil
        isImmutable = control.immutable
        staleWhileRevalidate = control.staleWhileRevalidate
        staleIfError = control.staleIfError
        isProlongable = lifetime > 0 && status < 500 && !needsValidation && !mustRevalidate && !impliesRevalidation
    }

    /// How long it may be used stale while it is revalidated, in seconds: by the origin's word, or without one by the
    /// owner's.
    func staleWhileRevalidate(_ grace: CacheGrace) -> Int {
        staleWhileRevalidate ?? (isProlongable ? grace.whileRevalidating : 0)
    }

    /// The same in the place of an error.
    func staleIfError(_ grace: CacheGrace) -> Int { staleIfError ?? (isProlongable ? grace.onErrors : 0) }

    /// Makes the response stale from that age on, in seconds.
    mutating func limitLifetime(to age: Int) { lifetime = min(lifetime, age) }

    /// Marks the response as stale, as RFC 9111 4.3.5 (`head.effects`) requires.
    mutating func makeStale() { (lifetime, source) = (0, .none) }
}
