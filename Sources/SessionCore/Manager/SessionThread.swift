import HTTPCore
import IOCore

/// The thread's side of an `HTTPSessionManager`: the loop, and the manager that is confined to it.
///
/// `@unchecked Sendable`: `manager` is touched by work that `loop` runs, on its one thread, and by `run`
/// on that thread; before the thread starts nobody else has the object. `gate` is touched with `lock` held, and all else is immutable.
final class SessionThread: @unchecked Sendable {
    /// What several threads see.
    private struct Gate {
        /// New work is handed to the loop while true. The lock is held while that is done, so that nothing is handed
        /// over behind the work that ends the loop, where it would never be done.
        var isOpen = true
        var isEnded = false
        var isJoined = false
        var waiting: [CheckedContinuation<Void, Never>] = []
        var endpoints: [Origin: Endpoint] = [:]
    }

    let loop: EventLoop
    private(set) var manager: LoopSession!
    private let configuration: HTTPSessionManager.Configuration
    private let serverTrust: SessionTrust
    private let lock = PosixLock()
    /// Behind `lock`.
    private var gate = Gate()
    private static let endpointLimit = 4096

    init(
        configuration: HTTPSessionManager.Configuration,
        serverTrust: SessionTrust
    ) throws(SessionError) {
        self.configuration = configuration
        self.serverTrust = serverTrust
        do {
            loop = try EventLoop()
        } catch {
            throw SessionError(.internal, "The session's loop could not be made: \(error).")
        }
        manager = try LoopSession(loop: loop, configuration: configuration.session)
    }

    // MARK: The thread

    func run() {
        manager.sessionDidBecomeInvalid = { [loop] in loop.stop() }
        loop.run()
        // Freed here, where it lived.
        manager = nil
        let waiting = lock.withLock {
            gate.isEnded = true
            defer { gate.waiting = [] }
            return gate.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    // MARK: Any thread

    /// - Returns: false when the session takes no more.
    func perform(_ work: @escaping @Sendable (SessionThread) -> Void) -> Bool {
        lock.withLock {
            guard gate.isOpen else { return false }
            loop.submit { work(self) }
            return true
        }
    }

    func start(
        _ call: DataCall,
        _ completion: @escaping @Sendable (Result<DataResponse, SessionError>) -> Void
    ) {
        let isTaken = perform { thread in
            do throws(SessionError) {
                call.start(
                    on: thread.manager,
                    endpoint: try thread.endpoint(for: call.url),
                    limit: thread.configuration.maximumBodySize,
                    completion
                )
            } catch {
                completion(.failure(error))
            }
        }
        if !isTaken { completion(.failure(SessionError(.cancelled, "The session has been invalidated."))) }
    }

    func cancel(_ call: DataCall) {
        loop.submit { call.cancel() }
    }

    func endpoint(for url: RequestURL) throws(SessionError) -> Endpoint {
        if let known = lock.withLock({ gate.endpoints[url.origin] }) { return known }
        let origin = url.origin
        let scheme = origin.scheme == .https ? Endpoint.Scheme.https : .http
        let endpoint = Endpoint(
            scheme: scheme,
            host: origin.host,
            port: origin.port,
            httpVersion: configuration.httpVersion,
            policy: try serverTrust.policy(scheme: scheme, host: origin.host, port: origin.port),
            anchors: serverTrust.anchors,
            timeouts: configuration.timeouts
        )
        return lock.withLock {
            // Another thread may have been faster: one value for one place.
            if let known = gate.endpoints[origin] { return known }
            if gate.endpoints.count >= Self.endpointLimit { gate.endpoints.removeAll() }
            gate.endpoints[origin] = endpoint
            return endpoint
        }
    }

    func invalidate(cancelingTasks: Bool) {
        lock.withLock {
            guard gate.isOpen || cancelingTasks, !gate.isEnded else { return }
            gate.isOpen = false
            loop.submit { [self] in
                guard let manager else { return }
                manager.invalidateSession(cancelingTasks: cancelingTasks)
                if cancelingTasks { manager.transfers.cancelAll() }
            }
        }
    }

    func whenEnded(_ continuation: CheckedContinuation<Void, Never>) {
        let isEnded = lock.withLock {
            if !gate.isEnded { gate.waiting.append(continuation) }
            return gate.isEnded
        }
        if isEnded { continuation.resume() }
    }

    /// True for the one caller who is to join the thread.
    func takeJoin() -> Bool {
        lock.withLock {
            defer { gate.isJoined = true }
            return !gate.isJoined
        }
    }

    var isJoined: Bool { lock.withLock { gate.isJoined } }
}
