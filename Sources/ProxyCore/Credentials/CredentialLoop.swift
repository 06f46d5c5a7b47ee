// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust

/// The thread of the renewals: carries out what each credential's `CredentialLife` decides, and watches files.
///
/// `@unchecked Sendable`: `loop`, `register`, `runner` and `settings` are immutable; `thread` belongs to the owner, which alone calls
/// `stop`; everything else is touched by work that `loop` runs on its one thread, and by `init` before that starts.
final class CredentialLoop: @unchecked Sendable {
    private let loop: EventLoop
    private var thread: LoopThread?
    private let runner: CredentialRunner
    private let register: CredentialRegister
    private let settings: CredentialSettings

    // State of the thread.
    private var snapshot: PolicySnapshot
    private var entries: [CredentialDefinition: Entry] = [:]
    private var timer: LoopTimer!
    private var isStopping = false
    private let files = FileChanges()
    private var fileTimer: LoopTimer!
    /// Whether the files are being compared or watched anew, and whether they have to be once more.
    private var isLooking = false
    private var looksAgain = false

    /// The time from an event to the look at the files: a file that is written in steps is read once.
    private static let quietTime = TimeSpan.milliseconds(100)
    /// Files are compared this often, too: not every file system has events.
    private static let comparesEvery = TimeSpan.seconds(30)

    /// A credential of the policy in force.
    private final class Entry {
        let definition: CredentialDefinition
        var life: CredentialLife
        var value: CredentialValue?
        /// The files that its last run has read.
        var record: FileRecord?
        /// The last fault of which there was an event.
        var shown: CredentialFault?
        /// The end of the last run, in nanoseconds of the monotonic clock.
        var ranAt: UInt64?

        init(_ definition: CredentialDefinition, at now: Int64) {
            self.definition = definition
            life = CredentialLife(at: now)
        }
    }

    init(
        _ snapshot: PolicySnapshot,
        _ register: CredentialRegister,
        _ settings: CredentialSettings
    ) throws(IOFailure) {
        loop = try EventLoop()
        self.register = register
        self.settings = settings
        self.snapshot = snapshot
        runner = CredentialRunner(snapshot, loop: loop, settings: settings.runs, lists: settings.lists)
        timer = LoopTimer { [weak self] in self?.proceed() }
        fileTimer = LoopTimer { [weak self] in self?.lookAtFiles() }
        files.changed = { [weak self] in
            guard let self else { return }
            loop.arm(fileTimer, after: Self.quietTime)
        }
        loop.submit { [self] in adopt(snapshot) }
        thread = try LoopThread(name: "credentials") { [loop] in loop.run() }
    }

    // MARK: Any thread

    func replace(_ snapshot: PolicySnapshot) {
        loop.submit { [self] in adopt(snapshot) }
    }

    /// A board's requests need a value, or have got a 401 with one.
    func ask(_ definition: CredentialDefinition, _ index: Int, _ refused: Int?, _ handle: BoardHandle) {
        loop.submit { [self] in answer(definition, index, refused, handle) }
    }

    /// Blocks until the threads have ended.
    func stop() {
        loop.submit { [self] in beginStop() }
        thread?.join()
        thread = nil
        runner.join()
    }

    // MARK: The thread

    /// Milliseconds that only grow.
    private var now: Int64 { Int64(loop.now / 1_000_000) }
    /// Seconds since 1970.
    private var date: Int64 { loop.freshWallClock / 1_000_000 }

    private func adopt(_ next: PolicySnapshot) {
        guard !isStopping else { return }
        if next !== snapshot { runner.adopt(next) }
        snapshot = next
        let used = next.usedCredentials
        let kept = Set(used)
        for definition in Array(entries.keys) where !kept.contains(definition) {
            entries[definition] = nil
            register.forget(definition)
        }
        for definition in used where entries[definition] == nil { entries[definition] = Entry(definition, at: now) }
        let former = register.figures
        register.figures = used.map { definition in
            var figures =
                former.first { $0.name == definition.name } ?? CredentialFigures(name: definition.name)
            let entry = entries[definition]
            figures.hasValue = entry?.value != nil
            figures.end = entry?.value?.end
            figures.fault = entry?.life.lastFailure
            return figures
        }
        proceed()
        lookAtFiles()
    }

    private func answer(_ definition: CredentialDefinition, _ index: Int, _ refused: Int?, _ handle: BoardHandle) {
        let answer: CredentialBoard.Answer = refused.map { .refused(version: $0) } ?? .wanted
        guard !isStopping, let entry = entries[definition] else {
            var news = CredentialNews()
            news.fault = CredentialFault(.source, "the credential is not in the configuration any more")
            return handle.publish(index, news, answer)
        }
        let demand =
            if let refused {
                entry.life.didGetUnauthorized(version: refused, at: now, date: date)
            } else {
                entry.life.want(at: now, date: date)
            }
        if demand == .wait { proceed() }
        var news = news(of: entry)
        if case .refuse(let fault) = demand { news.fault = fault }
        handle.publish(index, news, answer)
    }

    private func news(of entry: Entry) -> CredentialNews {
        let pause = UInt64(CredentialLife.pause) * 1_000_000
        return CredentialNews(
            value: entry.value,
            fault: entry.life.lastFailure,
            isRunning: entry.life.isRunning,
            pausedUntil: entry.ranAt.map { $0.addingSaturated(pause) } ?? 0
        )
    }

    /// Begins what is due, and sets the timer for the next.
    private func proceed() {
        guard !isStopping else { return }
        var due = Int64.max
        for entry in entries.values {
            if entry.life.next(at: now) { begin(entry) }
            due = min(due, entry.life.nextDue ?? .max)
        }
        guard due < .max else { return loop.disarm(timer) }
        // One millisecond is added, so that the deadline has passed for certain.
        let deadline = UInt64(max(due, now)).addingSaturated(1).multipliedSaturated(by: 1_000_000)
        loop.arm(timer, at: deadline)
    }

    private func begin(_ entry: Entry) {
        runner.run(entry.definition) { [self] outcome in didRun(entry, outcome) }
    }

    private func didRun(_ entry: Entry, _ outcome: CredentialRunner.Outcome) {
        // A reload may have taken it out.
        guard !isStopping, entries[entry.definition] === entry else { return }
        entry.ranAt = loop.freshNow
        if !outcome.record.files.isEmpty { entry.record = outcome.record }
        do throws(CredentialFault) {
            var bytes = try outcome.result.get()
            defer { bytes.wipe() }
            try take(bytes, entry)
        } catch {
            fail(entry, error)
        }
        register.publish(news(of: entry), of: entry.definition)
        if entry.record != nil { lookAtFiles() }
        // Not from within the runner.
        loop.atEndOfTurn { [self] in proceed() }
    }

    private func take(_ bytes: [UInt8], _ entry: Entry) throws(CredentialFault) {
        let definition = entry.definition
        let date = date
        let (output, end) = try definition.read(bytes, at: date)
        var value = CredentialValue(definition, output, end: end, version: entry.life.version + 1)
        let isSame = entry.life.hasValue && entry.value?.isSame(as: value) == true
        if isSame { value = CredentialValue(definition, output, end: end, version: entry.life.version) }
        entry.life.didSucceed(end: end, isSame: isSame, at: now, date: date)
        entry.value = value
        register.change(definition.name) { figures in
            figures.hasValue = true
            figures.end = end
            figures.fault = nil
            figures.renewedAt = date
            figures.renewals += 1
        }
        if entry.shown != nil { log(CredentialEvents.recovered(definition), .info) }
        entry.shown = nil
    }

    private func fail(_ entry: Entry, _ fault: CredentialFault) {
        // A file that is gone or emptied is a key that was taken back. A command may only have failed.
        let dropsValue = entry.definition.source.file != nil
        entry.life.didFail(fault, dropsValue: dropsValue, at: now)
        if dropsValue { entry.value = nil }
        let (hasValue, end) = (entry.value != nil, entry.value?.end)
        register.change(entry.definition.name) { figures in
            figures.hasValue = hasValue
            figures.end = end
            figures.fault = fault
            figures.failures[fault.code, default: 0] += 1
        }
        guard entry.shown != fault else { return }
        entry.shown = fault
        log(CredentialEvents.failed(entry.definition, fault, hasValue: hasValue), .error)
    }

    private func log(_ line: EventLine, _ severity: LogConfiguration.Level) {
        settings.log(line, severity, snapshot.configuration.log.level)
    }

    private func beginStop() {
        isStopping = true
        loop.remove(timer)
        loop.remove(fileTimer)
        files.end(on: loop)
        entries = [:]
        runner.beginStop { [loop] in loop.stop() }
    }

    // MARK: Files

    /// Compares the files with what was read of them, watches their folders, and has those read again that have changed.
    private func lookAtFiles() {
        guard !isStopping else { return }
        let records = entries.compactMap { definition, entry in entry.record.map { (definition, $0) } }
        guard !records.isEmpty else { return files.end(on: loop) }
        guard !isLooking else {
            looksAgain = true
            return
        }
        isLooking = true
        runner.onFiles { () -> (FileChanges.Watch, [CredentialDefinition]) in
            // Watched first: what changes from now on has an event.
            let watch = FileChanges.Watch(records.map(\.1))
            return (watch, records.filter { !$0.1.isCurrent }.map(\.0))
        } then: { [self] watch, changed in
            isLooking = false
            guard !isStopping else { return }
            files.use(watch, on: loop)
            for definition in changed { entries[definition]?.life.noteChange() }
            if !changed.isEmpty { proceed() }
            loop.arm(fileTimer, after: looksAgain ? TimeSpan.milliseconds(1) : Self.comparesEvery)
            looksAgain = false
        }
    }
}

/// Events of the folders of files.
private final class FileChanges: EventHandler {
    /// Made on one thread, then used by another.
    struct Watch: @unchecked Sendable {
        /// nil: the system has none to give, and the files are compared from time to time alone.
        let folders: FolderWatch?

        init(_ records: [FileRecord]) {
            var all: [String: FolderWatch.Names] = [:]
            for record in records { all.merge(record.watchedFolders) { $0.union($1) } }
            folders = try? FolderWatch(all)
        }
    }

    var changed: () -> Void = {}
    private var watch: FolderWatch?

    func use(_ next: Watch, on loop: EventLoop) {
        end(on: loop)
        guard let folders = next.folders else { return }
        do throws(IOFailure) {
            try loop.register(folders.descriptor, .readable, self)
            watch = folders
        } catch {
            return
        }
    }

    func end(on loop: EventLoop) {
        guard let watch else { return }
        loop.unregister(watch.descriptor)
        self.watch = nil
    }

    override func ready(_ readiness: Readiness) {
        if watch?.drainChanges() == true { changed() }
    }
}

/// The event lines about credentials. They name the credential, and never hold anything of its value.
enum CredentialEvents {
    static func failed(_ definition: CredentialDefinition, _ fault: CredentialFault, hasValue: Bool) -> EventLine {
        EventLine(event: "credentialFailed")
            .with("credential", definition.name)
            .with("source", definition.source.kind)
            .with("code", fault.code.rawValue)
            .with(
                "message",
                "\(fault.message); "
                    + (hasValue ? "the value that is held is used until its end" : "requests that need it are refused")
            )
    }

    static func recovered(_ definition: CredentialDefinition) -> EventLine {
        EventLine(event: "credentialRenewed").with("credential", definition.name)
    }
}
