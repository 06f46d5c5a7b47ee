// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore

/// The purges that this process knows, and those that it has not published yet: decides whether a response from Redis may be used.
struct PurgeLog: Sendable {
    struct Known: Sendable {
        let number: Int
        let purge: SharedPurge
    }

    /// A purge of this machine that Redis has not confirmed.
    struct Pending: Sendable {
        /// Those who asked for it.
        fileprivate(set) var identifiers: [Int]
        let purge: SharedPurge
        /// The number and the bytes under which it was sent last. After a failure nobody knows whether Redis has it, so that a
        /// record that is read later is compared with them.
        fileprivate(set) var attempt: (number: Int, sealed: [UInt8])?
    }

    /// A purge's record in Redis.
    struct Record: Sendable {
        /// Empty when it is missing.
        let sealed: [UInt8]
        /// nil when it is missing or does not open.
        let purge: SharedPurge?

        fileprivate var isEverything: Bool {
            if case .everything = purge?.purge { purge?.expires == false } else { false }
        }
    }

    /// The meaning of a count that was read.
    enum Reading: Hashable, Sendable {
        case current
        /// Records have to be read (`missing`) before an entry is judged.
        case behind
        /// Redis has lost the latest purges.
        case lost
    }

    enum Verdict: Hashable, Sendable {
        case usable
        case purged
        /// The entry knows more purges than were read.
        case ahead
    }

    /// What the levels of this machine do with what was learned.
    enum Application: Sendable {
        case purge(SharedPurge)
        case everything
        /// The purges were published, and expired, before this process had started: they matter only when the entries on its disk
        /// are that old.
        case everythingUnlessRecent
    }

    /// What a reading of records has told.
    struct Lesson: Sendable {
        var applications: [Application] = []
        /// Those whose purges are published.
        var confirmed: [Int] = []
        /// Whether records were missing that this process should have seen.
        var hasLost = false
        /// Whether the latest known record is another one now: Redis has lost it, and the count was reached again.
        var hasDiverged = false
    }

    /// Numbers are smaller, and with that exact in Redis' scripts. Once it is reached nothing in Redis is used any more: a purge could
    /// not be published.
    static let most = 1 << 52
    static let knownAtMost = 1000
    /// How long a purge is kept behind a later one, in seconds.
    static let lifetime = 2 * 86_400
    static let pendingAtMost = 1000
    private static let recordsAtOnce = 30

    /// The number of the latest known purge.
    private(set) var known = 0
    /// Entries that were requested before this one are not used.
    private(set) var floor = 0
    /// Those after `floor`, in order.
    private(set) var purges: [Known] = []
    private(set) var pending: [Pending] = []
    /// The sealed record of `known`; empty when it is not known.
    private var latest: [UInt8] = []
    private var mustCompare = false
    /// The first count that was read.
    private var firstCount: Int?

    /// The connection to Redis was lost: it may have lost purges, too, and have got others of the same numbers. The latest known
    /// record is compared once, before anything is learned or published behind it.
    mutating func doubt() { mustCompare = !latest.isEmpty }

    /// Judges a count.
    ///
    /// - Parameters:
    ///   - count: nil when it was no number.
    ///   - asked: `known` when the question was sent: purges may have been learned since.
    mutating func read(_ count: Int?, askedKnowing asked: Int) -> Reading {
        guard let count, count >= asked, count < Self.most, known < Self.most - 1 else {
            // Somebody may publish until the count is the same again.
            doubt()
            return .lost
        }
        if firstCount == nil { firstCount = count }
        return missing(upTo: count) == nil ? .current : .behind
    }

    /// The next records to read; nil when everything is known.
    func missing(upTo count: Int) -> Range<Int>? {
        guard count < Self.most else { return nil }
        let least = count - Self.knownAtMost + 1
        // Behind a gap there is nothing to compare with. It begins two numbers later, as `learn` wants it.
        let start = mustCompare ? (least > known ? max(least, known + 2) : known) : max(least, known + 1)
        guard start <= count else { return nil }
        return start..<min(start + Self.recordsAtOnce, count + 1)
    }

    /// Compares the record that Redis has under the latest known number with what it was.
    ///
    /// - Parameter sealed: nil when there is none now, which says nothing.
    mutating func compare(_ sealed: [UInt8]?, with number: Int) {
        if number == known, !latest.isEmpty, let sealed, sealed != latest { mustCompare = true }
    }

    /// Learns of purges.
    ///
    /// - Parameters:
    ///   - records: of consecutive numbers.
    ///   - start: the first number.
    ///   - now: in seconds since 1970.
    mutating func learn(_ records: [Record], from start: Int, now: Int) -> Lesson {
        var lesson = Lesson()
        // A purge of everything says all that the comparison could.
        if mustCompare, start == known + 1, records.first?.isEverything != true { return lesson }
        for (number, record) in zip(start..., records) where number >= known {
            if number == known {
                guard mustCompare else { continue }
                // A record that has expired says nothing.
                guard record.sealed.isEmpty || record.sealed == latest else {
                    lesson.hasDiverged = true
                    return lesson
                }
                mustCompare = false
                continue
            }
            // What is missing before a purge that is old enough has expired. All else is lost.
            let next = records[(number - start)...].first { $0.purge != nil }?.purge
            let hasExpired = next.map { now - $0.time > Self.lifetime } ?? false
            if number > known + 1 { raiseFloor(to: number - 1, hasExpired, &lesson) }
            known = number
            latest = record.sealed
            mustCompare = false
            if let index = pending.firstIndex(where: { $0.isRecord(number, record) }) {
                lesson.confirmed += pending[index].identifiers
                append(pending.remove(at: index).purge)
            } else if let purge = record.purge {
                append(purge)
                lesson.applications.append(.purge(purge))
            } else {
                raiseFloor(to: number, hasExpired, &lesson)
            }
        }
        return lesson
    }

    private mutating func append(_ purge: SharedPurge) {
        if case .everything = purge.purge {
            purges = []
            floor = known
            return
        }
        purges.append(Known(number: known, purge: purge))
        if purges.count > Self.knownAtMost { floor = purges.removeFirst().number }
    }

    /// Some purges are unknown: everything before them is purged.
    private mutating func raiseFloor(to number: Int, _ hasExpired: Bool, _ lesson: inout Lesson) {
        floor = max(floor, number)
        purges.removeAll { $0.number <= number }
        let isOld = hasExpired && number <= firstCount ?? 0
        if !isOld { lesson.hasLost = true }
        switch (lesson.applications.last, isOld) {
        case (.everything, _), (.everythingUnlessRecent, true): break
        default: lesson.applications.append(isOld ? .everythingUnlessRecent : .everything)
        }
    }

    /// Whether an entry may be used.
    ///
    /// - Parameter number: of the latest purge that was known when the response was requested.
    func verdict(_ entry: CachedEntry, number: Int) -> Verdict {
        if number > known { return .ahead }
        guard number >= floor, !pending.contains(where: { $0.purge.purge.fits(entry) }) else { return .purged }
        for purge in purges.reversed() {
            if purge.number <= number { break }
            if purge.purge.purge.fits(entry) { return .purged }
        }
        return .usable
    }

    // MARK: - Publishing

    /// Keeps a purge until it is published. Entries that it fits are not used from now on.
    mutating func add(_ purge: SharedPurge, _ identifier: Int) {
        pending.append(Pending(identifiers: [identifier], purge: purge))
        guard pending.count > Self.pendingAtMost else { return }
        let all = SharedPurge(.everything, expires: false, time: purge.time)
        pending = [Pending(identifiers: pending.flatMap(\.identifiers), purge: all)]
    }

    /// The next purge to publish, as the record after the latest known one.
    ///
    /// - Parameter seal: makes the record of a number.
    mutating func nextAttempt(_ seal: (SharedPurge, Int) -> [UInt8]) -> (number: Int, sealed: [UInt8])? {
        guard let first = pending.first, known < Self.most - 1 else { return nil }
        let number = known + 1
        // A record of the same number is sent again as it was, so that it does not matter which of both arrives.
        if let attempt = first.attempt, attempt.number == number { return attempt }
        let attempt = (number, seal(first.purge, number))
        pending[0].attempt = attempt
        return attempt
    }
}

extension PurgeLog.Pending {
    fileprivate func isRecord(_ number: Int, _ record: PurgeLog.Record) -> Bool {
        guard let attempt else { return false }
        return attempt.number == number && attempt.sealed == record.sealed
    }
}
