// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import IOCore
import ProxyAdmin
import ProxyConfiguration
import ProxyCore

/// A running proxy, from its start to its clean stop.
struct RunningProxy {
    let server: ProxyServer
    /// nil where the configuration has no admin listener.
    private let admin: AdminServer?

    init(
        _ parts: PolicyParts,
        logObserver: LogObserver? = nil,
        monitoring: PinMonitor.Settings = PinMonitor.Settings(),
        operatorRequests: OperatorRequests? = nil,
        passed: PassedSockets = .none
    ) throws(CommandFailure) {
        MemoryGuard.hide(for: parts.configuration)
        do throws(ProxyServer.StartFailure) {
            server = try ProxyServer(
                parts: parts,
                logObserver: logObserver,
                monitoring: monitoring,
                version: ProgramVersion.current,
                passed: passed
            )
        } catch {
            throw RunningProxy.failure(error)
        }
        do throws(IOFailure) {
            admin = try AdminServer(of: server, build: .current, operatorRequests: operatorRequests)
        } catch {
            server.stop()
            throw RunningProxy.failure(.system(error.description))
        }
    }

    static func failure(_ failure: ProxyServer.StartFailure) -> CommandFailure {
        switch failure {
        case .bind(let listener, let cause):
            let remedy =
                switch cause.code {
                case EADDRINUSE:
                    "another program listens there: stop it (ss -ltnp names it), or change the address in the configuration"
                case EACCES: "let the user of this process listen there: ports below 1024 need CAP_NET_BIND_SERVICE"
                case EADDRNOTAVAIL: "no network interface of this machine has that address"
                case ENOENT: "make the folder of the socket first"
                case EEXIST: "the path is a file that is no socket: remove it, or name another"
                case ENAMETOOLONG: "a socket's path has room for 107 bytes: name a shorter one"
                default: "change the address in the configuration"
                }
            return CommandFailure(.cannotBind, "cannot listen on \(listener): \(cause.reason)", remedy: remedy)
        case .passed(let sockets):
            let shown = sockets.map { socket in
                let place = socket.address.map { "for \($0)" } ?? "that is no listening stream socket"
                return "one \(place) (\(Arguments.shown(socket.name)))"
            }
            return CommandFailure(
                .badConfiguration,
                "the service manager has passed sockets that no listener of the configuration has: "
                    + shown.joined(separator: ", "),
                remedy:
                    "let ListenStream= of the socket unit and the addresses of the configuration be the same, or disable the unit"
            )
        case .log(let path, let cause):
            return CommandFailure(
                .badConfiguration,
                "cannot open the task log \(Arguments.shown(path: path)): \(cause.reason)",
                remedy: "name a file in log.tasks that the user of this process may write"
            )
        case .reports(let path, let cause):
            return CommandFailure(
                .badConfiguration,
                "cannot open the file of reports \(Arguments.shown(path: path)): \(cause.reason)",
                remedy: "name a file in reports.file that the user of this process may write"
            )
        case .system(let message):
            return CommandFailure(.internal, message)
        }
    }

    /// The least severe events that are written now.
    var level: LogConfiguration.Level { server.snapshot.configuration.log.level }

    /// Writes one line for each listener, in the order of the configuration, the admin listener last.
    func logListeners() {
        for (listener, address) in server.listening {
            logListener(listener.mode.rawValue, listener.endpoint, address)
        }
        if let admin = server.snapshot.configuration.admin, let address = server.adminSocket?.address {
            logListener("admin", admin.endpoint, address)
        }
    }

    private func logListener(_ name: String, _ endpoint: ListenerConfiguration.Endpoint, _ address: SocketAddress) {
        let line = EventLine(event: "listening").with("listener", name)
        switch endpoint {
        case .address: line.with("address", address.description).write()
        case .unixSocket(let path): line.with("unixSocket", path).write()
        }
    }

    /// Stops accepting, gives current requests the time of `timeouts.drain`, then ends the rest.
    ///
    /// - Parameters:
    ///   - keepsIdle: whether idle clients may send one more request; otherwise their connections are closed at once.
    ///   - isHurried: called again and again; true ends the wait.
    func stop(keepsIdle: Bool, hurriedBy isHurried: (_ waitingMilliseconds: Int32) -> Bool) {
        let limit = TimeSpan.milliseconds(server.snapshot.configuration.defaults.timeouts.drain.count)
        // A request at the end of the grace still needs time for its response.
        let grace = min(Self.longestGrace, TimeSpan(nanoseconds: limit.nanoseconds / 2))
        server.drain(grace: keepsIdle ? grace : TimeSpan(nanoseconds: 0))
        let start = pinproxy_monotonic()
        while !server.isDrained, pinproxy_monotonic() - start < limit.nanoseconds {
            if isHurried(10) { break }
        }
        server.stop { admin?.stop() }
    }

    /// Shorter than the time that service managers wait by default, and longer than the pause of a client between a
    /// response and its next request.
    private static let longestGrace = TimeSpan.seconds(5)
}
