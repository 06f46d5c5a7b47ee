// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// The events of a server over one connection after the other (HTML Living Standard, section 9.2).
///
/// A connection that ends, or cannot be made, is made again after a while, with `Last-Event-ID`. The sequence ends with a
/// 204, and throws for any other status than 200 and another content type than `text/event-stream`, for a server that the
/// policy refuses, and for a request that cannot be sent. It ends when the Swift task that reads is cancelled.
public struct ServerSentEvents: AsyncSequence, Sendable {
    /// When a connection is made again.
    public struct Reconnection: Sendable, Hashable {
        /// The time before a new connection, until the server names another one (`retry:`).
        public var delay: Duration
        /// The longest time before a new connection: the time doubles with each failure, and it bounds the server's.
        public var maximumDelay: Duration
        /// Failures in a row without an event after which the sequence throws the last one; nil for no limit. An end of the
        /// body is one.
        public var maximumFailures: Int?

        /// By default after three seconds, at most a minute, and without end.
        public init(
            delay: Duration = .seconds(3),
            maximumDelay: Duration = .seconds(60),
            maximumFailures: Int? = nil
        ) {
            self.delay = delay
            self.maximumDelay = maximumDelay
            self.maximumFailures = maximumFailures
        }

        /// One connection: its end is that of the sequence.
        public static let none = Reconnection(maximumFailures: 0)

        /// - Parameters:
        ///   - failures: in a row, at least 1.
        ///   - wanted: the server's time.
        func delay(after failures: Int, wanted: Duration?) -> Duration {
            var delay = wanted ?? delay
            for _ in 1..<Swift.max(failures, 1) where delay < maximumDelay { delay *= 2 }
            return Swift.min(delay, maximumDelay)
        }
    }

    /// The events of one response are read only with this.
    static let validation: ResponseValidation = {
        var validation = ResponseValidation(
            acceptableStatusCodes: [200],
            acceptableContentTypes: ["text/event-stream"]
        )
        validation.emptyResponseCodes = []
        return validation
    }()

    let lastEventID: String?
    let reconnection: Reconnection
    let connect: @Sendable (_ lastEventID: String?) async throws(RequestFailure) -> ResponseStream

    init(
        lastEventID: String?,
        reconnection: Reconnection,
        connect: @escaping @Sendable (_ lastEventID: String?) async throws(RequestFailure) -> ResponseStream
    ) {
        self.lastEventID = lastEventID
        self.reconnection = reconnection
        self.connect = connect
    }

    /// Connections of its own.
    public func makeAsyncIterator() -> Iterator { Iterator(self) }

    /// The place in the events.
    public struct Iterator: AsyncIteratorProtocol {
        private let source: ServerSentEvents
        private var events: ResponseStream.Events.Iterator?
        private var failures = 0
        /// The time between connections that the server has set (`retry`), also between two events and behind the last one; nil
        /// when it has set none.
        public private(set) var retry: Duration?
        private var isOver = false
        /// The identifier that the next connection sends.
        public private(set) var lastEventID: String?

        init(_ source: ServerSentEvents) {
            self.source = source
            lastEventID = source.lastEventID
        }

        /// The next event.
        public mutating func next() async throws(RequestFailure) -> ServerSentEvent? { try await next(isolation: nil) }

        /// The next event.
        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(RequestFailure) -> ServerSentEvent? {
            while !isOver {
                do throws(RequestFailure) {
                    if events == nil { events = try await source.connect(lastEventID).events.makeAsyncIterator() }
                    let event = try await events?.next(isolation: actor)
                    note()
                    if let event {
                        failures = 0
                        return event
                    }
                    try await waitToReconnect(after: nil, isolation: actor)
                } catch {
                    note()
                    if error.response?.response.status == 204 {
                        isOver = true
                    } else {
                        try await waitToReconnect(after: error, isolation: actor)
                    }
                }
            }
            return nil
        }

        /// Keeps what the stream has set, whether or not an event was complete.
        private mutating func note() {
            lastEventID = events?.lastEventID ?? lastEventID
            retry = events?.retry ?? retry
        }

        private mutating func waitToReconnect(
            after failure: RequestFailure?,
            isolation actor: isolated (any Actor)?
        ) async throws(RequestFailure) {
            events = nil
            failures += 1
            let isLast = source.reconnection.maximumFailures.map { failures > $0 } ?? false
            if let failure, isLast || !failure.mayReconnect {
                isOver = true
                throw failure
            }
            guard !isLast else {
                isOver = true
                return
            }
            do {
                try await Task.sleep(for: source.reconnection.delay(after: failures, wanted: retry))
            } catch {
                isOver = true
                throw .session(.taskCancelled)
            }
        }
    }
}

extension RequestFailure {
    /// Whether another connection may be better.
    fileprivate var mayReconnect: Bool {
        guard case .session(let error) = self else { return false }
        return error.code.mayBeRetried && error.code != .requestInvalid
    }
}
