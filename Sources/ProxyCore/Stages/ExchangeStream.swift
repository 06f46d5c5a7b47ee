// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The client's side of an exchange: an HTTP/1.1 connection, or one stream of HTTP/2. A base class.
class ExchangeStream {
    final let services: WorkerServices
    final let listener: ListenerRoutes
    /// The transport of the client's connection.
    final let transport: ClientTransport
    /// Bodies, which the exchange's writer appends and the subclass writes; with HTTP/1.1 heads as well.
    final var output = ByteBuffer()

    init(_ transport: ClientTransport) {
        self.transport = transport
        services = transport.services
        listener = transport.listener
    }

    /// Whether there is room for more output; false when the origin should be paused.
    var hasRoom: Bool { preconditionFailure("a subclass overrides this") }

    /// The largest piece of a stored body that the client takes now. Any is taken that comes; this one leaves least behind.
    var pieceSize: Int { .max }

    /// Writes the head of the origin's response, which `ClientResponse.begin` has begun.
    func writeHead(
        _ head: borrowing ResponseHead,
        _ form: ClientResponse.Form,
        to request: borrowing RequestHead,
        context: borrowing ResponseContext
    ) {
        preconditionFailure("a subclass overrides this")
    }

    /// Writes a 1xx head.
    func writeInformational(
        _ head: borrowing ResponseHead,
        to request: borrowing RequestHead,
        context: borrowing ResponseContext
    ) {
        preconditionFailure("a subclass overrides this")
    }

    /// Writes 100 (Continue).
    func writeContinue() { preconditionFailure("a subclass overrides this") }

    /// Writes a response of the proxy's own, with its body.
    func write(_ own: borrowing OwnResponse) { preconditionFailure("a subclass overrides this") }

    /// Writes a large piece of a body after the waiting output, without copying it first.
    func write(_ bytes: borrowing Span<UInt8>) { preconditionFailure("a subclass overrides this") }

    /// The same for two pieces, if possible with one system call.
    func write(_ bytes: borrowing Span<UInt8>, followedBy more: borrowing Span<UInt8>) {
        write(bytes)
        write(more)
    }

    /// Writes a part of a stored body from its file, after the waiting output.
    ///
    /// - Returns: how many bytes were written, and whether the rest waits for room, which may be all; nil when the bytes have to be read
    ///   from the file first.
    func write(_ file: FileBytes) -> (count: Int, isFull: Bool)? { nil }

    /// Writes the waiting output now.
    func writeOutput() { preconditionFailure("a subclass overrides this") }

    /// Writes the output at the end of the turn, together with output that is added until then.
    func flushLater() { preconditionFailure("a subclass overrides this") }

    /// The exchange can take more of the request body.
    func exchangeNeedsBody() { preconditionFailure("a subclass overrides this") }

    /// The exchange holds so many more bytes of the request.
    ///
    /// - Returns: whether it may hold more (`limits.heldBytes`).
    func hold(_ count: Int) -> Bool { preconditionFailure("a subclass overrides this") }

    /// It holds so many fewer.
    func releaseHeld(_ count: Int) { preconditionFailure("a subclass overrides this") }

    /// Whether the client's connection can be given to a relay.
    var canHandOver: Bool { false }

    /// Hands the client's connection to another user.
    ///
    /// - Parameter take: takes the waiting bytes of both directions over.
    func handOver(to user: any TransportUser, _ take: (_ input: inout ByteBuffer, _ output: inout ByteBuffer) -> Void) {
        preconditionFailure("a subclass overrides this")
    }

    /// The user that the connection was handed over to for this exchange is done: so is the exchange.
    func relayDidEnd() { preconditionFailure("a subclass overrides this") }

    /// Whether the client has sent more than the current request. Bytes behind a refused CONNECT may be for the tunnel,
    /// and are then not a next request.
    var hasMoreInput: Bool { false }

    /// The exchange is over: its response is completely in `output`, or was given up.
    ///
    /// - Parameters:
    ///   - persists: whether the connection can be used for another request.
    ///   - isWhole: false when the client must notice that the response is incomplete.
    func finished(persists: Bool, isWhole: Bool) {
        preconditionFailure("a subclass overrides this")
    }
}
