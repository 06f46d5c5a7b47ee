// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// One loop's share of the proxy: the connections that it serves, their exchanges, its session, its log lines.
///
/// `@unchecked Sendable` because a worker is made before its thread starts and is from then on touched by that thread
/// alone: other threads use `loop` (a constant; `submit`) and `load` (atomic numbers), and nothing else of it.
final class Worker: EndOfTurnHandler, @unchecked Sendable {
    let loop: EventLoop
    /// The generation for new requests. Older ones live as long as the exchanges that hold them.
    private(set) var generation: Generation
    let pseudonym: [UInt8]
    /// The value added to Via, by the minor version of the request.
    let viaOfVersion10: [UInt8]
    let viaOfVersion11: [UInt8]
    let viaOfVersion2: [UInt8]
    /// nil when nothing is cached.
    private(set) var cache: ResponseCache?
    private(set) var isDraining = false
    /// How long an idle client is served while draining: it may not know yet that its connection will end.
    private var drainGrace = TimeSpan.seconds(0)
    private var isStopped = false

    /// The buffer that client bytes are read into, so that an idle connection needs no buffer of its own.
    var scratch = ByteBuffer()
    static let readSize = 64 << 10
    private static let restTime = TimeSpan.seconds(2)

    /// Counters for the metrics.
    let counters = WorkerCounters()
    /// The number of this worker's connections, those included that are on their way to it.
    let load = WorkerLoad()
    /// Smaller differences are not worth another thread's turn, and leave two clients of one origin on one worker, whose
    /// connection to the origin they can share.
    private static let worthwhileDifference = 2
    /// A worker that has not taken a connection for so long gets no further ones: its loop is held up, and they would wait with it.
    private static let patience = TimeSpan.milliseconds(100)
    /// All workers of the proxy, without this one. Set before the first of them runs.
    private var others: [Worker] = []
    /// The bytes that clients and origins of this loop make the process hold.
    let held: HeldBytes
    /// The requests that are being closed because too much is held, the one last that has been idle longest.
    private var toGiveUp: [any MemoryHolder] = []
    private var lookedForIdleAt: UInt64 = 0
    private let reliefTimer = LoopTimer()
    let authenticator: ClientAuthenticator
    /// The threads for the steps of clients' TLS handshakes.
    var handshakes: FairThreads { server.handshakes }
    private let server: ServerState
    private let observer: HandshakeObserver
    private var logBuffer: LogBuffer?
    /// nil without an admin listener.
    private let recentTasks: RecentTasks?
    private var listeners: [WorkerListener] = []
    private var connections: [ClientTransport] = []
    private var idleExchanges: [Exchange] = []
    private let restTimer = LoopTimer()
    private var toFlush = TurnQueue<ClientTransport>()
    private var toPump = TurnQueue<ClientTransport>()
    private var date: [UInt8] = []
    private var dateSecond: Int64 = -1
    private var logLine: TaskLogLine

    init(
        loop: EventLoop,
        generation: Generation,
        server: ServerState,
        monitor: PinMonitor,
        passwords: PasswordVerifier,
        log: LogWriter?,
        recentTasks: RecentTasks? = nil,
        cache: ResponseCache?,
        pseudonym: [UInt8]
    ) {
        self.loop = loop
        self.cache = cache
        self.generation = generation
        self.server = server
        held = HeldBytes(server.heldBytes)
        authenticator = ClientAuthenticator(loop: loop, verifier: passwords)
        observer = HandshakeObserver(loop: loop, monitor: monitor, counters: counters)
        observer.observe(generation.manager)
        generation.manager.count(in: held)
        self.pseudonym = pseudonym
        viaOfVersion10 = ViaField.value(minorVersion: 0, pseudonym: pseudonym)
        viaOfVersion11 = ViaField.value(minorVersion: 1, pseudonym: pseudonym)
        viaOfVersion2 = ViaField.value(majorVersion: 2, minorVersion: 0, pseudonym: pseudonym)
        self.recentTasks = recentTasks
        logBuffer = log.map { LogBuffer(writer: $0, recent: recentTasks, loop: loop) }
        logLine = TaskLogLine(redacting: generation.snapshot.configuration.log.redact)
        super.init()
        restTimer.whenDue { [unowned self] in rest() }
        reliefTimer.whenDue { [unowned self] in relieve() }
    }

    /// Starts to accept connections of a listener.
    func listen(_ socket: ListeningSocket, _ configuration: ListenerConfiguration) throws(IOFailure) {
        let listener = WorkerListener(
            socket: socket,
            configuration: configuration,
            index: listeners.count,
            worker: self
        )
        try listener.start()
        listeners.append(listener)
    }

    /// Lets this worker give connections to the others. Called before any of them runs.
    func share(with workers: [Worker]) {
        others = workers.filter { $0 !== self }
    }

    /// The thread for file operations.
    var files: FileThread { server.files }

    // MARK: Connections

    /// Admits an accepted connection, and gives it to the worker that has the fewest.
    ///
    /// The kernel wakes the worker that began to wait last, so that of a few clients one worker would have most or all.
    func didAccept(_ descriptor: Int32, _ address: SocketAddress, _ listener: WorkerListener) {
        guard !DescriptorReserve.holds(descriptor),
            server.admit(limit: generation.snapshot.configuration.limits.connections)
        else {
            counters.noteRefusedConnection(at: loop.wallClock / 1_000_000)
            ClientTransport(descriptor: descriptor, address: address, listener: listener, worker: self).refuseForLimit()
            return
        }
        guard !isDraining, let other = lessLoadedWorker else {
            load.add()
            serve(AcceptedConnection(descriptor, address), listener)
            return
        }
        // Counted at once: the other worker may begin its next turn only when many more were accepted here.
        other.load.addComing(at: loop.now)
        let connection = AcceptedConnection(descriptor, address)
        let index = listener.index
        other.loop.submit { other.receive(connection, atListener: index) }
    }

    /// The worker with the fewest connections, if it has clearly fewer than this one.
    private var lessLoadedWorker: Worker? {
        var least = load.count - Self.worthwhileDifference
        var found: Worker?
        for other in others {
            let count = other.load.count
            guard count <= least, !other.load.isHeldUp(for: Self.patience, at: loop.now) else { continue }
            least = count - 1
            found = other
        }
        return found
    }

    /// Serves a connection that another worker has accepted and admitted.
    private func receive(_ accepted: AcceptedConnection, atListener index: Int) {
        load.removeComing(at: loop.now)
        guard !isStopped else {
            load.remove()
            server.release()
            return
        }
        serve(accepted, listeners[index])
    }

    private func serve(_ accepted: AcceptedConnection, _ listener: WorkerListener) {
        let connection = ClientTransport(
            descriptor: accepted.take(),
            address: accepted.address,
            listener: listener,
            worker: self
        )
        counters.noteConnection()
        connection.slot = connections.count
        connections.append(connection)
        if !connection.open() { forget(connection) }
    }

    func forget(_ connection: ClientTransport) {
        let slot = connection.slot
        guard slot >= 0 else { return }
        connection.slot = -1
        let last = connections.removeLast()
        if last !== connection {
            connections[slot] = last
            last.slot = slot
        }
        load.remove()
        server.release()
        restSoon()
    }

    func borrowExchange(for stream: ExchangeStream) -> Exchange {
        guard let exchange = idleExchanges.popLast() else { return Exchange(worker: self, stream: stream) }
        exchange.attach(stream)
        return exchange
    }

    func returnExchange(_ exchange: Exchange) {
        exchange.detach()
        if idleExchanges.count < 256 { idleExchanges.append(exchange) }
        // Each request postpones the rest, which costs one store.
        loop.arm(restTimer, after: Self.restTime)
    }

    /// Gives unused memory back soon: much was freed without a request.
    func restSoon() { loop.arm(restTimer, after: Self.restTime) }

    /// Gives unused memory back to the system when no request has ended for a while.
    private func rest() {
        idleExchanges = []
        SystemMemory.release()
        handshakes.rest()
    }

    // MARK: Memory that peers hold

    /// Whether a connection that holds so much may hold more.
    func mayHold(_ bytes: Int) -> Bool { held.budget.mayHoldMore(bytes, of: server.connections) }

    /// Requests in which nothing has moved for so long are closed when memory is short.
    private static let idleTimeOfHolders = TimeSpan.seconds(1)
    private static let looksForIdleEvery: UInt64 = 100_000_000
    private static let givenUpPerTurn = 100

    /// A connection holds more than its part: closes the requests that have been idle longest, a few a turn. Those in which something
    /// has just moved are looked at again until no connection holds more.
    func relieve() {
        guard toGiveUp.isEmpty, loop.now &- lookedForIdleAt >= Self.looksForIdleEvery else { return }
        lookedForIdleAt = loop.now
        let limit = loop.now &- min(loop.now, Self.idleTimeOfHolders.nanoseconds)
        var isMore = false
        for connection in connections {
            let holdsMore = connection.appendIdle(since: limit, to: &toGiveUp)
            isMore = isMore || holdsMore
        }
        if isMore { loop.arm(reliefTimer, after: Self.idleTimeOfHolders) }
        guard !toGiveUp.isEmpty else { return }
        toGiveUp.sort { $0.movedAt > $1.movedAt }
        loop.submit { [self] in giveUpSome() }
    }

    private func giveUpSome() {
        var left = Self.givenUpPerTurn
        loop.beginPart()
        while left > 0, held.budget.isShort, let holder = toGiveUp.popLast() {
            holder.giveUpIdle()
            left = loop.isPartOver ? 0 : left - 1
        }
        guard held.budget.isShort, !toGiveUp.isEmpty else {
            toGiveUp = []
            return
        }
        loop.submit { [self] in giveUpSome() }
    }

    // MARK: Work put off to the end of the turn

    func flushLater(_ connection: ClientTransport) {
        toFlush.append(connection)
        loop.atEndOfTurn(self)
    }

    func pumpLater(_ connection: ClientTransport) {
        toPump.append(connection)
        loop.atEndOfTurn(self)
    }

    /// Input that was put off has so many nanoseconds of a turn: those who have just sent something come first.
    private static let timeForPumps: UInt64 = 1_000_000
    /// The turn in which that time was over, by its begin.
    private var turnWithoutPumps: UInt64 = 0

    override func turnEnds() {
        if let connection = toFlush.takeOnly() {
            connection.flushPlanned()
        } else if !toFlush.isEmpty {
            let flushed = toFlush.take()
            for place in flushed.indices {
                // The first one in any case, so that each has its turn.
                if place > 0, loop.isTurnLong {
                    toFlush.putBack(flushed[place...])
                    loop.atEndOfTurn(self)
                    break
                }
                flushed[place].flushPlanned()
            }
            toFlush.giveBack(flushed)
        }
        if !toPump.isEmpty { pumpPlanned() }
    }

    private func pumpPlanned() {
        guard turnWithoutPumps != loop.turnBegan else { return loop.atEndOfTurn(self) }
        let pumped = toPump.take()
        let begun = loop.freshNow
        for place in pumped.indices {
            if place > 0, loop.isTurnLong || loop.freshNow &- begun >= Self.timeForPumps {
                turnWithoutPumps = loop.turnBegan
                toPump.putBack(pumped[place...])
                loop.atEndOfTurn(self)
                break
            }
            pumped[place].pumpPlanned()
        }
        toPump.giveBack(pumped)
    }

    func borrowScratch() -> ByteBuffer {
        var taken = ByteBuffer()
        swap(&taken, &scratch)
        return taken
    }

    func returnScratch(_ buffer: inout ByteBuffer) {
        swap(&buffer, &scratch)
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

    /// Counts and logs a request that is over.
    ///
    /// - Parameter task: the last task of the request; nil when the request was refused before there was one.
    func log(_ exchange: Exchange, _ task: LoopTask?, client: [UInt8]) {
        counters.noteTask(
            status: exchange.writer.hasBegun ? exchange.writer.status : nil,
            error: exchange.problem?.code,
            bytesFromClient: exchange.bytesFromClient,
            bytesToClient: exchange.bytesToClient,
            duration: task?.metrics.duration ?? Int64((loop.now - exchange.startedAt) / 1000)
        )
        if let task {
            counters.noteTransactions(of: task)
            if let problem = exchange.problem { noteFailure(problem.code, of: task) }
        }
        guard let logBuffer else { return }
        logBuffer.line { buffer in
            logLine.write(exchange, task, client: client, now: loop.now, to: &buffer)
        }
    }

    /// Counts and logs a request of a background refresh.
    func log(_ refresh: CacheRefresh, _ task: LoopTask) {
        counters.note(task.metrics.transaction)
        if let error = refresh.error { noteFailure(Problem.Code(error.code), of: task) }
        logBuffer?.line { logLine.write(refresh, task, to: &$0) }
    }

    /// Counts a request that got no connection. The look-up is for failures alone.
    private func noteFailure(_ error: Problem.Code, of task: LoopTask) {
        guard DomainFailures.connectErrors.contains(error) else { return }
        let endpoint = task.request.endpoint
        observer.count(error, of: generation.snapshot.pinnedDomains.policy(host: endpoint.host, port: endpoint.port))
    }

    // MARK: Reload

    /// Uses another policy for everything that begins or continues from now on. Requests that were sent finish under
    /// theirs.
    func adopt(_ next: Generation, log: LogWriter?, cache: ResponseCache?) {
        guard !isStopped else { return }
        loop.noteWork(.policy)
        self.cache = cache
        let former = generation
        generation = next
        observer.observe(next.manager)
        next.manager.count(in: held)
        server.heldBytes.setLimit(next.snapshot.configuration.limits.heldBytes)
        for listener in listeners { listener.adopt(next) }
        let settings = next.snapshot.configuration.log
        logBuffer?.flush()
        // The new masking also applies to requests that are under way.
        logLine = TaskLogLine(redacting: settings.redact)
        logTo(log)
        // This comes last, because the requests that it gives back restart at once.
        former.retire()
    }

    func logTo(_ writer: LogWriter?) {
        guard !isStopped, writer !== logBuffer?.writer else { return }
        logBuffer?.end()
        logBuffer = writer.map { LogBuffer(writer: $0, recent: recentTasks, loop: loop) }
        recordTasks()
    }

    /// Makes lines for a reader at the admin listener although no task log is written.
    func recordTasks() {
        guard !isStopped, logBuffer == nil, let recentTasks, recentTasks.isWanted else { return }
        logBuffer = LogBuffer(writer: nil, recent: recentTasks, loop: loop)
    }

    // MARK: The end

    /// A description of the work under way; empty when there is none.
    var leftovers: [String] {
        var found: [String] = []
        if !connections.isEmpty { found.append("\(connections.count) client connections") }
        if generation.manager.taskCount > 0 { found.append("\(generation.manager.taskCount) tasks") }
        if !loop.hasNothingPlanned { found.append("an armed timer, or work put off") }
        return found
    }

    /// How long a client's connection may be idle now.
    var idleTime: TimeSpan { isDraining ? min(drainGrace, generation.idleTime) : generation.idleTime }

    /// Stops accepting. Each client learns with its next response that its connection ends; earlier requests are
    /// served.
    ///
    /// - Parameter grace: how long a connection may be idle from now on.
    func drain(grace: TimeSpan) {
        guard !isDraining else { return }
        isDraining = true
        drainGrace = grace
        for listener in listeners { listener.stop() }
        for connection in connections { connection.drain() }
        server.noteDrain()
    }

    /// Ends everything at once.
    func stop() {
        drain(grace: TimeSpan(nanoseconds: 0))
        while let connection = connections.last { connection.cancel() }
        isStopped = true
        // Older generations have lost their last tasks with the connections.
        generation.manager.invalidateSession(cancelingTasks: true)
        observer.stop()
        // Each idle exchange holds the worker.
        idleExchanges = []
        listeners = []
        // The workers hold each other.
        others = []
        logBuffer?.flush()
        loop.stop()
    }
}
