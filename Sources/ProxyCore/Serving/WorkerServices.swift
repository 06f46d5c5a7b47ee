// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore
import SharedCaching

/// What the connections and requests of one loop use together: the loop, the policy of new requests, the cache, buffers, counters and
/// the log. It knows none of them.
final class WorkerServices {
    let loop: EventLoop
    /// The generation for new requests. Older ones live as long as the exchanges that hold them.
    private(set) var generation: Generation
    let pseudonym: [UInt8]
    /// What requests to origins get.
    let marks: RequestMarks
    /// nil when nothing is cached.
    private(set) var cache: ResponseCache?
    /// The level of the cache that several machines share; nil without one.
    private(set) var level: RedisLevel?
    private(set) var isDraining = false
    /// How long an idle client is served while draining: it may not know yet that its connection will end.
    private var drainGrace = TimeSpan.seconds(0)

    /// The buffer that client bytes are read into, so that an idle connection needs no buffer of its own.
    var scratch = ByteBuffer()
    static let readSize = 64 << 10

    /// Counters for the metrics.
    let counters: WorkerCounters
    /// The bytes that clients and origins of this loop make the process hold.
    let held: HeldBytes
    let authenticator: ClientAuthenticator
    private let server: ServerState
    private let observer: HandshakeObserver
    private let spans: SpanBuffer
    private let restTimer = LoopTimer()
    private static let restTime = TimeSpan.seconds(2)
    private var logBuffer: LogBuffer?
    /// nil without an admin listener.
    private let recentTasks: RecentTasks?
    private var logLine: TaskLogLine
    private var date: [UInt8] = []
    private var dateSecond: Int64 = -1

    init(
        loop: EventLoop,
        generation: Generation,
        server: ServerState,
        monitor: PinMonitor,
        passwords: PasswordVerifier,
        traces: TraceExport,
        log: LogWriter?,
        recentTasks: RecentTasks?,
        cache: ResponseCache?,
        pseudonym: [UInt8]
    ) {
        self.loop = loop
        self.cache = cache
        self.generation = generation
        self.server = server
        spans = SpanBuffer(traces, loop)
        held = HeldBytes(server.heldBytes)
        authenticator = ClientAuthenticator(loop: loop, verifier: passwords)
        let counters = WorkerCounters()
        self.counters = counters
        observer = HandshakeObserver(loop: loop, monitor: monitor, counters: counters)
        observer.observe(generation.manager)
        generation.manager.count(in: held)
        self.pseudonym = pseudonym
        marks = RequestMarks(pseudonym: pseudonym)
        self.recentTasks = recentTasks
        logBuffer = log.map { LogBuffer(writer: $0, recent: recentTasks, loop: loop) }
        logLine = TaskLogLine(redacting: generation.snapshot.configuration.log.redact)
        level = makeLevel()
    }

    /// The threads for the steps of clients' TLS handshakes.
    var handshakes: FairThreads { server.handshakes }

    /// The thread for file operations.
    var files: FileThread { server.files }

    // MARK: Memory

    /// Whether a connection that holds so much may hold more.
    func mayHold(_ bytes: Int) -> Bool { held.budget.mayHoldMore(bytes, of: server.connections) }

    func borrowScratch() -> ByteBuffer {
        var taken = ByteBuffer()
        swap(&taken, &scratch)
        return taken
    }

    func returnScratch(_ buffer: inout ByteBuffer) {
        swap(&buffer, &scratch)
    }

    /// Gives unused memory back soon. Each request postpones that, which costs one store.
    func restSoon() { loop.arm(restTimer, after: Self.restTime) }

    /// - Parameter release: frees what is kept for later use.
    func whenAtRest(_ release: @escaping () -> Void) {
        restTimer.whenDue { [server] in
            release()
            SystemMemory.release()
            server.handshakes.rest()
        }
    }

    // MARK: Dates and log

    /// The value of Date for the current second (RFC 9110, section 6.6.1).
    var httpDate: [UInt8] {
        let second = loop.wallClock / 1_000_000
        if second != dateSecond {
            dateSecond = second
            date = HTTPDate.format(unixSeconds: Int(second))
        }
        return date
    }

    /// Writes a line of the task log, if there is one.
    @inline(__always)
    func log(_ write: (inout TaskLogLine, inout ByteBuffer) -> Void) {
        logBuffer?.line { write(&logLine, &$0) }
    }

    /// Records the spans of a sampled request, if a collector is named.
    ///
    /// - Parameter make: makes the record with what masks URLs as in the log.
    func trace(_ make: (TaskLogLine) -> SpanRecord) { spans.add { make(logLine) } }

    /// Counts a client's request that is over.
    ///
    /// - Parameters:
    ///   - task: the last one; nil when the request was refused before there was one.
    ///   - status: of the response; nil without one.
    ///   - duration: microseconds.
    func count(
        _ task: LoopTask?,
        status: Int?,
        error: Problem.Code?,
        bytesFromClient: Int,
        bytesToClient: Int,
        duration: Int64
    ) {
        counters.noteTask(
            status: status,
            error: error,
            bytesFromClient: bytesFromClient,
            bytesToClient: bytesToClient,
            duration: duration
        )
        guard let task else { return }
        counters.noteTransactions(of: task)
        if let error { noteFailure(error, of: task) }
    }

    /// Counts a request that got no connection. The look-up is for failures alone.
    func noteFailure(_ error: Problem.Code, of task: LoopTask) {
        guard DomainFailures.connectErrors.contains(error) else { return }
        let endpoint = task.request.endpoint
        observer.count(error, of: generation.snapshot.pinnedDomains.policy(host: endpoint.host, port: endpoint.port))
    }

    // MARK: Reload

    /// Uses another policy for everything that begins or continues from now on.
    ///
    /// - Returns: the former one, to be retired.
    func adopt(_ next: Generation, cache: ResponseCache?) -> Generation {
        let former = generation
        generation = next
        if self.cache === cache {
            if let dial { level?.redial(dial) }
        } else {
            self.cache = cache
            level?.close()
            level = makeLevel()
        }
        observer.observe(next.manager)
        next.manager.count(in: held)
        server.heldBytes.setLimit(next.snapshot.configuration.limits.heldBytes)
        logBuffer?.flush()
        // The new masking also applies to requests that are under way.
        logLine = TaskLogLine(redacting: next.snapshot.configuration.log.redact)
        return former
    }

    /// Dials the servers of the shared cache under the present policy; nil without one.
    private var dial: RedisDial? { generation.snapshot.configuration.cache?.redis.map { generation.dial($0) } }

    private func makeLevel() -> RedisLevel? {
        guard let shared = cache?.sharedCache, let dial else { return nil }
        return shared.makeLevel(loop: loop, dial: dial)
    }

    func logTo(_ writer: LogWriter?) {
        guard writer !== logBuffer?.writer else { return }
        logBuffer?.end()
        logBuffer = writer.map { LogBuffer(writer: $0, recent: recentTasks, loop: loop) }
        recordTasks()
    }

    /// Makes lines for a reader at the admin listener although no task log is written.
    func recordTasks() {
        guard logBuffer == nil, let recentTasks, recentTasks.isWanted else { return }
        logBuffer = LogBuffer(writer: nil, recent: recentTasks, loop: loop)
    }

    // MARK: The end

    /// How long a client's connection may be idle now.
    var idleTime: TimeSpan { isDraining ? min(drainGrace, generation.idleTime) : generation.idleTime }

    /// - Parameter grace: how long a connection may be idle from now on.
    func drain(grace: TimeSpan) {
        isDraining = true
        drainGrace = grace
    }

    /// Ends the tasks at once.
    func stop() {
        // It would dial again when its streams end.
        level?.close()
        level = nil
        // Older generations have lost their last tasks with the connections.
        generation.manager.invalidateSession(cancelingTasks: true)
        observer.stop()
        logBuffer?.flush()
        spans.flush()
    }
}
