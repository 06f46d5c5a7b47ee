import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

/// What the cache has to do with one exchange; there is none where nothing is cached.
final class ExchangeCache {
    /// What becomes of what the origin sends.
    enum Phase {
        /// No head has come yet.
        case asking
        /// The head has come, and the cache is still finding out what it means: a stored body is being opened.
        case deciding
        /// The origin's answer goes to the client, and into the cache if it may.
        case relaying
        /// It is dropped: this takes its place.
        case replacing(CacheTransaction.HeadStep)
        /// A stored answer goes to the client.
        case serving
    }

    /// Of the request under way: each hop has one of its own.
    private(set) var transaction: CacheTransaction
    /// That request, without what the cache adds to it.
    private(set) var request: SessionRequest
    var phase = Phase.asking
    /// What Cache-Status says of the answer.
    var status: CacheStatus?

    /// The value of Age, of a stored answer.
    var storedAge: Int?

    /// The origin's head and the beginning of its body, while the cache decides.
    var heldHead = ResponseHead()
    var held = ByteBuffer()
    var heldTrailers: HTTPFields?
    /// The origin's answer has ended meanwhile, well or not.
    var heldEnd: SessionError??
    /// The body of an origin's response that is replaced.
    private var unwanted = UnwantedBody()

    /// What is left of a stored body.
    var stored = CachedBytes()
    private var waiting: (timer: LoopTimer, loop: EventLoop)?

    init(_ transaction: CacheTransaction, _ request: SessionRequest) {
        self.transaction = transaction
        self.request = request
    }

    /// A hop of its own.
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

    /// What Cache-Status says of an answer of this program's own.
    var statusOfRefusal: CacheStatus { status ?? transaction.forwarded }

    /// What the log says.
    var outcome: CacheOutcome { transaction.outcome }

    /// Whether the rest of an answer that is replaced is read.
    func drops(_ response: borrowing ResponseHead) -> Bool {
        UnwantedBody.isWorthReading(response.framing)
    }

    /// Takes bytes that nobody gets; false when there are too many.
    func drop(_ count: Int) -> Bool {
        unwanted.didReceive(count)
    }

    /// The exchange is over.
    func end() {
        stopWaiting()
        transaction.cancel()
    }

    /// Whoever takes a stored body has no room, and no origin's clock runs; or an answer is dropped that may be long in
    /// coming: this clock runs in its place.
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
    /// The disk is being asked.
    var isReading = false
    /// Bytes are being handed on.
    var isPumping = false
    /// Whoever takes them wants no more for now.
    var isPaused = false
}
