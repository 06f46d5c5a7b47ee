// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
package import IOCore
package import ProxyConfiguration
import SessionCore
import Synchronization

/// The whole proxy: its listeners, worker threads and log. Used by the thread that made it.
package final class ProxyServer {
    /// The policy of requests that begin now.
    package private(set) var snapshot: PolicySnapshot
    private let state: ServerState
    private let monitor: PinMonitor
    private let lists: RevocationListFetcher
    private let credentials: CredentialRenewals
    private let traces: TraceExport
    private let passwords = PasswordVerifier()
    private var log: LogWriter?
    let cache: CacheHolder
    private let isLogGiven: Bool
    private let logLosses: LogLosses
    private let logObserver: LogObserver?
    /// nil without an admin listener.
    private let recentTasks: RecentTasks?
    private let sockets: [ListeningSocket]
    /// Nothing accepts its connections but an admin listener. nil when the configuration has none.
    package let adminSocket: ListeningSocket?
    private let status: ServerStatus
    private var watchdog = LoopWatchdog([])
    private var workers: [Worker] = []
    private var threads: [LoopThread] = []
    private let clock: LoopClock
    private var isStopped = false

    /// The reason why a proxy could not be started.
    package enum StartFailure: Error {
        /// The address of a listener is in use or not available.
        case bind(listener: String, IOFailure)
        /// The service manager has passed sockets that no listener has.
        case passed([PassedSockets.Socket])
        case log(path: String, IOFailure)
        case reports(path: String, IOFailure)
        case system(String)
    }

    /// Binds all listeners and starts the workers.
    ///
    /// - Parameters:
    ///   - log: replaces `log.tasks` of the configuration; the demo reads the lines itself.
    ///   - logObserver: receives the lines of the log that `log.tasks` names, also where that is none.
    ///   - monitoring: settings of reports and warnings.
    ///   - fetching: the bounds of fetching revocation lists.
    ///   - version: of the program, for collectors of spans.
    ///   - clock: with `.byHand` there is one worker without a thread, which only `turn` and `advance` move.
    ///     `monitoring` must then have the same clock.
    package init(
        parts: PolicyParts,
        log: LogWriter? = nil,
        logObserver: LogObserver? = nil,
        monitoring: PinMonitor.Settings = PinMonitor.Settings(),
        fetching: ListFetchLimits = ListFetchLimits(),
        version: String = "",
        passed: PassedSockets = .none,
        clock: LoopClock = .system
    ) throws(StartFailure) {
        self.clock = clock
        let configuration = parts.configuration
        var sockets: [ListeningSocket] = []
        var passed = passed
        for listener in configuration.listeners {
            let socket = try Self.bind(listener.endpoint, &passed)
            if listener.mode == .transparent {
                OwnConnections.all.watch()
                // Refused without a capability that only TPROXY needs.
                socket.takeConnectionsToOthers()
            }
            sockets.append(socket)
        }
        let adminSocket: ListeningSocket? =
            if let admin = configuration.admin { try Self.bind(admin.endpoint, &passed) } else { nil }
        // Clients of such a socket would wait for ever.
        guard passed.left.isEmpty else { throw .passed(passed.left) }
        self.sockets = sockets
        self.adminSocket = adminSocket
        isLogGiven = log != nil
        logLosses = log?.losses ?? LogLosses()
        self.logObserver = logObserver
        recentTasks = configuration.admin == nil ? nil : RecentTasks()
        if let log { self.log = log } else { self.log = try Self.openLog(configuration.log, logLosses, logObserver) }
        snapshot = PolicySnapshot(Self.placed(parts, at: sockets + [adminSocket].compactMap { $0 }), generation: 1)
        let shares = Self.shareDescriptors(
            workers: Self.workerCount(configuration, clock),
            hasFiles: configuration.cache?.disk != nil
        )
        state = ServerState(descriptors: shares, heldBytes: configuration.limits.heldBytes)
        DescriptorReserve.start(at: shares.firstReserved)
        FileShare.start(shares.files)
        cache = CacheHolder(ResponseCache.make(configuration))
        status = ServerStatus(snapshot, loadedAt: Clock.seconds)
        var listSettings = RevocationListFetcher.Settings()
        listSettings.limits = fetching
        listSettings.log = monitoring.log
        lists = RevocationListFetcher(snapshot: snapshot, settings: listSettings)
        var credentialSettings = CredentialSettings()
        credentialSettings.log = monitoring.log
        credentialSettings.lists = lists.source
        credentials = CredentialRenewals(snapshot: snapshot, settings: credentialSettings)
        var traceSettings = TraceSettings()
        traceSettings.log = monitoring.log
        traceSettings.lists = lists.source
        traceSettings.version = version
        traces = TraceExport(snapshot: snapshot, settings: traceSettings)
        do throws(MonitoringFailure) {
            monitor = try PinMonitor(snapshot: snapshot, settings: monitoring)
        } catch {
            switch error {
            case .file(let path, let cause): throw .reports(path: path, cause)
            case .system(let message): throw .system(message)
            }
        }
        do {
            try startWorkers(configuration)
            watchdog = LoopWatchdog(workers.map(\.loop))
        } catch let error as IOFailure {
            throw .system(error.description)
        } catch {
            throw .system("\(error)")
        }
    }

    private static func workerCount(_ configuration: Configuration, _ clock: LoopClock) -> Int {
        if clock == .byHand { return 1 }
        return configuration.workers > 0 ? configuration.workers : SystemProcessors.count
    }

    /// Reserves descriptors for the workers and the admin listener before these are made.
    private static func shareDescriptors(workers: Int, hasFiles: Bool) -> DescriptorShares {
        let figures = ProcessFigures.read()
        let limit = figures.maximalDescriptors > 0 ? figures.maximalDescriptors : .max
        return DescriptorShares(
            limit: limit,
            opened: figures.openDescriptors + workers * descriptorsOfWorker + descriptorsOfOthers,
            workers: workers,
            hasFiles: hasFiles
        )
    }

    /// Descriptors of the loop, and of libcurl's handle for two generations, where SOCKS proxies are.
    private static let descriptorsOfWorker = 6
    /// Descriptors of the admin listener's loop, signals, watched folders and the cache.
    private static let descriptorsOfOthers = 8

    /// The number of client connections that the system's limit of descriptors allows; nil when it allows as many as
    /// are configured.
    package var descriptorShortage: (connections: Int, shares: DescriptorShares)? {
        let shares = state.descriptors
        return shares.clients < snapshot.configuration.limits.connections ? (shares.clients, shares) : nil
    }

    private static func bind(
        _ endpoint: ListenerConfiguration.Endpoint,
        _ passed: inout PassedSockets
    ) throws(StartFailure) -> ListeningSocket {
        if let descriptor = passed.take(endpoint.socketAddress) {
            return ListeningSocket(passed: descriptor, endpoint.socketAddress)
        }
        do throws(IOFailure) {
            return try ListeningSocket(endpoint.socketAddress)
        } catch {
            throw .bind(listener: endpoint.description, error)
        }
    }

    /// Adds the addresses of this program's listeners to the policy: they are never dialled.
    private static func placed(_ parts: PolicyParts, at sockets: [ListeningSocket]) -> PolicyParts {
        var parts = parts
        parts.ownListeners = sockets.compactMap { AddressAndPort($0.address) }
        return parts
    }

    private static func openLog(
        _ settings: LogConfiguration,
        _ losses: LogLosses,
        _ observer: LogObserver?
    ) throws(StartFailure) -> LogWriter? {
        func writer(_ descriptor: Int32) throws(IOFailure) -> LogWriter {
            let text = LogText(settings.format, descriptor: descriptor)
            return try LogWriter(
                descriptor: descriptor,
                closing: false,
                losses: losses,
                text: text,
                observer: observer
            )
        }
        do throws(IOFailure) {
            switch settings.tasks {
            case .off:
                guard let observer else { return nil }
                return try LogWriter(path: "/dev/null", losses: losses, observer: observer)
            case .stdout: return try writer(1)
            case .stderr: return try writer(2)
            case .file(let path):
                let text = settings.format == .text ? LogText(hasColours: false) : nil
                return try LogWriter(path: path, losses: losses, text: text, observer: observer)
            }
        } catch {
            if case .file(let path) = settings.tasks { throw .log(path: path, error) }
            throw .system(error.description)
        }
    }

    private func startWorkers(_ configuration: Configuration) throws {
        let count = Self.workerCount(configuration, clock)
        let pseudonym = ViaField.makePseudonym()
        for index in 0..<count {
            let loop = try EventLoop(clock: clock)
            loop.didMeasureTurn = { [monitor] turn in
                if turn.microseconds >= LongTurnNotices.bound { monitor.report(turn, ofWorker: index) }
            }
            let worker = Worker(
                loop: loop,
                generation: try Generation(
                    snapshot,
                    loop: loop,
                    workers: count,
                    descriptors: state.descriptors,
                    handshakes: state.handshakes,
                    lists: lists.source,
                    credentials: credentials
                ),
                server: state,
                monitor: monitor,
                passwords: passwords,
                traces: traces,
                log: log,
                recentTasks: recentTasks,
                cache: cache.current,
                pseudonym: pseudonym
            )
            for (socket, listener) in zip(sockets, configuration.listeners) { try worker.listen(socket, listener) }
            workers.append(worker)
        }
        guard clock != .byHand else { return }
        // Each worker may give connections to each other from its first turn on.
        for worker in workers { worker.share(with: workers) }
        for (index, worker) in workers.enumerated() {
            let loop = worker.loop
            threads.append(try LoopThread(name: "worker \(index)") { loop.run() })
        }
    }

    /// What any thread may read, for an admin listener; nil when the configuration has none.
    package var figures: ServerFigures? {
        guard let recentTasks else { return nil }
        return ServerFigures(
            workers: workers.map(\.counters),
            turns: workers.map(\.loop.turns),
            watchdog: watchdog,
            state: state,
            serverStatus: status,
            monitor: monitor,
            lists: lists,
            credentials: credentials,
            traces: traces,
            cacheHolder: cache,
            logLosses: logLosses,
            recentTasks: recentTasks,
            recordTasks: { [workers] in
                for worker in workers { worker.loop.submit { worker.recordTasks() } }
            },
            didPurge: { [workers] in
                for worker in workers { worker.loop.submit { worker.restSoon() } }
            }
        )
    }

    /// Whether all workers respond. Stuck workers are noticed by repeated calls. False when only a restart helps.
    package var isAlive: Bool { watchdog.check() }

    /// The same with a time of a service manager's: whether each worker's loop has responded within so many nanoseconds.
    package func isAlive(within patience: UInt64) -> Bool { watchdog.check(patience: patience) }

    /// The addresses of the listeners, in the order of the configuration; port 0 is replaced by the port that the
    /// kernel chose.
    package var listening: [(configuration: ListenerConfiguration, address: SocketAddress)] {
        zip(snapshot.configuration.listeners, sockets).map { ($0, $1.address) }
    }

    // MARK: By hand

    /// Runs one turn of the only worker's loop.
    ///
    /// - Returns: whether anything happened in it.
    package func turn(waitingAtMost limit: TimeSpan = TimeSpan(nanoseconds: 0)) -> Bool {
        monitor.turn()
        return workers[0].loop.turn(waitingAtMost: limit)
    }

    /// A closure that returns, even after the server was freed, whether its worker still exists: something holds it then.
    package var workerIsAlive: () -> Bool {
        { [weak worker = workers[0]] in worker != nil }
    }

    /// Moves the only worker's clock forward.
    package func advance(by span: TimeSpan) { workers[0].loop.advance(by: span) }

    /// Descriptions of everything that the only worker holds; empty when nothing is under way and the clock has passed
    /// the end of all temporary storage.
    package var leftovers: [String] { workers[0].leftovers }

    // MARK: Reload

    /// Replaces the policy, and returns when no request can begin under the former one. Requests that were sent finish
    /// under it.
    ///
    /// `workers`, `listeners` and `admin` belong to the start: their values in the new parts are replaced by the present
    /// ones. This call blocks and must not be made on a loop.
    ///
    /// - Parameter reopensLog: reopens a log that is a file, even when its path is the same.
    /// - Returns: the parts of the new configuration that need a restart.
    /// - Throws: when the task log cannot be opened or memory is short; nothing has changed then.
    @discardableResult
    package func reload(
        _ next: PolicyParts,
        reopensLog: Bool = false
    ) throws(StartFailure) -> [RestartNeed] {
        let current = snapshot.configuration
        let needs = RestartNeed.between(current, next.configuration)
        var parts = next
        RestartNeed.keep(snapshot.parts, in: &parts)
        let replacement = PolicySnapshot(
            Self.placed(parts, at: sockets + [adminSocket].compactMap { $0 }),
            generation: snapshot.generation + 1,
            following: snapshot
        )
        let settings = replacement.configuration.log
        let isOther = settings.tasks != current.log.tasks || settings.format != current.log.format
        let opensLog = !isLogGiven && (isOther || (reopensLog && settings.tasks.isFile))
        let log = opensLog ? try Self.openLog(settings, logLosses, logObserver) : self.log
        let generations: [Generation]
        do throws(StartFailure) {
            generations = try makeGenerations(replacement)
        } catch {
            if opensLog { log?.close() }
            throw error
        }
        // This comes first, so that reports of the new generation's handshakes go where the new files say.
        monitor.replace(replacement)
        lists.replace(replacement)
        credentials.replace(replacement)
        traces.replace(replacement)
        let responses = replaceCache(from: current, to: replacement.configuration)
        onWorkers { index, worker in worker.adopt(generations[index], log: log, cache: responses) }
        // The kept lines were masked by the former rules.
        if settings.redact != current.log.redact { recentTasks?.forget() }
        snapshot = replacement
        changeLog(log)
        status.change {
            $0.snapshot = replacement
            $0.reloads.noteReload(at: Clock.seconds, needs: needs)
        }
        return needs
    }

    /// Keeps the cache if its configuration has not changed. Otherwise the former cache gives up its folder first;
    /// requests under way neither find nor store anything in it any more.
    private func replaceCache(from current: Configuration, to next: Configuration) -> ResponseCache? {
        guard current.cache != next.cache else { return cache.current }
        let former = cache.current
        former?.store.close()
        let made = ResponseCache.make(next)
        if let former { made?.inherit(from: former) }
        // Nobody purges in it before: what it takes over would hide that.
        cache.current = made
        return made
    }

    /// Counts a failed reload for the metrics.
    package func noteReload(_ failure: ReloadFailure) { status.change { $0.reloads.note(failure) } }

    /// Keeps the result of a load for the admin listener.
    package func note(_ record: ReloadRecord) { status.change { $0.reloads.note(record) } }

    /// Keeps what is known of the files, for the admin listener.
    package func note(_ files: PolicyFiles) { status.change { $0.files = files } }

    /// Counts, for the metrics, domains whose pins a reload has dropped.
    package func noteDroppedPins(_ count: Int) { status.change { $0.reloads.droppedPins += count } }

    /// Makes one generation for each worker, or none at all.
    private func makeGenerations(_ snapshot: PolicySnapshot) throws(StartFailure) -> [Generation] {
        var made: [Generation] = []
        for worker in workers {
            do throws(SessionError) {
                let loop = worker.loop
                made.append(
                    try Generation(
                        snapshot,
                        loop: loop,
                        workers: workers.count,
                        descriptors: state.descriptors,
                        handshakes: state.handshakes,
                        lists: lists.source,
                        credentials: credentials
                    )
                )
            } catch {
                // The generations are released on their workers' threads.
                for (worker, generation) in zip(workers, made) { worker.loop.submit { generation.retire() } }
                throw .system("\(error)")
            }
        }
        return made
    }

    /// Reopens a task log that is a file, and the file of reports, after they were moved away.
    package func reopenLogs() throws(StartFailure) {
        monitor.reopenReportFile()
        guard !isLogGiven, snapshot.configuration.log.tasks.isFile else { return }
        let log = try Self.openLog(snapshot.configuration.log, logLosses, logObserver)
        onWorkers { _, worker in worker.logTo(log) }
        changeLog(log)
    }

    private func changeLog(_ next: LogWriter?) {
        guard next !== log else { return }
        // No worker uses it any more.
        log?.close()
        log = next
    }

    /// Runs a closure on each worker's thread, and waits for the last.
    private func onWorkers(_ body: @escaping @Sendable (Int, Worker) -> Void) {
        guard !isStopped else { return }
        if clock == .byHand {
            for (index, worker) in workers.enumerated() { body(index, worker) }
            return
        }
        let done = Latch(count: workers.count)
        for (index, worker) in workers.enumerated() {
            worker.loop.submit {
                body(index, worker)
                done.countDown()
            }
        }
        done.wait()
    }

    // MARK: The end

    /// The number of lines of the task log that were lost.
    package var lostLogLines: Int { logLosses.count }

    /// The number of open client connections.
    package var connections: Int { state.connections }

    /// The number of open client connections of each worker.
    package var connectionsByWorker: [Int] { workers.map(\.load.count) }

    /// Does work on a worker's thread: for tests of one that is held up.
    package func submit(toWorker index: Int, _ work: @escaping @Sendable () -> Void) {
        workers[index].loop.submit(work)
    }

    /// Reports not ready, stops accepting, and lets current requests finish; `isDrained` becomes true in time.
    ///
    /// - Parameter grace: how long idle connections stay open: a client may have sent its next request already, or send
    ///   it before it can know about the end.
    package func drain(grace: TimeSpan = TimeSpan(nanoseconds: 0)) {
        status.change { $0.isDraining = true }
        for worker in workers { worker.loop.submit { worker.drain(grace: grace) } }
    }

    /// Whether everything that `drain` waits for is over.
    package var isDrained: Bool { state.drainingWorkers == workers.count && state.connections == 0 }

    /// Ends everything that is left and waits for the threads. The server cannot be used afterwards.
    ///
    /// - Parameter endReaders: ends other threads that read the server's figures: called before cache and log are closed.
    package func stop(endReaders: () -> Void = {}) {
        isStopped = true
        for worker in workers { worker.loop.submit { worker.stop() } }
        for thread in threads { thread.join() }
        // The loop returns when its work is done, because it has nothing to wait for.
        if clock == .byHand { for worker in workers { worker.loop.run() } }
        state.files.stop()
        passwords.stop()
        state.handshakes.stop()
        monitor.stop()
        credentials.stop()
        traces.stop()
        lists.stop()
        endReaders()
        cache.current?.store.close()
        log?.close()
    }
}
