import HTTPCore
import IOCore
import ServerTrust

/// The connections of one session, with the requests on them. `HostPool` decides; this class carries out. Belongs to the loop.
final class OriginConnections {
    let loop: EventLoop
    let headLimits: HeadLimits
    /// Lent to the connection that reads at the moment.
    var scratch = ByteBuffer()
    /// `LoopSession.sessionDidEvaluateServerTrust`.
    var didEvaluateTrust: ((ConnectionTrust, Endpoint) -> Void)?
    /// No request begins any more.
    private(set) var isHandingBack = false

    private let dialler: Dialler
    private let context: TLSClientContext
    private let connectionLifetime: UInt64
    private let connectionsPerHost: Int
    private let poolSize: Int
    private var entries = HostEntries()
    /// The requests that have a task, at `OriginRequest.slot`.
    private var active: [OriginRequest] = []
    /// Requests for later tasks.
    private var spare: [OriginRequest] = []
    private var toBegin: [OriginRequest] = []
    private var toContinue: [OriginRequest] = []
    private var isWorkPlanned = false
    private var isRetired = false
    private var isClosed = false

    // Idle connections of all hosts, in the order in which they became idle.
    private var newestIdle: HTTP1Connection?
    private unowned(unsafe) var oldestIdle: HTTP1Connection?
    private var idleCount = 0
    private var idleTimer: LoopTimer!
    private var retirementTimer: LoopTimer!

    /// A connection that is idle for longer is closed.
    private static let idleLimit = TimeSpan.seconds(118)
    /// Each connection that is closed takes a close_notify: the loop has others to serve.
    private static let closedPerTurn = 64

    /// - Throws: `internal` when libcurl or OpenSSL cannot be set up.
    init(loop: EventLoop, configuration: SessionConfiguration) throws(SessionError) {
        self.loop = loop
        headLimits = HeadLimits(
            headBytes: configuration.responseHeadBytes,
            fieldCount: configuration.responseHeadFields
        )
        connectionLifetime = configuration.connectionLifetimeLimit
        connectionsPerHost = configuration.connectionsPerHost
        poolSize = configuration.connectionPoolSize
        dialler = try Dialler(loop: loop)
        context = try TLSClientContext()
        idleTimer = LoopTimer { [unowned self] in closeAged() }
        retirementTimer = LoopTimer { [unowned self] in closeSomeIdle() }
    }

    deinit { close() }

    // MARK: Requests

    /// Sends a task's request, or has it wait for a connection.
    ///
    /// - Parameter keep: gets the request before it starts: what comes first may be its end.
    func start(_ task: LoopTask, keep: (OriginRequest) -> Void) {
        let request = spare.popLast() ?? OriginRequest(self)
        request.slot = active.count
        active.append(request)
        keep(request)
        request.start(task)
    }

    /// The task is done with a request.
    func finish(_ request: OriginRequest) {
        request.end()
        let last = active.removeLast()
        if last !== request {
            active[request.slot] = last
            last.slot = request.slot
        }
        if spare.count < 256, !isClosed { spare.append(request) } else { request.invalidate() }
    }

    /// The pool of the endpoint's host and port.
    func entry(for endpoint: Endpoint) -> HostEntry {
        let limit = endpoint.connectionLimit ?? connectionsPerHost
        return entries.entry(for: endpoint, limit: limit > 0 ? limit : .max, at: loop.now)
    }

    /// Gives a request a place in its host's pool and a connection, or a place in the queue.
    func enter(_ request: OriginRequest, _ endpoint: Endpoint) -> HostEntry {
        let entry = entry(for: endpoint)
        while true {
            let isExclusive = request.isExclusive
            switch entry.pool.enter(
                request,
                isUsable: { !isExclusive && $0.connection.endpoint.isSamePlace(as: endpoint) }
            ) {
            case .use(let connection):
                unlink(connection)
                guard mayUse(connection, for: endpoint) else {
                    connection.close()
                    entry.pool.giveUpPlace()
                    continue
                }
                request.use(connection)
            case .make:
                request.connect()
            case .replace(let connection):
                unlink(connection)
                connection.close()
                request.connect()
            case .wait:
                request.didQueue()
                // An HTTP/2 connection without exchanges counts as one in use: its place goes to the queue.
                entry.idleHTTP2Connection?.discard()
            }
            return entry
        }
    }

    private func mayUse(_ connection: HTTP1Connection, for endpoint: Endpoint) -> Bool {
        connection.connection.mayCarry(endpoint, lifetime: connectionLifetime) && connection.isSilent
    }

    /// A request has given its place up.
    ///
    /// - Parameter connection: its connection, if that can carry a further request.
    func leave(_ entry: HostEntry, keeping connection: HTTP1Connection?) {
        var connection = connection
        if let kept = connection, isRetired || !kept.connection.isYoung(lifetime: connectionLifetime) {
            kept.close()
            connection = nil
        }
        let succession = entry.pool.leave(keeping: connection) { request, connection in
            guard !request.isExclusive, let endpoint = request.endpoint else { return false }
            return mayUse(connection, for: endpoint)
        }
        switch succession {
        case .none: break
        case .idle:
            if let connection { link(connection) }
        case .use(let request, let connection):
            request.use(connection)
        case .make(let request):
            request.connect()
        case .replace(let request, let connection):
            connection.close()
            request.connect()
        }
    }

    func makeAttempt(to endpoint: Endpoint, owner: OriginRequest) -> ConnectionAttempt {
        ConnectionAttempt(
            endpoint,
            offering: owner.applicationProtocols,
            dialler: dialler,
            context: context,
            owner: owner
        )
    }

    // MARK: End of the turn

    func beginLater(_ request: OriginRequest) {
        toBegin.append(request)
        planWork()
    }

    func continueLater(_ request: OriginRequest) {
        toContinue.append(request)
        planWork()
    }

    private func planWork() {
        guard !isWorkPlanned, !isClosed else { return }
        isWorkPlanned = true
        loop.atEndOfTurn { [self] in
            isWorkPlanned = false
            let beginning = toBegin
            toBegin.removeAll(keepingCapacity: true)
            for request in beginning { request.begin() }
            let continuing = toContinue
            toContinue.removeAll(keepingCapacity: true)
            for request in continuing { request.continueNow() }
        }
    }

    // MARK: Idle connections

    private func link(_ connection: HTTP1Connection) {
        connection.idleSince = loop.now
        connection.olderIdle = newestIdle
        newestIdle?.newerIdle = connection
        newestIdle = connection
        if oldestIdle == nil {
            oldestIdle = connection
            loop.arm(idleTimer, after: Self.idleLimit)
        }
        idleCount += 1
        connection.rest()
        if idleCount > poolSize, let oldest = oldestIdle { discard(oldest) }
    }

    private func unlink(_ connection: HTTP1Connection) {
        connection.newerIdle?.olderIdle = connection.olderIdle
        connection.olderIdle?.newerIdle = connection.newerIdle
        if newestIdle === connection { newestIdle = connection.olderIdle }
        if oldestIdle === connection { oldestIdle = connection.newerIdle }
        connection.newerIdle = nil
        connection.olderIdle = nil
        idleCount -= 1
    }

    /// Closes an idle connection.
    func discard(_ connection: HTTP1Connection) {
        guard connection.entry.pool.remove(connection) else { return }
        unlink(connection)
        connection.close()
    }

    /// Closes the connection that has been idle longest: another one needs its descriptor.
    ///
    /// - Returns: false when there is none.
    func makeRoom() -> Bool {
        if let oldest = oldestIdle {
            discard(oldest)
            return true
        }
        guard let idle = entries.idleHTTP2Connection else { return false }
        idle.discard()
        return true
    }

    private func closeAged() {
        while let oldest = oldestIdle, loop.now &- oldest.idleSince >= Self.idleLimit.nanoseconds { discard(oldest) }
        if let oldest = oldestIdle { loop.arm(idleTimer, at: oldest.idleSince &+ Self.idleLimit.nanoseconds) }
    }

    private func closeSomeIdle() {
        var left = Self.closedPerTurn
        while left > 0, let oldest = oldestIdle {
            discard(oldest)
            left -= 1
        }
        if oldestIdle != nil { loop.arm(retirementTimer, after: TimeSpan(nanoseconds: 1)) }
    }

    // MARK: The end

    /// Keeps no connection any more: idle ones close now, the others with the requests that they carry.
    func retireConnections() {
        guard !isRetired else { return }
        isRetired = true
        closeSomeIdle()
    }

    /// Ends the tasks of which nothing has been sent with `sessionInvalidated`, and from now on those that would be repeated:
    /// another session takes the place of this one.
    func handBack() {
        isHandingBack = true
        // The queue first: a request that leaves would let one of it begin.
        for request in entries.waiters { request.fail(.sessionInvalidated) }
        for request in active where request.isUnsent { request.fail(.sessionInvalidated) }
    }

    /// Ends all tasks.
    func cancelAll() {
        for request in entries.waiters { request.task?.cancel() }
        for request in active { request.task?.cancel() }
    }

    /// Ends all tasks and closes all connections.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        cancelAll()
        while let oldest = oldestIdle { discard(oldest) }
        for request in spare { request.invalidate() }
        spare = []
        loop.remove(idleTimer)
        loop.remove(retirementTimer)
        dialler.close()
    }
}
