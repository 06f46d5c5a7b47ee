import CShims
import Glibc
import ProxyCore

extension Command {
    static let run = Command(
        name: "run",
        summary: "start the proxy",
        options: [.config, .demoOrigin],
        explanation: [
            """
            When all listeners are ready, one JSON line each goes to the standard error, in the order of the \
            configuration: {"event":"listening","listener":"forward","address":"127.0.0.1:8080"}. The task log goes \
            where log.tasks says, by default to the standard output.
            """,
            """
            SIGTERM and SIGINT stop it cleanly: it accepts nothing new, lets requests finish for at most \
            timeouts.drain, and ends with 0; a second signal ends it at once.
            """,
        ],
        examples: [
            Example(
                line: "pinproxy run --config config.json",
                meaning: "Then point programs at it: http_proxy=http://127.0.0.1:8080 curl http://HOST/"
            )
        ]
    ) { arguments throws(CommandFailure) in
        // Before any thread is started: they all inherit it, and the signals wait for this one.
        pinproxy_block_signals()
        var (snapshot, warnings) = try LoadedConfiguration.load(arguments["config"])
        LoadedConfiguration.tell(warnings)
        let level = snapshot.configuration.log.level
        if let warning = DescriptorLimit.raise(for: snapshot.configuration.limits) {
            EventLine(event: "warning").with("message", warning).write(.warning, at: level)
        }
        let origin = arguments.has("demo-origin") ? try DemoOrigin.beside(&snapshot) : nil
        defer { origin?.stop() }
        let proxy = try RunningProxy(snapshot)
        proxy.tellListeners()
        if origin != nil {
            EventLine(event: "demoOrigin").with("url", "http://\(DemoOrigin.hostBesideAProxy)/").write()
        }
        let signal = waitForTheEnd(level)
        EventLine(event: "stopping")
            .with("signal", signal == SIGINT ? "SIGINT" : "SIGTERM")
            .write(.info, at: level)
        proxy.stop { milliseconds in isEnd(pinproxy_wait_signal(milliseconds)) }
        EventLine(event: "stopped").write(.info, at: level)
        return .success
    }

    private static func waitForTheEnd(_ level: LogConfiguration.Level) -> Int32 {
        while true {
            let signal = pinproxy_wait_signal(-1)
            if isEnd(signal) { return signal }
            if signal == SIGHUP {
                EventLine(event: "warning")
                    .with("message", "SIGHUP: this version reads its configuration at the start only; restart it")
                    .write(.warning, at: level)
            }
        }
    }

    private static func isEnd(_ signal: Int32) -> Bool { signal == SIGTERM || signal == SIGINT }
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

    /// Starts one, and adds its host, with the key that was just made as its pin, to a policy in memory.
    fileprivate static func beside(_ snapshot: inout PolicySnapshot) throws(CommandFailure) -> DemoOrigin {
        do {
            let origin = try DemoOrigin(hosts: [hostBesideAProxy])
            var parts = snapshot.parts
            try DemoHost(name: hostBesideAProxy, origin: origin, pin: origin.pin).add(to: &parts)
            snapshot = PolicySnapshot(parts, generation: snapshot.generation)
            return origin
        } catch let failure as CommandFailure {
            throw failure
        } catch {
            throw CommandFailure(.internal, "the demo's origin could not be started: \(error)")
        }
    }
}
