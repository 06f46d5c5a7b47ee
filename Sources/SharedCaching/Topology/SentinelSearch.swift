// SPDX-License-Identifier: Apache-2.0
/// Decides which server is the primary, by what Sentinels and this server say: Sentinels in, steps out.
struct SentinelSearch {
    enum Step: Hashable {
        case ask(RedisAddress)
        /// ROLE of the server that was named.
        case check(RedisAddress)
        /// The server has said that it is the primary.
        case use(RedisAddress)
        /// No Sentinel has named one.
        case giveUp
    }

    /// From the beginning of one search to that of the next.
    static let pause: UInt64 = 500_000_000
    /// A primary that is in use is searched again after so long: it may have been cut off from the others.
    static let interval: UInt64 = 10_000_000_000

    private let sentinels: [RedisAddress]
    private var round = SearchRound(pause: Self.pause)
    private var found: RedisAddress?
    /// The server that has said so on the connection that it has now.
    private(set) var primary: RedisAddress?

    init(_ sentinels: [RedisAddress]) { self.sentinels = sentinels }

    /// Whether commands can wait for a search that is under way.
    var isPromising: Bool { round.isPromising }

    /// Whether the primary has to be searched.
    func isDue(now: UInt64) -> Bool { primary == nil || round.beganAt.map { now &- $0 >= Self.interval } ?? true }

    mutating func begin(now: UInt64) -> Step? { round.begin(sentinels, now: now).map { .ask($0) } }

    /// - Parameter address: the address that the Sentinel has named; nil for every other reply, and without one.
    mutating func named(_ address: RedisAddress?) -> Step {
        found = address
        return address.map { .check($0) } ?? next()
    }

    /// - Parameter isPrimary: nil when the server that was named has not replied.
    mutating func checked(_ isPrimary: Bool?) -> Step {
        guard let found else { return next() }
        guard isPrimary == true else {
            // Without a reply, the primary that is in use stays in use: its connection and its breaker say what is wrong.
            if isPrimary == false { doubt(found) }
            return next()
        }
        round.succeed()
        primary = found
        return .use(found)
    }

    /// The server is not used any more until it was checked: its connection has ended, or it refuses to write.
    mutating func doubt(_ address: RedisAddress) {
        if primary == address { primary = nil }
    }

    mutating func reset() {
        round.reset()
        (found, primary) = (nil, nil)
    }

    private mutating func next() -> Step { round.next().map { .ask($0) } ?? .giveUp }
}
