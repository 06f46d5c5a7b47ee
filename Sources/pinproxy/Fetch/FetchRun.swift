// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import HTTPCore
import HTTPSessionCore
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust
import SessionCore

/// Carries out a plan, from the session to the exit code.
///
/// The body is written where it arrives, on the session's loop: the only request may wait for its own output, and
/// nothing is stored.
struct FetchRun {
    private let plan: FetchPlan
    private let outcome: FetchOutcome
    private let manager: URLSessionManager

    init(_ plan: FetchPlan) throws(CommandFailure) {
        self.plan = plan
        outcome = FetchOutcome(url: plan.request.url)
        manager = try Self.manager(plan)
    }

    private static func manager(_ plan: FetchPlan) throws(CommandFailure) -> URLSessionManager {
        var configuration = URLSessionManager.Configuration()
        configuration.additionalHeaders = ["User-Agent": "pinproxy/\(ProgramVersion.current)", "Accept": "*/*"]
        configuration.timeouts = TaskTimeouts(total: plan.timeout)
        if let file = plan.file { configuration.temporaryFolder = OutputFile.folder(of: file) }
        var trust: SessionTrust
        if let path = plan.config {
            let (snapshot, warnings) = try LoadedConfiguration.load(path)
            let host = AbsoluteURL(plan.request.url).map { [$0.origin.host] } ?? []
            LoadedConfiguration.show(WarningScope(hosts: host, snapshot).warnings(warnings))
            trust = SessionTrust(anchors: snapshot.trustAnchors, pinnedDomains: snapshot.pinnedDomains)
            let router = Router(snapshot: snapshot, timeouts: plan.timeout.map { TaskTimeouts(total: $0) })
            configuration.session.resolver = snapshot.configuration.resolver
            configuration.session.revocationLists = RevocationListFetcher.forCommand(snapshot)
            configuration.endpoints = { origin in
                router.endpoint(origin).mapError { SessionError(refusal: $0) }
            }
        } else {
            trust = SessionTrust(
                anchors: try Command.anchors(
                    plan.anchorFile.map { file throws(CommandFailure) in
                        try Command.wholePath(file)
                    }
                )
            )
            if let (host, place) = plan.connect { configuration.resolve[host] = (place.host, place.port) }
            if plan.wantsHTTP2 { configuration.httpVersion = .http2 }
        }
        do throws(SessionError) {
            return try URLSessionManager(configuration: configuration, serverTrust: trust)
        } catch {
            throw CommandFailure(.internal, error.details)
        }
    }

    func run() throws(CommandFailure) -> ExitCode {
        let progress = FetchProgress(isUpload: plan.file == nil)
        do throws(IOFailure) {
            // The thread ends with the process.
            _ = try LoopThread(name: "signals") { [outcome] in Self.waitForSignals(outcome) }
        } catch {
            throw CommandFailure(.internal, error.description)
        }
        let task = try makeTask(progress, descriptor: try openOutput())
        outcome.change { $0.task = task }
        task.resume()
        outcome.wait()
        progress.clear()
        let state = outcome.now
        end()
        return try conclude(state)
    }

    /// Closes the connections properly.
    private func end() {
        let ended = Latch(count: 1)
        Task { [manager] in
            await manager.invalidateSession(cancelingTasks: true)
            ended.countDown()
        }
        ended.wait()
    }

    /// The descriptor for a body that does not become a file. A FIFO without a reader is waited for.
    private func openOutput() throws(CommandFailure) -> Int32 {
        guard let output = plan.output, plan.file == nil else { return STDOUT_FILENO }
        do throws(IOFailure) {
            return try output.open()
        } catch {
            throw CommandFailure(
                .cannotCreate,
                "fetch: \(Arguments.shown(path: output.path)) cannot be opened: \(error.reason)"
            )
        }
    }

    /// The first signal ends the task and keeps its data; the second ends the program, and so does the first one before there is a
    /// task.
    private static func waitForSignals(_ outcome: FetchOutcome) {
        while true {
            let signal = pinproxy_wait_signal(-1)
            let now = outcome.now
            guard now.signal == 0, let task = now.task else { _exit(128 + signal) }
            outcome.change { $0.signal = signal }
            switch task {
            case let download as DownloadTask: download.cancel(byProducingResumeData: { _ in })
            default: task.cancel()
            }
        }
    }

    // MARK: The task

    private func makeTask(_ progress: FetchProgress, descriptor: Int32) throws(CommandFailure) -> SessionTask {
        let hooks = FetchHooks(plan: plan, outcome: outcome, progress: progress, descriptor: descriptor)
        hooks.install(in: manager)
        do throws(SessionError) {
            if plan.resumes, let file = plan.file, let bytes = try resumeData(ResumeFile(for: file)) {
                return try resumed(bytes, file, hooks)
            }
            let task: DataTask =
                switch plan.request.body {
                case .none: try manager.dataTask(with: plan.request)
                default: try manager.uploadTask(withStreamedRequest: plan.request)
                }
            hooks.watch(task)
            return task
        } catch {
            throw CommandFailure(error.exitCode, "fetch: \(error.details.dropLast())")
        }
    }

    private func resumeData(_ file: ResumeFile) throws(SessionError) -> [UInt8]? {
        do throws(CommandFailure) {
            return try file.read()
        } catch {
            throw SessionError(.fileFailed, "\(error.message).")
        }
    }

    private func resumed(_ bytes: [UInt8], _ output: String, _ hooks: FetchHooks) throws(SessionError) -> SessionTask {
        let file = ResumeFile(for: output)
        let task = try manager.downloadTask(withResumeData: bytes, headers: plan.request.headers)
        guard task.originalRequest.url == plan.request.url else {
            task.cancel()
            throw SessionError(
                .requestInvalid,
                "\(file.path) is of a download from \(task.originalRequest.url). Remove it to begin anew."
            )
        }
        hooks.watch(task)
        return task
    }

    // MARK: The end

    private func conclude(_ state: FetchOutcome.State) throws(CommandFailure) -> ExitCode {
        let status = state.head?.status ?? state.metrics?.transaction.status
        let failure = failure(state, status)
        if plan.showsMetrics, let metrics = state.metrics {
            Output.error(Waterfall(metrics: metrics, urls: state.urls).text)
        }
        if plan.printsJSON {
            let account = FetchAccount(
                url: state.urls.last ?? plan.request.url,
                status: status,
                file: state.path ?? (plan.file == nil && failure == nil ? plan.output?.path : nil),
                error: state.error,
                metrics: state.metrics
            )
            if plan.output == nil { Output.error(account.text) } else { try Output.standard(account.text) }
        }
        if let failure { throw failure }
        return .success
    }

    private func failure(_ state: FetchOutcome.State, _ status: Int?) -> CommandFailure? {
        let host = AbsoluteURL(state.urls.last ?? "")?.origin.host.authorityText ?? "the server"
        if state.outputError != 0 {
            // A closed reader (`| head`) is no failure.
            guard state.outputError != EPIPE else { return nil }
            let reason = String(cString: strerror(state.outputError))
            let name = plan.output.map { Arguments.shown(path: $0.path) } ?? "the standard output"
            return CommandFailure(.failed, "cannot write to \(name): \(reason)")
        }
        if state.isBinary {
            return CommandFailure(.failed, "the body is binary, and this is a terminal", remedy: "-o FILE, or a pipe")
        }
        // A response that must not become the file was cut off on purpose.
        if let status, let output = plan.output, state.path == nil, state.error?.code == .cancelled, state.signal == 0 {
            return CommandFailure(
                .failed,
                "\(host) responded with \(status): \(Arguments.shown(path: output.path)) is not written"
            )
        }
        if let error = state.error {
            let kept = keep(state)
            if state.signal != 0 {
                return CommandFailure(
                    ExitCode(rawValue: 128 + state.signal),
                    "interrupted\(kept.text)",
                    remedy: kept.remedy
                )
            }
            let details = error.details.hasSuffix(".") ? String(error.details.dropLast()) : error.details
            return CommandFailure(error.exitCode, details + kept.text, remedy: kept.remedy)
        }
        if let file = plan.file { ResumeFile(for: file).remove() }
        if let status, status >= 400 { return CommandFailure(.failed, "\(host) responded with \(status)") }
        return nil
    }

    /// Writes the resume data to a file beside the download's.
    private func keep(_ state: FetchOutcome.State) -> (text: String, remedy: String) {
        guard let file = plan.file, let data = state.resumeData else { return ("", "") }
        guard ResumeFile(for: file).write(data) else { return ("", "") }
        return (": \(TransferMeter.size(state.received)) are kept", "the same with -C - goes on")
    }
}

extension SessionError {
    /// The exit code of this result.
    var exitCode: ExitCode {
        switch code {
        case .pinMismatch, .pinSetExpired, .pinForbidden, .certificateUntrusted, .certificateExpired,
            .certificateHostMismatch, .certificateRevoked, .stapleMissing, .proxyUntrusted, .addressDenied,
            .credentialWithheld, .redirectDenied:
            .refused
        case .dnsFailed: .noHost
        case .connectFailed, .proxyRefused, .notStored: .unavailable
        case .dnsTimeout, .connectTimeout, .responseTimeout, .stalled, .limitReached: .timedOut
        case .tlsHandshakeFailed, .clientCertificateRefused, .proxyHandshakeFailed, .responseInvalid,
            .responseTruncated, .responseTooLarge:
            .protocolError
        case .requestInvalid: .usage
        case .fileFailed: .cannotCreate
        case .cancelled, .sessionInvalidated: .failed
        case .internal: .internal
        }
    }

    /// Makes the error for a problem that the proxy would send to its clients.
    fileprivate init(refusal problem: Problem) {
        // Hosts that the configuration forbids have no code of their own here.
        self.init(Code(rawValue: problem.code.rawValue) ?? .addressDenied, problem.details)
    }
}
