import HTTPCore
import IOCore

/// What an exchange's messages travel on: a connection of HTTP/1.1, or one stream of HTTP/2. A class to inherit from.
class ExchangeStream {
    final let worker: Worker
    final let listener: WorkerListener
    /// What is to be written; `Exchange` appends to it.
    final var output = ByteBuffer()

    init(worker: Worker, listener: WorkerListener) {
        self.worker = worker
        self.listener = listener
    }

    /// Whose connection it is.
    var transport: ClientTransport { preconditionFailure("a subclass overrides this") }

    /// How the answer's bytes go on: false when the origin should hold back.
    var hasRoom: Bool { preconditionFailure("a subclass overrides this") }

    /// A whole head stands in `output`, with nothing before it but what belongs to it, and perhaps its body behind it.
    func headIsWritten(_ status: Int) {}

    /// Writes a large piece of a body, with what waits before it, without copying it first.
    func write(_ bytes: borrowing Span<UInt8>) { preconditionFailure("a subclass overrides this") }

    /// Writes what is there at the end of the turn, together with what still comes in it.
    func flushLater() { preconditionFailure("a subclass overrides this") }

    /// The exchange can take more of the request body.
    func exchangeNeedsBody() { preconditionFailure("a subclass overrides this") }

    /// Whether the client's connection can be given to a relay.
    var canHandOver: Bool { false }

    /// Gives the client's connection to a relay, with what waits in either direction.
    func handOver(to relay: Relay) { preconditionFailure("a subclass overrides this") }

    /// Whether the client has sent more than the request under way: after a CONNECT that is refused that may be meant for
    /// somebody else, and is no next request.
    var hasMoreInput: Bool { false }

    /// The answer is written out to `output`, or given up.
    ///
    /// - Parameters:
    ///   - persists: whether the connection can carry another request.
    ///   - isWhole: false when the client must be able to tell that the answer broke off.
    func finished(_ exchange: Exchange, persists: Bool, isWhole: Bool) {
        preconditionFailure("a subclass overrides this")
    }
}
