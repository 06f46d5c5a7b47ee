import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// One loop's share of the proxy: the connections it has accepted, their exchanges, its session, its log lines.
///
/// `@unchecked Sendable` because a worker is made before its thread starts and is from then on touched by that thread
/// alone: other threads reach it through `EventLoop.submit` only.
final class Worker: @unchecked Sendable {
    let loop: EventLoop
    let snapshot: PolicySnapshot
    let router: Router
    let manager: LoopSession
    let pseudonym: [UInt8]
    /// What is added to Via of a request of that minor version.
    let viaOfVersion10: [UInt8]
    let viaOfVersion11: [UInt8]
    let headLimits: HeadLimits
    let headTime: TimeSpan
    let idleTime: TimeSpan
    private(set) var isDraining = false

    /// What is read from a client lands here first: an idle connection needs no buffer of its own.
    var scratch = ByteBuffer()
    static let readSize = 64 << 10

    private let server: ServerState
    private let logBuffer: LogBuffer?
    private var listeners: [WorkerListener] = []
    private var connections: [ClientConnection] = []
    private var idleExchanges: [Exchange] = []
    private var toFlush: [ClientConnection] = []
    private var toPump: [ClientConnection] = []
    private var isWorkPlanned = false
    private var date: [UInt8] = []
    private var dateSecond: Int64 = -1
    private var logLine: TaskLogLine

    init(
        loop: EventLoop,
        snapshot: PolicySnapshot,
        server: ServerState,
        log: LogWriter?,
        pseudonym: [UInt8],
        workers: Int
    ) throws(SessionError) {
        self.loop = loop
        self.snapshot = snapshot
        self.server = server
        self.pseudonym = pseudonym
        viaOfVersion10 = ViaField.value(minorVersion: 0, pseudonym: pseudonym)
        viaOfVersion11 = ViaField.value(minorVersion: 1, pseudonym: pseudonym)
        router = Router(snapshot: snapshot)
        let configuration = snapshot.configuration
        var session = SessionConfiguration()
        // The limit is for the whole process: each loop has its share of it.
        session.connectionsPerHost = max(1, configuration.limits.connectionsPerHost / workers)
        manager = try LoopSession(loop: loop, configuration: session)
        headLimits = HeadLimits(headBytes: configuration.limits.headBytes)
        headTime = .milliseconds(configuration.defaults.timeouts.head.count)
        idleTime = .milliseconds(configuration.defaults.timeouts.idle.count)
        logBuffer = log.map { LogBuffer(writer: $0, loop: loop) }
        logLine = TaskLogLine(redacting: configuration.log.redact)
    }

    /// Accepts from a listener from now on.
    func listen(_ socket: ListeningSocket, _ configuration: ListenerConfiguration) throws(IOFailure) {
        let listener = WorkerListener(socket: socket, configuration: configuration, worker: self)
        try listener.start()
        listeners.append(listener)
    }

    // MARK: Connections

    func adopt(_ descriptor: Int32, _ address: SocketAddress, _ listener: WorkerListener) {
        let connection = ClientConnection(
            descriptor: descriptor,
            address: address,
            listener: listener,
            worker: self
        )
        guard server.admit(limit: snapshot.configuration.limits.connections) else {
            connection.refuseForLimit()
            return
        }
        connection.slot = connections.count
        connections.append(connection)
        if !connection.open() { connection.close() }
    }

    func forget(_ connection: ClientConnection) {
        let slot = connection.slot
        guard slot >= 0 else { return }
        connection.slot = -1
        let last = connections.removeLast()
        if last !== connection {
            connections[slot] = last
            last.slot = slot
        }
        server.release()
    }

    func borrowExchange(for connection: ClientConnection) -> Exchange {
        guard let exchange = idleExchanges.popLast() else { return Exchange(worker: self, connection: connection) }
        exchange.attach(connection)
        return exchange
    }

    func returnExchange(_ exchange: Exchange) {
        exchange.detach()
        if idleExchanges.count < 256 { idleExchanges.append(exchange) }
    }

    // MARK: Work put off to the end of the turn

    func flushLater(_ connection: ClientConnection) {
        toFlush.append(connection)
        planWork()
    }

    func pumpLater(_ connection: ClientConnection) {
        toPump.append(connection)
        planWork()
    }

    private func planWork() {
        guard !isWorkPlanned else { return }
        isWorkPlanned = true
        loop.atEndOfTurn { [unowned self] in
            isWorkPlanned = false
            let flushed = toFlush
            toFlush.removeAll(keepingCapacity: true)
            for connection in flushed { connection.flushPlanned() }
            let pumped = toPump
            toPump.removeAll(keepingCapacity: true)
            for connection in pumped { connection.pump() }
        }
    }

    func takeScratch() -> ByteBuffer {
        var taken = ByteBuffer()
        swap(&taken, &scratch)
        return taken
    }

    func returnScratch(_ buffer: inout ByteBuffer) {
        swap(&buffer, &scratch)
    }

    // MARK: Dates and log

    /// The Date of this second (RFC 9110, section 6.6.1).
    var httpDate: [UInt8] {
        let second = loop.wallClock / 1_000_000
        if second != dateSecond {
            dateSecond = second
            date = HTTPDate.format(unixSeconds: Int(second))
        }
        return date
    }

    func log(_ exchange: Exchange, _ task: LoopTask?, client: [UInt8]) {
        guard let logBuffer else { return }
        logBuffer.line { buffer in
            logLine.write(exchange, task, client: client, now: loop.now, to: &buffer)
        }
    }

    // MARK: The end

    /// Takes no new connections and no new requests; what is under way is finished.
    func drain() {
        isDraining = true
        for listener in listeners { listener.stop() }
        listeners = []
        for connection in connections { connection.closeIfIdle() }
    }

    /// Ends everything at once.
    func stop() {
        drain()
        while let connection = connections.last { connection.close() }
        manager.invalidateSession(cancelingTasks: true)
        // Each of them holds the worker.
        idleExchanges = []
        logBuffer?.flush()
        loop.stop()
    }
}
