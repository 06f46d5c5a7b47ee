import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

/// State of the cache for one exchange; there is none when nothing is cached.
final class ExchangeCache {
    /// The state of the origin's response.
    private enum Phase {
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
    /// The value of Cache-Status for the response.
    private(set) var status: CacheStatus?
    /// The value of Age for a stored response.
    private(set) var storedAge: Int?

    private var phase = Phase.asking
    private var held = HeldResponse()
    /// The origin's response while it is being dropped.
    private var unwanted = UnwantedBody()
    private var waiting: (timer: LoopTimer, loop: EventLoop)?

    // The stored body, and the part of it that is still to be sent.
    private var storedBody = CacheTransaction.Body.memory([])
    private var unsent = 0..<0
    /// Pieces are being passed on.
    private var isSending = false
    /// A piece is read from the disk.
    private var isReading = false
    /// The receiver has no room at the moment.
    private var isPaused = false

    private static let pieceSize = 128 << 10

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
        storedAge = nil
        held = HeldResponse()
        unwanted = UnwantedBody()
        unsent = 0..<0
        (isSending, isReading, isPaused) = (false, false, false)
    }

    /// The value of Cache-Status for a response of the proxy's own.
    var statusOfRefusal: CacheStatus { status ?? transaction.forwarded }

    /// The outcome for the log.
    var outcome: CacheOutcome { transaction.outcome }

    /// No stored response may be used, and the origin is not asked.
    func refuse(_ status: CacheStatus) { self.status = status }

    /// The exchange is over.
    func end() {
        stopWaiting()
        transaction.cancel()
    }

    // MARK: The origin's response

    /// Begins to wait for the origin.
    ///
    /// - Returns: the request for it, with the fields that the cache has chosen.
    func ask(with fields: HTTPFields) -> SessionRequest {
        phase = .asking
        var request = request
        request.fields = fields
        return request
    }

    /// Holds the response until the cache has decided.
    func hold(_ head: borrowing ResponseHead) {
        phase = .deciding
        held = HeldResponse(head: copy head)
    }

    /// Returns what was held.
    func removeHeld() -> HeldResponse {
        var removed = HeldResponse()
        swap(&removed, &held)
        return removed
    }

    /// The response goes to the client.
    func relay(_ status: CacheStatus) {
        phase = .relaying
        self.status = status
    }

    /// The response is dropped.
    func replace(by step: CacheTransaction.HeadStep) { phase = .replacing(step) }

    /// Whether the rest of a dropped response is read to its end.
    func drops(_ response: borrowing ResponseHead) -> Bool {
        UnwantedBody.isWorthReading(response.framing)
    }

    enum BodyStep {
        case deliver
        case hold
        case drop
        /// It is dropped, and too long to be read to its end.
        case cut
    }

    /// Processes a piece of the body.
    func didReceiveBody(_ data: borrowing Span<UInt8>) -> BodyStep {
        switch phase {
        case .asking, .serving: return .deliver
        case .deciding:
            held.body.append(data)
            return .hold
        case .relaying:
            transaction.didReceiveBody(data)
            return .deliver
        case .replacing: return unwanted.didReceive(data.count) ? .drop : .cut
        }
    }

    /// Processes the trailers.
    ///
    /// - Returns: false when they go to the client.
    func didReceiveTrailers(_ trailers: borrowing HTTPFields) -> Bool {
        switch phase {
        case .deciding:
            held.trailers = copy trailers
            return true
        case .replacing: return true
        case .asking, .relaying, .serving: return false
        }
    }

    enum EndStep {
        /// The exchange ends in the ordinary way.
        case end
        /// There was no response; the cache may have one.
        case fail(SessionError)
        /// The cache has not decided yet.
        case hold
        case replace(CacheTransaction.HeadStep)
    }

    /// The origin's response is over, or there was none.
    func didEnd(_ error: SessionError?) -> EndStep {
        switch phase {
        case .asking: return error.map { .fail($0) } ?? .end
        case .deciding:
            held.end = .some(error)
            return .hold
        case .replacing(let step):
            stopWaiting()
            return .replace(step)
        case .relaying:
            transaction.didEnd(isWhole: error == nil)
            return .end
        case .serving: return .end
        }
    }

    // MARK: A stored response

    /// Begins to serve a stored response.
    ///
    /// - Returns: its head.
    func serve(_ response: CacheTransaction.Response) -> ResponseHead {
        phase = .serving
        status = response.status
        storedAge = response.head.age
        storedBody = response.body
        unsent = response.head.body
        return ResponseHead(
            status: response.head.status,
            fields: response.head.keptFields,
            contentLength: response.head.contentLength,
            hasBody: !response.head.body.isEmpty
        )
    }

    /// The stored response is not delivered.
    func dropStoredBody() { unsent = 0..<0 }

    enum Piece {
        case memory([UInt8], Range<Int>)
        case file(StoredBody, Range<Int>)
    }

    /// Begins to send pieces; false when that is under way already.
    func beginSending() -> Bool {
        guard !isSending, !isReading, case .serving = phase else { return false }
        isSending = true
        return true
    }

    /// The next piece of the stored body; nil after the last one, and while the receiver has no room. One of a file
    /// ends the sending, until `didRead`.
    func nextPiece() -> Piece? {
        guard !isPaused, !unsent.isEmpty else { return nil }
        let piece = unsent.prefix(Self.pieceSize)
        switch storedBody {
        case .memory(let bytes):
            unsent = piece.upperBound..<unsent.upperBound
            return .memory(bytes, piece)
        case .file(let file):
            isSending = false
            isReading = true
            return .file(file, piece)
        }
    }

    /// So many bytes of a file were read, and are sent.
    func didRead(_ count: Int) {
        isReading = false
        isSending = true
        unsent = (unsent.lowerBound + count)..<unsent.upperBound
    }

    /// - Returns: whether the whole body was sent.
    @discardableResult
    func endSending() -> Bool {
        isSending = false
        return unsent.isEmpty && !isPaused
    }

    /// The receiver has no room.
    func pause(for patience: TimeSpan, on loop: EventLoop, _ isOver: @escaping () -> Void) {
        isPaused = true
        wait(for: patience, on: loop, isOver)
    }

    /// The receiver has room; false when the sending was not paused.
    func resume() -> Bool {
        guard isPaused else { return false }
        isPaused = false
        stopWaiting()
        return true
    }

    // MARK: Waiting

    /// Limits a wait that no timeout of an origin limits: for a receiver without room, or for the rest of a dropped
    /// response.
    func wait(for patience: TimeSpan, on loop: EventLoop, _ isOver: @escaping () -> Void) {
        stopWaiting()
        let timer = LoopTimer(isOver)
        loop.arm(timer, after: patience)
        waiting = (timer, loop)
    }

    private func stopWaiting() {
        if let (timer, loop) = waiting { loop.remove(timer) }
        waiting = nil
    }
}

/// The origin's head and the beginning of its body, until the cache has decided.
struct HeldResponse: ~Copyable {
    fileprivate(set) var head = ResponseHead()
    fileprivate(set) var body = ByteBuffer()
    fileprivate(set) var trailers: HTTPFields?
    /// The result of the response, if it has ended.
    fileprivate(set) var end: SessionError??
}
