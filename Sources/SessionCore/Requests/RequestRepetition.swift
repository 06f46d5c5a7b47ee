// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The end of an exchange whose response is not complete.
struct ExchangeEnding {
    enum Cause {
        /// The origin has not processed the request, by its own word, or never got it (RFC 9113, section 8.7).
        case notProcessed
        /// The origin wants the request over HTTP/1.1 (RFC 9113, section 7).
        case http11Required
        /// The connection has ended.
        case connectionLost
        /// The origin has ended this exchange alone.
        case reset
    }

    var cause: Cause
    /// Bytes of the response have come, be it a part of its head: the origin has acted on the request.
    var hasBegunResponse: Bool
    /// The error of the task, unless the request is sent again.
    var error: SessionError
}

/// Rule 57: a request whose exchange has ended without a whole response is sent again at most once, on whichever level, and only if
/// the origin has not processed it, or may process it twice. The facts of one request, and the body as far as it has gone out.
struct RequestRepetition: ~Copyable {
    /// It has gone out a second time already.
    private var wasRepeated = false
    /// Whether the connection had carried a request before this one.
    var isOnReusedConnection = false
    /// Bytes of the body have gone to a connection.
    private var isBodyTaken = false
    /// These bytes, unless they are too many.
    private var taken = ByteBuffer()
    private var hasAllOfBody = true

    /// A body of up to so many bytes is kept.
    static let bodyLimit = 64 << 10

    /// Begins a request.
    ///
    /// - Parameter wasRepeated: it was sent a second time on another level.
    mutating func start(wasRepeated: Bool) { self.wasRepeated = wasRepeated }

    /// Begins an exchange, the first one or the second.
    mutating func beginExchange() {
        isOnReusedConnection = false
        isBodyTaken = false
        hasAllOfBody = true
        taken.release()
    }

    mutating func didTakeBody() { isBodyTaken = true }

    /// Keeps a piece of the body.
    mutating func keep(_ bytes: borrowing Span<UInt8>) {
        if hasAllOfBody, taken.count + bytes.count <= Self.bodyLimit {
            taken.append(bytes)
        } else {
            hasAllOfBody = false
            taken.release()
        }
    }

    /// Whether the request may be sent again after this end.
    ///
    /// - Parameter isAuthenticated: the connection was authenticated by a client, and the request was another's than on the next one.
    func allows(_ ending: ExchangeEnding, isIdempotent: Bool, isAuthenticated: Bool = false) -> Bool {
        guard !isAuthenticated, !wasRepeated, !ending.hasBegunResponse else { return false }
        return switch ending.cause {
        case .notProcessed: !isBodyTaken || hasAllOfBody
        case .http11Required: !isBodyTaken
        // The origin may have closed the kept connection before the request came.
        case .connectionLost: isOnReusedConnection && isIdempotent && !isBodyTaken
        case .reset: false
        }
    }

    /// The request is sent again: the body that was taken comes back in front of the rest.
    mutating func repeatRequest(restoring body: inout ByteBuffer) {
        wasRepeated = true
        guard !taken.isEmpty else { return }
        var rest = ByteBuffer()
        swap(&rest, &body)
        swap(&taken, &body)
        body.append(rest.bytes)
    }

    /// Gives the memory back at the end of the request.
    mutating func release() { taken.release() }
}
