// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust

extension Command {
    static let exec: Command = Command(
        name: "exec",
        summary: "run a program behind a proxy of its own",
        options: [.configOfRun, .intercept, .report, .propose, .user, .keepNoProxy],
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
            programs ask for a tunnel, through which no pin could be checked; the proxy refuses that with 403, unless \
            --intercept is given.
            """,
            """
            With --intercept TLS of CMD ends in the proxy, for every host whose entry does not say otherwise: a CA of this run \
            signs the certificates. Its key is in the memory of pinproxy alone. Variables tell CMD its certificate, beside the \
            anchors of the system: those of OpenSSL, curl, Python, pip, git, Node, Deno, cargo, Go, Java and AWS. A program that \
            reads none of them refuses the connection. The files are in a temporary folder, which is removed at the end.
            """,
            """
            With --intercept, or --user, the URL of the proxy has a token of this run: no other user of this machine can use the \
            listener. NAME is the user of CMD's requests, in the log and for rules.
            """,
            """
            With --report the end of CMD is followed by a summary on the standard error: what CMD has asked for, what was denied or \
            would be, by which rule, what has failed, and which hosts have no pin. Requests that no rule matches are sent, and \
            hosts without pins may be reached; pins, rules that deny, and access hold. --propose writes the rules for what was \
            asked for, and pin files for the hosts that were reached, into a new folder: config.json there is a configuration. \
            Lines of the task log for stdout are left out.
            """,
            """
            CMD does not get the variables that the configuration takes values from ("env"), and cannot read pinproxy's memory.
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
            Example(
                line: "pinproxy exec --intercept -- pip download requests",
                meaning: "Shows each request of a program that uses https, without a configuration."
            ),
            Example(
                line: "pinproxy exec --intercept --propose proposal -- npm install",
                meaning: "Sums up what npm asked for, with rules and pins for it in proposal/config.json."
            ),
        ]
    ) { arguments throws(CommandFailure) in
        // Secrets of the configuration and the key of the CA are in this memory: CMD runs as the same user.
        _ = pinproxy_hide_memory()
        let descriptors = InheritedDescriptors.find()
        let signalMask = SignalForwarder.blockSignals()
        var run = try ProgramRun(arguments)
        let folder = try arguments.values["propose"].map { path throws(CommandFailure) in try RunProposal(path) }
        defer { folder?.discard() }
        let (proxy, report, record, secrets) = try start(&run)
        let reloader = record.map { [run] record in
            Reloader(
                path: run.path ?? "",
                intercepting: run.intercepts,
                proxy: proxy.server,
                record: record,
                warnsOfHosts: false
            ) {
                (parts: inout PolicyParts) throws(CommandFailure) in run.prepareAgain(&parts)
            }
        }
        let forwarder = SignalForwarder()
        var files: AnchorFiles?
        defer { files?.remove() }
        let code: ExitCode
        do throws(CommandFailure) {
            if let authority = run.authority { files = try AnchorFiles(authority.certificate) }
            let environment = run.environment(
                proxy.server.listening[0].address,
                files,
                without: secrets,
                keepsNoProxy: arguments.has("keep-no-proxy")
            )
            let child = try start(arguments.operands, environment, signalMask, descriptors)
            do throws(IOFailure) {
                try forwarder.start(child)
            } catch {
                child.send(SIGKILL)
                throw CommandFailure(.internal, error.description)
            }
            wait(for: child, reloader)
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
        if let report { show(report.content, of: proxy, run, folder) }
        return code
    }

    /// Prints the summary, and writes the proposals. The exit code stays that of the program.
    private static func show(
        _ content: RunRecord.Content,
        of proxy: RunningProxy,
        _ run: ProgramRun,
        _ folder: RunProposal?
    ) {
        let summary = RunSummary(
            content: content,
            deniesUnpinned: run.deniesUnpinned,
            lost: proxy.server.lostLogLines,
            style: .standardError
        )
        Output.error(summary.text)
        guard let folder else {
            if content.asked.count > 0 {
                Output.error("--propose FOLDER, in the place of --report, writes rules and pins for this.\n")
            }
            return
        }
        do throws(CommandFailure) {
            Output.error(try folder.write(content))
        } catch {
            Program.report(error)
        }
    }

    /// Starts the proxy. A function of its own, so that the loaded configuration is released: it lives as long as its
    /// policy.
    ///
    /// - Returns: also what the program asks for, where that is summed up; the record of the files, if there are any; and the
    ///   variables with the secrets of the configuration.
    private static func start(
        _ run: inout ProgramRun
    ) throws(CommandFailure) -> (RunningProxy, RunRecord?, FileRecord?, secrets: Set<String>) {
        let (parts, record) = try run.load()
        ReadableSecrets.warn(parts.configuration)
        let report = run.reports ? RunRecord(besides: parts.pinnedDomains) : nil
        var observer: LogObserver?
        if let report { observer = { report.add($0) } }
        let proxy = try RunningProxy(parts, logObserver: observer, monitoring: .command)
        return (proxy, report, record, parts.configuration.variables)
    }

    /// Reloads until the program has ended.
    private static func wait(for child: ExecutedProgram, _ reloader: Reloader?) {
        // A kernel older than 5.3 has no such descriptor, so there is no reload.
        if var current = reloader, let end = DescriptorPoll.exitDescriptor(ofProcess: child.identifier) {
            defer { close(end) }
            while !DescriptorPoll.isReadable(end) {
                DescriptorPoll.wait([end] + current.descriptors, until: current.deadline)
                current.turn()
            }
        }
        child.waitForEnd()
    }

    private static func start(
        _ words: [String],
        _ environment: [String],
        _ signalMask: sigset_t,
        _ descriptors: InheritedDescriptors
    ) throws(CommandFailure) -> ExecutedProgram {
        do throws(ExecutedProgram.SpawnFailure) {
            return try ExecutedProgram(
                words,
                environment: environment,
                signalMask: signalMask,
                descriptors: descriptors
            )
        } catch {
            let isMissing = error.code == ENOENT
            throw CommandFailure(
                ExitCode(rawValue: isMissing ? 127 : 126),
                "cannot run \(Arguments.shown(path: words[0])): \(String(cString: strerror(error.code)))",
                remedy: isMissing ? "name a program in PATH, or its whole path" : ""
            )
        }
    }
}

extension Command.Option {
    fileprivate static let configOfRun = configuration(
        "the configuration (default: \(ConfigurationPath.installed); with --intercept or --report none)"
    )
    fileprivate static let intercept = Command.Option(
        name: "intercept",
        summary: "let TLS of CMD end in the proxy, by a CA of this run"
    )
    fileprivate static let report = Command.Option(
        name: "report",
        summary: "send what no rule matches, and sum up at the end what CMD asked for"
    )
    fileprivate static let propose = Command.Option(
        name: "propose",
        value: "FOLDER",
        summary: "as --report, and write rules and pins for it into FOLDER, which does not exist yet"
    )
    fileprivate static let user = Command.Option(
        name: "user",
        value: "NAME",
        summary: "the user of CMD's requests; with --intercept exec unless given"
    )
    fileprivate static let keepNoProxy = Command.Option(
        name: "keep-no-proxy",
        summary: "leave no_proxy and NO_PROXY to CMD; what they name goes past the proxy and its pins"
    )
}
