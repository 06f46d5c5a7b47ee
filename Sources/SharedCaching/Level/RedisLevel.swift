// SPDX-License-Identifier: Apache-2.0
package import HTTPCaching
import HTTPCore
import IOCore

/// The shared cache for one loop.
///
/// `@unchecked Sendable`: other threads use `loop` alone, which is immutable and made for that; all else is for the loop's thread.
package final class RedisLevel: SharedLevel, @unchecked Sendable {
    let loop: EventLoop
    private let nodes: RedisNodes
    private let state: SharedState
    private let exchange: PurgeExchange
    private let writer: RedisWriter
    /// For the bodies that are being fetched.
    private let room = BodyRoom(32 << 20)
    private var lookUps: [ObjectIdentifier: RedisLookUp] = [:]
    private var invalidations: [ObjectIdentifier: Invalidation] = [:]
    private var isClosed = false
    private let whenClosed: (RedisLevel) -> Void

    init(_ state: SharedState, _ loop: EventLoop, _ nodes: RedisNodes, whenClosed: @escaping (RedisLevel) -> Void) {
        self.loop = loop
        self.nodes = nodes
        self.state = state
        self.whenClosed = whenClosed
        exchange = PurgeExchange(loop, nodes, state)
        writer = RedisWriter(loop, nodes, state)
        let identifier = ObjectIdentifier(loop)
        nodes.whenStateChanges = { [state] address, change in
            state.serverDidChange(address, change, of: identifier)
        }
        nodes.whenGone = { [state] address in state.forget(address, of: identifier) }
        nodes.whenConnectionEnds = { [state] in state.doubtPurges() }
    }

    package func lookUp(
        _ question: SharedQuestion,
        _ completion: @escaping (SharedFinding) -> Void
    ) -> any SharedLookUp {
        let names = state.secret.names(of: question.key, under: question.digest)
        let lookUp = RedisLookUp(question, names, exchange, room, nodes, state, loop) { [weak self] lookUp in
            self?.lookUps[ObjectIdentifier(lookUp)] = nil
        } _: {
            completion($0)
        }
        lookUps[ObjectIdentifier(lookUp)] = lookUp
        if isClosed || state.isBlocked(names.key) {
            loop.atEndOfTurn { lookUp.close() }
        } else {
            lookUp.start()
        }
        return lookUp
    }

    package func store(_ entry: CachedEntry, with ticket: any SharedTicket) {
        guard let ticket = ticket as? RedisTicket else { return }
        writer.store(entry, with: ticket)
    }

    package func giveBack(_ ticket: any SharedTicket, isForOthers: Bool) {
        guard let ticket = ticket as? RedisTicket else { return }
        writer.giveBack(ticket, isForOthers: isForOthers)
    }

    /// The length of the largest body that is stored, in bytes.
    package var largestBody: Int { state.settings.maximumBody }

    /// Nothing of these URIs is used from Redis by this process from now on, until it is removed there.
    package func invalidate(_ keys: [CacheKey], _ completion: @escaping () -> Void) {
        let hashes = Set(keys.map { state.secret.names(of: $0, under: .none).key })
        let deadline = loop.now &+ state.settings.timeout.nanoseconds
        let stamp = state.block(Array(hashes), retryAt: deadline)
        guard !isClosed, !hashes.isEmpty else {
            if !hashes.isEmpty { state.counters.count { $0.invalidationsFailed += hashes.count } }
            return loop.atEndOfTurn(completion)
        }
        let invalidation = Invalidation(hashes.count, completion)
        let identifier = ObjectIdentifier(invalidation)
        invalidations[identifier] = invalidation
        // The nodes end their commands by then, too; but a client waits.
        let timer = LoopTimer { [self] in end(identifier) }
        invalidation.timer = timer
        loop.arm(timer, at: deadline)
        for hash in hashes {
            exchange.invalidate(hash, stamp, by: deadline) { [self] isDone in
                if isDone { invalidation.missing -= 1 }
                invalidation.replies += 1
                if invalidation.replies == invalidation.count { end(identifier) }
            }
        }
    }

    private func end(_ identifier: ObjectIdentifier) {
        guard let invalidation = invalidations.removeValue(forKey: identifier) else { return }
        if let timer = invalidation.timer { loop.remove(timer) }
        let missing = invalidation.missing
        if missing > 0 { state.counters.count { $0.invalidationsFailed += missing } }
        invalidation.completion()
    }

    private final class Invalidation {
        let count: Int
        let completion: () -> Void
        /// Those that are not confirmed.
        var missing: Int
        var replies = 0
        var timer: LoopTimer?

        init(_ count: Int, _ completion: @escaping () -> Void) {
            self.count = count
            self.completion = completion
            missing = count
        }
    }

    /// A purge is pending that this loop may publish.
    func publish(_ publication: Publication) { exchange.publish(publication) }

    /// Dials anew from now on, under another policy.
    package func redial(_ dial: @escaping RedisDial) { nodes.redial(dial) }

    /// Ends its connections and look-ups.
    package func close() {
        guard !isClosed else { return }
        isClosed = true
        exchange.close()
        writer.isClosed = true
        for lookUp in Array(lookUps.values) { lookUp.close() }
        for identifier in Array(invalidations.keys) { end(identifier) }
        nodes.whenStateChanges = nil
        nodes.whenGone = nil
        nodes.whenConnectionEnds = nil
        nodes.close()
        state.forget(ObjectIdentifier(loop))
        whenClosed(self)
    }
}
