// SPDX-License-Identifier: Apache-2.0
import IOCore

/// A command on its way.
struct RedisErrand {
    let command: RedisCommand
    let key: [UInt8]
    let deadline: UInt64
    let completion: (RedisResult) -> Void
    /// The number of servers that it was sent to.
    var hops = 0
}

/// Servers behind links: the part that all kinds have. A class to inherit from.
class LinkedNodes: RedisNodes {
    let loop: EventLoop
    /// The owner's servers to begin with.
    let addresses: [RedisAddress]
    private(set) var servers: LinkPool!
    private(set) var isClosed = false

    init(_ plan: RedisPlan, loop: EventLoop, dial: @escaping RedisDial) {
        self.loop = loop
        addresses = plan.addresses.map(\.normalForm)
        super.init()
        servers = LinkPool(plan.login, owner: self, loop: loop, dial: dial)
    }

    final override func send(
        _ command: RedisCommand,
        key: [UInt8],
        by deadline: UInt64,
        _ completion: @escaping (RedisResult) -> Void
    ) {
        let errand = RedisErrand(command: command, key: key, deadline: deadline, completion: completion)
        if isClosed { fail(errand, .closed) } else { run(errand) }
    }

    func run(_ errand: RedisErrand) { preconditionFailure("a kind of servers runs its errands") }

    /// All pools of links.
    var pools: [LinkPool] { [servers] }

    override func redial(_ dial: @escaping RedisDial) {
        // A command that fails with its link may be followed by another one: no pool dials the old way then.
        let old = pools.flatMap { $0.takeAll(dialling: dial) }
        for link in old { link.close() }
    }

    override func close() {
        isClosed = true
        for link in pools.flatMap({ $0.takeAll(dialling: nil) }) { link.close() }
    }

    /// Ends a command that is not sent, at the end of the turn.
    final func fail(_ errand: RedisErrand, _ failure: RedisFailure) {
        loop.atEndOfTurn { errand.completion(.failure(failure)) }
    }
}
