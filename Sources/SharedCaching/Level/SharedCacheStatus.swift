// SPDX-License-Identifier: Apache-2.0
import IOCore
import Synchronization

/// What the shared cache has done and how it is, for metrics and page.
package struct SharedCacheStatus: Hashable, Sendable {
    package var hits = 0
    package var misses = 0
    /// Look-ups that were over before the servers had replied.
    package var timeouts = 0
    /// Look-ups that failed otherwise, by reason: connection, malformed, refused, busy, closed.
    package var failures: [String: Int] = [:]
    package var stored = 0
    /// Responses that were not stored there: tooLarge, useless, busy, changed, failed.
    package var notStored: [String: Int] = [:]
    /// Records that were not this owner's, or not of their place.
    package var tampered = 0
    /// Requests that waited for another machine, and those of them that did not get its response.
    package var waited = 0
    package var waitedInVain = 0
    package var invalidationsFailed = 0
    package var purgesPublished = 0
    package var purgesLearned = 0
    /// Purges and invalidations that wait for Redis.
    package var purgesPending = 0
    package var purgeNumber = 0
    /// Microseconds of all look-ups together, without the wait for other machines.
    package var lookUpMicroseconds = 0
    /// The servers that were asked, "host:port", and the reason why one is of no use; nil for those that are.
    package var servers: [String: String?] = [:]

    package init() {}
}

/// The counts of all loops.
///
/// `@unchecked Sendable`: `lock` guards `others`; the rest are atomics, which a hit changes alone.
final class SharedCounters: @unchecked Sendable {
    private let hits = Atomic<Int>(0)
    private let misses = Atomic<Int>(0)
    private let microseconds = Atomic<Int>(0)
    private let lock = PosixLock()
    private var others = SharedCacheStatus()

    func countLookUp(microseconds span: Int) { microseconds.wrappingAdd(span, ordering: .relaxed) }

    func countHit() { hits.wrappingAdd(1, ordering: .relaxed) }

    /// - Parameter failure: nil when the servers have replied.
    func countMiss(_ failure: RedisFailure?) {
        misses.wrappingAdd(1, ordering: .relaxed)
        guard let failure else { return }
        count { $0.note(failure) }
    }

    /// Changes the rarer ones.
    func count(_ change: (inout SharedCacheStatus) -> Void) { lock.withLock { change(&others) } }

    var reading: SharedCacheStatus {
        var status = lock.withLock { others }
        status.hits = hits.load(ordering: .relaxed)
        status.misses = misses.load(ordering: .relaxed)
        status.lookUpMicroseconds = microseconds.load(ordering: .relaxed)
        return status
    }
}

extension SharedCacheStatus {
    fileprivate mutating func note(_ failure: RedisFailure) {
        let reason: String
        switch failure {
        case .timeout:
            timeouts += 1
            return
        case .connection: reason = "connection"
        case .malformed: reason = "malformed"
        case .refused: reason = "refused"
        case .busy: reason = "busy"
        case .closed: reason = "closed"
        }
        failures[reason, default: 0] += 1
    }
}
