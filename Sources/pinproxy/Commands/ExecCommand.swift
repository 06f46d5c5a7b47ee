import Glibc
import HTTPCore
import IOCore
import ProxyCore
import ServerTrust

extension Command {
    static let exec = Command(
        name: "exec",
        summary: "run a program behind a proxy of its own",
        options: [.config, .keepNoProxy],
        operands: .program("CMD [ARGUMENT…]"),
        explanation: [
            """
            Starts a forward listener on a free port of loopback, with everything of the configuration but its \
            listeners, runs CMD with http_proxy, https_proxy and all_proxy set to it, and ends with the exit code of \
            CMD: 128 and the number of the signal that ended it, 127 when CMD is not found, 126 when it cannot be run. \
            Signals are handed on to CMD.
            """,
            """
            Let CMD use http:// URLs: a pinned host is reached over TLS all the same. For an https:// URL most \
            programs ask for a tunnel, through which no pin could be checked; the proxy refuses that with 403.
            """,
            """
            The standard output belongs to CMD: a task log that the configuration sends to stdout goes to stderr. CMD gets \
            the descriptors that pinproxy was started with, and none of its own.
            """,
            """
            Changed configuration and pin files are taken in while CMD runs, when they have come to rest; SIGHUP is CMD's.
            """,
        ],
        examples: [
            Example(
                line: "pinproxy exec --config config.json -- curl http://api.example.com/",
                meaning: "curl gets its response over TLS, from a server with the pinned key, or not at all."
            ),
            Example(
                line: "pinproxy exec --config config.json -- git clone http://HOST/repository",
                meaning: "Redirects of the origin to its own https lead back through the proxy."
            ),
        ]
    ) { arguments throws(CommandFailure) in
        let descriptors = InheritedDescriptors.find()
        let signalMask = SignalForwarder.blockSignals()
        let (proxy, record) = try start(arguments["config"])
        var reloader = Reloader(path: arguments["config"], proxy: proxy.server, record: record) {
            (parts: inout PolicyParts) throws(CommandFailure) in prepare(&parts.configuration)
        }
        let forwarder = SignalForwarder()
        let code: ExitCode
        do throws(CommandFailure) {
            let child = try start(arguments, proxy: proxy, signalMask, descriptors)
            do throws(IOFailure) {
                try forwarder.start(child)
            } catch {
                child.send(SIGKILL)
                throw CommandFailure(.internal, error.description)
            }
            wait(for: child, &reloader)
            forwarder.forgetChild()
            code = ExitCode(rawValue: child.collect())
        } catch {
            proxy.stop(keepsIdle: false) { _ in true }
            throw error
        }
        proxy.stop(keepsIdle: false) { milliseconds in
            usleep(UInt32(milliseconds) * 1000)
            return forwarder.wasHurried
        }
        return code
    }

    /// Starts the proxy. A function of its own, so that the loaded configuration is released: it lives as long as its
    /// policy.
    private static func start(_ path: String) throws(CommandFailure) -> (RunningProxy, FileRecord) {
        var (parts, outcome) = try LoadedConfiguration.loadParts(path)
        LoadedConfiguration.show(outcome.warnings)
        prepare(&parts.configuration)
        let proxy = try RunningProxy(parts, monitoring: .command)
        return (proxy, outcome.record)
    }

    /// Reloads until the program has ended.
    private static func wait(for child: ChildProcess, _ reloader: inout Reloader) {
        // A kernel older than 5.3 has no such descriptor, so there is no reload.
        if let end = DescriptorPoll.exitDescriptor(ofProcess: child.identifier) {
            defer { close(end) }
            while !DescriptorPoll.isReadable(end) {
                DescriptorPoll.wait([end] + reloader.descriptors, until: reloader.deadline)
                reloader.turn()
            }
        }
        child.waitForEnd()
    }

    /// Reduces a configuration to one listener on a free port, and no admin listener, because another process may use
    /// these addresses. The listener allows the same as the first forward listener of the file.
    private static func prepare(_ configuration: inout Configuration) {
        let model = configuration.listeners.first { $0.mode == .forward }
        configuration.listeners = [
            ListenerConfiguration(
                endpoint: .address(AddressAndPort(IPAddress(ipv4: 0x7F00_0001), 0)),
                allowHosts: model?.allowHosts ?? .any
            )
        ]
        configuration.admin = nil
        if configuration.log.tasks == .stdout { configuration.log.tasks = .stderr }
    }

    private static func start(
        _ arguments: Arguments,
        proxy: RunningProxy,
        _ signalMask: sigset_t,
        _ descriptors: InheritedDescriptors
    ) throws(CommandFailure) -> ChildProcess {
        let environment = ProxyEnvironment.variables(
            ProxyEnvironment.current,
            proxy: "http://\(proxy.server.listening[0].address)",
            keepsNoProxy: arguments.has("keep-no-proxy")
        )
        do throws(ChildProcess.SpawnFailure) {
            return try ChildProcess(
                arguments.operands,
                environment: environment,
                signalMask: signalMask,
                descriptors: descriptors
            )
        } catch {
            let isMissing = error.code == ENOENT
            throw CommandFailure(
                ExitCode(rawValue: isMissing ? 127 : 126),
                "cannot run \(Arguments.shown(arguments.operands[0])): \(String(cString: strerror(error.code)))",
                remedy: isMissing ? "name a program in PATH, or its whole path" : ""
            )
        }
    }
}

extension Command.Option {
    fileprivate static let keepNoProxy = Command.Option(
        name: "keep-no-proxy",
        summary: "leave no_proxy and NO_PROXY to CMD; what they name goes past the proxy and its pins"
    )
}
