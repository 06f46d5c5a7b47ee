import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

/// State of the cache for one exchange; there is none when nothing is cached.
final class ExchangeCache {
    /// The state of the origin's response.
    enum Phase {
        /// No head has arrived yet.
        case asking
        /// The head has arrived, and the cache has not decided yet: a stored body is being opened.
        case deciding
        /// The origin's response goes to the client, and into the cache if that is allowed.
        case relaying
        /// The origin's response is dropped, and this step replaces it.
        case replacing(CacheTransaction.HeadStep)
        /// A stored response is sent to the client.
        case serving
    }

    /// The transaction of the current request: each hop has its own.
    private(set) var transaction: CacheTransaction
    /// The current request, without the fields that the cache adds.
    private(set) var request: SessionRequest
    var phase = Phase.asking
    /// The value of Cache-Status for the response.
    var status: CacheStatus?

    /// The value of Age for a stored response.
    var storedAge: Int?

    /// The origin's head and the beginning of its body, until the cache has decided.
    var heldHead = ResponseHead()
    var held = ByteBuffer()
    var heldTrailers: HTTPFields?
    /// The result of the origin's response, if it has ended before the cache decided.
    var heldEnd: SessionError??
    /// The origin's response while it is being dropped.
    private var unwanted = UnwantedBody()

    /// The unsent part of a stored body.
    var stored = CachedBytes()
    private var waiting: (timer: LoopTimer, loop: EventLoop)?

    init(_ transaction: CacheTransaction, _ request: SessionRequest) {
        self.transaction = transaction
        self.request = request
    }

    /// Prepares for the request of another hop.
    func prepare(for transaction: CacheTransaction, _ request: SessionRequest) {
        self.transaction = transaction
        self.request = request
        phase = .asking
        status = nil
        heldTrailers = nil
        storedAge = nil
        unwanted = UnwantedBody()
        stored = CachedBytes()
    }

    /// The value of Cache-Status for a response of the proxy's own.
    var statusOfRefusal: CacheStatus { status ?? transaction.forwarded }

    /// The outcome for the log.
    var outcome: CacheOutcome { transaction.outcome }

    /// Whether the rest of a dropped response is read to its end.
    func drops(_ response: borrowing ResponseHead) -> Bool {
        UnwantedBody.isWorthReading(response.framing)
    }

    /// Counts bytes of a dropped response; false when there are too many.
    func drop(_ count: Int) -> Bool {
        unwanted.didReceive(count)
    }

    /// The exchange is over.
    func end() {
        stopWaiting()
        transaction.cancel()
    }

    /// Limits a wait that no timeout of an origin limits: for a receiver without room, or for the rest of a dropped
    /// response.
    func wait(for patience: TimeSpan, on loop: EventLoop, _ isOver: @escaping () -> Void) {
        stopWaiting()
        let timer = LoopTimer(isOver)
        loop.arm(timer, after: patience)
        waiting = (timer, loop)
    }

    func stopWaiting() {
        if let (timer, loop) = waiting { loop.remove(timer) }
        waiting = nil
    }
}

/// The bytes of a stored body that are still to be sent.
struct CachedBytes {
    var source = CacheTransaction.Body.memory([])
    var range = 0..<0
    /// A read from the disk is under way.
    var isReading = false
    /// Bytes are being passed on.
    var isPumping = false
    /// The receiver has no room at the moment.
    var isPaused = false
}
