// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// A record of a client's ended streams. nghttp2 forgets them, but the meaning of a frame on such a stream depends on
/// how it ended (RFC 9113, sections 5.1 and 5.1.1).
///
/// A value of bounded size. A forgotten stream counts as properly closed: no frame may arrive on it.
struct StreamLedger {
    enum Verdict: Equatable {
        /// The frame was in flight when the server reset the stream: it is dropped.
        case late
        case violation(HTTP2ErrorCode)
    }

    /// The highest stream number that the client has opened.
    private(set) var last: Int32 = 0
    /// The latest numbers that the client has skipped and must not use any more.
    private var skipped: [ClosedRange<Int32>] = []
    /// The latest streams that the server has reset while the client could send on them.
    private var reset: [Int32] = []
    private var oldest = 0

    private static let skippedLimit = 16
    /// More than twice the limit of concurrent streams.
    private static let resetLimit = 256

    mutating func opened(_ stream: Int32) {
        if stream > last.addingSaturated(2) {
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

    /// Evaluates DATA or HEADERS on a stream that is neither open nor new.
    func evaluate(_ kind: FrameHead.Kind, on stream: Int32) -> Verdict {
        if reset.contains(stream) { return .late }
        let isUnused = skipped.contains { $0.contains(stream) }
        return .violation(kind == .headers && isUnused ? .protocolError : .streamClosed)
    }
}
