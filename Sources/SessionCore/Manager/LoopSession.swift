package import IOCore
public import ServerTrust

/// Makes tasks and carries them out on one loop: what a session is to a program on that loop's thread. The proxy's
/// workers use it as it is; managers for use from any thread are built on it.
///
/// All members are for the loop's thread. Connections are pooled within the session and never leave it: the tasks of
/// one policy generation belong to one session, so that no connection outlives its policy.
public final class LoopSession {
    package let loop: EventLoop
    let transfers: TransferPool
    private var count = 0
    private var invalidated = false
    /// Called once, when an invalidated manager has no task left.
    public var sessionDidBecomeInvalid: (() -> Void)?

    /// Told of each evaluation of a server's trust, once a TLS handshake and before its first request goes out, whether
    /// the server was accepted or refused. Never called for a request on a connection that is there already.
    ///
    /// It runs on the loop in the midst of libcurl's work: take what is needed and return.
    public var sessionDidEvaluateServerTrust: ((_ trust: ConnectionTrust, _ endpoint: Endpoint) -> Void)? {
        get { transfers.didEvaluateTrust }
        set { transfers.didEvaluateTrust = newValue }
    }

    /// - Throws: `SessionError` when libcurl cannot be set up.
    package init(loop: EventLoop, configuration: SessionConfiguration = SessionConfiguration()) throws(SessionError) {
        self.loop = loop
        transfers = try TransferPool(loop: loop, configuration: configuration)
    }

    /// How many tasks are not yet complete.
    public var taskCount: Int { count }

    /// Makes a task; it starts with `LoopTask.resume`.
    public func dataTask(with request: SessionRequest, delegate: LoopTaskDelegate) -> LoopTask {
        precondition(!invalidated, "the session has been invalidated")
        count += 1
        return LoopTask(
            identifier: TaskIdentifiers.next(),
            request: request,
            delegate: delegate,
            manager: self
        )
    }

    func forget(_ task: LoopTask) {
        count -= 1
        if invalidated, count == 0 { becomeInvalid() }
    }

    /// Takes no new tasks; those that are there are finished, or cancelled if so asked. Connections that carry nothing
    /// close at once, the others with the tasks that they carry.
    public func invalidateSession(cancelingTasks: Bool) {
        guard !invalidated else { return }
        invalidated = true
        if cancelingTasks { transfers.cancelAll() }
        if count == 0 { becomeInvalid() } else { transfers.retireConnections() }
    }

    private func becomeInvalid() {
        let tell = sessionDidBecomeInvalid
        sessionDidBecomeInvalid = nil
        loop.atEndOfTurn { [transfers] in
            transfers.close()
            tell?()
        }
    }
}
