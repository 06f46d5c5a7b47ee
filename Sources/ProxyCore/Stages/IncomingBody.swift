// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// The body of a client's request as it is received: its end, and its limit.
///
/// A value: bytes go in, events come out.
struct IncomingBody {
    private enum State {
        case complete
        case length(remaining: Int)
        case chunked
        /// Ends with the HTTP/2 stream.
        case untilEnd
        case failed
    }

    enum Step {
        /// The range of the given bytes that belongs to the body.
        case data(Range<Int>, consumed: Int)
        case needMore(consumed: Int)
        case end(consumed: Int)
        case failed(Problem)
    }

    /// The trailers of a chunked body that may be forwarded; complete when the body is.
    private(set) var trailers = HeaderFields()

    private var state = State.complete
    private var chunks = ChunkedDecoder()
    private var received = 0
    private var limit = Int.max

    var isComplete: Bool {
        if case .complete = state { return true }
        return false
    }

    /// Begins a body.
    ///
    /// - Returns: a problem when the body is known to be too large.
    mutating func begin(_ framing: BodyFraming, limit: Int?) -> Problem? {
        received = 0
        if trailers.count > 0 { trailers = HeaderFields() }
        self.limit = limit ?? Int.max
        switch framing {
        case .none, .length(0):
            state = .complete
        case .untilClose:
            state = .untilEnd
        case .length(let count):
            state = .length(remaining: count)
            if count > self.limit { return tooLarge }
        case .chunked:
            state = .chunked
            chunks = ChunkedDecoder()
        }
        return nil
    }

    /// Applies another limit to the rest of the body.
    ///
    /// - Returns: a problem when the body is known to be too large.
    mutating func hold(to limit: Int?, _ framing: BodyFraming) -> Problem? {
        self.limit = limit ?? Int.max
        if case .length(let count) = framing, count > self.limit { return tooLarge }
        return received > self.limit ? tooLarge : nil
    }

    private var tooLarge: Problem {
        Problem(
            .requestTooLarge,
            "The request body is larger than limits.requestBodyBytes (\(limit) bytes). Send less, or raise the limit."
        )
    }

    /// The HTTP/2 stream of the request has ended, and with it a body of unknown length.
    mutating func streamEnded() {
        if case .untilEnd = state { state = .complete }
    }

    mutating func next(_ bytes: borrowing Span<UInt8>) -> Step {
        switch state {
        case .complete, .failed:
            return .needMore(consumed: 0)
        case .length(let remaining):
            let count = min(remaining, bytes.count)
            state = count == remaining ? .complete : .length(remaining: remaining - count)
            return .data(0..<count, consumed: count)
        case .untilEnd:
            received += bytes.count
            if received > limit {
                state = .failed
                return .failed(tooLarge)
            }
            return .data(0..<bytes.count, consumed: bytes.count)
        case .chunked:
            switch chunks.next(bytes) {
            case .data(let range, let consumed):
                received += range.count
                if received > limit {
                    state = .failed
                    return .failed(tooLarge)
                }
                return .data(range, consumed: consumed)
            case .needMore(let consumed):
                return .needMore(consumed: consumed)
            case .end(let consumed):
                state = .complete
                if chunks.trailers.count > 0 { trailers = chunks.trailers }
                return .end(consumed: consumed)
            case .failed(let fault):
                state = .failed
                return .failed(
                    Problem(.requestInvalid, status: fault.status, "\(fault.message) (rule \(fault.rule))")
                )
            }
        }
    }
}
