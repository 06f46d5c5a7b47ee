import CLibcurl
import COpenSSL
import CShims
import Glibc
import HTTPCore
import IOCore
import ServerTrust

/// One exchange on one of libcurl's easy handles: owns the handle, is used for one task after another.
///
/// The pool frees the handle with `destroy`. libcurl calls back with a pointer to this object, which the pool keeps
/// alive as long as the handle (as an idle or an active one).
final class Transfer {
    let easy: UnsafeMutableRawPointer
    /// The pool owns its transfers and outlives each of them: no need to count.
    unowned(unsafe) let pool: TransferPool
    /// Its place among the pool's active ones; -1 when libcurl does not have it.
    var slot = -1
    /// Where it has a place among those that may have a connection, or waits for one.
    var lane: HostLane?
    /// It waits in its lane, and libcurl does not have it.
    var isQueued = false
    /// Given back while libcurl was on the stack; waits to be taken out.
    var isRetiring = false
    private(set) var task: LoopTask?
    /// The handle has failed or repeated a request: libcurl counts the repeats of a handle over all its transfers and
    /// gives up at the sixth (`state.retrycount` in 7.88), so such a handle is not used again.
    var isWorn = false

    private let errorText: UnsafeMutablePointer<CChar>
    private var fields = FieldList()
    private var endpoint: Endpoint?
    private var hasProxy = false
    private var timer: LoopTimer!

    // The exchange under way.
    var response = ResponseReader()
    var verification: TLSVerification?
    var record: ConnectionRecord?
    var connection: ConnectionInfo?
    /// Whether the evaluation of the connection that was made last has been told.
    var isTrustTold = false
    /// The connection's TLS; valid from `isReady` until libcurl has finished with the transfer.
    var ssl: OpaquePointer?
    /// Requests that libcurl has begun to send for this task: a second one is a repeat on its own account.
    var attempts = 0
    var bodyTaken = false
    /// Why the transfer was ended from within a callback.
    var failure: SessionError?
    var refusedAddress: (address: SocketAddress, refusal: DialRefusal)?
    var dialledAddress: SocketAddress?
    var openedSockets: [OpenedSocket] = []
    /// The server with which the latest connection began its TLS handshake.
    var handshakePeer: SocketAddress?
    /// The connection at hand may not be used any more: try once on a new one.
    var needsFreshConnection = false
    var isFreshAttempt = false
    /// No connection was made for want of a descriptor.
    var lacksDescriptor = false
    /// An idle connection was closed for that already.
    private var hasMadeRoom = false
    /// Whether libcurl has been told to close the connection afterwards.
    private var isReuseForbidden = false
    private var isContinuePlanned = false
    var times = Times()
    var clock = TransferClock()

    /// A socket that was opened for a connection, and may have lost to another one.
    struct OpenedSocket {
        var descriptor: Int32
        /// Tells it from a later socket with the same descriptor.
        var cookie: UInt64
    }

    /// Microseconds from the task's start that libcurl does not tell.
    struct Times {
        var start: Int64 = 0
        /// Of a connection that does not come about, which libcurl says nothing of: when its first address was dialled, and
        /// when its TLS handshake began and ended.
        var connectStart = TransactionMetrics.absent
        var secureConnectionStart = TransactionMetrics.absent
        var secureConnectionEnd = TransactionMetrics.absent
        var requestEnd = TransactionMetrics.absent
        /// libcurl's own figure is that of the first byte sent when there is an upload.
        var responseStart = TransactionMetrics.absent
    }

    init(pool: TransferPool) {
        self.pool = pool
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        guard let easy = pool.makeHandle(errorText) else { fatalError("libcurl has no memory for a handle") }
        self.easy = easy
        pinproxy_easy_set_owner(easy, Unmanaged.passUnretained(self).toOpaque())
        timer = LoopTimer { [unowned self] in timerFired() }
    }

    func destroy() {
        pool.loop.remove(timer)
        pinproxy_easy_destroy(easy)
        errorText.deallocate()
    }

    // MARK: Start

    func start(_ task: LoopTask) {
        self.task = task
        failure = nil
        refusedAddress = nil
        isFreshAttempt = false
        hasMadeRoom = false
        attempts = 0
        bodyTaken = false
        times = Times()
        begin(task)
    }

    private func begin(_ task: LoopTask) {
        response.reset(for: task.request.method)
        verification = nil
        record = nil
        ssl = nil
        connection = nil
        dialledAddress = nil
        handshakePeer = nil
        times.connectStart = TransactionMetrics.absent
        times.secureConnectionStart = TransactionMetrics.absent
        times.secureConnectionEnd = TransactionMetrics.absent
        if !openedSockets.isEmpty { openedSockets.removeAll(keepingCapacity: true) }
        needsFreshConnection = false
        lacksDescriptor = false
        if isReuseForbidden {
            isReuseForbidden = false
            pinproxy_easy_forbid_reuse(easy, false)
        }
        errorText.pointee = 0
        let endpoint = task.request.endpoint
        if self.endpoint !== endpoint { setEndpoint(endpoint) }
        setRequest(task.request)
        let timeouts = task.request.timeouts ?? endpoint.timeouts
        clock = TransferClock(timeouts, taskStart: task.startedAt, now: pool.loop.now)
        if task.isHeldBack { clock.suspend() }
        if task.stream != nil {
            isWorn = true
            pinproxy_easy_connect_only(easy)
        }
        guard lane != nil || pool.admit(self, to: endpoint) else {
            enter(.queued)
            return
        }
        armTimer()
        pool.add(self)
    }

    /// Its turn has come.
    func leaveQueue() {
        isQueued = false
        guard let task else { return }
        times.start = task.elapsed
        enter(.connecting)
        pool.add(self)
    }

    /// The connection is not kept, unless it carries other exchanges that want it.
    func forbidReuse() {
        // libcurl would not hand it over; it is not kept in any case.
        guard task?.stream == nil else { return }
        isWorn = true
        isReuseForbidden = true
        pinproxy_easy_forbid_reuse(easy, true)
    }

    private func setEndpoint(_ endpoint: Endpoint) {
        self.endpoint = endpoint
        endpoint.url.text.withUnsafeBufferPointer { text in
            var settings = pinproxy_endpoint()
            settings.url = text.baseAddress
            settings.parsed_url = endpoint.url.parsed
            settings.connect_to = endpoint.connectTo?.list
            settings.http2 = endpoint.httpVersion == .http2
            settings.verify_host = endpoint.policy.validatesDomainName
            pinproxy_easy_set_endpoint(easy, &settings)
            if endpoint.proxy != nil || hasProxy { setProxy(endpoint.proxy) }
        }
    }

    private func setProxy(_ proxy: ProxySetting?) {
        hasProxy = proxy != nil
        if let proxy { proxy.apply(to: easy) } else { pinproxy_easy_set_proxy(easy, nil, nil, nil) }
    }

    private func setRequest(_ request: borrowing SessionRequest) {
        fields.removeAll()
        let target = fields.addText(request.target.span)
        let method = fields.addMethod(request.method)
        // libcurl adds this one where it does not see it, and it does not look into the lines.
        fields.suppress("Accept:")
        var settings = pinproxy_request()
        switch request.bodyLength {
        case .none, .bytes(0):
            settings.body_length = Int64(PINPROXY_BODY_NONE)
        case .bytes(let count):
            settings.body_length = Int64(count)
            fields.suppress("Expect:")
        case .unknown:
            settings.body_length = Int64(PINPROXY_BODY_UNKNOWN)
            fields.suppress("Expect:")
        }
        fields.addLines(request.fields, hasZeroLength: request.bodyLength == .bytes(0))
        settings.fields = fields.link()
        settings.target = fields.text(at: target)
        settings.method = fields.text(at: method)
        settings.head = request.method == .head
        settings.fresh_connection = isFreshAttempt
        pinproxy_easy_set_request(easy, &settings)
    }

    /// Lets libcurl go on at the end of the turn: the task has bytes to send, or wants more.
    func continueLater() {
        guard !isContinuePlanned else { return }
        isContinuePlanned = true
        pool.continueLater(self)
    }

    func continueNow() {
        isContinuePlanned = false
        guard slot >= 0, task != nil else { return }
        clock.active(at: pool.loop.now)
        pinproxy_easy_continue(easy)
    }

    // MARK: End

    /// The task is done with this transfer.
    func end() {
        task = nil
        leaveConnection()
        pool.retire(self)
    }

    private func leaveConnection() {
        ssl = nil
        if record?.transfer === self { record?.transfer = nil }
    }

    /// Called when it is out of libcurl: nothing of the last task is held on to.
    func forgetTask() {
        task = nil
        verification = nil
        record = nil
        ssl = nil
        connection = nil
        failure = nil
        isContinuePlanned = false
    }

    /// libcurl has finished it.
    func finished(_ result: CURLcode) {
        guard let task else {
            pool.retire(self)
            return
        }
        if result != CURLE_OK || attempts > 1 { isWorn = true }
        if result != CURLE_OK {
            if handshakePeer != nil { times.secureConnectionEnd = task.elapsed }
            tellOfRefusal(task.request.endpoint)
        }
        // Whoever was told may have cancelled the task, which has taken the transfer out of libcurl.
        guard self.task === task else { return }
        if needsFreshConnection {
            guard !pool.isHandingBack else { return task.finish(.sessionInvalidated) }
            isFreshAttempt = true
            beginAgain(task)
            return
        }
        if lacksDescriptor, result == CURLE_COULDNT_CONNECT, failure == nil, refusedAddress == nil {
            guard !hasMadeRoom, !pool.isHandingBack, pool.makeRoom() else {
                return task.finish(descriptorShortage(task))
            }
            hasMadeRoom = true
            beginAgain(task)
            return
        }
        if failure == nil, result == CURLE_OK, let stream = task.stream {
            stream.connected(self)
        } else if failure == nil, result == CURLE_OK, case .complete = response.end(closedCleanly: closedCleanly) {
            complete(task)
        } else {
            task.finish(failure ?? error(result, of: task))
        }
    }

    /// Nothing of it has gone out.
    private func beginAgain(_ task: LoopTask) {
        leaveConnection()
        pool.withdraw(self)
        attempts = 0
        times.start = task.elapsed
        begin(task)
    }

    private func descriptorShortage(_ task: LoopTask) -> SessionError {
        SessionError(
            .limitReached,
            "There is no descriptor for a connection to \(task.request.endpoint.host): as many are in use as the system allows "
                + "this process open files. Try again, or raise that limit (LimitNOFILE= or ulimit -n)."
        )
    }

    private func complete(_ task: LoopTask) {
        if response.trailers.count > 0 { task.delegate.task(task, didReceiveTrailers: response.trailers) }
        task.finish(nil)
    }

    private var closedCleanly: Bool { record?.receivedCloseNotify ?? true }

    private func error(_ result: CURLcode, of task: LoopTask) -> SessionError {
        if result == CURLE_OK, case .truncated(let why) = response.end(closedCleanly: closedCleanly) {
            return SessionError(.responseTruncated, why)
        }
        return TransferFailure(
            result: result,
            details: String(cString: errorText),
            endpoint: task.request.endpoint,
            evaluation: evaluation,
            lacksClientCertificate: verification?.isClientCertificateMissing ?? false,
            // Without a verification nothing is known of the handshake.
            hasSeenChain: verification?.hasSeenChain ?? true,
            refusedAddress: refusedAddress,
            headReceived: response.hasHead,
            isSent: attempts > 0
        ).error
    }

    /// What libcurl says of an error.
    func lastWords(_ result: CURLcode) -> String {
        errorText.pointee == 0 ? String(cString: curl_easy_strerror(result)) : String(cString: errorText)
    }

    /// What the security policy found, also for a connection that it refused.
    var evaluation: TrustEvaluation? {
        connection?.evaluation ?? verification?.lastTrust?.evaluation
    }

    // MARK: Time

    /// Enters a phase: its time runs from now.
    func enter(_ phase: TransferClock.Phase) {
        clock.enter(phase, at: pool.loop.now)
        armTimer()
    }

    /// The task's owner suspends it, or lets it go on.
    func holdClock(_ isHeld: Bool) {
        if isHeld { clock.suspend() } else { clock.resume(at: pool.loop.now) }
        armTimer()
    }

    /// The timer is armed once and looks, when it fires, how much time there is left: entering a phase costs two stores.
    /// It is armed for the shortest wait, so that it never fires too late.
    private func armTimer() {
        let deadline = clock.deadline
        if !timer.isArmed || timer.deadline > deadline { pool.loop.arm(timer, at: deadline) }
    }

    private func timerFired() {
        guard let task else { return }
        switch clock.judge(at: pool.loop.now) {
        case .wait(let deadline): pool.loop.arm(timer, at: deadline)
        case .expired(let expiry):
            task.finish(expiry.error(task.request.endpoint, isResolving: dialledAddress == nil && verification == nil))
        }
    }

    // MARK: libcurl calls back

    /// The socket to act on again, because OpenSSL holds bytes that it has read ahead; nil otherwise.
    var pendingSocket: Int32? {
        guard let ssl, let record, record.isOpen, let task, slot >= 0, record.descriptor >= 0, !task.receivePaused,
            SSL_has_pending(ssl) == 1
        else { return nil }
        return record.descriptor
    }

    /// OpenSSL has taken a record from what it has read.
    func tookRecord() {
        pool.mayHavePending(self)
    }

    private func noteResponseStart(_ task: LoopTask) {
        if times.responseStart == TransactionMetrics.absent { times.responseStart = task.elapsed }
    }

    /// One line of a head.
    func takeLine(_ line: borrowing Span<UInt8>) -> Bool {
        pool.took(line.count)
        switch response.take(line: line) {
        case .needMore, .trailers:
            return true
        case .informational:
            guard let task else { return false }
            noteResponseStart(task)
            task.delegate.task(task, didReceiveInformational: response.head)
            return self.task != nil
        case .response:
            guard let task else { return false }
            noteResponseStart(task)
            enter(.receiving)
            // A final answer ends an upload that waits for its client: libcurl would wait with it.
            if task.uploadPaused { continueLater() }
            if task.received(response.head) == .cancel, self.task != nil { task.cancel() }
            finishEarly()
            return self.task != nil
        case .failed(let why):
            failure = SessionError(.responseInvalid, why)
            return false
        }
    }

    /// Bytes of the body, as they came.
    func takeBody(_ bytes: borrowing Span<UInt8>) -> Int32 {
        guard let task else { return Int32(PINPROXY_BODY_FAILED) }
        if pool.getsLinesAsBody, !response.hasHead { return announceHead(bytes) }
        if task.receivePaused { return Int32(PINPROXY_BODY_PAUSE) }
        clock.active(at: pool.loop.now)
        pool.took(bytes.count)
        var position = 0
        while true {
            let rest = bytes.extracting(position..<bytes.count)
            switch response.next(rest) {
            case .data(let range, let consumed):
                if task.delegate.task(task, didReceive: rest.extracting(range)) == .pause {
                    task.pausedByDelegate = true
                }
                guard self.task != nil else { return Int32(PINPROXY_BODY_FAILED) }
                position += consumed
                if position == bytes.count {
                    finishEarly()
                    return Int32(PINPROXY_BODY_TAKEN)
                }
            case .needMore:
                return Int32(PINPROXY_BODY_TAKEN)
            case .end:
                finishEarly()
                return Int32(PINPROXY_BODY_TAKEN)
            case .failed(let why):
                failure = SessionError(.responseInvalid, why)
                return Int32(PINPROXY_BODY_FAILED)
            }
        }
    }

    /// A piece of a head, which `takeLine` will be given as part of its line.
    private func announceHead(_ bytes: borrowing Span<UInt8>) -> Int32 {
        guard let why = response.announce(headBytes: bytes) else { return Int32(PINPROXY_BODY_TAKEN) }
        failure = SessionError(.responseInvalid, why)
        return Int32(PINPROXY_BODY_FAILED)
    }

    /// The answer is whole although the request is not: the rest of the upload would go to nobody. The connection
    /// cannot be used again and closes.
    private func finishEarly() {
        guard let task, response.isComplete else { return }
        // A HEAD with a body is an upload to libcurl, which then waits for a body that the answer does not have.
        let isUploadingHead = task.request.method == .head && task.request.bodyLength.hasBody
        if !task.uploadEnded || task.upload.count > 0 || isUploadingHead { complete(task) }
    }
}
