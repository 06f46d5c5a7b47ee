// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import SessionCore

/// The body of a client's request on its way to the origin: how much has come, whether it goes on, who is asked for it, and how it ends.
///
/// A value: the exchange calls it for each event, and carries out what it says.
struct RequestUpload {
    private var body = IncomingBody()
    /// Body bytes received from the client.
    private(set) var count = 0
    /// The client's `Expect: 100-continue`.
    private var expectation = ContinueExpectation()
    /// The trailers of the request, when its end is here.
    private var trailers = HeaderFields()
    /// The end is here, with the trailers. Behind a body of known length those of HTTP/2 may still be on their way.
    private(set) var hasEnded = false
    /// The count at the last check of the client's pace.
    private var mark = 0

    /// A client that transfers fewer bytes than this in `timeouts.body` is too slow.
    private static let leastProgress = 1 << 10

    /// Whether all bytes of the body are here.
    var isComplete: Bool { body.isComplete }

    /// Forgets the body of the request before.
    mutating func reset() {
        count = 0
        mark = 0
        expectation = ContinueExpectation()
        if hasEnded, !trailers.isEmpty { trailers = HeaderFields() }
        hasEnded = false
    }

    /// The head is here.
    ///
    /// - Returns: a problem when the body is known to be too large.
    mutating func begin(_ framing: BodyFraming, limit: Int?) -> Problem? { body.begin(framing, limit: limit) }

    /// The policy was replaced: its limit holds for the rest of the body.
    ///
    /// - Returns: a problem when the body is known to be too large.
    mutating func hold(to limit: Int?, _ framing: BodyFraming) -> Problem? { body.hold(to: limit, framing) }

    // MARK: Bytes and the end

    /// The next bytes of the client.
    mutating func next(_ bytes: borrowing Span<UInt8>) -> IncomingBody.Step {
        let step = body.next(bytes)
        if case .data(let range, _) = step { count += range.count }
        return step
    }

    /// The bytes that came are used up.
    ///
    /// - Returns: whether the request has ended with them. In HTTP/2 the end of the stream ends it.
    mutating func endsHere(majorVersion: UInt8) -> Bool {
        guard body.isComplete, majorVersion == 1 else { return false }
        if !body.trailers.isEmpty { trailers = body.trailers }
        hasEnded = true
        return true
    }

    /// What the client has ended.
    enum InputEnd {
        /// The connection, or its own side of it.
        case connection
        /// The HTTP/2 stream of the request.
        case stream(trailers: HeaderFields?)
    }

    /// What the end of the client's input means to the body.
    enum Completeness {
        /// Nothing: it was here already.
        case known
        /// It ends here.
        case whole
        /// A part of it is missing.
        case cut
    }

    /// The client sends nothing more.
    mutating func inputEnded(_ end: InputEnd) -> Completeness {
        switch end {
        case .connection: return isComplete ? .known : .cut
        case .stream(let received):
            body.streamEnded()
            guard body.isComplete else { return .cut }
            if let received, !received.isEmpty { trailers = received }
            hasEnded = true
            return .whole
        }
    }

    /// Whether the client has sent trailers, which few do.
    var hasTrailers: Bool { hasEnded && !trailers.isEmpty }

    /// The trailers that may go to an origin. Those that would undo the decisions about the head are left out, since some servers add
    /// trailers to its fields. What one hop, or one start, may not get, a later one does not get either.
    ///
    /// - Returns: nil where there are none.
    mutating func trailers(
        to route: Route?,
        with credentials: RuleCredentials?,
        as identity: RequestIdentity? = nil
    ) -> HeaderFields? {
        guard hasTrailers else { return nil }
        identity?.removeNames(from: &trailers)
        if let route {
            credentials?.removeFieldsOfClient(from: &trailers)
            route.hooks?.headers.request.removeNames(from: &trailers)
            if route.rules != nil, !RequestReading.override(trailers).isEmpty { trailers = HeaderFields() }
        }
        return trailers
    }

    /// The response to a request whose transfer has failed. A stall is reported as the client's when its body is the part that is missing.
    ///
    /// - Parameter isAllSent: the origin has what has come of the body.
    func problem(for error: SessionError, isAllSent: Bool) -> Problem {
        guard error.code == .stalled, !body.isComplete, isAllSent else { return Problem(error) }
        return Problem(.requestTimeout, "The request body stopped coming. Send it faster, or raise timeouts.stall.")
    }

    // MARK: 100 (Continue)

    /// The request is sent, or its body is gathered: determines who decides about the client's expectation.
    ///
    /// - Parameters:
    ///   - isExpected: the request has the field.
    ///   - originDecides: the origin can be expected to send 100 (Continue).
    mutating func expect(_ isExpected: Bool, originDecides: Bool) {
        expectation.begin(isExpected: isExpected, bodyHasBegun: count > 0, originDecides: originDecides)
    }

    /// A redirected request is sent.
    ///
    /// - Returns: whether the origin gets the client's expectation.
    mutating func expectAfterRedirect(keepsBody: Bool, originDecides: Bool) -> Bool {
        expectation.follow(keepsBody: keepsBody, bodyHasBegun: count > 0, originDecides: originDecides)
        return expectation.isForwarded
    }

    /// Whether the origin has the client's expectation, and decides.
    var originDecides: Bool { expectation.isForwarded }

    /// The body is wanted.
    ///
    /// - Returns: whether 100 (Continue) has to be sent to the client now.
    mutating func bodyIsWanted() -> Bool { !body.isComplete && expectation.bodyIsWanted(bodyHasBegun: count > 0) }

    /// A connection carries the request: the body is wanted, unless the origin decides about it.
    ///
    /// - Returns: whether 100 (Continue) has to be sent to the client now.
    mutating func originDidConnect() -> Bool { !originDecides && bodyIsWanted() }

    /// What becomes of a 1xx head of the origin.
    enum InformationalStep {
        case pass
        case drop
        /// 100 (Continue) has to be sent to the client now.
        case askForBody
    }

    /// The origin has sent a 1xx head. Its 100 (Continue) is for the request that the proxy has sent: the client gets one only if it
    /// waits for it.
    mutating func receiveInformational(status: Int) -> InformationalStep {
        switch status {
        case 100: originDecides && bodyIsWanted() ? .askForBody : .drop
        // 101 comes only after Upgrade, which is not forwarded here.
        case 101: .drop
        default: .pass
        }
    }

    // MARK: Pace

    /// The time for a part of the body is over.
    ///
    /// - Parameter isWaitedFor: nothing else delays the body.
    /// - Returns: whether the client has sent hardly anything since the last check. A client that waits for 100 (Continue) sends nothing.
    mutating func isTooSlow(isWaitedFor: Bool) -> Bool {
        if isWaitedFor, !expectation.holdsClientBack(bodyHasBegun: count > 0), count - mark < Self.leastProgress {
            return true
        }
        mark = count
        return false
    }
}
