// SPDX-License-Identifier: Apache-2.0
import IOCore
import SessionCore

/// A connection to one server. It dials with its first command, and does not dial again: its owner makes another one.
/// Commands before the login is accepted wait. Replies come in order; a command whose time is over fails at once, and its late reply is skipped.
///
/// `RedisPipeline` has the commands, and decides about their times; this class carries it out. It and its stream retain each other
/// until it ends.
final class RedisConnection: LoopStreamTaskDelegate {
    let address: RedisAddress
    /// Whether it takes commands.
    var isOpen: Bool { phase != .ended }

    private enum Phase { case new, dialling, loggingIn, ready, ended }

    private let loop: EventLoop
    private let login: RedisLogin?
    private let dial: RedisDial
    private var whenEnded: ((RedisConnection, RedisFailure) -> Void)?
    private var phase = Phase.new
    private var stream: LoopStreamTask?
    private let reader = RedisReader()
    private var pipeline = RedisPipeline()
    private var isWritePlanned = false
    /// For the earliest deadline; not armed when there is no command.
    private let timer = LoopTimer()
    /// When the login has failed, if nothing is said about it.
    private var loginDeadline = UInt64.max

    /// - Parameter whenEnded: is called once, when it takes no more commands, after their completions.
    init(
        _ address: RedisAddress,
        login: RedisLogin?,
        loop: EventLoop,
        dial: @escaping RedisDial,
        whenEnded: @escaping (RedisConnection, RedisFailure) -> Void
    ) {
        self.address = address
        self.login = login
        self.loop = loop
        self.dial = dial
        self.whenEnded = whenEnded
        super.init()
        timer.whenDue { [weak self] in self?.timeIsUp() }
    }

    /// - Parameter deadline: in nanoseconds of the loop's clock.
    /// - Parameter completion: is called once, never within this call.
    func send(_ command: RedisCommand, by deadline: UInt64, _ completion: @escaping (RedisResult) -> Void) {
        guard isOpen else { return loop.atEndOfTurn { completion(.failure(.closed)) } }
        guard deadline > loop.now else { return loop.atEndOfTurn { completion(.failure(.timeout)) } }
        guard pipeline.add(command, by: deadline, unsentBytes: stream?.pendingBytes ?? 0, completion) else {
            return loop.atEndOfTurn { completion(.failure(.busy)) }
        }
        if deadline < timer.deadline { loop.arm(timer, at: deadline) }
        switch phase {
        case .new: begin()
        case .ready: writeLater()
        case .dialling, .loggingIn, .ended: break
        }
    }

    func close() { end(.closed) }

    private func begin() {
        phase = .dialling
        guard let stream = dial(address, self) else {
            return end(.connection("The rules do not let this server be reached."))
        }
        self.stream = stream
        stream.resume()
    }

    // MARK: Writing

    /// At the end of the turn, so that the commands of a turn go together.
    private func writeLater() {
        guard !isWritePlanned else { return }
        isWritePlanned = true
        loop.atEndOfTurn { [self] in
            isWritePlanned = false
            write()
        }
    }

    private func write() {
        guard phase == .ready, pipeline.hasWaiting else { return }
        var bytes = ByteBuffer()
        pipeline.write(to: &bytes, at: loop.now)
        stream?.send(bytes.bytes)
    }

    override func streamTaskDidConnect(_ task: LoopStreamTask) {
        guard phase == .dialling else { return }
        guard let login else {
            phase = .ready
            return write()
        }
        phase = .loggingIn
        loginDeadline = loop.now &+ RedisPipeline.longestSilence
        if loginDeadline < timer.deadline { loop.arm(timer, at: loginDeadline) }
        let command =
            login.user.map { RedisCommand("AUTH", $0, login.password) } ?? RedisCommand("AUTH", login.password)
        task.send(command.encoded().span)
    }

    // MARK: Replies

    override func streamTask(_ task: LoopStreamTask, didReceive bytes: borrowing Span<UInt8>) -> BodyFlow {
        guard isOpen else { return .proceed }
        do throws(RedisFailure) {
            try receive(bytes)
        } catch {
            end(error)
        }
        if isOpen, phase == .ready, pipeline.isEmpty { loop.disarm(timer) }
        return .proceed
    }

    private func receive(_ bytes: borrowing Span<UInt8>) throws(RedisFailure) {
        var position = 0
        // A completion may close the connection.
        while isOpen {
            guard phase == .loggingIn || pipeline.expectsReply else {
                guard position == bytes.count, reader.isAtRest else {
                    throw .malformed("a reply that nobody asked for")
                }
                return
            }
            guard let reply = try reader.next(bytes, from: &position) else { return }
            // Bytes alone do not count: a reply could come a byte a second, and hold what came before.
            pipeline.noteReceipt(at: loop.now)
            if phase == .loggingIn { try didLogIn(reply) } else { pipeline.takeReplied()?(.success(reply)) }
        }
    }

    private func didLogIn(_ reply: RedisReply) throws(RedisFailure) {
        if let word = reply.errorWord { throw .refused(word) }
        guard reply == .status(Array("OK".utf8)) else { throw .malformed("a reply to AUTH that is not OK") }
        phase = .ready
        loginDeadline = .max
        // Not before the bytes behind this reply have been looked at, for which nobody has asked.
        writeLater()
    }

    override func streamTaskReadClosed(_ task: LoopStreamTask) {
        end(.connection("The server has ended the connection."))
    }

    override func streamTaskDidComplete(_ task: LoopStreamTask, error: SessionError?) {
        switch error?.code {
        case nil: end(.connection("The server has ended the connection."))
        case .cancelled, .sessionInvalidated: end(.closed)
        default: end(.connection(error?.details ?? ""))
        }
    }

    // MARK: Time

    private func timeIsUp() {
        guard isOpen else { return }
        let late = pipeline.takeLate(at: loop.now)
        if pipeline.isLost(at: loop.now) || loginDeadline <= loop.now { end(.timeout) }
        for completion in late { completion(.failure(.timeout)) }
        // A completion may have sent or closed.
        guard isOpen else { return }
        let next = min(pipeline.nextDeadline ?? .max, loginDeadline)
        if next < timer.deadline { loop.arm(timer, at: next) }
    }

    // MARK: The end

    /// Takes no more commands. Nobody is told within this call, which may be a call of `send`.
    private func end(_ failure: RedisFailure) {
        guard isOpen else { return }
        phase = .ended
        loop.remove(timer)
        let completions = pipeline.takeAll()
        let whenEnded = whenEnded.take()
        loop.atEndOfTurn { [self] in
            for completion in completions { completion(.failure(failure)) }
            whenEnded?(self, failure)
        }
        stream.take()?.cancel()
    }
}
