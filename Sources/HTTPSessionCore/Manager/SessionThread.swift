// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import SessionCore
import Synchronization

/// The implementation of a `URLSessionManager`: its tasks, and the `LoopSession` that carries them out. It lives as
/// long as a task or the manager.
///
/// `@unchecked Sendable`: `engine`, `isClosing`, `cancelsUnstarted` and `authorizers` are for work on `loop`; before
/// the first such work no other thread has the object. `gate` is accessed with `lock` held, and all else is immutable.
final class SessionThread: @unchecked Sendable {
    /// State that several threads share.
    private struct Gate {
        /// Whether new tasks and new work are accepted.
        var isOpen = true
        var isEnded = false
        var waiting: [CheckedContinuation<Void, Never>] = []
        var endpoints: [Origin: Endpoint] = [:]
        var hooks = HooksBox(SessionHooks())
        var observers: [@Sendable (SessionEvent) -> Void] = []
        /// What is done at the end of the session, by name.
        var endings: [String: @Sendable () -> Void] = [:]
        var files: SessionLoop?
    }

    let home: SessionLoop
    private let ownsHome: Bool
    let configuration: URLSessionManager.Configuration
    let serverTrust: SessionTrust
    let table = TaskTable()
    /// For code of the program that may block: interceptors, sources of bodies, decisions about challenges. Each session
    /// has its own, so that those of one do not hold up another.
    let blocking = BlockingThreads(name: "session")
    /// For the loop; nil after the end of the session.
    private(set) var engine: LoopSession!
    /// For the loop.
    private var isClosing = false
    private var cancelsUnstarted = false
    private let lock = PosixLock()
    /// Behind `lock`.
    private var gate = Gate()
    /// Whether a hook or an observer was ever set: of most sessions each task asks for them in vain, and takes no lock for that.
    private let hasHooks = Atomic(false)
    private let hasObservers = Atomic(false)
    private let noHooks = HooksBox(SessionHooks())
    /// The thread of handlers for which no other queue is named.
    private let callbackThread: CallbackThread
    /// The queue of these handlers. It has no weak reference to the session: that would make each retain of the session slow.
    let callbacks: CallbackQueue
    private static let endpointLimit = 4096
    /// Credentials that an origin has accepted, and that are sent there before it asks. For the loop.
    var authorizers: [Origin: Authorizer] = [:]
    static let authorizerLimit = 1024

    /// - Parameter home: the thread of the session; nil for one of its own.
    init(
        configuration: URLSessionManager.Configuration,
        serverTrust: SessionTrust,
        home: SessionLoop?
    ) throws(SessionError) {
        self.configuration = configuration
        self.serverTrust = serverTrust
        ownsHome = home == nil
        let thread = if let home { home } else { try SessionLoop() }
        self.home = thread
        let callbackThread = CallbackThread(fallback: thread)
        self.callbackThread = callbackThread
        callbacks = configuration.callbackQueue ?? CallbackQueue { callbackThread.enqueue($0) }
        engine = try LoopSession(
            loop: self.home.loop,
            configuration: configuration.session,
            cache: configuration.cache,
            stub: configuration.stub
        )
    }

    deinit { callbackThread.end() }

    var loop: EventLoop { home.loop }

    // MARK: Any thread

    /// - Returns: false when the session has been invalidated.
    func perform(_ work: @escaping @Sendable (SessionThread) -> Void) -> Bool {
        // The lock is held, so that no work is submitted after the work that ends the session.
        let (isOpen, wakes) = lock.withLock {
            guard gate.isOpen else { return (false, false) }
            return (true, loop.enqueue { work(self) })
        }
        if wakes { loop.wake() }
        return isOpen
    }

    /// Adds a task.
    func add(_ task: SessionTask) throws(SessionError) {
        let isOpen = lock.withLock {
            if gate.isOpen { table.insert(task) }
            return gate.isOpen
        }
        guard isOpen else { throw .sessionInvalidated }
    }

    /// For reading one hook, without a copy of all hooks.
    var hookBox: HooksBox { hasHooks.load(ordering: .acquiring) ? lock.withLock { gate.hooks } : noHooks }

    var hooks: SessionHooks {
        get { hookBox.hooks }
        _modify {
            lock.lock()
            let old = gate.hooks
            var hooks = old.hooks
            defer {
                gate.hooks = HooksBox(hooks)
                hasHooks.store(true, ordering: .releasing)
                lock.unlock()
                // Freed without the lock, since that may run code of the program.
                withExtendedLifetime(old) {}
            }
            yield &hooks
        }
    }

    func changeHooks(_ change: (inout SessionHooks) -> Void) {
        let old = lock.withLock {
            let old = gate.hooks
            var hooks = old.hooks
            change(&hooks)
            gate.hooks = HooksBox(hooks)
            hasHooks.store(true, ordering: .releasing)
            return old
        }
        // Freed without the lock, since that may run code of the program.
        withExtendedLifetime(old) {}
    }

    func observe(_ observer: @escaping @Sendable (SessionEvent) -> Void) {
        lock.withLock {
            gate.observers.append(observer)
            hasObservers.store(true, ordering: .releasing)
        }
    }

    func notifyObservers(_ event: @autoclosure () -> SessionEvent) {
        guard hasObservers.load(ordering: .acquiring) else { return }
        let event = event()
        let observers = lock.withLock { gate.observers }
        guard !observers.isEmpty else { return }
        callbacks.enqueue { for observer in observers { observer(event) } }
    }

    /// The thread that waits for the disk, started for the first download.
    var files: SessionLoop {
        lock.withLock {
            if let files = gate.files { return files }
            let made = (try? SessionLoop(name: "SessionFiles")) ?? home
            gate.files = made
            return made
        }
    }

    /// The folder of partial downloads.
    var temporaryFolder: String {
        configuration.temporaryFolder ?? getenv("TMPDIR").map { String(cString: $0) } ?? "/var/tmp"
    }

    /// Checks a request as it would be sent now.
    func check(_ request: HTTPSessionRequest) throws(SessionError) -> CheckedRequest {
        do throws(SessionError) {
            return try CheckedRequest(request, additionalHeaders: configuration.additionalHeaders, endpoint: endpoint)
        } catch {
            throw error.named(RequestName.text(request.method, request.url))
        }
    }

    func endpoint(for origin: Origin) throws(SessionError) -> Endpoint {
        if let known = lock.withLock({ gate.endpoints[origin] }) { return known }
        let endpoint = try makeEndpoint(origin)
        return lock.withLock {
            // Another thread may have added an endpoint meanwhile; an origin has only one.
            if let known = gate.endpoints[origin] { return known }
            if gate.endpoints.count >= Self.endpointLimit { gate.endpoints.removeAll() }
            gate.endpoints[origin] = endpoint
            return endpoint
        }
    }

    private func makeEndpoint(_ origin: Origin) throws(SessionError) -> Endpoint {
        if let find = configuration.endpoints { return try find(origin).get() }
        let scheme = origin.scheme == .https ? Endpoint.Scheme.https : .http
        let proxy = configuration.proxy.flatMap { $0.exceptions.contains(origin.host) ? nil : $0 }
        return Endpoint(
            scheme: scheme,
            host: origin.host,
            port: origin.port,
            resolve: configuration.resolve[origin.host],
            httpVersion: configuration.httpVersion,
            policy: try serverTrust.policy(scheme: scheme, host: origin.host, port: origin.port),
            anchors: serverTrust.anchors,
            timeouts: configuration.timeouts,
            proxy: proxy,
            proxyPolicy: try proxy.map(policy) ?? .unpinned,
            tls: TLSSettings(profile: configuration.tlsProfile),
            proxyTLS: TLSSettings(profile: configuration.tlsProfile)
        )
    }

    /// - Throws: for an HTTPS proxy that `serverTrust` does not allow.
    private func policy(_ proxy: SessionProxy) throws(SessionError) -> SecurityPolicy {
        guard proxy.kind == .https else { return .unpinned }
        return try serverTrust.policy(scheme: .https, host: proxy.host, port: proxy.port)
    }

    // MARK: The end

    func invalidate(cancelingTasks: Bool) {
        let hasWork = lock.withLock {
            guard gate.isOpen || cancelingTasks, !gate.isEnded else { return false }
            gate.isOpen = false
            loop.submit { [self] in close(cancelingTasks: cancelingTasks) }
            return true
        }
        if hasWork, cancelingTasks {
            for task in table.all { task.cancel() }
        }
    }

    /// On the loop.
    private func close(cancelingTasks: Bool) {
        guard let engine else { return }
        isClosing = true
        if cancelingTasks { cancelsUnstarted = true }
        engine.sessionDidBecomeInvalid = { [self] in didClose() }
        // Tasks that were made in `perform`.
        if cancelingTasks { engine.cancelResumed() }
        closeWhenEmpty()
    }

    /// On the loop.
    private func closeWhenEmpty() {
        guard isClosing, table.isEmpty else { return }
        engine?.invalidateSession(cancelingTasks: cancelsUnstarted)
    }

    /// On the loop, when a task is complete.
    func forget(_ task: SessionTask) {
        table.remove(task)
        if isClosing { loop.atEndOfTurn { [self] in closeWhenEmpty() } }
    }

    /// On the loop, when all connections are closed.
    private func didClose() {
        // It is freed on the loop that it was used on.
        engine = nil
        authorizers = [:]
        hookBox.hooks.sessionDidBecomeInvalid?()
        notifyObservers(.didInvalidate)
        dropCallees()
        let (waiting, endings) = lock.withLock {
            gate.isEnded = true
            defer {
                gate.waiting = []
                gate.endings = [:]
            }
            return (gate.waiting, gate.endings)
        }
        for end in endings.values { end() }
        for continuation in waiting { continuation.resume() }
    }

    /// Frees hooks and observers: without the lock, since that may run code of the program.
    private func dropCallees() {
        let callees = lock.withLock {
            defer {
                gate.hooks = HooksBox(SessionHooks())
                gate.observers = []
            }
            return (gate.hooks, gate.observers)
        }
        withExtendedLifetime(callees) {}
    }

    /// Runs `work` when the session has ended, or at once if it has.
    ///
    /// - Parameter name: for `forgetEnding`.
    func whenClosed(_ name: String, _ work: @escaping @Sendable () -> Void) {
        let isEnded = lock.withLock {
            if !gate.isEnded { gate.endings[name] = work }
            return gate.isEnded
        }
        if isEnded { work() }
    }

    func forgetEnding(of name: String) {
        let work = lock.withLock { gate.endings.removeValue(forKey: name) }
        withExtendedLifetime(work) {}
    }

    /// Returns when the session and its own thread have ended.
    func whenEnded() async {
        await withCheckedContinuation { continuation in
            let isEnded = lock.withLock {
                if !gate.isEnded { gate.waiting.append(continuation) }
                return gate.isEnded
            }
            if isEnded { continuation.resume() }
        }
        if ownsHome { home.stopAndJoin() }
    }
}

/// The thread of a session's handlers, started for the first of them. Those that come after the end of the session run at once.
///
/// `@unchecked Sendable`: everything that changes is behind `lock`; `wakeUp` is for the session's loop.
private final class CallbackThread: @unchecked Sendable {
    private let lock = PosixLock()
    /// Where handlers run if no thread can be started; nil after the end.
    private var fallback: SessionLoop?
    private var thread: SessionLoop?
    private let wakeUp = WakeUpAtEndOfTurn()

    /// Wakes the thread once for all handlers that a turn of the session's loop brings.
    private final class WakeUpAtEndOfTurn: EndOfTurnHandler {
        var loop: EventLoop?

        override func turnEnds() { loop.take()?.wake() }
    }

    init(fallback: SessionLoop) { self.fallback = fallback }

    func enqueue(_ work: @escaping @Sendable () -> Void) {
        // The lock is held, so that nothing is submitted after the end of the thread, which would drop it.
        let (target, home, wakes) = lock.withLock { () -> (EventLoop?, EventLoop?, Bool) in
            guard let fallback else { return (nil, nil, false) }
            let thread = thread ?? (try? SessionLoop(name: "SessionCallback")) ?? fallback
            self.thread = thread
            return (thread.loop, fallback.loop, thread.loop.enqueue(work))
        }
        guard let target, let home else { return work() }
        guard wakes else { return }
        // A hook that blocks the session's loop holds its handlers up, too.
        guard home.isRunningHere else { return target.wake() }
        wakeUp.loop = target
        home.atEndOfTurn(wakeUp)
    }

    func end() {
        let last = lock.withLock {
            defer { (thread, fallback) = (nil, nil) }
            return (thread, fallback)
        }
        withExtendedLifetime(last) {}
    }
}

/// A session's hooks in an object, so that reading one of them copies one reference.
final class HooksBox: Sendable {
    let hooks: SessionHooks

    init(_ hooks: SessionHooks) { self.hooks = hooks }
}
