// SPDX-License-Identifier: Apache-2.0
import IOCore

/// One listener in one worker: accepts its connections.
final class WorkerListener: EventHandler {
    let routes: ListenerRoutes
    private let socket: ListeningSocket
    private let worker: Worker
    private var retry: LoopTimer!
    private var isStopped = false

    /// The number of connections accepted in one turn: more would delay the requests of others.
    private static let acceptsATurn = 16

    init(socket: ListeningSocket, routes: ListenerRoutes, worker: Worker) {
        self.routes = routes
        self.socket = socket
        self.worker = worker
        super.init()
        retry = LoopTimer { [unowned self] in try? register() }
    }

    // MARK: Accepting

    func start() throws(IOFailure) { try register() }

    private func register() throws(IOFailure) {
        guard !isStopped else { return }
        try worker.loop.register(socket.descriptor, [.readable, .exclusive], self)
    }

    /// Accepts the connections in the kernel's queue, and no later ones.
    func stop() {
        guard !isStopped else { return }
        isStopped = true
        acceptWaiting(atMost: Int.max)
        socket.refuse()
        // The queue of a Unix socket would stay otherwise.
        acceptWaiting(atMost: Int.max)
        worker.loop.unregister(socket.descriptor)
        worker.loop.remove(retry)
    }

    override func ready(_ readiness: Readiness) {
        worker.loop.noteWork(.accept)
        acceptWaiting(atMost: Self.acceptsATurn)
    }

    private func acceptWaiting(atMost limit: Int) {
        for _ in 0..<limit {
            switch socket.accept() {
            case .connection(let descriptor, let address):
                worker.didAccept(descriptor, address, self)
            case .wouldBlock:
                return
            case .exhausted:
                // Without free descriptors the listener would stay ready. It is checked again when some may be free.
                guard !isStopped else { return }
                worker.loop.unregister(socket.descriptor)
                worker.loop.arm(retry, after: .milliseconds(100))
                return
            }
        }
    }
}
