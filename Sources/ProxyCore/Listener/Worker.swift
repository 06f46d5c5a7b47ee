// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import IOCore
import ProxyConfiguration
import SessionCore

/// One loop's share of the proxy: its listeners, the connections that it serves, and what these use together.
///
/// `@unchecked Sendable` because a worker is made before its thread starts and is from then on touched by that thread
/// alone: other threads use `loop` and `counters` (constants, made for several threads) and `load` (atomic numbers), and nothing else
/// of it.
final class Worker: @unchecked Sendable {
    let services: WorkerServices
    var loop: EventLoop { services.loop }
    var counters: WorkerCounters { services.counters }
    /// The number of this worker's connections, those included that are on their way to it.
    let load: WorkerLoad
    /// Smaller differences are not worth another thread's turn, and leave two clients of one origin on one worker, whose
    /// connection to the origin they can share.
    private static let worthwhileDifference = 2
    /// A worker that has not taken a connection for so long gets no further ones: its loop is held up, and they would wait with it.
    private static let patience = TimeSpan.milliseconds(100)
    /// All workers of the proxy, without this one. Set before the first of them runs.
    private var others: [Worker] = []
    private let server: ServerState
    private var listeners: [WorkerListener] = []
    private let clients: ClientConnections
    private var isStopped = false

    init(
        loop: EventLoop,
        generation: Generation,
        server: ServerState,
        monitor: PinMonitor,
        passwords: PasswordVerifier,
        traces: TraceExport,
        log: LogWriter?,
        recentTasks: RecentTasks? = nil,
        cache: ResponseCache?,
        pseudonym: [UInt8]
    ) {
        let load = WorkerLoad()
        self.load = load
        self.server = server
        services = WorkerServices(
            loop: loop,
            generation: generation,
            server: server,
            monitor: monitor,
            passwords: passwords,
            traces: traces,
            log: log,
            recentTasks: recentTasks,
            cache: cache,
            pseudonym: pseudonym
        )
        clients = ClientConnections(services, server, load)
    }

    /// Starts to accept connections of a listener.
    func listen(_ socket: ListeningSocket, _ configuration: ListenerConfiguration) throws(IOFailure) {
        let listener = WorkerListener(
            socket: socket,
            routes: ListenerRoutes(configuration, index: listeners.count, under: services.generation),
            worker: self
        )
        try listener.start()
        listeners.append(listener)
    }

    /// Lets this worker give connections to the others. Called before any of them runs.
    func share(with workers: [Worker]) {
        others = workers.filter { $0 !== self }
    }

    // MARK: Connections

    /// Admits an accepted connection, and gives it to the worker that has the fewest.
    ///
    /// The kernel wakes the worker that began to wait last, so that of a few clients one worker would have most or all.
    func didAccept(_ descriptor: Int32, _ address: SocketAddress, _ listener: WorkerListener) {
        guard !DescriptorReserve.holds(descriptor),
            server.admit(limit: services.generation.snapshot.configuration.limits.connections)
        else {
            counters.noteRefusedConnection(at: loop.wallClock / 1_000_000)
            return clients.refuse(descriptor, address, listener.routes)
        }
        guard !services.isDraining, let other = lessLoadedWorker else {
            load.add()
            return clients.serve(AcceptedConnection(descriptor, address), listener.routes)
        }
        // Counted at once: the other worker may begin its next turn only when many more were accepted here.
        other.load.addComing(at: loop.now)
        let connection = AcceptedConnection(descriptor, address)
        let index = listener.routes.index
        other.loop.submit { other.take(connection, atListener: index) }
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
    private func take(_ accepted: AcceptedConnection, atListener index: Int) {
        load.removeComing(at: loop.now)
        guard !isStopped else {
            load.remove()
            server.release()
            return
        }
        clients.serve(accepted, listeners[index].routes)
    }

    /// Gives unused memory back soon: much was freed without a request.
    func restSoon() { services.restSoon() }

    // MARK: Reload

    /// Uses another policy for everything that begins or continues from now on. Requests that were sent finish under
    /// theirs.
    func adopt(_ next: Generation, log: LogWriter?, cache: ResponseCache?) {
        guard !isStopped else { return }
        loop.noteWork(.policy)
        let former = services.adopt(next, cache: cache)
        for listener in listeners { listener.routes.adopt(next) }
        services.logTo(log)
        // This comes last, because the requests that it gives back restart at once.
        former.retire()
    }

    func logTo(_ writer: LogWriter?) {
        if !isStopped { services.logTo(writer) }
    }

    func recordTasks() {
        if !isStopped { services.recordTasks() }
    }

    // MARK: The end

    /// A description of the work under way; empty when there is none.
    var leftovers: [String] {
        var found: [String] = []
        if clients.count > 0 { found.append("\(clients.count) client connections") }
        let tasks = services.generation.manager.taskCount
        if tasks > 0 { found.append("\(tasks) tasks") }
        if !loop.hasNothingPlanned { found.append("an armed timer, or work put off") }
        return found
    }

    /// Stops accepting. Each client learns with its next response that its connection ends; earlier requests are
    /// served.
    ///
    /// - Parameter grace: how long a connection may be idle from now on.
    func drain(grace: TimeSpan) {
        guard !services.isDraining else { return }
        services.drain(grace: grace)
        for listener in listeners { listener.stop() }
        clients.drain()
        server.noteDrain()
    }

    /// Ends everything at once.
    func stop() {
        drain(grace: TimeSpan(nanoseconds: 0))
        clients.cancel()
        isStopped = true
        services.stop()
        listeners = []
        // The workers hold each other.
        others = []
        loop.stop()
    }
}
