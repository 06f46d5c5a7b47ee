// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import IOCore
import ProxyAdmin
import ProxyConfiguration
import ProxyCore
import ServerTrust

extension Command {
    static let run: Command = Command(
        name: "run",
        summary: "start the proxy",
        options: [.config, .demoOrigin],
        operands: .optional("FILE"),
        explanation: [
            """
            The configuration is FILE, with or without --config. Without either it is \(ConfigurationPath.installed), where the \
            package has it.
            """,
            """
            When all listeners are ready, one JSON line each goes to the standard error, in the order of the \
            configuration: {"event":"listening","listener":"forward","address":"127.0.0.1:8080"}. The task log goes \
            where log.tasks says, by default to the standard output. On a terminal both are lines for people, unless \
            log.format says otherwise.
            """,
            """
            SIGTERM and SIGINT stop it cleanly: it accepts no new connections, lets requests finish for at most \
            timeouts.drain, tells clients with their next answer that their connections end, and ends with 0; a second \
            signal ends it at once.
            """,
            """
            Changed configuration and pin files are taken in while it runs, when they have come to rest or at once with \
            SIGHUP: all of them or, with errors, none. SIGHUP opens a task log that is a file anew, too; SIGUSR1 does \
            nothing else. Changes of listeners, admin and workers need a restart.
            """,
            """
            A listener takes the socket of its address that the service manager has opened (LISTEN_FDS); without one it opens \
            its own. A passed socket that no listener has is an error.
            """,
        ],
        examples: [
            Example(
                line: "pinproxy run config.json",
                meaning: "Then point programs at it: http_proxy=http://127.0.0.1:8080 curl http://HOST/"
            )
        ]
    ) { arguments throws(CommandFailure) in
        // All threads inherit the mask, so it is set before the first one starts. The signals wait for this thread.
        pinproxy_block_servers_signals()
        let origin = arguments.has("demo-origin") ? try DemoOrigin.startBesideAProxy() : nil
        defer { origin?.stop() }
        let prepare = { (parts: inout PolicyParts) throws(CommandFailure) in
            if let origin { try origin.add(to: &parts) }
        }
        let requests = try OperatorRequests.make()
        let path = try ConfigurationPath.find(arguments, of: .run, operand: arguments.operands.first)
        let (proxy, record) = try start(path, prepare, requests)
        let signals = try SignalDescriptor.make()
        // The watch starts before readiness is reported, so that no later change is missed.
        var reloader = Reloader(
            path: path,
            proxy: proxy.server,
            record: record,
            prepare: prepare
        )
        var manager = ServiceManager()
        DescriptorLimit.warnIfTooLow(proxy.server)
        proxy.logListeners()
        manager.notifyReady()
        if origin != nil {
            EventLine(event: "demoOrigin").with("url", "http://\(DemoOrigin.hostBesideAProxy)/").write()
        }
        let cause = serve(proxy.server, signals, requests, &reloader, &manager)
        manager.notifyStopping()
        EventLine(event: "stopping").with(cause.name, cause.value).write(.info, at: proxy.level)
        proxy.stop(keepsIdle: true) { milliseconds in
            manager.turn(proxy.server)
            return isEnd(pinproxy_wait_signal(milliseconds))
        }
        EventLine(event: "stopped").write(.info, at: proxy.level)
        return .success
    }

    /// Loads the configuration and starts to serve. A function of its own, so that the loaded configuration is
    /// released: it lives as long as its policy.
    private static func start(
        _ path: String,
        _ prepare: (inout PolicyParts) throws(CommandFailure) -> Void,
        _ requests: OperatorRequests
    ) throws(CommandFailure) -> (RunningProxy, FileRecord) {
        var (parts, outcome) = try LoadedConfiguration.loadParts(path)
        EventLine.useFormat(parts.configuration.log.format)
        LoadedConfiguration.printWarnings(outcome.warnings)
        DescriptorLimit.raise()
        if geteuid() == 0 {
            EventLine(event: "warning")
                .with(
                    "message",
                    "pinproxy runs as root, which it has no need of: a fault in it would be a fault of root's. Give it a user of "
                        + "its own (User= of the service, USER of the container); for ports below 1024 let it have CAP_NET_BIND_SERVICE"
                )
                .write(.warning, at: parts.configuration.log.level)
        }
        try prepare(&parts)
        let proxy = try RunningProxy(parts, operatorRequests: requests, passed: PassedSockets())
        proxy.server.note(
            ReloadRecord(
                time: Clock.seconds,
                trigger: "start",
                generation: proxy.server.snapshot.generation,
                warnings: outcome.warnings
            )
        )
        return (proxy, outcome.record)
    }

    /// Reloads until a signal, or a request to the admin listener, ends the proxy; returns which.
    private static func serve(
        _ proxy: ProxyServer,
        _ signals: SignalDescriptor,
        _ requests: OperatorRequests,
        _ reloader: inout Reloader,
        _ manager: inout ServiceManager
    ) -> (name: String, value: String) {
        while true {
            let deadline = [reloader.deadline, manager.deadline].compactMap { $0 }.min()
            DescriptorPoll.wait([signals.descriptor, requests.descriptor] + reloader.descriptors, until: deadline)
            manager.turn(proxy)
            for request in requests.take() {
                switch request {
                case .reload(let dropsPins, let completion): completion(reloader.loadNow(dropsPins: dropsPins))
                case .drain: return ("request", "drain")
                }
            }
            while let signal = signals.readSignal() {
                if isEnd(signal) { return ("signal", signal == SIGINT ? "SIGINT" : "SIGTERM") }
                switch signal {
                case SIGHUP:
                    manager.notifyReloading()
                    reloader.hangUp()
                    manager.notifyReloaded()
                case SIGUSR1: reloader.reopenLogs()
                default: logUnknown(signal, proxy)
                }
            }
            reloader.turn()
        }
    }

    private static func logUnknown(_ signal: Int32, _ proxy: ProxyServer) {
        EventLine(event: "unknownSignal")
            .with("signal", name(of: signal))
            .with("message", "this signal means nothing to pinproxy; SIGHUP reloads, SIGUSR1 opens the logs anew")
            .write(.warning, at: proxy.snapshot.configuration.log.level)
    }

    /// The name of a signal in the list of `pinproxy_block_servers_signals`; a real-time signal only has a number.
    private static func name(of signal: Int32) -> String {
        switch signal {
        case SIGUSR2: "SIGUSR2"
        case SIGALRM: "SIGALRM"
        case SIGVTALRM: "SIGVTALRM"
        case SIGPROF: "SIGPROF"
        case SIGIO: "SIGIO"
        case SIGPWR: "SIGPWR"
        case SIGSTKFLT: "SIGSTKFLT"
        default: "\(signal)"
        }
    }

    private static func isEnd(_ signal: Int32) -> Bool { signal == SIGTERM || signal == SIGINT }
}

extension OperatorRequests {
    fileprivate static func make() throws(CommandFailure) -> OperatorRequests {
        do throws(IOFailure) {
            return try OperatorRequests()
        } catch {
            throw CommandFailure(.internal, error.description)
        }
    }
}

extension SignalDescriptor {
    fileprivate static func make() throws(CommandFailure) -> SignalDescriptor {
        do throws(IOFailure) {
            return try SignalDescriptor()
        } catch {
            throw CommandFailure(.internal, error.description)
        }
    }
}

extension Command.Option {
    static let demoOrigin = Command.Option(
        name: "demo-origin",
        summary:
            "start a TLS origin beside the proxy, reached as http://\(DemoOrigin.hostBesideAProxy)/ with a pinned key"
    )
}

extension DemoOrigin {
    static let hostBesideAProxy = "demo.pinproxy.test"

    fileprivate static func startBesideAProxy() throws(CommandFailure) -> DemoOrigin {
        do {
            return try DemoOrigin(hosts: [hostBesideAProxy])
        } catch {
            throw CommandFailure(.internal, "the demo's origin could not be started: \(error)")
        }
    }

    /// Adds the host, with the pin of the key that was made for it, to a policy in memory.
    fileprivate func add(to parts: inout PolicyParts) throws(CommandFailure) {
        do {
            try DemoHost(name: Self.hostBesideAProxy, origin: self, pin: pin).add(to: &parts)
        } catch let failure as CommandFailure {
            throw failure
        } catch {
            throw CommandFailure(.internal, "the demo's host could not be added: \(error)")
        }
    }
}
