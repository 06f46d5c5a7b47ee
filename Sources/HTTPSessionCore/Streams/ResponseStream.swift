// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

/// A response whose body is read while it arrives, once and by one consumer.
///
/// ```swift
/// let stream = try await manager.stream(.get, "log", parameters: ["follow": true])
/// for try await line in stream.lines { print(line) }
/// ```
///
/// The origin waits while the consumer is slow: at most a quarter of a megabyte is in memory, and only the limit `total`
/// of the timeouts counts meanwhile. The request is cancelled when the Swift task that reads is cancelled, when a loop
/// over it ends early, and when the stream is released before its end.
public final class ResponseStream: Sendable {
    /// Status, fields and URL.
    public let response: ReceivedResponse
    private let task: DataTask
    private let stream: ByteStream

    /// The one that the manager was given; nil for none.
    package let decoder: (any DataDecoder)?

    init(_ response: ReceivedResponse, _ task: DataTask, _ stream: ByteStream, _ decoder: (any DataDecoder)?) {
        self.response = response
        self.task = task
        self.stream = stream
        self.decoder = decoder
    }

    deinit { task.cancel() }

    /// Ends the transfer; reading throws `cancelled`.
    public func cancel() { task.cancel() }

    /// The metrics of the task; nil before its end.
    public var metrics: TaskMetrics? { task.delegate.metrics }
    /// The trailer section, when the body has been read to its end.
    public var trailers: HeaderFields { task.dataDelegate.trailers }

    // MARK: Sequences

    /// The body in pieces of any length, as they arrive.
    public var chunks: Chunks { Chunks(stream: self) }
    /// The body byte for byte.
    public var bytes: Bytes { Bytes(stream: self) }
    /// The body's lines without their ends (LF, CR LF or CR); the last one may have no end. An invalid UTF-8 sequence ends
    /// the sequence with `stringDecodingFailed`, and a line longer than `maximumBodySize` with `responseTooLarge`.
    public var lines: Lines { Lines(stream: self) }

    /// The events of `text/event-stream`, without reconnection; see `HTTPSessionManager.events`.
    public var events: Events { Events(stream: self) }

    // MARK: Reading

    /// Ends the transfer when the consumer is gone: a sequence can be read only once, so no other consumer will read it.
    final class Reader: Sendable {
        let stream: ResponseStream
        private let isFirst: Bool
        let lineLimit: Int

        init(_ stream: ResponseStream) {
            self.stream = stream
            isFirst = stream.stream.claim()
            lineLimit = stream.task.session.configuration.maximumBodySize
        }

        deinit { if isFirst { stream.cancel() } }

        func next() async throws(RequestFailure) -> [UInt8]? {
            guard isFirst else {
                throw .session(SessionError(.requestInvalid, "The body of a response can be read once."))
            }
            let result = await withTaskCancellationHandler {
                () async -> Result<[UInt8]?, SessionError> in
                if Task.isCancelled { return .failure(.taskCancelled) }
                do throws(SessionError) { return .success(try await stream.stream.next()) } catch {
                    return .failure(error)
                }
            } onCancel: {
                stream.cancel()
            }
            switch result {
            case .success(let piece): return piece
            case .failure(let error): throw .session(error)
            }
        }

        func failure(_ reason: ResponseSerializationError.Reason) -> RequestFailure {
            let response = DataResponse(response: stream.response.head, url: stream.response.url)
            return .serialization(ResponseSerializationError(reason, response: response))
        }
    }

    /// The pieces of a body.
    public struct Chunks: AsyncSequence, Sendable {
        let stream: ResponseStream

        /// Reads the body; the second iterator throws.
        public func makeAsyncIterator() -> Iterator { Iterator(reader: Reader(stream)) }

        /// The place in the body.
        public struct Iterator: AsyncIteratorProtocol {
            fileprivate let reader: Reader

            /// The next piece, of at least one byte.
            public mutating func next() async throws(RequestFailure) -> [UInt8]? { try await reader.next() }

            /// The next piece, of at least one byte.
            public mutating func next(isolation actor: isolated (any Actor)?) async throws(RequestFailure) -> [UInt8]? {
                try await reader.next()
            }
        }
    }

    /// The bytes of a body.
    public struct Bytes: AsyncSequence, Sendable {
        let stream: ResponseStream

        /// Reads the body; the second iterator throws.
        public func makeAsyncIterator() -> Iterator { Iterator(reader: Reader(stream)) }

        /// The place in the body.
        public struct Iterator: AsyncIteratorProtocol {
            fileprivate let reader: Reader
            private var piece: [UInt8] = []
            private var index = 0

            fileprivate init(reader: Reader) { self.reader = reader }

            /// The next byte.
            public mutating func next() async throws(RequestFailure) -> UInt8? { try await next(isolation: nil) }

            /// The next byte.
            public mutating func next(isolation actor: isolated (any Actor)?) async throws(RequestFailure) -> UInt8? {
                if index == piece.count {
                    guard let next = try await reader.next() else { return nil }
                    piece = next
                    index = 0
                }
                defer { index += 1 }
                return piece[index]
            }
        }
    }

    /// The lines of a body.
    public struct Lines: AsyncSequence, Sendable {
        let stream: ResponseStream

        /// Reads the body; the second iterator throws.
        public func makeAsyncIterator() -> Iterator { Iterator(LineReader(stream)) }

        /// The place in the body.
        public struct Iterator: AsyncIteratorProtocol {
            private var lines: LineReader

            fileprivate init(_ lines: LineReader) { self.lines = lines }

            /// The next line.
            public mutating func next() async throws(RequestFailure) -> String? { try await next(isolation: nil) }

            /// The next line.
            public mutating func next(isolation actor: isolated (any Actor)?) async throws(RequestFailure) -> String? {
                guard let line = try await lines.next(isolation: actor) else { return nil }
                guard let text = String(validating: line, as: UTF8.self) else {
                    throw lines.failure(.stringDecodingFailed(charset: "utf-8"))
                }
                return text
            }
        }
    }

    /// The events of a body of `text/event-stream`.
    public struct Events: AsyncSequence, Sendable {
        let stream: ResponseStream

        /// Reads the body; the second iterator throws.
        public func makeAsyncIterator() -> Iterator { Iterator(LineReader(stream)) }

        /// The place in the body.
        public struct Iterator: AsyncIteratorProtocol {
            private var lines: LineReader
            private var parser = ServerSentEventParser()

            fileprivate init(_ lines: LineReader) { self.lines = lines }

            /// The last event ID that the stream has set; nil before the first one.
            public var lastEventID: String? { parser.lastEventID }
            /// The time that the server wants between connections (`retry`); nil when it has set none.
            public var retry: Duration? { parser.retry }

            /// The next event. One that the body's end cuts off is dropped.
            public mutating func next() async throws(RequestFailure) -> ServerSentEvent? {
                try await next(isolation: nil)
            }

            /// The next event. One that the body's end cuts off is dropped.
            public mutating func next(
                isolation actor: isolated (any Actor)?
            ) async throws(RequestFailure) -> ServerSentEvent? {
                while let line = try await lines.next(isolation: actor) {
                    guard let event = parser.didReceiveLine(line) else { continue }
                    if event.data.utf8.count > lines.reader.lineLimit { throw lines.tooLong }
                    return event
                }
                return nil
            }
        }
    }

    /// Lines as bytes.
    package struct LineReader {
        let reader: Reader
        private var splitter = LineSplitter()
        private var isOver = false

        package init(_ stream: ResponseStream) { reader = Reader(stream) }

        package mutating func next(isolation actor: isolated (any Actor)?) async throws(RequestFailure) -> [UInt8]? {
            while true {
                if let line = splitter.next() { return line }
                if isOver { return splitter.rest() }
                guard splitter.pendingCount <= reader.lineLimit else { throw tooLong }
                if let piece = try await reader.next() { splitter.append(piece) } else { isOver = true }
            }
        }

        package func failure(_ reason: ResponseSerializationError.Reason) -> RequestFailure { reader.failure(reason) }

        var tooLong: RequestFailure {
            .session(
                SessionError(.responseTooLarge, "A line is longer than maximumBodySize (\(reader.lineLimit) bytes).")
            )
        }
    }
}
