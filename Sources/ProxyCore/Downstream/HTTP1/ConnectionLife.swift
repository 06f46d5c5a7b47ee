// SPDX-License-Identifier: Apache-2.0
/// The life of a client's HTTP/1.1 connection: one request after the other, its idle time, and its end.
///
/// A value: `ClientConnection` calls it for each event, and carries out what it says.
struct ConnectionLife {
    enum Phase {
        /// Between requests, or inside a head.
        case head
        /// A request body is being received, or a response is being sent.
        case exchange
        /// Everything has been written. Input is read and dropped, because a reset would make the client lose the
        /// response.
        case lingering
        case closed
    }

    /// The step after a response.
    enum Sequel {
        /// The next request.
        case next
        /// The rest of the output, then the connection's end.
        case linger
        /// The end at once: the client must notice that the response is incomplete.
        case close
    }

    /// The step after the end of the client's input.
    enum InputEnd {
        case close
        /// The request gets a response, unless its body has no end.
        case endBody
        case ignore
    }

    /// The step when the time is up.
    enum Timeout {
        case refuseHead
        /// Nothing has come for long.
        case idle
        case checkBody
        case close
        case ignore
    }

    /// The step when nothing has come for long, and nothing waits to be read.
    enum Idleness {
        /// A head has begun.
        case awaitHead
        /// The process stops, and the client still reads its last response.
        case linger
        case close
        /// A request has come after all.
        case goOn
    }

    private(set) var phase = Phase.head
    /// Bytes that were dropped while the connection ends.
    private var dropped = 0
    /// Bytes of output written since the timer was set.
    private var written = 0

    private static let mostDropped = 1 << 20
    /// A client that reads less than this within its time is idle.
    private static let leastProgress = 1 << 10

    /// A head is complete, or refused: its exchange responds.
    mutating func beginExchange() { phase = .exchange }

    /// An exchange is over.
    ///
    /// - Parameters:
    ///   - persists: the connection can be used for another request.
    ///   - isWhole: the response is complete.
    mutating func exchangeEnded(persists: Bool, isWhole: Bool) -> Sequel {
        guard isWhole else { return .close }
        phase = persists ? .head : .lingering
        return persists ? .next : .linger
    }

    /// The connection is closed, or belongs to another user.
    ///
    /// - Returns: false when that was so already.
    mutating func close() -> Bool {
        defer { phase = .closed }
        return phase != .closed
    }

    /// Input has come to a connection that ends.
    ///
    /// - Returns: whether the client sends too much of it.
    mutating func drop(_ count: Int) -> Bool {
        dropped += count
        return dropped > Self.mostDropped
    }

    /// The client has ended its input.
    func inputEnded() -> InputEnd {
        switch phase {
        // A connection that ends before or inside a head gets no response.
        case .head, .lingering: .close
        case .exchange: .endBody
        case .closed: .ignore
        }
    }

    /// A part of the output was written. A client that reads slowly is not idle, unless it reads hardly anything.
    ///
    /// - Parameters:
    ///   - isAll: nothing is left.
    ///   - hasExchange: a request is under way, which has times of its own.
    /// - Returns: whether its idle time begins again.
    mutating func wrote(_ count: Int, isAll: Bool, hasExchange: Bool) -> Bool {
        written += count
        guard !hasExchange, isAll || written >= Self.leastProgress else { return false }
        written = 0
        return true
    }

    // MARK: Time

    /// The time is up.
    mutating func timeIsUp(isInsideHead: Bool) -> Timeout {
        switch phase {
        case .head where isInsideHead:
            phase = .exchange
            return .refuseHead
        case .head: return .idle
        case .exchange: return .checkBody
        case .lingering: return .close
        case .closed: return .ignore
        }
    }

    /// Nothing has come for long, and nothing waits to be read.
    ///
    /// - Parameters:
    ///   - isDraining: the process stops.
    ///   - hasOutput: output waits for the client.
    mutating func idle(isInsideHead: Bool, isDraining: Bool, hasOutput: Bool) -> Idleness {
        guard phase == .head else { return .goOn }
        if isInsideHead { return .awaitHead }
        guard isDraining, hasOutput else { return .close }
        phase = .lingering
        return .linger
    }
}
