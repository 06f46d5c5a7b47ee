// SPDX-License-Identifier: Apache-2.0
import SessionCore

/// How the relay of two connections goes on: its phases, which side has ended, which one is paused, and how it ends.
///
/// A value: `Relay` calls it for each event, and carries out what it says.
struct RelayFlow {
    enum Phase {
        /// The origin is being dialled; the client's connection is HTTP's.
        case dialling
        /// The client's connection is the relay's; its first bytes are checked.
        case opening
        case relaying
        /// The stream is over; the client still receives the waiting output.
        case finishing
        case closed
    }

    /// The step after the end of the client's input.
    enum InputEnd {
        /// It came before the relaying began.
        case refuse
        /// The origin gets it.
        case passOn
        case ignore
    }

    /// The step after the end of the origin's stream.
    enum StreamEnd {
        /// The client's connection is still HTTP's.
        case giveBack
        /// The client receives what waits, within a time.
        case deliverRest
        case ignore
    }

    /// The step after the client has received all that waited.
    enum Delivered {
        case wait
        /// The origin has ended its half: the client gets that end.
        case shutDown
        case close(End)
    }

    /// The end of a relay.
    struct End {
        /// The client must not take it for a complete one.
        let resets: Bool
        let problem: Problem?
    }

    private(set) var phase = Phase.dialling
    private var clientHasEnded = false
    private var originHasEnded = false
    private var hasSentEnd = false
    /// The origin is paused because the client reads too slowly.
    private var isHeldBack = false
    /// The error that ended the stream.
    private var failure: SessionError?

    /// More waiting bytes than this, in either direction, pause the other side.
    static let highWater = 256 << 10
    static let lowWater = 64 << 10

    // MARK: Phases

    /// The client's connection was taken over: its first bytes are checked, or are relayed at once.
    mutating func takeOver(checksFirstBytes: Bool) { phase = checksFirstBytes ? .opening : .relaying }

    /// The client's first bytes were checked.
    mutating func beginRelaying() { phase = .relaying }

    /// The relay is over, and the client's connection goes on.
    mutating func end() { phase = .closed }

    // MARK: Input of the client

    /// Whether more of the client's input can be used.
    ///
    /// - Parameter pending: bytes that wait for the origin.
    func wantsInput(pending: @autoclosure () -> Int) -> Bool {
        switch phase {
        case .opening: !clientHasEnded
        case .relaying: !clientHasEnded && pending() < Self.highWater
        case .dialling, .finishing, .closed: false
        }
    }

    /// The client has ended its input.
    mutating func inputEnded() -> InputEnd {
        guard !clientHasEnded else { return .ignore }
        clientHasEnded = true
        return switch phase {
        case .opening: .refuse
        case .relaying: .passOn
        case .dialling, .finishing, .closed: .ignore
        }
    }

    // MARK: Output for the client

    /// A piece of the origin was written as far as there was room.
    ///
    /// - Parameter waiting: bytes that the client has no room for.
    mutating func delivered(waiting: Int) -> BodyFlow {
        guard waiting >= Self.highWater else { return .proceed }
        isHeldBack = true
        return .pause
    }

    /// Some of the output was written.
    ///
    /// - Returns: whether a paused origin goes on.
    mutating func resumes(waiting: Int) -> Bool {
        guard isHeldBack, waiting < Self.lowWater else { return false }
        isHeldBack = false
        return true
    }

    /// All of the output was written.
    mutating func allDelivered() -> Delivered {
        if phase == .finishing { return .close(finish(resets: failure != nil, failure.map { Problem($0) })) }
        guard originHasEnded, !hasSentEnd else { return .wait }
        hasSentEnd = true
        return .shutDown
    }

    /// The origin has ended its half of the stream.
    mutating func originEnded() { originHasEnded = true }

    // MARK: The end

    /// The stream is over, in both directions.
    mutating func streamEnded(_ error: SessionError?) -> StreamEnd {
        switch phase {
        case .closed, .finishing: return .ignore
        case .dialling:
            phase = .closed
            return .giveBack
        case .opening, .relaying:
            failure = error
            phase = .finishing
            return .deliverRest
        }
    }

    /// Both sides are closed at once.
    ///
    /// - Parameters:
    ///   - hasOutput: bytes wait for the client.
    ///   - isDraining: the process stops.
    /// - Returns: nil when the relay is over already.
    mutating func close(hasOutput: Bool, isDraining: Bool) -> End? {
        guard phase != .closed else { return nil }
        let resets = hasOutput || !originHasEnded
        if isDraining {
            return finish(resets: resets, Problem(.cancelled, "The connection was ended because pinproxy stops."))
        }
        // Most clients close like this: they do not wait for the origin to close when they have sent everything, or received everything.
        if clientHasEnded || !resets { return finish(resets: resets, nil) }
        return finish(resets: resets, Problem(.clientClosed, "The client broke off the connection."))
    }

    private mutating func finish(resets: Bool, _ problem: Problem?) -> End {
        phase = .closed
        return End(resets: resets, problem: problem)
    }
}
