import HTTPCore
import IOCore
import SessionCore

/// Decodes a response's content before another sink gets it. Belongs to the loop.
final class DecodingSink: BodySink {
    private let inner: BodySink
    private let inflater: Inflater
    private var piece = ByteBuffer()

    /// nil when memory is short.
    init?(_ inner: BodySink, _ coding: ContentCoding) {
        guard let inflater = Inflater(coding) else { return nil }
        self.inner = inner
        self.inflater = inflater
    }

    override func receive(_ head: ResponseHead, expected: Int?) -> Reception { inner.receive(head, expected: expected) }

    /// One piece of input is decoded and passed on completely, also when the inner sink would pause: at most a thousand
    /// times its length, which is the highest ratio of the coding.
    override func append(_ bytes: borrowing Span<UInt8>) -> AppendResult {
        var position = 0
        var pauses = false
        while true {
            piece.removeAll()
            let step = inflater.next(bytes, &position, into: &piece)
            if case .failed(let why) = step { return .failed(SessionError(.responseInvalid, why)) }
            if !piece.isEmpty {
                switch inner.append(piece.bytes) {
                case .more: break
                case .pause: pauses = true
                case .failed(let error): return .failed(error)
                }
            }
            if step == .needsInput { return pauses ? .pause : .more }
        }
    }

    override func didReceiveTrailers(_ trailers: HeaderFields) { inner.didReceiveTrailers(trailers) }

    override func finish(_ error: SessionError?, then done: @escaping @Sendable (SessionError?) -> Void) {
        piece.release()
        var error = error
        if error == nil, !inflater.mayEnd {
            error = SessionError(.responseTruncated, "The body ends before its content coding does.")
        }
        inner.finish(error, then: done)
    }
}
