// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore

/// What all loops share: the purges, the URIs whose invalidation Redis has not confirmed, the servers' states and the counts.
///
/// `@unchecked Sendable`: `lock` guards `log`, `blocked`, `lastStamp`, `publications`, `lastPublication`, `isPublishing`,
/// `nextRepair`, `lastLoss`, `applications`, `isApplying`, `newest`, `waitsForNewest`, `servers` and `successor`; it is held during no call that
/// waits or calls back, and beside that of a successor alone. All else is immutable, or thread-safe itself.
final class SharedState: @unchecked Sendable {
    typealias Log = @Sendable (_ code: String, _ message: String, _ isWarning: Bool) -> Void

    /// A URI that is not used from Redis until its invalidation has succeeded.
    private struct Block {
        /// A later invalidation of the same URI has another one.
        var stamp: Int
        /// In nanoseconds of the loops' clock.
        var retryAt: UInt64
    }

    /// The states of one server, as the loops see it.
    private struct Server {
        /// Loops for which it is of no use, with the reason.
        var reasons: [ObjectIdentifier: String] = [:]
        var loops: Set<ObjectIdentifier> = []
        private var lines = ServerLines()

        mutating func mayLog() -> Bool { lines.allows(now: Clock.seconds) }
    }

    /// The age of the latest entry on disk at the start from which on expired purges matter, in seconds: half of their lifetime.
    private static let oldEntry = 86_400
    static let blockedAtMost = 10_000
    private static let serversAtMost = 1024
    private static let applicationsAtMost = 1000

    let settings: SharedCacheSettings
    let judge: SharedJudge
    let counters = SharedCounters()
    private let store: CacheStore
    private let writeLog: Log
    /// A purge takes a look at each entry, which is too much for a loop.
    private let worker = WorkThread(name: "shared-purges")

    private let lock = PosixLock()
    private var log = PurgeLog()
    /// By the name of the URI's hash.
    private var blocked: [[UInt8]: Block] = [:]
    private var lastStamp = 0
    private var publications: [Int: Publication] = [:]
    private var lastPublication = 0
    private var isPublishing = false
    private var nextRepair: UInt64 = 0
    private var lastLoss: Int64 = 0
    private var applications: [PurgeLog.Application] = []
    private var isApplying = false
    /// The time of the latest entry that was on the disk at the start, in seconds since 1970; 0 without one, nil until it is known.
    private var newest: Int?
    private var waitsForNewest = false
    private var servers: [RedisAddress: Server] = [:]
    /// The state that has taken this one's place, and whether names mean the same there. A request that began before invalidates here.
    private var successor: (state: SharedState, hasSameNames: Bool)?

    init(_ settings: SharedCacheSettings, _ store: CacheStore, log: @escaping Log) {
        guard let secret = SharedSecret(settings.secret, prefix: settings.prefix) else {
            preconditionFailure("the secret is too short")
        }
        self.settings = settings
        self.store = store
        judge = SharedJudge(secret: secret, options: store.options)
        writeLog = log
        store.list(atMost: 1, deliver: { $0() }) { [weak self] listing in
            self?.didReadNewest(listing.first?.storedAt ?? 0)
        }
    }

    var secret: SharedSecret { judge.secret }

    /// Takes another one's place: continues its log if it is about the same servers and names, and publishes its purges otherwise. What
    /// is purged or invalidated there from now on is so here as well.
    func inherit(from former: SharedState) {
        former.lock.withLock {
            let isSame =
                settings.plan == former.settings.plan && settings.prefix == former.settings.prefix
                && settings.secret == former.settings.secret
            former.successor = (self, isSame)
            lock.withLock {
                guard isSame else {
                    for pending in former.log.pending { keep(pending.purge, nil) }
                    return
                }
                log = former.log
                log.doubt()
                blocked = former.blocked
                lastPublication = former.lastPublication
                // A stamp of the other one is not given again.
                lastStamp = former.lastStamp
            }
        }
    }

    // MARK: - Judgements

    /// The number of the latest known purge, for a question that is sent now.
    var known: Int { lock.withLock { log.known } }

    func read(_ count: Int?, askedKnowing asked: Int) -> PurgeLog.Reading {
        lock.withLock { log.read(count, askedKnowing: asked) }
    }

    /// Compares the latest known purge with what Redis has under its number.
    func compare(_ sealed: [UInt8]?, with number: Int) { lock.withLock { log.compare(sealed, with: number) } }

    func missing(upTo count: Int) -> Range<Int>? { lock.withLock { log.missing(upTo: count) } }

    /// Whether the URI's invalidation is not confirmed.
    func isBlocked(_ hash: [UInt8]) -> Bool { lock.withLock { !blocked.isEmpty && blocked[hash] != nil } }

    func verdict(_ entry: CachedEntry, number: Int, _ hash: [UInt8]) -> PurgeLog.Verdict {
        // The log is copied, that is, its references: other loops do not wait for the comparisons.
        let log = lock.withLock { () -> PurgeLog? in blocked[hash] == nil ? self.log : nil }
        return log?.verdict(entry, number: number) ?? .purged
    }

    // MARK: - Purges

    /// Learns of purges, and lets the levels of this machine follow them.
    ///
    /// - Parameter isAtOnce: whether the caller applies them, and not another thread.
    /// - Returns: false when the latest known purge is another one now.
    func learn(_ records: [PurgeLog.Record], from start: Int, isAtOnce: Bool, isRepair: Bool = false) -> Bool {
        let (lesson, confirmed, begins) = lock.withLock { () -> (PurgeLog.Lesson, [Publication], Bool) in
            let lesson = log.learn(records, from: start, now: Int(Clock.seconds))
            let confirmed = lesson.confirmed.compactMap { publications.removeValue(forKey: $0) }
            return (lesson, confirmed, enqueue(lesson.applications))
        }
        counters.count { counts in
            counts.purgesPublished += lesson.confirmed.count
            for case .purge in lesson.applications { counts.purgesLearned += 1 }
        }
        for publication in confirmed { publication.finish(true) }
        if lesson.hasLost || isRepair, mayTellLoss() {
            let message = "Redis has lost purges: every response that was stored before is treated as purged"
            writeLog("redis_purges_lost", message, true)
        }
        if begins { apply(isAtOnce: isAtOnce) }
        return !lesson.hasDiverged
    }

    /// One line a second is enough.
    private func mayTellLoss() -> Bool {
        lock.withLock {
            let now = Clock.seconds
            defer { lastLoss = now }
            return now != lastLoss
        }
    }

    /// The connection was lost, so that Redis may be another server.
    func doubtPurges() { lock.withLock { log.doubt() } }

    /// Whether the count may be repaired now: at most once a second.
    func mayRepair(now: UInt64) -> Bool {
        lock.withLock {
            guard now >= nextRepair else { return false }
            nextRepair = now &+ 1_000_000_000
            return true
        }
    }

    /// Behind the lock.
    ///
    /// - Returns: whether the caller has to let them be applied.
    private func enqueue(_ more: [PurgeLog.Application]) -> Bool {
        for application in more {
            if case .everythingUnlessRecent = application {
                guard let newest else {
                    waitsForNewest = true
                    continue
                }
                guard Self.isOld(newest) else { continue }
                applications.append(.everything)
            } else {
                applications.append(application)
            }
        }
        if applications.count > Self.applicationsAtMost { applications = [.everything] }
        guard !applications.isEmpty, !isApplying else { return false }
        isApplying = true
        return true
    }

    /// An empty disk needs no purge.
    private static func isOld(_ newest: Int) -> Bool {
        newest > 0 && Int(Clock.seconds) - newest > oldEntry
    }

    private func didReadNewest(_ time: Int) {
        let begins = lock.withLock {
            newest = time
            return waitsForNewest && enqueue([.everythingUnlessRecent])
        }
        if begins { apply(isAtOnce: false) }
    }

    private func apply(isAtOnce: Bool) {
        if isAtOnce || !worker.submit({ self.applyAll() }) { applyAll() }
    }

    /// One after the other, in the order of their numbers.
    private func applyAll() {
        while true {
            let next = lock.withLock { () -> PurgeLog.Application? in
                guard !applications.isEmpty else {
                    isApplying = false
                    return nil
                }
                return applications.removeFirst()
            }
            switch next {
            case nil: return
            case .purge(let purge) where purge.expires:
                let now = Int(Clock.seconds)
                store.expire(purge.purge, now: now, deliver: { $0() }, { _ in })
            case .purge(let purge): store.remove(purge.purge, deliver: { $0() }, { _ in })
            case .everything, .everythingUnlessRecent: store.remove(.everything, deliver: { $0() }, { _ in })
            }
        }
    }

    // MARK: - Publishing

    /// Keeps a purge until it is published.
    func add(_ purge: SharedPurge, _ publication: Publication?) {
        let successor = lock.withLock {
            keep(purge, publication)
            return self.successor?.state
        }
        successor?.add(purge, nil)
    }

    /// Behind `lock`.
    private func keep(_ purge: SharedPurge, _ publication: Publication?) {
        lastPublication += 1
        log.add(purge, lastPublication)
        if let publication { publications[lastPublication] = publication }
    }

    /// Lets the caller publish the pending purges, if there are any and no loop does so already: until `nextAttempt` has none, or
    /// `stopPublishing`.
    func beginPublishing() -> Bool {
        lock.withLock {
            guard !isPublishing, !log.pending.isEmpty else { return false }
            isPublishing = true
            return true
        }
    }

    func nextAttempt() -> (number: Int, sealed: [UInt8])? {
        lock.withLock {
            let attempt = log.nextAttempt(sealed)
            if attempt == nil { isPublishing = false }
            return attempt
        }
    }

    /// The caller could not publish: those who wait for the confirmation are told so.
    func stopPublishing() {
        lock.withLock { isPublishing = false }
        failPublications()
    }

    /// The purges stay pending.
    func failPublications() {
        let waiting = lock.withLock {
            defer { publications = [:] }
            return publications.values
        }
        for publication in waiting { publication.finish(false) }
    }

    /// The record of a purge, for its number.
    func sealed(_ purge: SharedPurge, _ number: Int) -> [UInt8] {
        secret.seal(purge.encoded(), .purge, at: [secret.purgeName(number)])
    }

    /// A record that was read.
    func opened(_ sealed: [UInt8]?, _ number: Int) -> PurgeLog.Record {
        guard let sealed else { return PurgeLog.Record(sealed: [], purge: nil) }
        let bytes = secret.open(sealed, .purge, at: [secret.purgeName(number)])
        if bytes == nil { counters.count { $0.tampered += 1 } }
        return PurgeLog.Record(sealed: sealed, purge: bytes.flatMap { SharedPurge($0) })
    }

    // MARK: - Invalidations

    /// Nothing of these URIs is used from Redis until `unblock`.
    ///
    /// - Returns: a stamp for `unblock`.
    func block(_ hashes: [[UInt8]], retryAt: UInt64) -> Int {
        let (stamp, successor) = lock.withLock {
            lastStamp += 1
            for hash in hashes { blocked[hash] = Block(stamp: lastStamp, retryAt: retryAt) }
            if blocked.count > Self.blockedAtMost {
                // A purge of everything has the same effect, and is published when Redis is back.
                blocked = [:]
                keep(SharedPurge(.everything, expires: false, time: Int(Clock.seconds)), nil)
            }
            return (lastStamp, self.successor)
        }
        // It does not hear of a confirmation here, and invalidates once more.
        if let successor, successor.hasSameNames { _ = successor.state.block(hashes, retryAt: retryAt) }
        return stamp
    }

    /// The URI was invalidated in Redis.
    func unblock(_ hash: [UInt8], _ stamp: Int) {
        lock.withLock {
            if blocked[hash]?.stamp == stamp { blocked[hash] = nil }
        }
    }

    /// Invalidations that have failed, to repeat; nobody else repeats them until `retryAt`.
    func takeFailedInvalidations(now: UInt64, retryAt: UInt64) -> [(hash: [UInt8], stamp: Int)] {
        lock.withLock {
            guard !blocked.isEmpty else { return [] }
            let due = blocked.lazy.filter { $0.value.retryAt <= now }.prefix(100).map { ($0.key, $0.value.stamp) }
            let taken = Array(due)
            for (hash, _) in taken { blocked[hash]?.retryAt = retryAt }
            return taken.map { (hash: $0.0, stamp: $0.1) }
        }
    }

    // MARK: - Servers

    func serverDidChange(_ address: RedisAddress, _ state: RedisServerState, of loop: ObjectIdentifier) {
        let name = "\(address.host):\(address.port)"
        var line: (code: String, message: String)?
        lock.withLock {
            // Servers are named by servers, too.
            guard servers[address] != nil || servers.count < Self.serversAtMost else { return }
            let wasUseful = servers[address]?.reasons.isEmpty ?? true
            servers[address, default: Server()].loops.insert(loop)
            switch state {
            case .available:
                servers[address]?.reasons[loop] = nil
                if !wasUseful, servers[address]?.reasons.isEmpty ?? true, servers[address]?.mayLog() == true {
                    line = ("redis_available", "Redis at \(name) is available again")
                }
            case .unavailable(let reason):
                servers[address]?.reasons[loop] = reason
                if wasUseful, servers[address]?.mayLog() == true {
                    line = ("redis_unavailable", "Redis at \(name) is not available: \(reason)")
                }
            }
        }
        if case .available = state { doubtPurges() }
        if let line { writeLog(line.code, line.message, line.code == "redis_unavailable") }
    }

    /// The loop has no connections any more.
    func forget(_ loop: ObjectIdentifier) {
        lock.withLock {
            for address in Array(servers.keys) { remove(loop, from: address) }
        }
    }

    /// The loop does not ask this server any more.
    func forget(_ address: RedisAddress, of loop: ObjectIdentifier) { lock.withLock { remove(loop, from: address) } }

    /// Behind the lock.
    private func remove(_ loop: ObjectIdentifier, from address: RedisAddress) {
        servers[address]?.loops.remove(loop)
        servers[address]?.reasons[loop] = nil
        if servers[address]?.loops.isEmpty ?? true { servers[address] = nil }
    }

    var status: SharedCacheStatus {
        var status = counters.reading
        lock.withLock {
            status.purgesPending = log.pending.count + blocked.count
            status.purgeNumber = log.known
            for (address, server) in servers {
                status.servers.updateValue(server.reasons.values.min(), forKey: "\(address.host):\(address.port)")
            }
        }
        return status
    }
}

/// Somebody who waits for the confirmation of a purge.
///
/// `@unchecked Sendable`: `lock` guards `completion`.
final class Publication: @unchecked Sendable {
    private let lock = PosixLock()
    private var completion: (@Sendable (Bool) -> Void)?

    init(_ completion: @escaping @Sendable (Bool) -> Void) { self.completion = completion }

    /// The first call counts.
    func finish(_ isConfirmed: Bool) {
        let completion = lock.withLock {
            defer { self.completion = nil }
            return self.completion
        }
        completion?(isConfirmed)
    }
}
