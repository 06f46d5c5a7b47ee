import HTTPCore

/// What decides about the reuse of a stored response, read once out of its fields, so that a hit parses nothing.
struct ReuseTerms: Hashable, Sendable {
    private(set) var lifetime: Int
    private(set) var source: Freshness.Source
    /// Nothing but a validation lets it be used (`no-cache`, 5.2.2.4).
    let needsValidation: Bool
    /// Never stale (`must-revalidate`, and `proxy-revalidate` in a shared cache).
    let mustRevalidate: Bool
    /// s-maxage in a shared cache stands for proxy-revalidate too (5.2.2.10), but leaves room for what the same response
    /// says of RFC 5861.
    let impliesRevalidation: Bool
    let isImmutable: Bool
    /// Seconds of RFC 5861, 0 where it says nothing.
    let staleWhileRevalidate: Int
    let staleIfError: Int

    init(status: Int, fields: HTTPFields, responseTime: Int, ruleLifetime: Int?, _ options: CacheOptions) {
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
        // What could not be read may have forbidden more.
        needsValidation = control.noCache == .wholeResponse || control.isMalformed
        mustRevalidate = control.mustRevalidate || (options.isShared && control.proxyRevalidate)
        impliesRevalidation = options.isShared && control.sharedMaxAge != nil
        isImmutable = control.immutable
        staleWhileRevalidate = control.staleWhileRevalidate ?? 0
        staleIfError = control.staleIfError ?? 0
    }

    /// A stale response from now on, as `head.effects` of RFC 9111 4.3.5 want it.
    mutating func makeStale() { (lifetime, source) = (0, .none) }
}
