// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The request of an exchange, as its connection sees it (an HTTP/1.1 connection, a stream of HTTP/2, or an origin in memory). It
/// gives the body, takes the response, and keeps the times and sizes of the exchange. A class to inherit from.
class ExchangeReceiver: TaskCarrier {
    final let loop: EventLoop
    final var clock = TransferClock()
    final var timings = ExchangeTimings()
    final var repetition = RequestRepetition()
    private let timer = LoopTimer()

    init(loop: EventLoop) {
        self.loop = loop
        super.init()
        timer.whenDue { [unowned self] in timerDidFire() }
    }

    // MARK: Request

    var method: HTTPMethod { .get }

    /// Whether bytes of the body wait to be taken.
    var hasBody: Bool { false }

    /// The end of the body has been given, and all bytes before it were taken.
    var isBodyComplete: Bool { true }

    /// The trailers behind the body.
    var bodyTrailers: HeaderFields { HeaderFields() }

    /// Takes what there is of the body.
    ///
    /// - Parameters:
    ///   - piece: an empty buffer, which gets it.
    ///   - limit: so many bytes at most. `needsBodyData` asks for the rest.
    func takeBody(into piece: inout ByteBuffer, upTo limit: Int = .max) {}

    /// Less than a connection wants of the body waits: more may be given.
    func needsBodyData() {}

    final func didWriteHead(byteCount: Int) { timings.requestHeadBytes = byteCount }

    /// - Parameters:
    ///   - contentBytes: bytes that the task has given.
    ///   - wireBytes: the same with the sizes of chunks, and trailers.
    final func didTakeBody(contentBytes: Int, wireBytes: Int) {
        repetition.didTakeBody()
        timings.requestContentBytes += contentBytes
        timings.requestBodyBytes += wireBytes
    }

    /// Keeps a piece of the body for a request that the server has not processed.
    final func keepForRepetition(_ bytes: borrowing Span<UInt8>) { repetition.keep(bytes) }

    @inline(__always)
    final func didMoveBytes() { clock.active(at: loop.now) }

    final override func takerDidMoveBytes() { didMoveBytes() }

    /// The last byte of the request has gone to the system.
    final func didSendRequest() {
        guard timings.requestEnd == TransactionMetrics.absent else { return }
        timings.requestEnd = elapsed
        if clock.phase == .sending { enter(.waiting) }
    }

    /// The last byte of this side of a tunnel over HTTP/2 has gone out, or no more can: the stream is over.
    func tunnelDidEndSending() {}

    /// Whether the connection has carried a request before this one.
    final var isOnReusedConnection: Bool { repetition.isOnReusedConnection }

    // MARK: Response

    func didReceiveInformational(_ head: borrowing ResponseHead) {}

    func didReceiveHead(_ head: borrowing ResponseHead) {}

    func didReceiveBody(_ bytes: borrowing Span<UInt8>) {}

    /// The last byte has come; the task may not have taken it yet.
    final func didReceiveLastByte() { timings.responseEnd = elapsed }

    /// The response is complete. A request that is still going out ends here: the origin does not read the rest of its body.
    func didReceiveEnd(trailers: borrowing HeaderFields) {}

    /// The same without trailers.
    func didReceiveEnd() {}

    /// Counts a head of the response.
    final func noteHead(byteCount: Int) {
        if timings.responseStart == TransactionMetrics.absent { timings.responseStart = elapsed }
        timings.responseHeadBytes += byteCount
    }

    // MARK: The end

    /// The exchange is broken off: the request fails.
    func fail(_ error: SessionError) {}

    /// The exchange has ended before the response was complete: the request is sent again, or fails.
    func exchangeDidEnd(_ ending: ExchangeEnding) {}

    /// The server allows fewer streams than before, and nothing of the request has gone out: it waits in the pool.
    func returnToPool() {}

    /// The connection that its client has authenticated carries this request next.
    func laneIsFree() {}

    // MARK: An origin in memory

    /// The origin accepts the request.
    ///
    /// - Returns: whether its head goes out now; false when the task has ended.
    func stubDidAccept() -> Bool { false }

    /// A handler of the origin begins or ends its work.
    func stubIsWorking(_ isWorking: Bool) {}

    // MARK: Time

    /// Microseconds since the task was resumed.
    final var elapsed: Int64 { Int64((loop.freshNow &- timings.taskStart) / 1000) }

    final func enter(_ phase: TransferClock.Phase) {
        clock.enter(phase, at: loop.now)
        armTimer()
    }

    /// The timer is armed for the shortest wait, and looks, when it fires, how much time is left: entering a phase costs two
    /// stores.
    final func armTimer() {
        let next = clock.nextJudgement
        if !timer.isArmed || timer.deadline > next { loop.arm(timer, at: next) }
    }

    final func disarmTimer() { loop.disarm(timer) }

    /// Lets go of the timer; the receiver is not used again.
    final func invalidate() { loop.remove(timer) }

    /// The time has come for the clock to judge.
    func timerDidFire() {}
}
