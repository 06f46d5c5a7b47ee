package import HTTPCore
package import IOCore
public import ServerTrust

/// Makes tasks and carries them out on one loop: what a session is to a program on that loop's thread. The proxy's
/// workers use it as it is; managers for use from any thread are built on it.
///
/// All members are for the loop's thread. Connections are pooled within the session and never leave it: the tasks of
/// one policy generation belong to one session, so that no connection outlives its policy.
public final class LoopSession {
    package let loop: EventLoop
    let connections: OriginConnections
    /// nil for none.
    let cache: SessionCache?
    /// Of tasks that the cache has a part in, by the identifier of the task.
    var exchanges: [UInt64: CachedExchange] = [:]
    private var count = 0
    private var phase = Phase.open
    private var hasEnded = false
    /// The tasks that were made and not resumed. No other list has them, and the program that made them may drop them.
    private var unstarted: [Unstarted] = []

    private struct Unstarted { unowned let task: LoopTask }

    private enum Phase {
        case open
        /// The tasks that are there go on; new ones end as soon as they are resumed.
        case invalidated
        /// The requests that are under way go on; what would begin one ends.
        case retired
    }

    /// Called once, when an invalidated manager has no task left.
    public var sessionDidBecomeInvalid: (() -> Void)?

    /// Told of each evaluation of a server's trust, once a TLS handshake and before its first request goes out, whether
    /// the server was accepted or refused. Never called for a request on a connection that is there already.
    ///
    /// It runs on the loop right behind the TLS handshake, or within it: take what is needed and return.
    public var sessionDidEvaluateServerTrust: ((_ trust: ConnectionTrust, _ endpoint: Endpoint) -> Void)? {
        get { connections.didEvaluateTrust }
        set { connections.didEvaluateTrust = newValue }
    }

    /// - Parameters:
    ///   - cache: nil for none.
    ///   - stub: an origin in memory that takes all requests, in place of connections; nil but in tests of programs.
    /// - Throws: `SessionError` when libcurl cannot be set up.
    package init(
        loop: EventLoop,
        configuration: SessionConfiguration = SessionConfiguration(),
        cache: SessionCache? = nil,
        stub: StubTransport? = nil
    ) throws(SessionError) {
        self.loop = loop
        self.cache = cache
        connections = try OriginConnections(loop: loop, configuration: configuration, stub: stub)
    }

    // The tasks hold the session, so that there is none.
    deinit { connections.close() }

    /// Counts what origins make this process hold in that account.
    package func count(in account: HeldBytes) { connections.held = account }

    /// The limits of the heads of responses.
    package var responseHeadLimits: HeadLimits { connections.headLimits }

    /// How many tasks are not yet complete.
    public var taskCount: Int { count }

    /// Makes a task; it starts with `LoopTask.resume`.
    ///
    /// In a session that has been invalidated it can be made, too: it ends with `sessionInvalidated` at the end of the turn
    /// in which it is resumed.
    public func dataTask(with request: consuming SessionRequest, delegate: LoopTaskDelegate) -> LoopTask {
        makeTask(with: request, delegate: delegate, isLate: phase != .open)
    }

    /// The same for a task that another needs, which may have been there when the session was invalidated.
    func makeTask(with request: consuming SessionRequest, delegate: LoopTaskDelegate, isLate: Bool = false) -> LoopTask
    {
        count += 1
        let task = LoopTask(
            identifier: TaskIdentifiers.next(),
            request: request,
            delegate: delegate,
            manager: self,
            isLate: isLate
        )
        task.place = unstarted.count
        unstarted.append(Unstarted(task: task))
        return task
    }

    /// Makes a stream: a connection of its own to the endpoint, for bytes of any kind; it starts with
    /// `LoopStreamTask.resume`. It counts as a task: of `taskCount`, and when the session is invalidated or has been.
    ///
    /// - Parameters:
    ///   - endpoint: where it goes; its `httpVersion` does not count.
    ///   - applicationProtocols: what is offered to the server in the handshake, the best first; nothing when empty.
    ///   - timeouts: instead of the endpoint's; `stall` is the time without a byte in either direction.
    ///   - delegate: who is told; the stream holds it.
    public func streamTask(
        with endpoint: Endpoint,
        applicationProtocols: [ApplicationProtocol] = [],
        timeouts: TaskTimeouts? = nil,
        delegate: LoopStreamTaskDelegate
    ) -> LoopStreamTask {
        LoopStreamTask(
            endpoint: endpoint,
            applicationProtocols: applicationProtocols,
            timeouts: timeouts,
            delegate: delegate,
            session: self,
            isLate: phase != .open
        )
    }

    /// Whether no request may begin any more, whichever task it is for.
    var isRetired: Bool { phase == .retired }

    /// A task is resumed for the first time, or will never be.
    func leaveUnstarted(_ task: LoopTask) {
        guard task.place >= 0 else { return }
        let last = unstarted.removeLast()
        if task.place < unstarted.count {
            unstarted[task.place] = last
            last.task.place = task.place
        }
        task.place = -1
    }

    func forget(_ task: LoopTask) {
        leaveUnstarted(task)
        count -= 1
        if phase != .open, count == 0 { becomeInvalid() }
    }

    /// Takes no new tasks; those that are there are finished, or cancelled if so asked. Connections that carry nothing
    /// close at once, the others with the tasks that they carry.
    public func invalidateSession(cancelingTasks: Bool) {
        let isFirst = phase == .open
        if isFirst { phase = .invalidated }
        if cancelingTasks {
            cancelResumed()
            while let task = unstarted.last?.task { task.cancel() }
        }
        if isFirst { retireConnections() }
    }

    /// The same for a session that another one takes the place of: requests that are under way are finished, and whatever
    /// else there is of tasks ends with `sessionInvalidated`, so that its owner makes it anew in the other session. These
    /// are the tasks that wait for a connection, have one made, or would have their request sent once more.
    ///
    /// No request goes out in this session afterwards. Not to be called from within a task's delegate.
    package func retire() {
        guard phase == .open else { return }
        phase = .retired
        connections.handBack()
        retireConnections()
    }

    private func retireConnections() {
        if count == 0 { becomeInvalid() } else { connections.retireConnections() }
    }

    /// Ends the tasks that are under way.
    package func cancelResumed() {
        for exchange in exchanges.values { exchange.cancel() }
        connections.cancelAll()
    }

    private func becomeInvalid() {
        // Again with each task that comes too late.
        guard !hasEnded else { return }
        hasEnded = true
        let tell = sessionDidBecomeInvalid
        sessionDidBecomeInvalid = nil
        loop.atEndOfTurn { [connections] in
            connections.close()
            tell?()
        }
    }
}
