// SPDX-License-Identifier: Apache-2.0
/// The course of one request to its origin, as a value: what it waits for, which connection it has, and what it gives back.
///
/// `OriginRequest` reports what happens, and carries out what the value says. Which connection a request gets is not decided here.
struct RequestCourse<Request: PoolRequest, Dial: AnyObject, Stream: AnyObject> {
    typealias Connection = Request.Connection
    typealias SharedConnection = Request.SharedConnection
    typealias SharedDial = Request.SharedDial

    enum Phase {
        /// No task.
        case idle
        /// The request enters the pool at the end of the turn.
        case entering
        /// The host has as many connections as it may have: the request waits for a place, or for a stream.
        case queued
        /// The request waits for a dial, with others.
        case awaiting(SharedDial)
        /// The request has a place in the host's pool, and no connection at the moment.
        case placed
        case connecting(Dial)
        /// A connection is there; the request goes out at the end of the turn.
        case ready(Connection)
        case exchanging(Connection)
        /// An HTTP/2 connection is chosen; the request goes out at the end of the turn. The place belongs to the connection, not
        /// to the request.
        case promised(SharedConnection)
        case sharing(Stream)
        /// The task's taker has the connection.
        case streaming
    }

    /// The wait that a step ends.
    enum Wait {
        case none
        /// The wait for a place, or for a stream, is over: the request's time begins.
        case queue
        /// The wait for a dial, whose times are the request's, is over.
        case dial(SharedDial)
    }

    /// What the request does at the end of the turn.
    enum Beginning {
        case nothing
        case enterPool
        case send(on: Connection)
        /// A promise of the connection is redeemed, or withdrawn.
        case share(SharedConnection)
    }

    /// What becomes of a request whose session is being replaced.
    enum HandBack {
        /// The request continues: a part of it was sent, or its connection belongs to a taker.
        case goOn
        /// The request is given back: no part of it was sent.
        case give
        /// The request is given back if the stream has not sent its head.
        case takeBack(Stream)
    }

    /// What a request gives back at its end.
    enum Departure {
        case nothing
        case leaveQueue
        case leaveDial(SharedDial)
        /// The place in the host's pool.
        case leave
        /// The place in the host's pool, and the dial is cancelled.
        case cancel(Dial)
        /// The place, with a connection that may carry another request.
        case give(Connection)
        case withdrawPromise(SharedConnection)
        case endStream(Stream)
    }

    private(set) var phase = Phase.idle

    // MARK: To a connection

    /// The pool has no place and no stream for the request now.
    mutating func queue() { phase = .queued }

    /// The request enters the pool, again.
    mutating func enterAgain() { phase = .entering }

    mutating func await(_ dial: SharedDial) -> Wait { leaveWait(for: .awaiting(dial)) }

    /// Whether the request still waits for that dial.
    func isAwaiting(_ dial: SharedDial) -> Bool {
        if case .awaiting(let awaited) = phase { awaited === dial } else { false }
    }

    /// The pool has a place: a connection is made.
    mutating func take() -> Wait { leaveWait(for: .placed) }

    mutating func dial(_ dial: Dial) { phase = .connecting(dial) }

    /// The dial has failed. The place is still there.
    mutating func dialDidFail() { phase = .placed }

    /// The connection is for the task's taker.
    mutating func stream() { phase = .streaming }

    mutating func use(_ connection: Connection) -> Wait { leaveWait(for: .ready(connection)) }

    mutating func share(_ connection: SharedConnection) -> Wait { leaveWait(for: .promised(connection)) }

    @inline(__always)
    private mutating func leaveWait(for next: Phase) -> Wait {
        defer { phase = next }
        return switch phase {
        case .queued: .queue
        case .awaiting(let dial): .dial(dial)
        default: .none
        }
    }

    // MARK: On a connection

    var beginning: Beginning {
        switch phase {
        case .entering: .enterPool
        case .ready(let connection): .send(on: connection)
        case .promised(let connection): .share(connection)
        case .idle, .queued, .awaiting, .placed, .connecting, .exchanging, .sharing, .streaming: .nothing
        }
    }

    mutating func begin(on connection: Connection) { phase = .exchanging(connection) }

    mutating func begin(on stream: Stream) { phase = .sharing(stream) }

    /// Whether the request is on a connection for it alone.
    var isExchanging: Bool {
        if case .exchanging = phase { true } else { false }
    }

    /// Whether the request has a stream of a connection that carries others, too.
    var isSharing: Bool {
        if case .sharing = phase { true } else { false }
    }

    /// The connection on which the request goes out.
    var connection: Connection? {
        if case .exchanging(let connection) = phase { connection } else { nil }
    }

    /// The stream on which it does.
    var sharedStream: Stream? {
        if case .sharing(let stream) = phase { stream } else { nil }
    }

    var handBack: HandBack {
        switch phase {
        case .idle, .exchanging, .streaming: .goOn
        case .entering, .queued, .awaiting, .placed, .connecting, .ready, .promised: .give
        case .sharing(let stream): .takeBack(stream)
        }
    }

    // MARK: The end

    /// The request needs another connection in its place.
    ///
    /// - Returns: the one that it had; nil if it had none for itself.
    mutating func dropConnection() -> Connection? {
        defer { phase = .placed }
        return switch phase {
        case .ready(let connection), .exchanging(let connection): connection
        case .idle, .entering, .queued, .awaiting, .placed, .connecting, .promised, .sharing, .streaming: nil
        }
    }

    @inline(__always)
    mutating func end() -> Departure {
        var ended = Phase.idle
        swap(&ended, &phase)
        return switch consume ended {
        case .idle, .entering: .nothing
        case .queued: .leaveQueue
        case .awaiting(let dial): .leaveDial(dial)
        case .placed, .streaming: .leave
        case .connecting(let dial): .cancel(dial)
        case .ready(let connection), .exchanging(let connection): .give(connection)
        case .promised(let connection): .withdrawPromise(connection)
        case .sharing(let stream): .endStream(stream)
        }
    }
}
