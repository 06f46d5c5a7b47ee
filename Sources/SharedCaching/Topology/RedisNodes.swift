// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Where the servers are.
package struct RedisPlan: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        case server
        /// Sentinels, and the name of the primary that they watch.
        case sentinel(name: String, login: RedisLogin?)
        case cluster
    }

    package var kind: Kind
    /// One server, or some to begin with.
    package var addresses: [RedisAddress]
    package var login: RedisLogin?

    package init(kind: Kind, addresses: [RedisAddress], login: RedisLogin?) {
        self.kind = kind
        self.addresses = addresses
        self.login = login
    }
}

/// Sends each command to the server that has its key. A class to inherit from; one object for each loop.
class RedisNodes {
    /// Is told when a server begins or ceases to be of use, with a reason without secrets: for the log and the state. Repeated states are not told.
    var whenStateChanges: ((RedisAddress, RedisServerState) -> Void)?
    /// Is told when a server is not asked any more.
    var whenGone: ((RedisAddress) -> Void)?
    /// Is told when the connection to a server has ended: what was known of its contents may be gone.
    var whenConnectionEnds: (() -> Void)?
    /// What was told. Servers may be named by servers, so that their number has a bound: beyond it states may be told again.
    private var told: [RedisAddress: RedisServerState] = [:]
    private static let toldAtMost = 1_024

    /// - Parameter key: decides the server.
    /// - Parameter completion: is called once, never within this call.
    func send(
        _ command: RedisCommand,
        key: [UInt8],
        by deadline: UInt64,
        _ completion: @escaping (RedisResult) -> Void
    ) {
        preconditionFailure("a kind of servers sends its commands")
    }

    /// Dials anew from now on: the security policy or the addresses may have changed.
    func redial(_ dial: @escaping RedisDial) {}

    func close() {}

    /// A server's state may have changed.
    final func noteState(_ state: RedisServerState, of address: RedisAddress) {
        guard told[address] != state else { return }
        if told.count >= Self.toldAtMost { told = [:] }
        told[address] = state
        whenStateChanges?(address, state)
    }

    /// The server is not asked any more: what was told of it does not hold for ever.
    final func noteGone(_ address: RedisAddress) {
        told[address] = nil
        whenGone?(address)
    }

    /// The connection to a server has ended: the next one may reach another server, or one in another role.
    func connectionEnded(to address: RedisAddress) { whenConnectionEnds?() }
}

/// Whether a server is of use.
package enum RedisServerState: Hashable, Sendable {
    case available
    case unavailable(reason: String)
}
