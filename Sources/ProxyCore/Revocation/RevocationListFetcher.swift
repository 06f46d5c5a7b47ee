// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
package import ServerTrust
package import SessionCore

/// Fetches the revocation lists that policies with `fetch` ask for, and keeps them current. Its thread starts with the first list that
/// a connection lacks; where no policy asks for lists, there is none.
package final class RevocationListFetcher: Sendable {
    package struct Settings: Sendable {
        package var limits = ListFetchLimits()
        package var log: PinMonitor.LogHandler = { $0.write($1, at: $2) }

        package init() {}
    }

    /// Counts since the start.
    package struct Counts: Sendable {
        package var fetched = 0
        package var unchanged = 0
        package var failed = 0
        /// Seconds since 1970; 0 for never.
        package var lastSuccess: Int64 = 0

        package init() {}
    }

    private enum State {
        case notStarted(PolicySnapshot)
        case running(ListFetchLoop)
        case stopped
    }

    /// The lists that are held.
    package let store: RevocationListStore
    private let settings: Settings
    private let counts = ListCounts()
    private let state: Locked<State>

    package init(snapshot: PolicySnapshot, settings: Settings = Settings()) {
        self.settings = settings
        store = RevocationListStore(limits: settings.limits.held)
        state = Locked(.notStarted(snapshot))
    }

    deinit { stop() }

    /// For sessions. It does not keep the fetcher.
    package var source: RevocationListSource {
        RevocationListSource(store: store) { [weak self] needs, completion in
            guard let self else { return completion("the program is stopping") }
            obtain(needs, completion)
        }
    }

    /// For the sessions of a command, which keep the fetcher and end with it. Lists are in memory alone: the folder belongs to the
    /// proxy that runs. What goes wrong is said by the refusal of the server.
    package static func forCommand(_ snapshot: PolicySnapshot) -> RevocationListSource {
        var settings = Settings()
        settings.log = { _, _, _ in }
        var parts = snapshot.parts
        parts.configuration.revocationLists.folder = nil
        let inMemory = PolicySnapshot(parts, generation: snapshot.generation)
        let fetcher = RevocationListFetcher(snapshot: inMemory, settings: settings)
        return RevocationListSource(store: fetcher.store) { fetcher.obtain($0, $1) }
    }

    private func obtain(_ needs: [RevocationListNeed], _ completion: @escaping @Sendable (String?) -> Void) {
        let loop: ListFetchLoop? = state.withLock { state in
            switch state {
            case .running(let loop): return loop
            case .stopped: return nil
            case .notStarted(let snapshot):
                guard let loop = try? ListFetchLoop(snapshot, store, settings, counts) else { return nil }
                state = .running(loop)
                return loop
            }
        }
        guard let loop else { return completion("there is no thread for it") }
        loop.obtain(needs, completion)
    }

    /// Counts, and what is held.
    ///
    /// - Parameter now: seconds since 1970.
    package func figures(at now: Int64) -> (counts: Counts, held: RevocationListStore.Figures) {
        (counts.current, store.figures(at: now))
    }

    /// Uses another snapshot's rules from now on. The lists stay.
    package func replace(_ snapshot: PolicySnapshot) {
        state.withLock { state in
            switch state {
            case .notStarted: state = .notStarted(snapshot)
            case .running(let loop): loop.replace(snapshot)
            case .stopped: break
            }
        }
    }

    /// Ends the thread. Connections that wait hear that no list comes.
    package func stop() {
        let former = state.withLock { state in
            defer { state = .stopped }
            return state
        }
        if case .running(let loop) = former { loop.stop() }
    }
}

/// Counts that two threads share, behind a lock that no worker's loop takes.
final class ListCounts: Sendable {
    private let counts = Locked(RevocationListFetcher.Counts())

    var current: RevocationListFetcher.Counts { counts.withLock { $0 } }

    func change(_ change: (inout RevocationListFetcher.Counts) -> Void) { counts.withLock { change(&$0) } }
}

/// The thread of a fetcher: carries out what `ListSchedule` decides, with a session of its own under the snapshot's rules. The lists
/// are read, verified and written on another thread.
///
/// `@unchecked Sendable`: `loop`, `work`, `disk`, `store`, `settings` and `counts` are immutable; `thread` belongs to the owner, which alone
/// calls `stop`; everything else is touched by work that `loop` runs on its one thread, and by `init` before that starts.
final class ListFetchLoop: @unchecked Sendable {
    private let loop: EventLoop
    private var thread: LoopThread?
    /// Reading and verifying a list takes as long as it is long; it gives way to the threads that serve clients.
    private let work = WorkThread(name: "crls-reader", nice: 5)
    private let disk = ListDisk()
    private let store: RevocationListStore
    private let settings: RevocationListFetcher.Settings
    private let counts: ListCounts

    // State of the thread.
    private var snapshot: PolicySnapshot
    private var router: Router
    private var session: LoopSession?
    /// Retired sessions, until their last fetch is over.
    private var leaving: [ObjectIdentifier: LoopSession] = [:]
    private var schedule: ListSchedule<RevocationListNeed.Key>
    private var lists: [RevocationListNeed.Key: Known] = [:]
    private var timer: LoopTimer!
    private var isStopping = false

    private struct Known {
        var need: RevocationListNeed
        var validators: ListValidators?
        /// The folder has been asked for it.
        var isLookedUp = false
        var waiters: [Waiter] = []
    }

    /// `@unchecked Sendable`: work on the other thread alone touches it.
    private final class ListDisk: @unchecked Sendable {
        /// nil without a folder, or with one that cannot be used.
        var folder: ListFolder?
    }

    /// A connection that waits for one or several lists.
    private final class Waiter {
        private var left: Int
        private var fault: String?
        private let completion: @Sendable (String?) -> Void

        init(_ count: Int, _ completion: @escaping @Sendable (String?) -> Void) {
            left = count
            self.completion = completion
        }

        func didEnd(_ fault: String?) {
            left -= 1
            self.fault = self.fault ?? fault
            if left == 0 { completion(self.fault) }
        }
    }

    /// The list of one key while it is fetched.
    private final class Job {
        let need: RevocationListNeed
        /// The index of the URL that is requested now.
        var index = 0
        var faults: [String] = []

        init(_ need: RevocationListNeed) { self.need = need }
    }

    init(
        _ snapshot: PolicySnapshot,
        _ store: RevocationListStore,
        _ settings: RevocationListFetcher.Settings,
        _ counts: ListCounts
    ) throws(IOFailure) {
        loop = try EventLoop()
        self.store = store
        self.settings = settings
        self.counts = counts
        self.snapshot = snapshot
        router = Self.router(snapshot, settings.limits)
        schedule = ListSchedule(
            every: Int64(snapshot.configuration.revocationLists.every.count),
            limits: settings.limits
        )
        timer = LoopTimer { [weak self] in self?.proceed() }
        let folder = snapshot.configuration.revocationLists.folder
        loop.submit { [self] in prepare(folder) }
        thread = try LoopThread(name: "crls") { [loop] in loop.run() }
    }

    private static func router(_ snapshot: PolicySnapshot, _ limits: ListFetchLimits) -> Router {
        var timeouts = TaskTimeouts(snapshot.configuration.defaults.timeouts)
        let total = TimeSpan.milliseconds(limits.total.count)
        if timeouts.spans.total.map({ total.nanoseconds < $0.nanoseconds }) ?? true { timeouts.spans.total = total }
        return Router(snapshot: snapshot, timeouts: timeouts)
    }

    // MARK: Any thread

    func obtain(_ needs: [RevocationListNeed], _ completion: @escaping @Sendable (String?) -> Void) {
        loop.submit { [self] in want(needs, completion) }
    }

    func replace(_ snapshot: PolicySnapshot) {
        loop.submit { [self] in adopt(snapshot) }
    }

    /// Blocks until the threads have ended.
    func stop() {
        loop.submit { [self] in beginStop() }
        thread?.join()
        thread = nil
        work.stop()
    }

    // MARK: The thread

    /// Milliseconds that only grow.
    private var now: Int64 { Int64(loop.now / 1_000_000) }
    /// Seconds since 1970.
    private var date: Int64 { loop.freshWallClock / 1_000_000 }

    private func want(_ needs: [RevocationListNeed], _ completion: @escaping @Sendable (String?) -> Void) {
        guard !isStopping else { return completion("the program is stopping") }
        let missing = needs.filter { !$0.isMet(by: store, at: date) }
        guard !missing.isEmpty else { return completion(nil) }
        let waiter = Waiter(missing.count, completion)
        for need in missing {
            switch schedule.want(need.key, at: now) {
            case .refuse(let fault): waiter.didEnd(fault)
            case .wait:
                var known = lists[need.key] ?? Known(need: need)
                known.need = need
                known.waiters.append(waiter)
                lists[need.key] = known
            }
        }
        // Those that made room for others.
        if lists.count > settings.limits.known { lists = lists.filter { schedule.contains($0.key) } }
        proceed()
    }

    /// Begins what is due, and sets the timer for the next.
    private func proceed() {
        guard !isStopping else { return }
        dropUnused()
        let now = now
        while let key = schedule.next(at: now) {
            if let known = lists[key] { begin(Job(known.need)) } else { schedule.remove(key) }
        }
        guard let due = schedule.nextDue else { return loop.disarm(timer) }
        // One millisecond is added, so that the deadline has passed for certain.
        loop.arm(timer, at: UInt64(max(due, now) + 1) * 1_000_000)
    }

    private func begin(_ job: Job) {
        let key = job.need.key
        guard lists[key]?.isLookedUp == false, store.list(for: key, usedAt: nil) == nil else { return fetch(job) }
        lists[key]?.isLookedUp = true
        let (need, limit, date) = (job.need, settings.limits.listBytes, date)
        read { [disk] in
            guard let bytes = disk.folder?.read(key, limit: limit) else { return nil }
            do throws(CertificateFault) {
                return .success(try need.read(bytes, replacing: nil, at: date))
            } catch {
                // What somebody else has put there, and what is out of date, is of no use.
                disk.folder?.remove(key)
                return nil
            }
        } then: { [self] result in
            guard case .success(let list)? = result else { return fetch(job) }
            hold(list, key)
            schedule.didLoad(key, at: now)
            tellWaiters(key, nil)
            loop.submit { [self] in proceed() }
        }
    }

    /// Does work on the other thread; `then` is called on this one.
    private func read(
        _ work: @escaping @Sendable () -> Result<RevocationList, CertificateFault>?,
        then: @escaping (Result<RevocationList, CertificateFault>?) -> Void
    ) {
        let continuation = Continuation(then)
        let isTaken = self.work.submit { [loop] in
            let result = work()
            loop.submit { continuation.resume(result) }
        }
        if !isTaken { continuation.resume(nil) }
    }

    /// `@unchecked Sendable`: made and called on the loop's thread; the other one only hands it back.
    private final class Continuation: @unchecked Sendable {
        private let body: (Result<RevocationList, CertificateFault>?) -> Void

        init(_ body: @escaping (Result<RevocationList, CertificateFault>?) -> Void) { self.body = body }

        func resume(_ result: Result<RevocationList, CertificateFault>?) { body(result) }
    }

    // MARK: One fetch

    private func fetch(_ job: Job) {
        guard !isStopping, let session = currentSession() else { return fail(job, "there is no session for it") }
        let url = job.need.urls[job.index]
        let isHeld = store.list(for: job.need.key, usedAt: nil) != nil
        ListFetch(
            url,
            validators: isHeld ? lists[job.need.key]?.validators : nil,
            limits: settings.limits,
            session: session,
            endpoint: { [unowned self] in router.listEndpoint($0) },
            completion: { [unowned self] in fetchDidEnd(job, session, $0) }
        ).start()
    }

    private func fetchDidEnd(_ job: Job, _ used: LoopSession, _ outcome: ListFetch.Outcome) {
        guard !isStopping else { return }
        switch outcome {
        case .failed where used !== session:
            // A reload came between: under its rules everything is asked anew.
            job.index = 0
            job.faults = []
            fetch(job)
        case .failed(let fault): tryNext(job, fault)
        case .notModified: accept(job, bytes: nil, validators: nil)
        case .list(let bytes, let validators): accept(job, bytes: bytes, validators: validators)
        }
    }

    /// - Parameter bytes: nil where the list that is held is still the server's.
    private func accept(_ job: Job, bytes: [UInt8]?, validators: ListValidators?) {
        let need = job.need
        let held = store.list(for: need.key, usedAt: nil)
        let (date, log, limits) = (date, logHandler, settings.limits.held)
        read { [disk] in
            do throws(CertificateFault) {
                guard let bytes else {
                    guard let held else { return nil }
                    return .success(try need.confirm(held, at: date))
                }
                let list = try need.read(bytes, replacing: held, at: date)
                guard list !== held, let folder = disk.folder else { return .success(list) }
                do throws(IOFailure) {
                    try folder.write(list.derBytes, for: need.key)
                    folder.trim(to: limits)
                } catch {
                    log(ListEvents.unusable(folder, error), .warning)
                }
                return .success(list)
            } catch {
                return .failure(error)
            }
        } then: { [self] result in
            switch result {
            case .success(let list)?: succeed(job, list, isNew: list !== held, validators)
            case .failure(let fault)?: tryNext(job, fault.message)
            case nil: tryNext(job, "there is no list that could be confirmed")
            }
        }
    }

    private func succeed(_ job: Job, _ list: RevocationList, isNew: Bool, _ validators: ListValidators?) {
        let (key, date) = (job.need.key, date)
        if let validators { lists[key]?.validators = validators }
        if isNew {
            hold(list, key)
            log(ListEvents.fetched(list, from: job.need.urls[job.index]), .info)
        }
        counts.change {
            if isNew { $0.fetched += 1 } else { $0.unchanged += 1 }
            $0.lastSuccess = date
        }
        let remaining = list.nextUpdate.subtractingSaturated(date).multipliedSaturated(by: 1000)
        schedule.didFetch(key, at: now, remaining: remaining, chance: .random(in: 0...1))
        tellWaiters(key, nil)
        loop.submit { [self] in proceed() }
    }

    private func hold(_ list: RevocationList, _ key: RevocationListNeed.Key) {
        forget(store.hold(list, for: key, at: date))
    }

    private func tryNext(_ job: Job, _ fault: String) {
        // A list that the server took for the one that is held, and that cannot be used, is asked for as a whole next time.
        lists[job.need.key]?.validators = nil
        job.faults.append(fault)
        job.index += 1
        if job.index < job.need.urls.count { fetch(job) } else { fail(job, fault) }
    }

    private func fail(_ job: Job, _ fault: String) {
        let key = job.need.key
        let isHeld = job.need.isMet(by: store, at: date)
        counts.change { $0.failed += 1 }
        let reason = job.faults.first ?? fault
        schedule.didFail(key, at: now, fault: reason)
        log(ListEvents.failed(job.need, reason, isHeld: isHeld), .warning)
        tellWaiters(key, isHeld ? nil : reason)
        loop.submit { [self] in proceed() }
    }

    private func tellWaiters(_ key: RevocationListNeed.Key, _ fault: String?) {
        let waiters = lists[key]?.waiters ?? []
        lists[key]?.waiters = []
        for waiter in waiters { waiter.didEnd(fault) }
    }

    // MARK: What is dropped

    private func dropUnused() {
        forget(store.dropUnused(since: date.subtractingSaturated(settings.limits.unused)))
        let failed = schedule.unwanted(since: now - 3_600_000) { store.list(for: $0, usedAt: nil) != nil }
        schedule.forget(failed)
        for key in failed { lists[key] = nil }
    }

    private func forget(_ keys: [RevocationListNeed.Key]) {
        guard !keys.isEmpty else { return }
        schedule.forget(keys)
        for key in keys where lists[key]?.waiters.isEmpty == true { lists[key] = nil }
        work.submit { [disk] in for key in keys { disk.folder?.remove(key) } }
    }

    // MARK: Snapshot, session, folder

    /// Uses another folder from now on, or none.
    private func prepare(_ path: String?) {
        let (limits, log) = (settings.limits.held, logHandler)
        work.submit { [disk] in
            disk.folder = nil
            guard let path else { return }
            let folder = ListFolder(path: path)
            do throws(IOFailure) {
                try folder.prepare()
                folder.trim(to: limits)
                disk.folder = folder
            } catch {
                log(ListEvents.unusable(folder, error), .warning)
            }
        }
    }

    private func adopt(_ next: PolicySnapshot) {
        guard !isStopping else { return }
        let former = snapshot.configuration.revocationLists.folder
        snapshot = next
        router = Self.router(next, settings.limits)
        schedule.every = Int64(next.configuration.revocationLists.every.count)
        schedule.retryAll()
        retireSession()
        if next.configuration.revocationLists.folder != former { prepare(next.configuration.revocationLists.folder) }
        proceed()
    }

    private func currentSession() -> LoopSession? {
        if session == nil {
            var configuration = SessionConfiguration()
            configuration.resolver = snapshot.configuration.resolver
            configuration.connectionPoolSize = settings.limits.atOnce
            configuration.responseHeadBytes = snapshot.configuration.limits.responseHeadBytes
            configuration.responseHeadFields = snapshot.configuration.limits.responseHeadFields
            session = try? LoopSession(loop: loop, configuration: configuration)
        }
        return session
    }

    private func retireSession() {
        guard let retired = session else { return }
        session = nil
        let identifier = ObjectIdentifier(retired)
        leaving[identifier] = retired
        retired.sessionDidBecomeInvalid = { [unowned self] in
            leaving[identifier] = nil
            if isStopping, leaving.isEmpty { loop.stop() }
        }
        retired.invalidateSession(cancelingTasks: false)
    }

    private func beginStop() {
        isStopping = true
        loop.remove(timer)
        for key in Array(lists.keys) { tellWaiters(key, "the program is stopping") }
        retireSession()
        guard !leaving.isEmpty else { return loop.stop() }
        for session in leaving.values { session.invalidateSession(cancelingTasks: true) }
    }

    // MARK: Event lines

    private var logHandler: @Sendable (EventLine, LogConfiguration.Level) -> Void {
        let (log, level) = (settings.log, snapshot.configuration.log.level)
        return { log($0, $1, level) }
    }

    private func log(_ line: EventLine, _ severity: LogConfiguration.Level) { logHandler(line, severity) }
}

/// The event lines about fetched lists.
enum ListEvents {
    static func fetched(_ list: RevocationList, from url: String) -> EventLine {
        EventLine(event: "revocation_list")
            .with("url", url)
            .with("issuer", list.issuer)
            .with("thisUpdate", Timestamp.text(unixSeconds: list.thisUpdate))
            .with("nextUpdate", Timestamp.text(unixSeconds: list.nextUpdate))
            .with("entries", list.entryCount)
            .with("bytes", list.byteCount)
    }

    static func failed(_ need: RevocationListNeed, _ fault: String, isHeld: Bool) -> EventLine {
        let effect =
            isHeld
            ? "the list that is held stays in force until its end"
            : "servers whose certificates it should cover are refused"
        return EventLine(event: "warning")
            .with("code", "revocation_list")
            .with("url", need.urls[0])
            .with("issuer", need.certificate.issuer)
            .with("message", "a revocation list could not be fetched: \(fault); \(effect)")
    }

    static func unusable(_ folder: ListFolder, _ failure: IOFailure) -> EventLine {
        EventLine(event: "warning")
            .with("code", "revocation_list_folder")
            .with(
                "message",
                "fetched revocation lists are kept in memory alone: \(folder.path) cannot be used: \(failure)"
            )
    }
}
