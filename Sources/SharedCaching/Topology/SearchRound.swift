// SPDX-License-Identifier: Apache-2.0
/// The order in which servers are asked one question until one replies: the one that replied the last time is the first.
struct SearchRound {
    /// The least time from the beginning of one round to that of the next, in nanoseconds.
    let pause: UInt64
    /// Servers that are asked in one round.
    static let askedAtMost = 16

    private var isUnderWay = false
    private var hasFailed = false
    private(set) var beganAt: UInt64?
    private var left: ArraySlice<RedisAddress> = []
    private var preferred: RedisAddress?
    private var asked: RedisAddress?

    init(pause: UInt64) { self.pause = pause }

    /// Whether commands wait for the round that is under way: not when the last one was in vain.
    var isPromising: Bool { isUnderWay && !hasFailed }

    /// - Returns: the server to ask; nil when a round is under way, or it is too early for one.
    mutating func begin(_ candidates: [RedisAddress], now: UInt64) -> RedisAddress? {
        guard !isUnderWay, beganAt.map({ now &- $0 >= pause }) ?? true else { return nil }
        var order: [RedisAddress] = []
        for address in (preferred.map { [$0] } ?? []) + candidates where !order.contains(address) {
            order.append(address)
            if order.count == Self.askedAtMost { break }
        }
        left = order[...]
        beganAt = now
        isUnderWay = true
        return next()
    }

    /// - Returns: the next server to ask; nil at the end of the round, which has failed.
    mutating func next() -> RedisAddress? {
        asked = left.popFirst()
        if asked == nil { end(hasFailed: true) }
        return asked
    }

    mutating func succeed() {
        preferred = asked
        end(hasFailed: false)
    }

    /// Gives the round up; the next one can begin at once.
    mutating func reset() {
        end(hasFailed: false)
        beganAt = nil
    }

    private mutating func end(hasFailed: Bool) {
        isUnderWay = false
        self.hasFailed = hasFailed
        left = []
    }
}
