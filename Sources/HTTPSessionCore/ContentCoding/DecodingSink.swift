// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// Decodes a response's content before another sink gets it. Belongs to the loop.
final class DecodingSink: BodySink {
    private let inner: BodySink
    private let decoder: any BodyDecoding
    private var piece = ByteBuffer()
    /// What one piece of the body has become, with two codings, or one without a highest ratio.
    private let expansion: Expansion?
    /// Whether it gets pieces of the body itself.
    private var isOuter = false

    private final class Expansion {
        var byteCount = 0
        /// What one piece may become with gzip or deflate alone. With two codings, and with brotli and zstd, a turn of the loop could
        /// take hours.
        static let limit = 64 << 20
    }

    /// nil when memory is short.
    private init?(_ inner: BodySink, _ coding: ContentCoding, _ expansion: Expansion?) {
        guard let decoder = coding.makeDecoder() else { return nil }
        self.inner = inner
        self.decoder = decoder
        self.expansion = expansion
    }

    /// A sink for content with codings, in the order in which the server has applied them: the last one is undone first.
    ///
    /// - Returns: nil when memory is short.
    static func decoding(_ codings: [ContentCoding], for inner: BodySink) -> BodySink? {
        let isBounded = codings.count == 1 && (codings[0] == .gzip || codings[0] == .deflate)
        let expansion = isBounded ? nil : Expansion()
        var sink = inner
        for coding in codings {
            guard let decoding = DecodingSink(sink, coding, expansion) else { return nil }
            sink = decoding
        }
        (sink as? DecodingSink)?.isOuter = true
        return sink
    }

    override func receiveHead(_ head: ResponseHead, expected: Int?) -> Reception {
        inner.receiveHead(head, expected: expected)
    }

    /// One piece of input is decoded and passed on completely, also when the inner sink would pause: at most a thousand
    /// times its length, which is the highest ratio of gzip and deflate, or `Expansion.limit`.
    override func append(_ bytes: borrowing Span<UInt8>) -> AppendResult {
        if isOuter { expansion?.byteCount = 0 }
        var position = 0
        var pauses = false
        while true {
            piece.removeAll()
            let step = decoder.next(bytes, &position, into: &piece)
            if case .failed(let why) = step { return .failed(SessionError(.responseInvalid, why)) }
            if let expansion {
                expansion.byteCount += piece.count
                guard expansion.byteCount <= Expansion.limit else {
                    return .failed(
                        SessionError(
                            .responseTooLarge,
                            "A piece of the body decodes to more than \(Expansion.limit) bytes."
                        )
                    )
                }
            }
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

    override var hasEnds: Bool { true }

    override func finish(_ error: SessionError?, then done: @escaping @Sendable (SessionError?) -> Void) {
        piece.release()
        var error = error
        if error == nil, !decoder.mayEnd {
            error = SessionError(.responseTruncated, "The body ends before its content coding does.")
        }
        inner.finish(error, then: done)
    }
}
