// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust

/// The connections of one session, with the requests on them. `HostPool` decides; this class carries out. Belongs to the loop.
///
/// Its owner calls `close` before it lets go: requests and connections refer to it, and it to them.
final class OriginConnections: PooledConnectionOwner {
    typealias Entry = HostEntry<OriginRequest>

    /// `LoopSession.sessionDidEvaluateServerTrust`.
    var didEvaluateTrust: ((ConnectionTrust, Endpoint) -> Void)?
    /// What carries all requests instead of connections; nil but in a program's tests.
    let stub: StubTransport?
    /// A task without an owner has authenticated a connection, which belongs to the session since.
    var hasAuthenticated = false
    /// No request begins any more.
    private(set) var isHandingBack = false

    private let attempts: AttemptSetting
    private let connectionLifetime: UInt64
    private let connectionsPerHost: Int
    private let poolSize: Int
    private var entries = HostEntries<OriginRequest>()
    /// The requests that have a task, at `OriginRequest.slot`.
    private var active: [OriginRequest] = []
    /// `OriginRequest` objects without a task, for reuse.
    private var unused: [OriginRequest] = []
    private var toBegin = TurnQueue<OriginRequest>()
    private var toContinue = TurnQueue<OriginRequest>()
    private var toServe = TurnQueue<Entry>()
    private var toFlush = TurnQueue<PooledConnection>()
    /// The HTTP/2 connections that exist, whether they take requests or not, at `HTTP2ClientConnection.slot`.
    private var shared: [HTTP2ClientConnection] = []
    /// The tasks that are no requests of the pool: those with a tunnel on one of these, and those of an origin in memory.
    private var elsewhere: [ObjectIdentifier: LoopTask] = [:]
    /// No connection is kept behind the requests that it carries.
    private(set) var isRetired = false
    private var isClosed = false

    private var idle = IdleConnections()
    private let idleTimer = LoopTimer()
    private let retirementTimer = LoopTimer()

    /// A connection that is idle for longer is closed.
    private static let idleLimit = TimeSpan.seconds(118)
    /// Each connection that is closed takes a close_notify: the loop has others to serve.
    private static let closedPerTurn = 64

    /// - Throws: `internal` when OpenSSL cannot be set up.
    init(
        loop: EventLoop,
        configuration: SessionConfiguration,
        stub: StubTransport?
    ) throws(SessionError) {
        self.stub = stub
        connectionLifetime = configuration.connectionLifetimeLimit
        connectionsPerHost = configuration.connectionsPerHost
        poolSize = configuration.connectionPoolSize
        let headLimits = HeadLimits(
            headBytes: configuration.responseHeadBytes,
            fieldCount: configuration.responseHeadFields
        )
        attempts = AttemptSetting(
            dialler: Dialler(loop: loop, names: NameResolver(loop: loop, configuration)),
            context: try TLSClientContext(threads: configuration.handshakes, lists: configuration.revocationLists),
            headLimits: headLimits,
            makeNote: configuration.connectionNote
        )
        super.init(loop: loop, headLimits: headLimits)
        idleTimer.whenDue { [unowned self] in closeAged() }
        retirementTimer.whenDue { [unowned self] in closeSomeIdle() }
    }

    // MARK: Requests

    override func mayHold(_ bytes: Int) -> Bool { held?.budget.mayHoldMore(bytes, of: active.count) ?? true }

    /// Makes the request of a task.
    func makeRequest(for task: LoopTask) -> OriginRequest {
        let request = unused.popLast() ?? OriginRequest(self)
        request.slot = active.count
        active.append(request)
        request.carry(task)
        return request
    }

    /// A request has ended.
    func finish(_ request: OriginRequest) {
        let last = active.removeLast()
        if last !== request {
            active[request.slot] = last
            last.slot = request.slot
        }
        if unused.count < 256, !isClosed { unused.append(request) } else { request.invalidate() }
    }

    /// The pool of the endpoint's host and port.
    func entry(for endpoint: Endpoint) -> Entry {
        let limit = endpoint.connectionLimit ?? connectionsPerHost
        return entries.entry(for: endpoint, limit: limit > 0 ? limit : .max, at: loop.now)
    }

    /// Gives a request a connection, or a place in a queue.
    func enter(_ request: OriginRequest, _ entry: Entry) {
        let decision = entry.pool.enter(request)
        carryOut(decision, for: request, entry)
        if case .wait = decision { serve(entry) }
    }

    /// Gives a request the connection that its client owns, or makes it; one that finds another request there waits.
    func enter(_ request: OriginRequest, _ lane: OwnedLane, _ entry: Entry) {
        guard lane.enter(request) else { return request.didQueue() }
        guard let connection = lane.connection, entry.pool.claim(connection) else { return enter(request, entry) }
        use(connection, for: request, entry)
    }

    private func carryOut(_ decision: HostPool<OriginRequest>.Decision, for request: OriginRequest, _ entry: Entry) {
        switch decision {
        case .use(let connection): use(connection, for: request, entry)
        case .share(let connection): share(connection, with: request)
        case .await(let dial):
            if let connection = dial.connection { share(connection, with: request) } else { request.await(dial) }
        case .make: make(for: request, entry)
        case .replace(let connection):
            idle.remove(connection)
            connection.close()
            make(for: request, entry)
        case .replaceShared(let connection):
            connection.close(isReplaced: true)
            make(for: request, entry)
        case .wait: request.didQueue()
        }
    }

    /// - Parameter connection: an idle one, which may have ended since: `OriginRequest` looks before it writes.
    private func use(_ connection: HTTP1Connection, for request: OriginRequest, _ entry: Entry) {
        idle.remove(connection)
        if request.mayUse(connection, lifetime: connectionLifetime) { return request.use(connection) }
        connection.close()
        while let next = entry.pool.reuse(request) {
            idle.remove(next)
            if request.mayUse(next, lifetime: connectionLifetime) { return request.use(next) }
            next.close()
        }
        request.connect()
    }

    /// The idle connection that was chosen for a request has ended, or has brought bytes for which there was no request: the
    /// request gets another one, or makes one.
    func replace(for request: OriginRequest, _ entry: Entry) {
        guard let connection = entry.pool.reuse(request) else { return request.connect() }
        use(connection, for: request, entry)
    }

    private func share(_ connection: HTTP2ClientConnection, with request: OriginRequest) {
        guard let endpoint = request.endpoint, connection.mayCarry(endpoint, lifetime: connectionLifetime) else {
            connection.retire()
            return request.enterAgain()
        }
        request.share(connection)
    }

    private func make(for request: OriginRequest, _ entry: Entry) {
        guard request.isShareable, let endpoint = request.endpoint else { return request.connect() }
        let dial = HTTP2Dial(endpoint, entry: entry, connections: self)
        entry.pool.add(dial)
        request.await(dial)
        dial.start()
    }

    /// Serves the requests that wait for a connection to a host, as far as there are places and streams.
    private func serve(_ entry: Entry) {
        // A request that is served here may fail, and give its place to the next one.
        guard entry.pool.isAwaited, !entry.isServing else { return }
        entry.isServing = true
        while let (request, decision) = entry.pool.next() { carryOut(decision, for: request, entry) }
        entry.isServing = false
    }

    /// A request has given its place up.
    ///
    /// - Parameter connection: its connection, if that can carry a further request.
    func leave(_ entry: Entry, keeping connection: HTTP1Connection?) {
        if let connection, !isRetired, connection.connection.isYoung(lifetime: connectionLifetime) {
            entry.pool.leave(keeping: connection)
            didBecomeIdle(connection)
        } else {
            connection?.close()
            entry.pool.leave(keeping: nil)
        }
        serve(entry)
    }

    // MARK: HTTP/2

    /// A dial has led to an HTTP/2 connection, which takes its place over.
    func dialDidConnect(_ connection: HTTP2ClientConnection) {
        connection.slot = shared.count
        shared.append(connection)
    }

    /// A dial has failed, was given up, or has led to a connection of HTTP/1.1.
    func dialDidEnd(_ dial: HTTP2Dial, _ entry: Entry, keeping connection: HTTP1Connection?) {
        entry.pool.remove(dial, for: nil)
        if connection != nil {
            for request in entry.pool.removeSharers() { request.enterAgain() }
        }
        leave(entry, keeping: connection)
    }

    /// An HTTP/2 connection is closed.
    func forget(_ connection: HTTP2ClientConnection) {
        idle.remove(connection)
        let last = shared.removeLast()
        if last !== connection {
            shared[connection.slot] = last
            last.slot = connection.slot
        }
    }

    /// A kept connection on whose streams a request that offers another protocol can go now, under the same verdict as any request;
    /// nil: it gets a connection of its own.
    ///
    /// No connection is made for it that offers HTTP/2: whether the server takes such streams is known only behind its SETTINGS, and
    /// many speak WebSockets over HTTP/1.1 alone. Browsers do the same: a connection that is there and whose server has announced
    /// it, and otherwise a new one that offers `http/1.1` alone. Those that wait for a stream come first.
    func connectionForTunnel(_ request: borrowing SessionRequest) -> HTTP2ClientConnection? {
        let endpoint = request.endpoint
        guard endpoint.httpVersion == .http2, endpoint.scheme == .https, !isHandingBack,
            // That would authenticate the connection, which others use.
            !request.fields.authenticatesConnection
        else { return nil }
        let entry = entry(for: endpoint)
        guard !entry.pool.isAwaited else { return nil }
        return entry.pool.available.shared.first {
            $0.hasRoomForTunnel && $0.connection.endpoint.isSamePlace(as: endpoint)
                && $0.mayCarry(endpoint, lifetime: connectionLifetime)
        }
    }

    /// The session's end ends the task, too.
    func didBegin(elsewhere task: LoopTask) { elsewhere[ObjectIdentifier(task)] = task }

    func didEnd(elsewhere task: LoopTask) { elsewhere[ObjectIdentifier(task)] = nil }

    /// - Parameters:
    ///   - protocols: offered in the handshake (ALPN), the best first; none when empty.
    ///   - isTunnelled: for other bytes than those of requests.
    func makeAttempt(
        to endpoint: Endpoint,
        offering protocols: [ApplicationProtocol],
        isTunnelled: Bool = false,
        owner: ConnectionAttemptOwner
    ) -> ConnectionAttempt {
        ConnectionAttempt(
            endpoint,
            offering: protocols,
            isTunnelled: isTunnelled,
            setting: attempts,
            owner: owner
        )
    }

    /// A new connection has ended before anything came on it. Over TLS the server has sent its certificate by then; without,
    /// the address counts as failed.
    override func didEndUnanswered(_ connection: VerifiedConnection) {
        guard connection.trust == nil, connection.endpoint.proxy == nil else { return }
        attempts.dialler.failedAddresses.note(connection.info.remoteAddress, at: loop.now)
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

    /// There may be room for requests that wait; nghttp2 may be on the stack now.
    func serveLater(_ entry: Entry) {
        guard entry.pool.isAwaited else { return }
        toServe.append(entry)
        planWork()
    }

    override func flushLater(_ connection: PooledConnection) {
        toFlush.append(connection)
        planWork()
    }

    private func planWork() {
        if !isClosed { loop.atEndOfTurn(self) }
    }

    override func turnEnds() {
        if !toServe.isEmpty {
            let serving = toServe.take()
            for entry in serving { serve(entry) }
            toServe.giveBack(serving)
        }
        if let request = toBegin.takeOnly() {
            request.begin()
        } else if !toBegin.isEmpty {
            let beginning = toBegin.take()
            // All in one turn: what a connection has promised them holds until it reads on.
            for request in beginning { request.begin() }
            toBegin.giveBack(beginning)
        }
        if !toContinue.isEmpty {
            let continuing = toContinue.take()
            for place in continuing.indices {
                if place > 0, loop.isTurnLong {
                    toContinue.putBack(continuing[place...])
                    planWork()
                    break
                }
                continuing[place].continueNow()
            }
            toContinue.giveBack(continuing)
        }
        if let connection = toFlush.takeOnly() {
            connection.flush()
        } else if !toFlush.isEmpty {
            let flushing = toFlush.take()
            for connection in flushing { connection.flush() }
            toFlush.giveBack(flushing)
        }
    }

    // MARK: Idle connections

    override func didBecomeIdle(_ connection: PooledConnection) {
        idle.append(connection, at: loop.now)
        if !idleTimer.isArmed { loop.arm(idleTimer, after: Self.idleLimit) }
        connection.rest()
        if idle.count > poolSize { _ = discardOldest() }
    }

    override func didEndIdleness(_ connection: PooledConnection) { idle.remove(connection) }

    override func discard(_ connection: PooledConnection) {
        idle.remove(connection)
        connection.discard()
    }

    /// A kept connection to the host has turned out to be dead, or may be: those on which nothing has come since then are as old,
    /// and nobody waits for them, too.
    func letGoOfKept(_ entry: Entry, silentSince then: UInt64) {
        let (idle, shared) = entry.pool.available
        // Those that would be used next, a turn's share. One that a client has authenticated is that client's; nobody else waits
        // on it.
        for connection in idle.suffix(Self.closedPerTurn) where connection.lane == nil {
            if let since = connection.idleSince, since < then { discard(connection) }
        }
        for connection in shared where connection.liveness.hasBeenSilent(since: then) { connection.retire() }
    }

    private func discardOldest() -> Bool {
        guard let oldest = idle.oldest else { return false }
        discard(oldest)
        return true
    }

    /// Closes the connection that has been idle longest: another one needs its descriptor.
    ///
    /// - Returns: false when there is none.
    func makeRoom() -> Bool { discardOldest() }

    private func closeAged() {
        while let since = idle.oldestSince, loop.now &- since >= Self.idleLimit.nanoseconds { _ = discardOldest() }
        if let since = idle.oldestSince { loop.arm(idleTimer, at: since &+ Self.idleLimit.nanoseconds) }
    }

    private func closeSomeIdle() {
        for _ in 0..<Self.closedPerTurn {
            guard discardOldest() else { return }
        }
        loop.arm(retirementTimer, after: TimeSpan(nanoseconds: 1))
    }

    // MARK: The end

    /// Keeps no connection any more: idle ones close now, the others with the requests that they carry.
    func retireConnections() {
        guard !isRetired else { return }
        isRetired = true
        closeSomeIdle()
        for connection in shared { connection.retire() }
    }

    /// Ends the tasks of which nothing has been sent with `sessionInvalidated`, and from now on those that would be repeated:
    /// another session takes the place of this one.
    func handBack() {
        isHandingBack = true
        // The queue first: a request that leaves would let one of it begin.
        for request in entries.waiters { request.handBack() }
        for request in active { request.handBack() }
    }

    /// Ends all tasks.
    func cancelAll() {
        for request in entries.waiters { request.task?.cancel() }
        for request in active { request.task?.cancel() }
        for task in Array(elsewhere.values) { task.cancel() }
    }

    /// Ends all tasks and closes all connections.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        cancelAll()
        while discardOldest() {}
        // One that is ending already leaves the list later.
        for connection in shared { connection.close() }
        for request in unused { request.invalidate() }
        unused = []
        loop.remove(idleTimer)
        loop.remove(retirementTimer)
        attempts.dialler.close()
    }
}
