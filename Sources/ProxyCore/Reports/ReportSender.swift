// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// Carries out the decisions of `ReportQueue`: sends reports through a session of its own under the snapshot's rules,
/// and appends them to the file. Belongs to the loop of `PinMonitor`.
///
/// The handshakes of its session are not observed, so that the delivery of a report never causes a report.
final class ReportSender {
    private let loop: EventLoop
    private let limits: ReportLimits
    private var queue: ReportQueue<ReportURI, Content>
    private var snapshot: PolicySnapshot
    private var router: Router
    private var endpoints: [ReportURI: Result<Endpoint, Problem>] = [:]
    /// Made with the first report: most programs never send one.
    private var manager: LoopSession?
    /// Retired sessions, until their last attempt is over.
    private var leaving: [ObjectIdentifier: LoopSession] = [:]
    /// Called when no session is left; set while closing.
    private var whenClosed: (() -> Void)?
    private var file: ReportFile?

    /// The report to send, and the domain that it is about.
    private struct Content: Sendable {
        let domain: Host
        let port: UInt16
        let json: [UInt8]
    }

    /// Called when an attempt is over.
    var whenChanged: () -> Void = {}

    init(
        loop: EventLoop,
        snapshot: PolicySnapshot,
        limits: ReportLimits
    ) throws(MonitoringFailure) {
        self.loop = loop
        self.limits = limits
        self.snapshot = snapshot
        queue = ReportQueue(limits: limits)
        router = Self.router(snapshot, limits)
        file = try Self.open(snapshot)
    }

    private static func router(_ snapshot: PolicySnapshot, _ limits: ReportLimits) -> Router {
        let timeouts = TaskTimeouts(
            connect: .milliseconds(limits.connect),
            firstByte: .milliseconds(limits.answer),
            stall: .milliseconds(limits.answer),
            total: .milliseconds(limits.connect + limits.answer)
        )
        return Router(snapshot: snapshot, timeouts: timeouts)
    }

    private static func open(_ snapshot: PolicySnapshot) throws(MonitoringFailure) -> ReportFile? {
        guard let path = snapshot.configuration.reports.file else { return nil }
        do {
            return try ReportFile(path: path)
        } catch {
            throw .file(path: path, error)
        }
    }

    /// Uses another snapshot. The file is opened again, so that a rotated one is released.
    ///
    /// - Returns: the failure to open the new file; reports are then appended to none.
    func replace(_ snapshot: PolicySnapshot) -> MonitoringFailure? {
        self.snapshot = snapshot
        router = Self.router(snapshot, limits)
        endpoints = [:]
        // Current attempts end on their connections; later attempts get new ones.
        retireSession()
        queue.withdraw { !isWanted(at: $0, about: $1.domain, port: $1.port) }
        return reopenFile()
    }

    /// Opens the file again.
    ///
    /// - Returns: the failure to open it; reports are then appended to none.
    func reopenFile() -> MonitoringFailure? {
        file = nil
        do {
            file = try Self.open(snapshot)
            return nil
        } catch {
            return error
        }
    }

    /// The collectors that the snapshot's own rules forbid, each once.
    var refusedCollectors: [(ReportURI, Problem)] {
        var seen: Set<ReportURI> = []
        let uris = snapshot.pinnedDomains.domains.flatMap { $0.policy?.configuration.reportUris ?? [] }
        return uris.filter { seen.insert($0).inserted }.compactMap { uri in
            guard case .failure(let problem) = endpoint(uri) else { return nil }
            return (uri, problem)
        }
    }

    private func endpoint(_ uri: ReportURI) -> Result<Endpoint, Problem> {
        if let known = endpoints[uri] { return known }
        let found = router.endpoint(uri.url.origin)
        endpoints[uri] = found
        return found
    }

    /// Whether the current pin files still send a domain's reports to this collector. A report was made under former
    /// files: the collector may have been removed since, or its host may now be one that the report is about.
    private func isWanted(at collector: ReportURI, about domain: Host, port: UInt16) -> Bool {
        snapshot.pinnedDomains.policy(host: domain, port: port)?.configuration.reportUris.contains(collector) == true
    }

    // MARK: Reports

    /// Makes a report for the file and for each collector, unless it was made before.
    func add(_ report: PinValidationReport, to uris: [ReportURI], now: Int64) {
        guard file != nil || !uris.isEmpty else { return }
        let digest = report.digest
        let json = report.json
        if let file, queue.admitToFile(digest: digest, now: now) == .accepted, !file.append(json) {
            queue.count(.undelivered)
        }
        for uri in uris {
            guard isWanted(at: uri, about: report.notedHost, port: report.port) else {
                queue.count(.undelivered)
                continue
            }
            let content = Content(domain: report.notedHost, port: report.port, json: Array(json.utf8))
            _ = queue.add(digest: digest, to: uri, now: now, content: content)
        }
    }

    /// Sends the reports that are due.
    func send(now: Int64) {
        while let entry = queue.next(now: now) { send(entry) }
    }

    private func send(_ entry: ReportQueue<ReportURI, Content>.Entry) {
        let number = entry.number
        guard case .success(let endpoint) = endpoint(entry.collector), let manager = session() else {
            finished(number, .refused)
            return
        }
        ReportTask.start(entry.content.json, to: entry.collector, at: endpoint, on: manager) { [unowned self] outcome in
            finished(number, outcome)
            // libcurl may be on the stack.
            loop.atEndOfTurn { [unowned self] in whenChanged() }
        }
    }

    private func finished(_ number: Int, _ outcome: ReportOutcome) {
        queue.finished(number, outcome, now: Int64(loop.now / 1_000_000), chance: .random(in: 0...1))
    }

    private func session() -> LoopSession? {
        if manager == nil {
            var configuration = SessionConfiguration()
            configuration.resolver = snapshot.configuration.resolver
            configuration.connectionPoolSize = limits.collectorsAtOnce
            manager = try? LoopSession(loop: loop, configuration: configuration)
        }
        return manager
    }

    // MARK: Counting and ending

    var isIdle: Bool { queue.count == 0 }

    /// The next time at which there may be something to do.
    var nextDue: Int64? { [queue.nextDue, queue.lossesDue].compactMap { $0 }.min() }

    func count(_ loss: ReportLoss, _ number: Int) { queue.count(loss, number) }

    func lossesToReport(now: Int64) -> [ReportLoss: Int]? { queue.lossesToReport(now: now) }

    func startStopping() { queue.startStopping() }

    func stop() { queue.stop() }

    private func retireSession() {
        guard let retired = manager else { return }
        manager = nil
        let identifier = ObjectIdentifier(retired)
        leaving[identifier] = retired
        retired.sessionDidBecomeInvalid = { [unowned self] in
            leaving[identifier] = nil
            if leaving.isEmpty { whenClosed?() }
        }
        retired.invalidateSession(cancelingTasks: false)
    }

    /// Ends all sessions, including retired ones; `completion` is called when their connections are closed.
    func close(_ completion: @escaping () -> Void) {
        whenChanged = {}
        file = nil
        retireSession()
        guard !leaving.isEmpty else {
            completion()
            return
        }
        whenClosed = completion
        for session in leaving.values { session.invalidateSession(cancelingTasks: true) }
    }
}
