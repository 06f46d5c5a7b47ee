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
    private unowned(unsafe) let pool: TransferPool
    /// Its place among the pool's active ones; -1 when libcurl does not have it.
    var slot = -1
    /// Given back while libcurl was on the stack; waits to be taken out.
    var isRetiring = false
    private(set) var task: SessionTask?
    /// The handle has failed or repeated a request: libcurl counts the repeats of a handle over all its transfers and
    /// gives up at the sixth (`state.retrycount` in 7.88), so such a handle is not used again.
    private(set) var isWorn = false

    private let errorText: UnsafeMutablePointer<CChar>
    private var fields = FieldList()
    private var endpoint: Endpoint?
    private var timer: LoopTimer!

    // The exchange under way.
    private var response = ResponseReader()
    private var phase = Phase.connecting
    private var verification: TLSVerification?
    private var record: ConnectionRecord?
    private var connection: ConnectionInfo?
    /// The connection's TLS; valid from `isReady` until libcurl has finished with the transfer.
    private var ssl: OpaquePointer?
    /// Requests that libcurl has begun to send for this task: a second one is a repeat on its own account.
    private var attempts = 0
    private var bodyTaken = false
    /// Why the transfer was ended from within a callback.
    private var failure: SessionError?
    private var refusedAddress: (address: SocketAddress, refusal: DialRefusal)?
    private var dialledAddress: SocketAddress?
    private var openedSockets: [Int32] = []
    /// The connection at hand may not be used any more: try once on a new one.
    private var needsFreshConnection = false
    private var isFreshAttempt = false
    private var isContinuePlanned = false
    private var lastActivity: UInt64 = 0
    private var times = Times()

    private enum Phase {
        case connecting, sending, waiting, receiving
    }

    /// Microseconds from the task's start that libcurl does not tell.
    private struct Times {
        var start: Int64 = 0
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
        timer = LoopTimer { [unowned self] in timeIsUp() }
    }

    func destroy() {
        pool.loop.remove(timer)
        pinproxy_easy_destroy(easy)
        errorText.deallocate()
    }

    // MARK: Start

    func start(_ task: SessionTask) {
        self.task = task
        failure = nil
        refusedAddress = nil
        isFreshAttempt = false
        attempts = 0
        bodyTaken = false
        times = Times()
        begin(task)
    }

    private func begin(_ task: SessionTask) {
        response.reset(for: task.request.method)
        verification = nil
        record = nil
        ssl = nil
        connection = nil
        dialledAddress = nil
        if !openedSockets.isEmpty { openedSockets.removeAll(keepingCapacity: true) }
        needsFreshConnection = false
        errorText.pointee = 0
        let endpoint = task.request.endpoint
        if self.endpoint !== endpoint { setEndpoint(endpoint) }
        setRequest(task.request)
        enter(.connecting)
        if let total = endpoint.timeouts.total { armTimer(total) }
        pool.add(self)
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
        }
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
        lastActivity = pool.loop.now
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
        if needsFreshConnection {
            leaveConnection()
            pool.withdraw(self)
            isFreshAttempt = true
            attempts = 0
            times.start = task.elapsed
            begin(task)
            return
        }
        if failure == nil, result == CURLE_OK, case .complete = response.end(closedCleanly: closedCleanly) {
            complete(task)
        } else {
            task.finish(failure ?? error(result))
        }
    }

    private func complete(_ task: SessionTask) {
        if response.trailers.count > 0 { task.delegate.task(task, didReceiveTrailers: response.trailers) }
        task.finish(nil)
    }

    private var closedCleanly: Bool { record?.receivedCloseNotify ?? true }

    private func error(_ result: CURLcode) -> SessionError {
        if result == CURLE_OK, case .truncated(let why) = response.end(closedCleanly: closedCleanly) {
            return SessionError(.responseTruncated, why)
        }
        return TransferFailure(
            result: result,
            details: String(cString: errorText),
            endpoint: task!.request.endpoint,
            evaluation: evaluation,
            refusedAddress: refusedAddress,
            headReceived: response.hasHead
        ).error
    }

    /// What the security policy found, also for a connection that it refused.
    var evaluation: TrustEvaluation? {
        connection?.evaluation ?? verification?.lastTrust?.evaluation
    }

    func collectMetrics(into metrics: inout TaskMetrics) {
        var info = pinproxy_transfer_info()
        pinproxy_easy_info(easy, &info)
        var transaction = TransactionMetrics()
        let start = times.start
        func time(_ value: Int64) -> Int64 { value > 0 ? start + value : TransactionMetrics.absent }
        transaction.fetchStart = start
        transaction.isReusedConnection = attempts > 0 && info.new_connections == 0
        if info.new_connections > 0 {
            transaction.domainLookupStart = start
            transaction.domainLookupEnd = time(info.name_lookup)
            transaction.connectStart = transaction.domainLookupEnd
            transaction.connectEnd = info.tls > 0 ? time(info.tls) : time(info.connect)
            if info.tls > 0 {
                transaction.secureConnectionStart = time(info.connect)
                transaction.secureConnectionEnd = time(info.tls)
            }
        }
        if attempts > 0 {
            transaction.requestStart = time(info.pre_transfer)
            transaction.requestEnd =
                times.requestEnd == TransactionMetrics.absent ? transaction.requestStart : times.requestEnd
            transaction.requestHeaderBytesSent = Int64(info.request_size)
            transaction.requestBodyBytesSent = info.uploaded
        }
        if response.hasHead {
            transaction.status = response.head.status
            transaction.responseStart = times.responseStart
            transaction.responseEnd = max(time(info.total), times.responseStart)
            transaction.responseHeaderBytesReceived = Int64(info.header_size)
            transaction.responseBodyBytesReceived = info.downloaded
            transaction.protocolVersion = Int(response.head.majorVersion) * 10 + Int(response.head.minorVersion)
        }
        transaction.connection = connection
        metrics.transaction = transaction
    }

    // MARK: Time

    /// The timer is armed once and looks, when it fires, how much time the phase then has left: entering a phase costs
    /// two stores. It is armed for the shortest of the waits, so that it never fires too late.
    private func armTimer(_ span: TimeSpan) {
        if !timer.isArmed || isTimerLate(span) { pool.loop.arm(timer, after: span) }
    }

    private func isTimerLate(_ span: TimeSpan) -> Bool {
        timer.deadline > pool.loop.now &+ span.nanoseconds
    }

    private func enter(_ next: Phase) {
        phase = next
        lastActivity = pool.loop.now
        armTimer(phaseLimit(next))
    }

    private func phaseLimit(_ phase: Phase) -> TimeSpan {
        guard let timeouts = endpoint?.timeouts else { return .seconds(0) }
        switch phase {
        case .connecting: return timeouts.connect
        case .waiting: return timeouts.firstByte
        case .sending, .receiving: return timeouts.stall
        }
    }

    private func timeIsUp() {
        guard let task else { return }
        let timeouts = task.request.endpoint.timeouts
        let now = pool.loop.now
        var left = UInt64.max
        if let total = timeouts.total?.nanoseconds {
            let used = now &- task.startedAt
            if used >= total {
                task.finish(
                    SessionError(
                        phase == .connecting ? .connectTimeout : .responseTimeout,
                        "The request took longer than timeouts.total (\(total / 1_000_000) ms)."
                    )
                )
                return
            }
            left = total - used
        }
        let limit = phaseLimit(phase)
        let idle = now &- lastActivity
        if idle < limit.nanoseconds {
            pool.loop.arm(timer, after: TimeSpan(nanoseconds: min(left, limit.nanoseconds - idle)))
            return
        }
        task.finish(timeoutError(task.request.endpoint, limit))
    }

    private func timeoutError(_ endpoint: Endpoint, _ limit: TimeSpan) -> SessionError {
        switch phase {
        case .connecting:
            let isResolving = dialledAddress == nil && verification == nil
            return SessionError(
                isResolving ? .dnsTimeout : .connectTimeout,
                "No connection to \(endpoint.host) within timeouts.connect (\(limit.milliseconds) ms)."
            )
        case .waiting:
            return SessionError(
                .responseTimeout,
                "No answer from \(endpoint.host) within timeouts.firstByte (\(limit.milliseconds) ms)."
            )
        case .sending, .receiving:
            return SessionError(
                .stalled,
                "No byte of a body has moved within timeouts.stall (\(limit.milliseconds) ms)."
            )
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

    private func noteResponseStart(_ task: SessionTask) {
        if times.responseStart == TransactionMetrics.absent { times.responseStart = task.elapsed }
    }

    /// One line of a head.
    func takeLine(_ line: borrowing Span<UInt8>) -> Bool {
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
            if task.delegate.task(task, didReceive: response.head) == .cancel, self.task != nil { task.cancel() }
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
        if task.receivePaused { return Int32(PINPROXY_BODY_PAUSE) }
        lastActivity = pool.loop.now
        var position = 0
        while true {
            let rest = bytes.extracting(position..<bytes.count)
            switch response.next(rest) {
            case .data(let range, let consumed):
                if task.delegate.task(task, didReceive: rest.extracting(range)) == .pause {
                    task.receivePaused = true
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

    /// The answer is whole although the request is not: the rest of the upload would go to nobody. The connection
    /// cannot be used again and closes.
    private func finishEarly() {
        guard let task, response.isComplete, !task.uploadEnded || task.upload.count > 0 else { return }
        complete(task)
    }

    /// Room for bytes of the request body.
    func giveBody(_ room: UnsafeMutableRawBufferPointer) -> Int {
        guard let task else { return Int(PINPROXY_UPLOAD_ABORT) }
        lastActivity = pool.loop.now
        let count = min(room.count, task.upload.count)
        if count > 0 {
            bodyTaken = true
            task.upload.withUnsafeBytes { room.baseAddress!.copyMemory(from: $0.baseAddress!, byteCount: count) }
            task.upload.consume(count)
            if task.upload.isEmpty {
                if task.uploadEnded { bodyIsSent(task) } else { task.delegate.taskNeedsBodyData(task) }
            }
            return self.task == nil ? Int(PINPROXY_UPLOAD_ABORT) : count
        }
        if task.uploadEnded {
            bodyIsSent(task)
            return 0
        }
        task.uploadPaused = true
        task.delegate.taskNeedsBodyData(task)
        return self.task == nil ? Int(PINPROXY_UPLOAD_ABORT) : Int(PINPROXY_UPLOAD_PAUSE)
    }

    private func bodyIsSent(_ task: SessionTask) {
        guard phase == .sending else { return }
        times.requestEnd = task.elapsed
        enter(.waiting)
    }

    /// A new connection makes its TLS context: the policy goes in.
    func prepareTLS(_ context: OpaquePointer) -> Bool {
        guard let endpoint = task?.request.endpoint else { return false }
        do {
            verification = try TLSVerification.install(
                on: context,
                policy: endpoint.policy,
                host: endpoint.host,
                anchors: endpoint.anchors,
                generation: endpoint.generation
            )
        } catch {
            failure = SessionError(.internal, "The security policy could not be installed: \(error).")
            return false
        }
        ConnectionRecord.watchForCloseNotify(context)
        // nghttp2 reads until there is nothing left, and has no need of it.
        if endpoint.httpVersion == .http1 { ConnectionRecord.readAhead(context) }
        return true
    }

    /// A connection is there, new or reused: the last look before the request goes out.
    func isReady(_ ssl: OpaquePointer?, address: UnsafePointer<CChar>?, port: Int32) -> Bool {
        guard let task else { return false }
        let endpoint = task.request.endpoint
        attempts += 1
        if attempts > 1, !mayRepeat(task) { return false }
        if endpoint.scheme == .https {
            guard let ssl, judgeAgain(ssl, endpoint, address, port) else { return false }
        } else {
            guard ssl == nil else {
                failure = SessionError(.internal, "TLS on a connection that was to have none.")
                return false
            }
            connection = ConnectionInfo(
                remoteAddress: Self.address(address, port),
                tlsVersion: nil,
                cipher: nil,
                evaluation: nil
            )
        }
        enter(task.uploadEnded && task.upload.isEmpty ? .waiting : .sending)
        task.delegate.taskDidConnect(task)
        return self.task != nil
    }

    /// The verdict of the handshake, for this request: the same host, the same generation, and not too old.
    private func judgeAgain(
        _ ssl: OpaquePointer,
        _ endpoint: Endpoint,
        _ address: UnsafePointer<CChar>?,
        _ port: Int32
    ) -> Bool {
        guard
            let record = ConnectionRecord.of(
                ssl,
                descriptor: openedSocket,
                remoteAddress: Self.address(address, port)
            )
        else {
            failure = SessionError(
                .certificateUntrusted,
                "The connection to \(endpoint.host) was never judged by the security policy."
            )
            return false
        }
        let trust = record.trust
        guard trust.generation == endpoint.generation, trust.host == endpoint.host else {
            failure = SessionError(
                .internal,
                "A connection of another host or policy was offered for \(endpoint.host)."
            )
            return false
        }
        guard trust.evaluation.isStillGood(at: pool.loop.wallClock / 1_000_000) else {
            if isFreshAttempt {
                failure = SessionError(
                    .certificateExpired,
                    "The verdict on \(endpoint.host) does not hold any more.",
                    evaluation: trust.evaluation
                )
            } else {
                needsFreshConnection = true
            }
            return false
        }
        self.record = record
        if endpoint.httpVersion == .http1 {
            self.ssl = ssl
            record.transfer = self
        }
        connection = record.info
        return true
    }

    /// Rule 57: only what is idempotent, was not answered, and has no body that is gone.
    private func mayRepeat(_ task: SessionTask) -> Bool {
        if task.request.method.isIdempotent, !bodyTaken, !response.hasHead {
            response.reset(for: task.request.method)
            return true
        }
        failure = SessionError(
            .responseTruncated,
            "\(task.request.endpoint.host) closed the kept connection while the \(task.request.method) request went out. "
                + "It is not sent again, because the origin may have acted on it; send it again if that is safe."
        )
        return false
    }

    /// The address rules, on the address that is really dialled.
    func openSocket(_ address: UnsafePointer<sockaddr>, _ length: UInt32, family: Int32) -> Int32 {
        guard let task, let dialled = SocketAddress(address, length: length) else { return -1 }
        if let refusal = task.request.endpoint.dialRule?(dialled) {
            refusedAddress = (dialled, refusal)
            return -1
        }
        dialledAddress = dialled
        let descriptor = pool.open(family: family)
        openedSockets.append(descriptor)
        return descriptor
    }

    /// The socket of a new connection: of those that were tried at a time, the one that libcurl has not closed.
    private var openedSocket: Int32 {
        let open = openedSockets.filter { pool.isOpen($0) }
        return open.count == 1 ? open[0] : -1
    }

    private static func address(_ text: UnsafePointer<CChar>?, _ port: Int32) -> SocketAddress {
        let port = UInt16(truncatingIfNeeded: port)
        var four = in_addr()
        var six = in6_addr()
        if let text, inet_pton(AF_INET, text, &four) == 1 {
            return SocketAddress(ipv4: UInt32(bigEndian: four.s_addr), port: port)
        }
        if let text, inet_pton(AF_INET6, text, &six) == 1 {
            return withUnsafeBytes(of: six) { raw in
                SocketAddress(
                    ipv6Upper: UInt64(bigEndian: raw.loadUnaligned(as: UInt64.self)),
                    lower: UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self)),
                    port: port
                )
            }
        }
        return SocketAddress(unixPath: "")
    }
}
