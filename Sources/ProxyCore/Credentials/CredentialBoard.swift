// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The state of one credential, for the boards of the workers.
struct CredentialNews: Sendable {
    /// The value that is held, valid or not; nil: none.
    var value: CredentialValue?
    /// Why the last run failed; nil after a success, and before the first end of a run.
    var fault: CredentialFault?
    /// A run is under way.
    var isRunning = false
    /// No run begins before, in nanoseconds of the monotonic clock.
    var pausedUntil: UInt64 = 0
}

/// The credentials of one policy on one worker's loop: what the request path asks, without a lock. Credentials are named by their
/// index in `Configuration.credentials`.
///
/// `@unchecked Sendable`: made by the thread that loads, from then on touched by the loop's thread alone.
package final class CredentialBoard: @unchecked Sendable {
    package enum State: Sendable {
        case ready(CredentialValue)
        /// A run is under way, or has to begin: `whenReady` tells its end.
        case wait
        case failed(CredentialFault)
    }

    /// Names a wait, for `cancel`.
    package typealias Ticket = Int

    /// Which requests an answer is for.
    enum Answer: Sendable {
        /// Those that need any value.
        case wanted
        /// Those that got a 401 with a value of that version.
        case refused(version: Int)
        /// A run has ended: for all.
        case run
    }

    private struct Waiter {
        var ticket: Ticket
        /// The version that got a 401; nil: any value will do.
        var after: Int?
        /// Nil when it was told, or waits no more.
        var completion: ((Result<CredentialValue, CredentialFault>) -> Void)?
        /// What it is going to be told.
        var outcome: Result<CredentialValue, CredentialFault>?
    }

    private struct Slot {
        var news = CredentialNews()
        /// In the order of their tickets.
        var waiters: [Waiter] = []
        /// Those that wait no more.
        var gone = 0
        /// Some are being told, a few in each turn.
        var isTelling = false
        /// Questions on their way, so that many requests ask once.
        var asksForAny = false
        var asksAfter: Set<Int> = []
    }

    private let loop: EventLoop
    private var slots: [Slot]
    /// Has the source run, and publishes what comes of it. The second number is the version that got a 401.
    private let ask: @Sendable (_ index: Int, _ refused: Int?) -> Void
    private var lastTicket = 0

    init(count: Int, loop: EventLoop, ask: @escaping @Sendable (Int, Int?) -> Void) {
        self.loop = loop
        self.ask = ask
        slots = [Slot](repeating: Slot(), count: count)
    }

    /// Seconds since 1970.
    private var date: Int64 { loop.wallClock / 1_000_000 }

    // MARK: Requests

    /// The value to write now. Allocates nothing.
    package func value(_ index: Int) -> State {
        if let value = slots[index].news.value, value.isValid(at: date) { return .ready(value) }
        return stateWithoutValue(index)
    }

    private func stateWithoutValue(_ index: Int) -> State {
        let news = slots[index].news
        guard !news.isRunning, !loop.isByHand, loop.now < news.pausedUntil else { return .wait }
        return .failed(news.fault ?? Self.ended)
    }

    /// A response 401 has come for a value.
    ///
    /// - Returns: `ready`: a newer value, to send the request with once more. `wait`: `whenReady(_:after:)` tells whether there is
    ///   one. `failed`: the response is passed on.
    package func refused401(_ index: Int, _ value: CredentialValue) -> State {
        let news = slots[index].news
        if let current = news.value, current.version != value.version, current.isValid(at: date) {
            return .ready(current)
        }
        return stateWithoutValue(index)
    }

    /// Has the source run after a 401 for which `refused401` said `wait`, while nobody waits for it.
    func renew(_ index: Int, after value: CredentialValue) {
        if slots[index].asksAfter.insert(value.version).inserted { ask(index, value.version) }
    }

    /// Tells once, later and not from within this call, what becomes of a credential for which `value` or `refused401` said `wait`.
    ///
    /// - Parameter after: the value that got a 401; a source that gives it again is a failure.
    @discardableResult
    package func whenReady(
        _ index: Int,
        after: CredentialValue? = nil,
        _ completion: @escaping (Result<CredentialValue, CredentialFault>) -> Void
    ) -> Ticket {
        lastTicket += 1
        let version = after?.version
        slots[index].waiters.append(Waiter(ticket: lastTicket, after: version, completion: completion))
        let isNew: Bool
        if let version {
            isNew = slots[index].asksAfter.insert(version).inserted
        } else {
            isNew = !slots[index].asksForAny
            slots[index].asksForAny = true
        }
        if isNew { ask(index, version) }
        return lastTicket
    }

    /// Ends a wait: its completion is not called any more.
    package func cancel(_ index: Int, _ ticket: Ticket) {
        // There may be thousands, which all end at once.
        var range = slots[index].waiters.indices
        while !range.isEmpty {
            let middle = (range.lowerBound + range.upperBound) / 2
            if slots[index].waiters[middle].ticket < ticket {
                range = (middle + 1)..<range.upperBound
            } else {
                range = range.lowerBound..<middle
            }
        }
        let place = range.lowerBound
        guard place < slots[index].waiters.count, slots[index].waiters[place].ticket == ticket,
            slots[index].waiters[place].completion != nil
        else { return }
        leave(index, place)
    }

    private func leave(_ index: Int, _ place: Int) {
        slots[index].waiters[place].completion = nil
        slots[index].gone += 1
        if !slots[index].isTelling, slots[index].gone * 2 > slots[index].waiters.count { clean(index) }
    }

    private func clean(_ index: Int) {
        slots[index].waiters.removeAll { $0.completion == nil }
        slots[index].gone = 0
    }

    /// The number of requests that wait.
    var waiting: Int { slots.reduce(0) { $0 + $1.waiters.count - $1.gone } }

    // MARK: News

    /// The state when the policy was loaded.
    func start(_ index: Int, _ news: CredentialNews) { slots[index].news = news }

    /// On the loop's thread: takes news in, and tells those who wait.
    func publish(_ index: Int, _ news: CredentialNews, _ answer: Answer) {
        slots[index].news = news
        switch answer {
        case .wanted: slots[index].asksForAny = false
        case .refused(let version): slots[index].asksAfter.remove(version)
        case .run:
            slots[index].asksForAny = false
            slots[index].asksAfter = []
        }
        for place in slots[index].waiters.indices where slots[index].waiters[place].completion != nil {
            guard let outcome = outcome(for: slots[index].waiters[place], news, answer) else { continue }
            slots[index].waiters[place].outcome = outcome
        }
        tell(index)
    }

    /// The policy was replaced: nobody gets a value of this board any more.
    func retire() {
        for index in slots.indices {
            for place in slots[index].waiters.indices { slots[index].waiters[place].outcome = .failure(Self.replaced) }
            tell(index)
        }
    }

    /// Tells those for whom there is an outcome, in this turn and in later ones.
    private func tell(_ index: Int) {
        if !slots[index].isTelling, !slots[index].waiters.isEmpty { tell(index, from: 0) }
    }

    private func tell(_ index: Int, from first: Int) {
        slots[index].isTelling = true
        loop.beginPart()
        var place = first
        // More may begin to wait meanwhile.
        while place < slots[index].waiters.count {
            let outcome = slots[index].waiters[place].outcome
            if let outcome, let completion = slots[index].waiters[place].completion {
                leave(index, place)
                completion(outcome)
                if loop.isPartOver {
                    let next = place + 1
                    return loop.submit { [self] in tell(index, from: next) }
                }
            }
            place += 1
        }
        slots[index].isTelling = false
        clean(index)
        // Others may have got an outcome behind the place.
        if slots[index].waiters.contains(where: { $0.outcome != nil }) { tell(index, from: 0) }
    }

    /// Nil: it goes on waiting.
    private func outcome(
        for waiter: Waiter,
        _ news: CredentialNews,
        _ answer: Answer
    ) -> Result<CredentialValue, CredentialFault>? {
        if let value = news.value, value.version != waiter.after, value.isValid(at: date) { return .success(value) }
        guard !news.isRunning else { return nil }
        switch answer {
        case .run: break
        case .wanted: guard waiter.after == nil else { return nil }
        case .refused(let version): guard waiter.after == version else { return nil }
        }
        return .failure(news.fault ?? (waiter.after == nil ? Self.ended : Self.same))
    }

    private static let replaced = CredentialFault(.ended, "the policy was replaced")
    private static let ended = CredentialFault(.ended, "the value has ended, and its source is not run again yet")
    private static let same = CredentialFault(.ended, "the source has no other value than the one that was refused")
}
