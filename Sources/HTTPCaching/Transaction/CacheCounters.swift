// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// The counters of a cache, or of a part of its requests, for any thread.
package final class CacheCounters: Sendable {
    /// The outcomes of requests since the start.
    package struct Reading: Hashable, Sendable {
        package var hits = 0
        package var stale = 0
        package var revalidated = 0
        package var misses = 0
        package var bypassed = 0
        /// The number of origins' responses that were stored.
        package var stored = 0
        /// The number of requests that used the response to another request.
        package var collapsed = 0
    }

    private let hits = Atomic<Int>(0)
    private let stale = Atomic<Int>(0)
    private let revalidated = Atomic<Int>(0)
    private let misses = Atomic<Int>(0)
    private let bypassed = Atomic<Int>(0)
    private let stored = Atomic<Int>(0)
    private let collapsed = Atomic<Int>(0)

    func count(_ outcome: CacheOutcome) {
        switch outcome {
        case .hit: hits.wrappingAdd(1, ordering: .relaxed)
        case .stale: stale.wrappingAdd(1, ordering: .relaxed)
        case .revalidated: revalidated.wrappingAdd(1, ordering: .relaxed)
        case .miss: misses.wrappingAdd(1, ordering: .relaxed)
        case .bypass: bypassed.wrappingAdd(1, ordering: .relaxed)
        }
    }

    func countStored() { stored.wrappingAdd(1, ordering: .relaxed) }

    func countCollapsed() { collapsed.wrappingAdd(1, ordering: .relaxed) }

    var reading: Reading {
        Reading(
            hits: hits.load(ordering: .relaxed),
            stale: stale.load(ordering: .relaxed),
            revalidated: revalidated.load(ordering: .relaxed),
            misses: misses.load(ordering: .relaxed),
            bypassed: bypassed.load(ordering: .relaxed),
            stored: stored.load(ordering: .relaxed),
            collapsed: collapsed.load(ordering: .relaxed)
        )
    }
}
