// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Servers that other servers name: commands wait as long as those are being asked. A class to inherit from.
class SearchingNodes: LinkedNodes {
    /// The time for each question about the servers, in nanoseconds: it is asked for all commands, and not bound to the time of one.
    static let questionTime: UInt64 = 500_000_000

    private var waiting = WaitingErrands()
    private let timer = LoopTimer()
    /// The number of times that a new dial or the end has cut off what was being asked: what comes of it is not heard.
    private(set) var era = 0

    override init(_ plan: RedisPlan, loop: EventLoop, dial: @escaping RedisDial) {
        super.init(plan, loop: loop, dial: dial)
        timer.whenDue { [weak self] in self?.endDue() }
    }

    /// Begins to ask, unless that is under way or too early.
    func seek() {}

    /// Forgets what is being asked.
    func resetSearch() {}

    /// Lets a command wait for the search that is under way.
    final func wait(_ errand: RedisErrand) {
        if waiting.add(errand) { armTimer() } else { fail(errand, .busy) }
    }

    /// Ends the wait.
    ///
    /// - Parameter failure: nil when the servers are known.
    final func endWait(_ failure: RedisFailure?) {
        loop.remove(timer)
        for errand in waiting.take(until: .max) {
            if let failure { fail(errand, failure) } else { run(errand) }
        }
    }

    override func redial(_ dial: @escaping RedisDial) {
        era += 1
        resetSearch()
        super.redial(dial)
        if !waiting.isEmpty { seek() }
    }

    override func close() {
        era += 1
        super.close()
        endWait(.closed)
    }

    private func endDue() {
        for errand in waiting.take(until: loop.now) { errand.completion(.failure(.timeout)) }
        armTimer()
    }

    private func armTimer() {
        if let earliest = waiting.earliest { loop.arm(timer, at: earliest) }
    }
}
