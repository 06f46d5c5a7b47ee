import HTTPCore
package import IOCore
import SessionCore
import Synchronization

/// The whole proxy: its listeners, its worker threads, its log. Used by the thread that made it.
///
package final class ProxyServer {
    private let snapshot: PolicySnapshot
    private let state = ServerState()
    private let log: LogWriter?
    private let sockets: [ListeningSocket]
    private var workers: [Worker] = []
    private var threads: [LoopThread] = []

    /// Why a proxy could not be started.
    package enum StartFailure: Error {
        /// A listener's address is taken or not ours.
        case bind(listener: String, IOFailure)
        case log(path: String, IOFailure)
        case system(String)
    }

    /// Binds all listeners and starts the workers.
    ///
    /// - Parameter log: overrides `log.tasks` of the configuration; the demo reads the lines itself.
    package init(snapshot: PolicySnapshot, log: LogWriter? = nil) throws(StartFailure) {
        let configuration = snapshot.configuration
        var sockets: [ListeningSocket] = []
        for listener in configuration.listeners {
            do throws(IOFailure) {
                sockets.append(try ListeningSocket(listener.endpoint.socketAddress))
            } catch {
                throw .bind(listener: listener.endpoint.description, error)
            }
        }
        self.sockets = sockets
        if let log { self.log = log } else { self.log = try Self.openLog(configuration.log.tasks) }
        let own = sockets.compactMap { AddressAndPort($0.address) }
        self.snapshot = snapshot.changed {
            $0.ownListeners = own
            $0.localAddresses = LocalInterfaces.addresses.compactMap { AddressAndPort($0)?.address }
        }
        do {
            try startWorkers(configuration)
        } catch let error as IOFailure {
            throw .system(error.description)
        } catch {
            throw .system("\(error)")
        }
    }

    private static func openLog(_ destination: LogConfiguration.Destination) throws(StartFailure) -> LogWriter? {
        do throws(IOFailure) {
            switch destination {
            case .off: return nil
            case .stdout: return try LogWriter(descriptor: 1, closing: false)
            case .stderr: return try LogWriter(descriptor: 2, closing: false)
            case .file(let path): return try LogWriter(path: path)
            }
        } catch {
            if case .file(let path) = destination { throw .log(path: path, error) }
            throw .system(error.description)
        }
    }

    private func startWorkers(_ configuration: Configuration) throws {
        let count = configuration.workers > 0 ? configuration.workers : SystemProcessors.count
        let pseudonym = ViaField.makePseudonym()
        for index in 0..<count {
            let loop = try EventLoop()
            let worker = try Worker(
                loop: loop,
                snapshot: snapshot,
                server: state,
                log: log,
                pseudonym: pseudonym,
                workers: count
            )
            for (socket, listener) in zip(sockets, configuration.listeners) { try worker.listen(socket, listener) }
            workers.append(worker)
            threads.append(try LoopThread(name: "worker \(index)") { loop.run() })
        }
    }

    /// Where it listens, in the order of the configuration; port 0 is replaced by the one that the kernel chose.
    package var listening: [(configuration: ListenerConfiguration, address: SocketAddress)] {
        zip(snapshot.configuration.listeners, sockets).map { ($0, $1.address) }
    }

    /// Client connections that are open.
    package var connections: Int { state.connections }

    /// Stops accepting and lets what is under way finish; `connections` falls to 0 in time.
    package func drain() {
        for worker in workers { worker.loop.submit { worker.drain() } }
    }

    /// Ends all that is left and waits for the threads. The server cannot be used afterwards.
    package func stop() {
        for worker in workers { worker.loop.submit { worker.stop() } }
        for thread in threads { thread.join() }
        log?.close()
    }
}
