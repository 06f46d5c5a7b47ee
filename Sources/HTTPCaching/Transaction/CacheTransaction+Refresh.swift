package import HTTPCore
import IOCore

/// Background revalidation.
extension CacheTransaction {
    /// The transaction of a background revalidation, after a response that `refreshes`; it has no client.
    ///
    /// - Parameter completion: gets the fields of the request.
    /// - Returns: nil when another request goes to the origin already, or has done so since this one's lookup.
    package func refresh(_ completion: (HTTPFields) -> Void) -> CacheTransaction? {
        guard let entry = found.entry else { return nil }
        let fields = Revalidation.backgroundFields(of: request, stored: entry.response)
        var plain = fields
        plain.remove(.ifNoneMatch)
        plain.remove(.ifModifiedSince)
        let refreshing = CacheTransaction(
            cache,
            url: url,
            CacheRequest(method: .get, fields: plain, hasInjectedCredentials: request.hasCredentials),
            partition: key.partition,
            rules: rules,
            digest: digest,
            loop: loop
        )
        guard cache.leads(refreshing, now: loop.now) else { return nil }
        refreshing.isLeader = true
        if cache.storedFlightCount != flightsBeforeLookup, isFreshByNow {
            refreshing.cancel()
            return nil
        }
        refreshing.isBackground = true
        refreshing.found = CacheStore.Found(entries: [entry], selected: 0)
        refreshing.reason = .stale
        refreshing.outcome = .miss
        refreshing.validates = entry.response.hasValidator
        refreshing.epoch = cache.store.epoch(of: key)
        refreshing.requestTime = now
        completion(fields)
        return refreshing
    }

    /// Whether the entry in memory is fresh now, because another revalidation has ended since this one's lookup.
    private var isFreshByNow: Bool {
        let found = cache.store.inMemory(key, for: request, under: digest)
        let use = ReuseDecision.decide(request, found, now: now, isDoubted: cache.doubts(url.origin))
        guard case .reuse(let reuse) = use else { return false }
        return !reuse.revalidates
    }
}
