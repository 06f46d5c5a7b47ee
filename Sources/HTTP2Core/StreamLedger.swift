/// What became of a client's streams that are over: nghttp2 forgets them, and frames on them mean different things
/// (RFC 9113, sections 5.1 and 5.1.1).
///
/// A value of bounded size. What it has forgotten counts as a stream that was closed in good order, on which nothing may
/// come any more.
struct StreamLedger {
    enum Verdict: Equatable {
        /// On its way when the server reset the stream: it is read and dropped.
        case late
        case violation(HTTP2ErrorCode)
    }

    /// The highest number of a stream that the client has opened.
    private(set) var last: Int32 = 0
    /// Numbers that the client has passed over, and may not use any more; the newest of them.
    private var skipped: [ClosedRange<Int32>] = []
    /// Streams that the server has reset while the client could send on them; the newest of them.
    private var reset: [Int32] = []
    private var oldest = 0

    private static let skippedLimit = 16
    /// More than twice as many as a client may have open.
    private static let resetLimit = 256

    mutating func opened(_ stream: Int32) {
        if stream > last + 2 {
            if skipped.count == Self.skippedLimit { skipped.removeFirst() }
            skipped.append(last + 1...stream - 1)
        }
        last = max(last, stream)
    }

    mutating func wasReset(_ stream: Int32) {
        if reset.count < Self.resetLimit {
            reset.append(stream)
        } else {
            reset[oldest] = stream
            oldest = (oldest + 1) % Self.resetLimit
        }
    }

    /// Judges DATA or HEADERS on a stream that is neither open nor new.
    func evaluate(_ kind: FrameHead.Kind, on stream: Int32) -> Verdict {
        if reset.contains(stream) { return .late }
        let isUnused = skipped.contains { $0.contains(stream) }
        return .violation(kind == .headers && isUnused ? .protocolError : .streamClosed)
    }
}
