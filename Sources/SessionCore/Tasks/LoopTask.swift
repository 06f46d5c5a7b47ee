// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import IOCore
public import ServerTrust

/// One request and its response, from creation to complete metrics.
///
/// Belongs to its session's loop, like its delegate: all members are for that thread.
public final class LoopTask {
    /// Unique among the tasks of a process.
    public let taskIdentifier: UInt64
    /// The request. No redirect is followed on this level.
    public let request: SessionRequest
    /// The receiver of the task's events. The task retains it.
    public let delegate: LoopTaskDelegate
    /// Filled in at the task's end, but for `fetchStart`, which is set when it is resumed for the first time.
    public internal(set) var metrics = TaskMetrics()
    /// The reason of a failure; nil before the end and after a complete response.
    public internal(set) var error: SessionError?

    private let session: TaskOwner
    /// It was made in a session that takes none.
    private let isLate: Bool
    private var machine = TaskMachine()
    /// Nanoseconds of the loop's clock at the resumption.
    private(set) var startedAt: UInt64 = 0
    /// From the task's start to its end.
    private var carrier: TaskCarrier?
    /// The client that a connection belongs to which its requests authenticate; to set before `resume`. nil: it belongs to the
    /// session, as all others.
    package var owner: ConnectionOwner?
    /// Fields that the request gets where the connection's verdict allows it; to set before `resume`.
    package var guarded: GuardedFields?
    /// The response is a stored one.
    package var isAnsweredByCache = false
    /// Takes the connection of a task that makes no request, from the task's start to its end.
    var taker: ConnectionTaker?
    /// Its place among the session's tasks that were not resumed yet; -1 afterwards.
    var unstartedIndex = -1

    /// Bytes of the request body that no connection has taken yet.
    var upload = ByteBuffer()
    private var unsent = ByteBuffer()
    private var bodyBytesGiven: Int64 = 0
    /// The request has been sent without a response, and was sent again, by this task or by one before it: it may not be sent a
    /// third time.
    package internal(set) var wasRepeated: Bool
    /// The end of the body has been given.
    package internal(set) var uploadEnded = false
    /// The trailers behind the body.
    package var uploadTrailers: HeaderFields { givenTrailers ?? HeaderFields() }
    private var givenTrailers: HeaderFields?

    init(
        identifier: UInt64,
        request: consuming SessionRequest,
        delegate: LoopTaskDelegate,
        session: TaskOwner,
        isLate: Bool = false
    ) {
        taskIdentifier = identifier
        self.isLate = isLate
        self.request = request
        self.delegate = delegate
        self.session = session
        wasRepeated = self.request.isRepetition
        uploadEnded = self.request.bodyLength == .none
    }

    deinit {
        // Dropped without ever having been resumed: the session waits for it no longer.
        if machine.state != .completed { session.forget(self) }
    }

    /// Where the task is in its life. `completed` before `taskDidComplete` is called.
    public var state: TaskState { machine.state }

    /// Starts the task, or lets a suspended one go on.
    public func resume() {
        switch machine.resume() {
        case .start:
            session.leaveUnstarted(self)
            metrics.fetchStart = session.loop.wallClock
            startedAt = session.loop.now
            guard !isLate, !session.isRetired else { return finishLater(.sessionInvalidated) }
            guard let carrier = session.makeCarrier(for: self) else { return finishLater(.notStored) }
            self.carrier = carrier
            carrier.start()
        case .unpause:
            carrier?.isHeldBack = false
            carrier?.holdDidChange()
            receiveAgain()
        default:
            break
        }
    }

    private func finishLater(_ error: SessionError) {
        session.loop.atEndOfTurn { [self] in finish(error) }
    }

    /// Takes no more of the response until `resume`. Meanwhile no limit of `TaskTimeouts` runs but `total`, which is
    /// that of the task from its start to its end.
    public func suspend() {
        guard machine.suspend() == .pause else { return }
        carrier?.isHeldBack = true
        carrier?.holdDidChange()
    }

    /// Ends the task. The delegate gets `taskDidComplete` with the error `cancelled`.
    public func cancel() {
        guard machine.cancel() == .cancel else { return }
        finish(SessionError(.cancelled, "The task was cancelled."))
    }

    /// The response has begun an authentication of the connection that carries the task (`HeaderFields.offersConnectionAuthentication`):
    /// from now on it carries the owner's requests alone.
    package func giveConnection(to owner: ConnectionOwner) {
        self.owner = owner
        carrier?.giveConnectionToOwner()
    }

    // MARK: Request body

    /// How many bytes of the body wait to be sent; hold back when it grows large.
    public var pendingBodyBytes: Int { upload.count + (carrier?.pendingBytes ?? 0) }

    /// How many bytes of the body have been handed to the connection.
    public var bodyBytesSent: Int64 { bodyBytesGiven - Int64(pendingBodyBytes) }

    /// Adds bytes of the request body.
    public func send(_ bytes: borrowing Span<UInt8>) {
        guard machine.state == .running || machine.state == .suspended, !uploadEnded else { return }
        upload.append(bytes)
        bodyBytesGiven += Int64(bytes.count)
        wakeUpload()
    }

    /// Adds bytes of the request body, and takes their memory if it can.
    ///
    /// - Parameter buffer: is empty afterwards.
    package func send(taking buffer: inout ByteBuffer) {
        guard upload.isEmpty, machine.state == .running || machine.state == .suspended, !uploadEnded else {
            send(buffer.bytes)
            return buffer.release()
        }
        bodyBytesGiven += Int64(buffer.count)
        swap(&upload, &buffer)
        buffer.release()
        wakeUpload()
    }

    /// The part of the body that was given to a task that has ended with `sessionInvalidated`; nothing of it was sent. For the
    /// delegate's `taskDidComplete`; afterwards it is gone.
    ///
    /// - Parameter buffer: an empty one, which gets it.
    package func takeUnsentBody(into buffer: inout ByteBuffer) { swap(&buffer, &unsent) }

    /// Marks the request body as complete.
    public func finishSending() { finishSending(trailers: HeaderFields()) }

    /// The same, with trailers: they go to an HTTP/1.1 origin behind a body of unknown length, and nowhere else.
    package func finishSending(trailers: HeaderFields) {
        guard !uploadEnded else { return }
        if trailers.count > 0 { givenTrailers = trailers }
        uploadEnded = true
        wakeUpload()
    }

    private func wakeUpload() { carrier?.continueLater() }

    // MARK: Response body

    /// Lets the origin send on after `BodyFlow.pause`.
    public func resumeReceiving() {
        guard let carrier, carrier.isPausedByDelegate else { return }
        carrier.isPausedByDelegate = false
        receiveAgain()
    }

    private func receiveAgain() {
        if let carrier, carrier.takesResponse { carrier.continueLater() }
    }

    /// Bytes have moved on the taker's connection.
    func takerDidMoveBytes() { carrier?.takerDidMoveBytes() }

    /// The final head, on its way to the delegate.
    func received(_ head: borrowing ResponseHead) -> ResponseDisposition {
        session.didReceive(head, to: request)
        return delegate.task(self, didReceive: head)
    }

    // MARK: The end

    /// Lends the metrics of the transaction: the compiler copies them out of the task otherwise.
    package func lendTransaction(_ use: (inout TransactionMetrics) -> Void) { use(&metrics.transaction) }

    /// Fills in the metrics up to now, for the log of a request that ends before its task does.
    package func noteMetrics() {
        guard machine.state != .completed, startedAt != 0 else { return }
        carrier?.collectMetrics(into: &metrics)
        metrics.duration = elapsed
    }

    /// Called once by the transfer, by `cancel`, or by whatever ends the task.
    func finish(_ error: SessionError?) {
        guard machine.finish() == .complete else { return }
        if let error, let guarded { return complete(guarded.masked(error)) }
        complete(error)
    }

    private func complete(_ error: SessionError?) {
        if let error { self.error = error }
        taker?.detach(isWhole: error == nil)
        if let carrier {
            carrier.collectMetrics(into: &metrics)
            taker?.complete(&metrics.transaction)
            bodyBytesGiven -= Int64(carrier.pendingBytes)
            self.carrier = nil
            carrier.end()
        }
        if startedAt != 0 { metrics.duration = elapsed }
        bodyBytesGiven = bodyBytesSent
        if error?.code == .sessionInvalidated { swap(&unsent, &upload) }
        upload.release()
        delegate.taskDidComplete(self, error: error)
        unsent.release()
        taker = nil
        session.forget(self)
    }

    /// Whether its session has an origin in memory, and so no servers.
    var isStubbed: Bool { session.isStubbed }

    /// Microseconds since the resumption.
    var elapsed: Int64 { Int64((session.loop.freshNow &- startedAt) / 1000) }

    /// The security policy's evaluation of the connection that carries the task, or of the one that it refused; nil
    /// before, and without TLS.
    public var evaluation: TrustEvaluation? {
        metrics.transaction.connection?.evaluation ?? carrier?.evaluation
            ?? error?.serverEvaluation
    }
}
