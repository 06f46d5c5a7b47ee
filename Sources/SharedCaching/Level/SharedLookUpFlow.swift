// SPDX-License-Identifier: Apache-2.0
/// The course of one look-up: questions, judgements, and the wait for another machine. It has no clock, and sends nothing itself.
struct SharedLookUpFlow: Sendable {
    /// The owner of the lease.
    enum Lease: Hashable, Sendable {
        case own
        case others
        /// The last response was not for others: nobody waits for the next one.
        case notForOthers
        case nobody
    }

    enum Judgement: Hashable, Sendable {
        case found
        /// The record is usable, and its body is in chunks.
        case foundHead
        /// The field has the names of the Vary fields.
        case variants
        case useless
    }

    enum Event: Hashable, Sendable {
        case count(isBehind: Bool)
        case hash
        case lease(Lease)
        case caughtUp
        case judged(Judgement)
        case body(isWhole: Bool)
        /// - Parameter reason: nil for a doubt, as about the number of purges.
        case failed(_ reason: RedisFailure?)
        case time
    }

    /// What a miss says about the ticket.
    enum Grant: Hashable, Sendable {
        /// Generation or count are not known.
        case none
        case plain
        /// The lease is this look-up's, or may be.
        case leased
    }

    enum Action: Hashable, Sendable {
        case none
        /// The count, the generation and the record are wanted, and the lease's owner.
        case ask(lease: Bool)
        case catchUp
        case judge
        case askVariant
        case askBody
        case takeLease
        case end(isFound: Bool, Grant)
    }

    private enum Stage {
        case asking, catchingUp, judging, askingVariant, askingBody, takingLease, sleeping, ended
    }

    private let timeout: UInt64
    private let patience: UInt64
    private let waits: Bool
    private var stage = Stage.asking
    // The replies of this round.
    private var hasCount = false
    private var hasHash = false
    private var isBehind = false
    private var lease: Lease?

    private var grant = Grant.none
    private var isVariant = false
    private var polls = 0
    private var patienceEnds = UInt64.max

    /// The time of the next event at the latest.
    private(set) var wakesAt: UInt64
    /// Whether it waits, or has waited, for another machine.
    private(set) var hasWaited = false
    /// Whether the look-up itself is over, and it waits for another machine now.
    private(set) var isFirstOver = false
    private(set) var failure: RedisFailure?

    /// The polls come after 10, 20, 40, and then each 50 milliseconds.
    private static let pauses: [UInt64] = [10_000_000, 20_000_000, 40_000_000]
    private static let laterPause: UInt64 = 50_000_000

    /// Begins with `ask(lease: false)`.
    ///
    /// - Parameters:
    ///   - timeout: in nanoseconds, for the look-up, and for each further question while it waits.
    ///   - patience: in nanoseconds, for all of the wait.
    ///   - waits: whether it waits for another machine that has the lease.
    ///   - now: in nanoseconds.
    init(timeout: UInt64, patience: UInt64, waits: Bool, now: UInt64) {
        self.timeout = timeout
        self.patience = patience
        self.waits = waits && patience > 0
        wakesAt = now.later(timeout)
    }

    mutating func handle(_ event: Event, now: UInt64) -> Action {
        switch (stage, event) {
        case (.ended, _): return .none
        case (_, .failed(let reason)): return fail(reason)
        case (_, .time): return timeHasCome(now)
        case (.asking, .count(let isBehind)):
            (hasCount, self.isBehind) = (true, isBehind)
            return completeRound()
        case (.asking, .hash):
            hasHash = true
            return completeRound()
        case (.asking, .lease(let lease)):
            self.lease = lease
            return completeRound()
        case (.catchingUp, .caughtUp): return judge()
        case (.askingVariant, .hash): return judge()
        case (.judging, .judged(let judgement)): return decide(judgement, now)
        case (.askingBody, .body(let isWhole)): return isWhole ? end(isFound: true) : goOn(now)
        case (.takingLease, .lease(let lease)): return follow(lease, now)
        default: return .none
        }
    }

    private mutating func completeRound() -> Action {
        guard hasCount, hasHash, !hasWaited || lease != nil else { return .none }
        guard isBehind else { return judge() }
        stage = .catchingUp
        return .catchUp
    }

    private mutating func judge() -> Action {
        stage = .judging
        if grant == .none { grant = .plain }
        return .judge
    }

    private mutating func decide(_ judgement: Judgement, _ now: UInt64) -> Action {
        switch judgement {
        case .found: return end(isFound: true)
        case .variants where !isVariant:
            isVariant = true
            stage = .askingVariant
            allowMoreTime(now)
            return .askVariant
        case .foundHead:
            stage = .askingBody
            allowMoreTime(now)
            return .askBody
        case .useless, .variants: return goOn(now)
        }
    }

    /// There is no entry of use.
    private mutating func goOn(_ now: UInt64) -> Action {
        guard hasWaited, let lease else { return takeLease(now) }
        return follow(lease, now)
    }

    private mutating func takeLease(_ now: UInt64) -> Action {
        stage = .takingLease
        allowMoreTime(now)
        return .takeLease
    }

    private mutating func follow(_ lease: Lease, _ now: UInt64) -> Action {
        isFirstOver = true
        switch lease {
        case .own:
            grant = .leased
            return end(isFound: false)
        case .notForOthers: return end(isFound: false)
        case .others where !waits: return end(isFound: false)
        case .nobody where stage != .takingLease: return takeLease(now)
        case .nobody, .others:
            if !hasWaited {
                hasWaited = true
                patienceEnds = now.later(patience)
            }
            stage = .sleeping
            wakesAt = min(now.later(polls < Self.pauses.count ? Self.pauses[polls] : Self.laterPause), patienceEnds)
            polls += 1
            return .none
        }
    }

    /// A look-up has one timeout. While it waits for another machine, each question has its own.
    private mutating func allowMoreTime(_ now: UInt64) {
        if hasWaited { wakesAt = min(now.later(timeout), patienceEnds) }
    }

    private mutating func timeHasCome(_ now: UInt64) -> Action {
        guard now >= wakesAt else { return .none }
        if now >= patienceEnds { return fail(nil) }
        guard stage == .sleeping else { return fail(.timeout) }
        (hasCount, hasHash, isBehind, isVariant, lease) = (false, false, false, false, nil)
        stage = .asking
        wakesAt = min(now.later(timeout), patienceEnds)
        return .ask(lease: true)
    }

    private mutating func fail(_ reason: RedisFailure?) -> Action {
        failure = reason
        // Nobody knows whether the lease was taken. With the ticket it is given back.
        if stage == .takingLease { grant = .leased }
        return end(isFound: false)
    }

    private mutating func end(isFound: Bool) -> Action {
        stage = .ended
        return .end(isFound: isFound, grant)
    }
}

extension UInt64 {
    /// A time after a span in nanoseconds.
    fileprivate func later(_ span: UInt64) -> UInt64 {
        let (sum, overflows) = addingReportingOverflow(span)
        return overflows ? .max : sum
    }
}
