// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import IOCore
public import ServerTrust

/// Makes tasks and carries them out on one loop: what a session is to a program on that loop's thread. The proxy's
/// workers use it as it is; managers for use from any thread are built on it.
///
/// All members are for the loop's thread. Connections are pooled within the session and never leave it: the tasks of
/// one policy generation belong to one session, so that no connection outlives its policy.
public final class LoopSession {
    private let tasks: SessionTasks

    /// Called once, when an invalidated manager has no task left.
    public var sessionDidBecomeInvalid: (() -> Void)? {
        get { tasks.didEnd }
        set { tasks.didEnd = newValue }
    }

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
    /// - Throws: `SessionError` when OpenSSL cannot be set up.
    package init(
        loop: EventLoop,
        configuration: SessionConfiguration = SessionConfiguration(),
        cache: SessionCache? = nil,
        stub: StubTransport? = nil
    ) throws(SessionError) {
        let connections = try OriginConnections(loop: loop, configuration: configuration, stub: stub)
        tasks = SessionTasks(connections, cache: cache)
    }

    package var loop: EventLoop { tasks.loop }

    var connections: OriginConnections { tasks.connections }

    /// Counts what origins make this process hold in that account.
    package func count(in account: HeldBytes) { connections.held = account }

    /// The limits of the heads of responses.
    package var responseHeadLimits: HeadLimits { connections.headLimits }

    /// How many tasks are not yet complete.
    public var taskCount: Int { tasks.count }

    /// How many tasks the cache has a part in.
    package var cachedTaskCount: Int { tasks.cached?.count ?? 0 }

    /// Makes a task; it starts with `LoopTask.resume`.
    ///
    /// In a session that has been invalidated it can be made, too: it ends with `sessionInvalidated` at the end of the turn
    /// in which it is resumed.
    public func dataTask(with request: consuming SessionRequest, delegate: LoopTaskDelegate) -> LoopTask {
        tasks.makeTask(with: request, delegate: delegate, isLate: !tasks.isOpen)
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
            session: tasks,
            connections: connections,
            isLate: !tasks.isOpen
        )
    }

    /// Takes no new tasks; those that are there are finished, or cancelled if so asked. Connections that carry nothing
    /// close at once, the others with the tasks that they carry.
    public func invalidateSession(cancelingTasks: Bool) {
        let isFirst = tasks.invalidate()
        if cancelingTasks {
            tasks.cancelResumed()
            tasks.cancelUnstarted()
        }
        if isFirst { tasks.retireConnections() }
    }

    /// The same for a session that another one takes the place of: requests that are under way are finished, and whatever
    /// else there is of tasks ends with `sessionInvalidated`, so that its owner makes it anew in the other session. These
    /// are the tasks that wait for a connection, have one made, or would have their request sent once more.
    ///
    /// No request goes out in this session afterwards. Not to be called from within a task's delegate.
    package func retire() {
        guard tasks.retire() else { return }
        connections.handBack()
        tasks.retireConnections()
    }

    /// Ends the tasks that are under way.
    package func cancelResumed() { tasks.cancelResumed() }
}
