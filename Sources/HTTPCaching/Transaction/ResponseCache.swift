// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import IOCore
import Synchronization

/// A cache that several loops share: its store, the collapsed requests, and its counters.
///
/// `@unchecked Sendable`: `lock` guards `collapsed`, `waiting`, `offers`, `doubted`, `doubtsAll` and `successor`, and is never held
/// during calls of other objects; all other members are thread-safe themselves.
package final class ResponseCache: @unchecked Sendable {
    package let store: CacheStore
    /// Publishes purges to the other machines that share a level behind the store; nil without one.
    package let shared: (any SharedPurges)?
    package let options: CacheOptions
    let failures = OriginFailures()
    /// A response of which no more than so many bytes are missing is received to its end when its client is gone.
    package let completesBelow: Int

    private let lock = PosixLock()
    // Behind `lock`.
    private var collapsed: CollapsedRequests<UInt64>
    private var waiting: [UInt64: Waiting] = [:]
    /// The responses that leaders are receiving, for others to read along.
    private var offers: [CacheKey: Offer] = [:]
    private var doubted: Set<Origin> = []
    /// Whether there were too many doubted origins to remember each.
    private var doubtsAll = false
    private var successor: ResponseCache?

    private let hasDoubts = Atomic<Bool>(false)
    private static let doubtedAtMost = 10_000
    private let lastIdentifier = Atomic<UInt64>(0)
    private let storedFlights = Atomic<UInt64>(0)
    let counters = CacheCounters()
    /// The same by host and rule.
    package let tallies = CacheTallies()

    /// A waiting transaction, with its loop.
    private struct Waiting {
        let loop: EventLoop
        let transaction: CacheTransaction
        /// The epoch of the key at the beginning of the wait: a response that was requested before a later removal is
        /// not for this transaction.
        let epoch: UInt64
    }

    private struct Offer {
        let leader: UInt64
        /// The epoch of the key when the request was sent: a later removal ends the offer.
        let epoch: UInt64
        let growing: GrowingResponse
    }

    /// - Parameters:
    ///   - patience: the longest wait for the response to another request.
    ///   - memory: how long requests for a URI do not wait after a response that was not reusable for others.
    ///   - completesBelow: in bytes.
    ///   - shared: the process's part of a level that several machines share.
    package init(
        _ store: CacheStore,
        patience: TimeSpan = .seconds(5),
        memory: TimeSpan = .seconds(120),
        completesBelow: Int = 1 << 20,
        shared: (any SharedPurges)? = nil
    ) {
        self.store = store
        self.shared = shared
        self.completesBelow = completesBelow
        options = store.options
        collapsed = CollapsedRequests(patience: patience.nanoseconds, memory: memory.nanoseconds)
    }

    /// Removes the responses that a response to an unsafe method invalidates, if no transaction handles it (RFC 9111
    /// 4.4).
    package func invalidate(after method: HTTPMethod, of url: AbsoluteURL, status: Int, _ fields: HeaderFields) {
        for key in Invalidation.keys(after: method, of: url, status: status, response: fields, CacheKeyRules()) {
            store.invalidate(key)
        }
    }

    func makeIdentifier() -> UInt64 {
        lastIdentifier.wrappingAdd(1, ordering: .relaxed).newValue
    }

    // MARK: - Collapsed requests

    /// The part of a request beside others for the same key.
    enum Joining {
        case now(FlightWake)
        /// The transaction is woken on its loop, and calls `expire` at this time.
        case wait(until: UInt64)
    }

    /// - Parameter waits: whether the transaction waits for the head of another one's response, and leads if there is
    ///   none.
    func join(_ transaction: CacheTransaction, waits: Bool, now: UInt64) -> Joining {
        let key = transaction.key
        let epoch = store.epoch(of: key)
        return lock.withLock {
            if let offer = offers[key] { return .now(offer.epoch == epoch ? .readAlong(offer.growing) : .goAlone) }
            guard waits else { return .now(.goAlone) }
            switch collapsed.join(transaction.identifier, for: key, now: now) {
            case .lead: return .now(.lead)
            case .goAlone: return .now(.goAlone)
            case .wait(let until):
                waiting[transaction.identifier] = Waiting(
                    loop: transaction.loop,
                    transaction: transaction,
                    epoch: epoch
                )
                return .wait(until: until)
            }
        }
    }

    /// The leader begins to receive a response that others can read along.
    ///
    /// - Parameter epoch: of the key when the leader's request was sent.
    func offer(_ growing: GrowingResponse, by transaction: CacheTransaction, epoch: UInt64) {
        let followers: [Waiting] = lock.withLock {
            let key = transaction.key
            guard collapsed.leads(transaction.identifier, for: key) else { return [] }
            offers[key] = Offer(leader: transaction.identifier, epoch: epoch, growing: growing)
            return collapsed.isReadable(transaction.identifier, for: key).compactMap {
                waiting.removeValue(forKey: $0)
            }
        }
        for follower in followers {
            // Until the follower reads, this reader stands for it: the body is received on, and nothing of it is freed.
            let reader = follower.epoch == epoch ? growing.body.makeReader() : nil
            follower.loop.submit {
                guard let reader else { return follower.transaction.wake(.goAlone) }
                withExtendedLifetime(reader) { follower.transaction.wake(.readAlong(growing)) }
            }
        }
    }

    /// The response can be read along by no further request; those that come wait for its end.
    func withdrawOffer(of transaction: CacheTransaction) {
        lock.withLock {
            if offers[transaction.key]?.leader == transaction.identifier { offers[transaction.key] = nil }
        }
    }

    /// Whether no other request for this key is at the origin now. The caller then becomes the leader, and has to
    /// report the end.
    func leads(_ transaction: CacheTransaction) -> Bool {
        lock.withLock { collapsed.lead(transaction.identifier, for: transaction.key) }
    }

    /// The number of leaders' responses that were stored. If it has changed since a lookup, the result of the lookup
    /// may be out of date. A leader's response is in the store before it is counted here, and is counted before its
    /// flight ends, so that a request with an early lookup that becomes the leader sees the difference.
    var storedFlightCount: UInt64 { storedFlights.load(ordering: .relaxed) }

    func leaderDidEnd(_ transaction: CacheTransaction, _ ending: FlightEnding, now: UInt64) {
        if ending == .stored { storedFlights.wrappingAdd(1, ordering: .relaxed) }
        let wakeups = lock.withLock {
            let key = transaction.key
            if offers[key]?.leader == transaction.identifier { offers[key] = nil }
            let actions =
                switch ending {
                case .stored: collapsed.finished(transaction.identifier, for: key)
                case .notForOthers: collapsed.isNotForOthers(transaction.identifier, for: key, now: now)
                case .failed: collapsed.failed(transaction.identifier, for: key)
                case .abandoned: collapsed.abandoned(transaction.identifier, for: key)
                }
            return removeWaiting(actions)
        }
        notify(wakeups)
    }

    func leave(_ transaction: CacheTransaction) {
        lock.withLock {
            collapsed.leave(transaction.identifier, for: transaction.key)
            waiting[transaction.identifier] = nil
        }
    }

    func expire(_ key: CacheKey, now: UInt64) {
        let wakeups = lock.withLock { removeWaiting(collapsed.expire(key, now: now)) }
        notify(wakeups)
    }

    /// The number of requests that wait for the response to another one.
    package var waitingCount: Int { lock.withLock { waiting.count } }

    private typealias Wakeup = (waiting: Waiting, wake: FlightWake)

    /// Behind `lock`.
    private func removeWaiting(_ actions: [CollapsedRequests<UInt64>.Action]) -> [Wakeup] {
        actions.compactMap { action in
            let (identifier, wake): (UInt64, FlightWake) =
                switch action {
                case .lookUp(let identifier): (identifier, .lookUp)
                case .goAlone(let identifier): (identifier, .goAlone)
                case .lead(let identifier): (identifier, .lead)
                }
            guard let waiting = waiting.removeValue(forKey: identifier) else { return nil }
            return (waiting, wake)
        }
    }

    private func notify(_ wakeups: [Wakeup]) {
        for (waiting, wake) in wakeups { waiting.loop.submit { waiting.transaction.wake(wake) } }
    }

    // MARK: - Doubted origins

    /// Takes the place of another cache: knows the origins that are in doubt there, now or later by requests that began before, and
    /// what is removed there.
    package func succeed(_ former: ResponseCache) {
        let (origins, all) = former.lock.withLock {
            former.successor = self
            return (former.doubted, former.doubtsAll)
        }
        store.succeed(former.store)
        guard all || !origins.isEmpty else { return }
        lock.withLock {
            doubted.formUnion(origins)
            doubtsAll = doubtsAll || all
        }
        hasDoubts.store(true, ordering: .releasing)
    }

    /// Records that a server was refused for the origin.
    package func doubt(_ origin: Origin) {
        let successor = lock.withLock {
            if doubted.count < Self.doubtedAtMost { doubted.insert(origin) } else { doubtsAll = true }
            return self.successor
        }
        hasDoubts.store(true, ordering: .releasing)
        successor?.doubt(origin)
    }

    /// Records that an accepted server has responded for the origin.
    func trust(_ origin: Origin) {
        guard hasDoubts.load(ordering: .acquiring) else { return }
        lock.withLock {
            doubted.remove(origin)
            if doubted.isEmpty, !doubtsAll { hasDoubts.store(false, ordering: .releasing) }
        }
    }

    /// Whether a server was refused for the origin, and none was accepted since. It takes no lock as long as there is
    /// no doubted origin.
    func doubts(_ origin: Origin) -> Bool {
        guard hasDoubts.load(ordering: .acquiring) else { return false }
        return lock.withLock { doubtsAll || doubted.contains(origin) }
    }

    // MARK: - Counters

    package typealias Counts = CacheCounters.Reading

    /// The outcomes of requests since the start.
    package var counts: Counts { counters.reading }
}
