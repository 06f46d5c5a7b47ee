// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// The content of one response, as a value: which codings the session asks for and undoes, the length that it expects, and the
/// digest that it compares.
struct ContentNegotiation {
    /// Whether the request's `Accept-Encoding` is the session's own, so that the session decodes the body.
    private var asks = false
    /// Those that are undone, in the order in which the server has applied them.
    private(set) var codings: [ContentCoding] = []
    /// The length of the body for the task; nil when it is not known before the end.
    private(set) var expectedLength: Int?
    private var digest: BodyDigest?

    /// A request is about to be sent: asks for codings, unless the request forbids that.
    ///
    /// - Parameters:
    ///   - isDecoder: whether the session decodes the body.
    ///   - others: the session's further codings.
    mutating func ask(
        _ isDecoder: Bool,
        for others: [ContentDecoder],
        in fields: inout HeaderFields
    ) throws(SessionError) {
        asks = isDecoder && ContentCoding.mayBeAskedFor(fields)
        guard asks else { return }
        if others.isEmpty {
            fields.append(.acceptEncoding, ContentCoding.accepted)
        } else {
            try fields.setForRequest("Accept-Encoding", ContentCoding.accepted(with: others))
        }
    }

    /// The response is delivered.
    ///
    /// - Parameter isSwitched: what follows is another protocol.
    mutating func begin(
        _ head: borrowing ResponseHead,
        isSwitched: Bool,
        _ others: [ContentDecoder],
        _ check: DigestCheck
    ) {
        codings = asks ? ContentCoding.of(head, others) : []
        digest = BodyDigest(head, check)
        expectedLength =
            switch head.framing {
            case _ where !codings.isEmpty || isSwitched: nil
            case .none: 0
            case .length(let count): count
            default: nil
            }
    }

    /// Bytes of the body as they were transferred.
    func receive(_ bytes: borrowing Span<UInt8>) { digest?.update(bytes) }

    func receive(trailers: borrowing HeaderFields) { digest?.add(trailers) }

    /// The body is complete, or will never be.
    ///
    /// - Returns: what is wrong with a complete body.
    mutating func end() -> SessionError? { digest.take()?.fault() }
}
