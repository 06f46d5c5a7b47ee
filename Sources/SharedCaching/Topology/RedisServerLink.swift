// SPDX-License-Identifier: Apache-2.0
import IOCore

/// One server: its connection, made anew when a command needs one, and its health.
final class RedisServerLink {
    let address: RedisAddress
    private let login: RedisLogin?
    private let loop: EventLoop
    private let dial: RedisDial
    private weak var owner: RedisNodes?
    private var connection: RedisConnection?
    /// Whether the server has replied on this connection, and whether commands on it were lost.
    private var hasReplied = false
    private var hasLost = false
    private var health = ServerHealth()
    private var told: RedisServerState?
    private var isClosed = false
    private var underWay = 0
    private(set) var lastUsed: UInt64 = 0

    init(_ address: RedisAddress, login: RedisLogin?, owner: RedisNodes, loop: EventLoop, dial: @escaping RedisDial) {
        self.address = address
        self.login = login
        self.owner = owner
        self.loop = loop
        self.dial = dial
    }

    var isIdle: Bool { underWay == 0 }

    /// Sends a command, unless the server is not to be asked now.
    ///
    /// - Parameters:
    ///   - preface: a command that goes directly before it, whose reply does not matter.
    ///   - completion: is called once, never within this call, and not when nothing was sent.
    /// - Returns: whether it was sent.
    func take(
        _ command: RedisCommand,
        after preface: RedisCommand? = nil,
        expecting expectation: ServerOutcome.Expectation = .anything,
        by deadline: UInt64,
        _ completion: @escaping (RedisResult) -> Void
    ) -> Bool {
        let now = loop.now
        // A connection that takes nothing any more tells its end soon, and the owner has to hear of it before the next dial.
        guard !isClosed, connection?.isOpen ?? health.mayDial(now: now), health.mayAsk(now: now) else { return false }
        let connection = self.connection ?? connect(now)
        lastUsed = now
        underWay += 1
        if let preface { connection.send(preface, by: deadline) { _ in } }
        connection.send(command, by: deadline) { [self] result in
            underWay -= 1
            let outcome = ServerOutcome(result, expectation, from: address)
            if !isClosed {
                health.note(outcome.verdict, command.words[0], now: loop.now)
                if connection === self.connection {
                    hasReplied = hasReplied || outcome.verdict.isReply
                    hasLost = hasLost || outcome.verdict == .lost
                }
                tellState()
            }
            completion(outcome.result)
        }
        return true
    }

    /// Ends the connection; what is under way fails. It takes nothing any more.
    func close() {
        isClosed = true
        guard let connection else { return }
        self.connection = nil
        connection.close()
        owner?.connectionEnded(to: address)
    }

    private func connect(_ now: UInt64) -> RedisConnection {
        health.noteDial(now: now)
        let connection = RedisConnection(address, login: login, loop: loop, dial: dial) { [weak self] ended, failure in
            self?.connectionEnded(ended, failure)
        }
        self.connection = connection
        (hasReplied, hasLost) = (false, false)
        return connection
    }

    private func connectionEnded(_ ended: RedisConnection, _ failure: RedisFailure) {
        guard ended === connection else { return }
        connection = nil
        health.noteEnd(failure, hasReplied: hasReplied, hasLost: hasLost, now: loop.now)
        tellState()
        owner?.connectionEnded(to: address)
    }

    private func tellState() {
        guard let state = health.state, state != told else { return }
        told = state
        owner?.noteState(state, of: address)
    }
}
