// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// When the source of one credential is run, and what becomes of the requests that need its value, as a value: without a clock and
/// without threads.
///
/// A value is renewed when four fifths of its life are over, and once after a response 401, which may mean that it was revoked. A
/// source is run at most every ten seconds, whether it fails or a server goes on to answer 401; all who wait share one run.
///
/// `now` is milliseconds that only grow; `date` is seconds since 1970, in which ends are written.
struct CredentialLife: Sendable {
    /// The outcome for a request.
    enum Demand: Equatable, Sendable {
        /// The value that is held is to be used.
        case ready
        /// A run is under way, or `next` begins one.
        case wait
        /// There is no value, and no run is due.
        case refuse(CredentialFault)
    }

    /// The least time between the end of a run and the next one.
    static let pause: Int64 = 10_000
    /// The longest time between the attempts of a source that fails, while no request wants its value.
    static let longestRetry: Int64 = 300_000

    private struct Held: Sendable {
        var end: Int64?
    }

    private var held: Held?
    private(set) var isRunning = false
    /// A request waits for a run.
    private var isWanted = false
    /// The source has said that it changed.
    private var isChanged = false
    /// The end of the last run; nil before the first.
    private var ranAt: Int64?
    /// The next run that nobody asks for; nil: none.
    private var due: Int64?
    private var failure: CredentialFault?
    private var failures: Int64 = 0
    /// Increases with each different value.
    private(set) var version = 0

    /// The first run is due at once.
    init(at now: Int64) { due = now }

    /// Why the last run has failed; nil after a success.
    var lastFailure: CredentialFault? { failure }
    /// Whether a value is held, valid or not.
    var hasValue: Bool { held != nil }

    // MARK: Requests

    /// A request needs the value.
    mutating func want(at now: Int64, date: Int64) -> Demand {
        if let held, held.end.map({ date < $0 }) ?? true { return .ready }
        return demandRun(at: now)
    }

    /// A request with the value of a version has got a 401.
    mutating func didGetUnauthorized(version used: Int, at now: Int64, date: Int64) -> Demand {
        guard used == version, held != nil else { return want(at: now, date: date) }
        return demandRun(at: now)
    }

    private mutating func demandRun(at now: Int64) -> Demand {
        if isRunning || isWanted { return .wait }
        guard mayRun(at: now) else {
            let seconds =
                ((ranAt ?? now).addingSaturated(Self.pause).subtractingSaturated(now).addingSaturated(999)) / 1000
            guard let failure else {
                return .refuse(
                    CredentialFault(
                        .ended,
                        "the value has ended or was refused; the source is run again in \(seconds) s"
                    )
                )
            }
            return .refuse(
                CredentialFault(
                    failure.code,
                    "\(failure.message); the source is run again in \(seconds) s at the earliest"
                )
            )
        }
        isWanted = true
        return .wait
    }

    private func mayRun(at now: Int64) -> Bool {
        guard let ranAt else { return true }
        return now >= ranAt.addingSaturated(Self.pause)
    }

    // MARK: Runs

    /// A file has changed. It is read again whenever it last was: a change is no attempt of ours.
    mutating func noteChange() { isChanged = true }

    /// Whether a run begins now. The caller then reports its end with `didSucceed` or `didFail`.
    mutating func next(at now: Int64) -> Bool {
        guard !isRunning, isChanged || isWanted || (due.map { now >= $0 } ?? false) else { return false }
        isRunning = true
        isWanted = false
        isChanged = false
        due = nil
        return true
    }

    /// When `next` may begin a run; nil when only another call can lead to one.
    var nextDue: Int64? {
        guard !isRunning else { return nil }
        return isChanged || isWanted ? .min : due
    }

    /// - Parameters:
    ///   - end: seconds since 1970, or nil.
    ///   - isSame: the source gave the value again that is held.
    mutating func didSucceed(end: Int64?, isSame: Bool, at now: Int64, date: Int64) {
        isRunning = false
        ranAt = now
        failure = nil
        failures = 0
        if !isSame || held == nil { version += 1 }
        held = Held(end: end)
        due = end.map { end in
            let life = max(end.subtractingSaturated(date), 0).multipliedSaturated(by: 1000)
            return now.addingSaturated(max(life / 5 * 4, Self.pause))
        }
    }

    /// - Parameter dropsValue: the value that is held is not to be used any more: a file that is gone is a key that was taken back.
    mutating func didFail(_ fault: CredentialFault, dropsValue: Bool, at now: Int64) {
        isRunning = false
        ranAt = now
        failure = fault
        if dropsValue { held = nil }
        let retry = failures < 8 ? Self.pause << failures : Self.longestRetry
        failures = failures.addingSaturated(1)
        due = now.addingSaturated(min(retry, Self.longestRetry))
    }
}
