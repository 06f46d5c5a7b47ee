// SPDX-License-Identifier: Apache-2.0
/// Decides whether a server is dialled and asked, and which state is told.
struct ServerHealth {
    /// What the server does not do.
    private struct Limit {
        var reason: String
        /// The name of the command that has met it.
        var command: [UInt8]
        /// A command of the same name that works ends it from then on: scripts that write and scripts that had nothing to write
        /// would otherwise change the state with each reply.
        var endsFrom: UInt64
    }

    /// From one dial to the next, and after a connection that failed.
    static let dialPause: UInt64 = 100_000_000
    /// After a login that the server did not accept, or bytes that are no reply: replies before them would close the breaker each time.
    static let refusalPause: UInt64 = 1_000_000_000
    static let limitLasts: UInt64 = 10_000_000_000

    private var breaker = CircuitBreaker()
    private var dialsFrom: UInt64 = 0
    private var trouble: String?
    private var limit: Limit?
    private var hasWorked = false

    /// Whether a connection may be made.
    func mayDial(now: UInt64) -> Bool { now >= dialsFrom }

    /// Whether a command may go.
    mutating func mayAsk(now: UInt64) -> Bool { breaker.allows(now: now) }

    mutating func noteDial(now: UInt64) { dialsFrom = now &+ Self.dialPause }

    /// A command has ended.
    mutating func note(_ verdict: ServerOutcome.Verdict, _ command: [UInt8], now: UInt64) {
        switch verdict {
        case .works:
            didReply()
            if let limit, limit.command == command, now >= limit.endsFrom { self.limit = nil }
        case .limited(let reason):
            didReply()
            // The replies to questions do not alternate, those to others may.
            let lasts = ServerOutcome.isAboutSome(reason) ? Self.limitLasts : 0
            limit = Limit(reason: reason, command: command, endsFrom: now &+ lasts)
        case .refuses(let reason):
            breaker.failed(now: now)
            trouble = reason
        case .late: fail("timeout", now: now)
        case .lost, .nothing: break
        }
    }

    /// A connection has ended by itself.
    ///
    /// - Parameters:
    ///   - hasReplied: whether the server has replied to any command on it.
    ///   - hasLost: whether commands were under way on it.
    mutating func noteEnd(_ failure: RedisFailure, hasReplied: Bool, hasLost: Bool, now: UInt64) {
        let reason = ServerOutcome.reason(failure)
        switch failure {
        case .refused, .malformed:
            dialsFrom = now &+ Self.refusalPause
            trouble = reason
        // A server may close a connection that nobody uses.
        case .closed: return
        case _ where hasReplied && !hasLost: return
        case _ where !hasReplied:
            dialsFrom = now &+ Self.dialPause
            trouble = trouble ?? reason
        default: break
        }
        fail(reason, now: now)
    }

    /// The state; nil as long as nothing is known.
    var state: RedisServerState? {
        if let reason = trouble ?? limit?.reason { return .unavailable(reason: reason) }
        return hasWorked ? .available : nil
    }

    private mutating func didReply() {
        breaker.succeeded()
        trouble = nil
        hasWorked = true
    }

    /// A failure that alone does not mean that the server is of no use. The first reason stays: the texts may differ each time.
    private mutating func fail(_ reason: String, now: UInt64) {
        breaker.failed(now: now)
        if breaker.isOpen { trouble = trouble ?? reason }
    }
}
