// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore

/// Stored responses on disk: an index with small bodies in SQLite, larger bodies in files. It survives restarts and
/// crashes, has a size limit, and belongs to one process at a time.
///
/// A body is written under a temporary name and gets its own when it is complete, together with its row. Only SQLite
/// syncs, at its checkpoints. Data that a power cut damaged is recognised by checksum (XXH64 of each head and each
/// body) and is a miss. A file is verified once before its first use by this process, and again after each change.
///
/// Nothing here blocks the caller's thread on the disk: the index has a thread of its own, bodies have two, and the
/// caller chooses where results are delivered.
///
/// When the disk is full, nothing is stored for a while, and stored responses are still read. When it fails otherwise
/// (not writable, corrupt index) the store is off: every lookup is a miss and nothing is stored, until a later attempt
/// succeeds.
///
/// `@unchecked Sendable`: `lock`, the only lock of the store, guards the shared state; only the index thread uses
/// `index` and its state.
public final class DiskStore: @unchecked Sendable {
    /// The settings of a store.
    public struct Configuration: Sendable {
        /// The folder, which is created if necessary.
        public var folder: String
        /// The capacity in bytes.
        public var capacity: Int
        /// Bodies up to this size are kept in the index, in bytes.
        public var smallBody = 32 * 1024
        /// The largest body that is stored, in bytes.
        public var largestBody: Int
        /// How long a body may stall before another one may get its space, in seconds.
        public var stall = 10.0
        /// The pause after a failure before the next attempt, in seconds.
        public var pause = 10.0
        /// The shortest time between two equal notices, in seconds.
        public var quiet = 60.0

        /// A folder of the store's own, and its capacity in bytes. A body has at most an eighth of it.
        public init(folder: String, capacity: Int) {
            self.folder = folder
            self.capacity = capacity
            largestBody = capacity / 8
        }
    }

    let configuration: Configuration
    let folder: DiskFolder
    /// The space for bodies that are being written: an eighth of the capacity.
    let transit: TransitBudget
    private let options: CacheOptions
    private let notice: @Sendable (String) -> Void

    private let indexThread: WorkThread
    private let bodyThreads: [WorkThread]

    // Used only by the index thread.
    private var index: DiskIndex?
    private var lockDescriptor: Int32 = -1
    private var nextAttempt: UInt64 = 0
    private var noticedAt: UInt64?
    private var hasSwept = false
    /// Failed removals; they are repeated before the index is used again.
    private var owedRemovals: [Purge] = []

    private let lock = PosixLock()
    // Behind `lock`.
    private var verified: [StoredFile: StoredBody.FileStatus] = [:]
    private var openBodies = OpenBodies()
    private var nextThread = 0
    private var numbers = Statistics()
    /// Whether the folder is locked and the index is open.
    private var isOn = false
    /// The time of the next attempt to store after the disk was full, on the monotonic clock; 0 while it has space.
    private var storesAgain: UInt64 = 0
    /// The filter of the index, and the seed of its hashes.
    private var filter: CountingBloomFilter?
    private var filterSeed: UInt64 = 0
    private var isClosed = false
    /// Whether the index thread has its last work.
    private var isEnding = false
    /// Whether the folder was unlocked: another process may use it now.
    private var hasLeft = false

    /// The state of a store in numbers.
    public struct Statistics: Hashable, Sendable {
        /// The number of entries.
        public var entries = 0
        /// The cost of entries and their bodies, in bytes.
        public var bytes = 0
        /// The number of evicted entries since the start.
        public var evictions = 0
        /// The reason why the store is off, or stores nothing; nil while it works.
        public var offBecause: String?

        package init(entries: Int = 0, bytes: Int = 0) {
            self.entries = entries
            self.bytes = bytes
        }
    }

    /// Starts the threads, which open the folder; a failure to open it is reported by a notice.
    ///
    /// - Parameters:
    ///   - configuration: the settings of the store.
    ///   - options: the options of the cache.
    ///   - notice: gets a readable message when the store goes off or comes back: at most once a minute, from a thread
    ///     of the store.
    /// - Throws: when the system has no threads or descriptors left.
    public init(
        _ configuration: Configuration,
        _ options: CacheOptions,
        notice: @escaping @Sendable (String) -> Void
    ) throws {
        self.configuration = configuration
        self.options = options
        self.notice = notice
        folder = DiskFolder(path: configuration.folder)
        transit = TransitBudget(
            capacity: configuration.capacity / 8,
            patience: TimeSpan.seconds(fractional: configuration.stall).nanoseconds
        )
        indexThread = try WorkThread(starting: "cache-index")
        bodyThreads = try (1...2).map { try WorkThread(starting: "cache-body-\($0)") }
        // No body is written before the folder is locked.
        let isOpen = Latch(count: 1)
        indexThread.submit {
            self.openIndex()
            isOpen.countDown()
        }
        for thread in bodyThreads { thread.submit { isOpen.wait() } }
    }

    /// Waits until earlier work is done, and unlocks the folder. Later lookups are misses, but an open body can be read
    /// to its end: the body threads end with the store.
    public func close() {
        let wasClosed = lock.withLock {
            defer { isClosed = true }
            return isClosed
        }
        guard !wasClosed else { return }
        // Bodies first, because finished bodies go to the index.
        for thread in bodyThreads { waitForAll(thread) }
        lock.withLock {
            isEnding = true
            indexThread.submit {
                self.lock.withLock { (self.isOn, self.hasLeft) = (false, true) }
                self.index = nil
                self.folder.unlock(self.lockDescriptor)
                self.lockDescriptor = -1
            }
        }
        waitForAll(indexThread)
        indexThread.stop()
    }

    /// Waits until earlier work is done: bodies first, because finished bodies go to the index.
    package func settle() {
        guard accepts else { return }
        for thread in bodyThreads { waitForAll(thread) }
        let latch = Latch(count: 1)
        if onIndex({ latch.countDown() }) { latch.wait() }
    }

    private func waitForAll(_ thread: WorkThread) {
        let latch = Latch(count: 1)
        thread.submit { latch.countDown() }
        latch.wait()
    }

    /// The threads that are left end with it.
    deinit { folder.unlock(lockDescriptor) }

    /// The path of the folder.
    public var path: String { configuration.folder }

    /// The capacity in bytes.
    public var capacity: Int { configuration.capacity }

    /// The numbers at this moment.
    public var statistics: Statistics { lock.withLock { numbers } }

    /// Whether the folder was unlocked, so that nothing can be stored any more.
    var isGone: Bool { lock.withLock { hasLeft } }

    private var accepts: Bool { lock.withLock { !isClosed } }

    // MARK: - Looking up

    /// False when certainly no response is stored for the key. Never blocks.
    public func mayHave(_ key: CacheKey) -> Bool {
        let (filter, seed, isOn) = lock.withLock { (self.filter, filterSeed, self.isOn) }
        // A lookup in a store that is off triggers a new attempt.
        guard isOn, let filter else { return true }
        return filter.mayContain(XXH64.hash(key.uri.span, seed: seed))
    }

    /// Finds all variants of a key, with small bodies; larger bodies have to be opened with `open`.
    public func entries(
        for key: CacheKey,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable ([CachedEntry]) -> Void
    ) {
        let isAsked = onIndex {
            let found = self.withIndex { index in
                let found = try index.entries(for: key)
                for one in found { index.markUsed(one.row) }
                return found.map(\.entry)
            }
            deliver { completion(found ?? []) }
        }
        if !isAsked { deliver { completion([]) } }
    }

    /// Submits work to the index thread.
    ///
    /// - Parameter evenIfClosing: also while the store is closing, as long as the thread exists.
    /// - Returns: false when the store is closed; the work is not done then.
    private func onIndex(evenIfClosing: Bool = false, _ work: @escaping @Sendable () -> Void) -> Bool {
        // The lock is held so that no work is submitted after the work that ends the thread: it would never be done,
        // and a caller could wait for it forever.
        lock.withLock {
            guard !(evenIfClosing ? isEnding : isClosed) else { return false }
            indexThread.submit(work)
            return true
        }
    }

    /// Opens a body.
    ///
    /// - Parameters:
    ///   - file: the file to open.
    ///   - deliver: runs the completion on the thread that the caller wants.
    ///   - completion: gets nil when the file is gone or damaged, or when there is no descriptor for it: a miss.
    public func open(
        _ file: StoredFile,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable (StoredBody?) -> Void
    ) {
        guard accepts else { return deliver { completion(nil) } }
        someBodyThread().submit {
            var body: StoredBody?
            do throws(IOFailure) {
                body = try self.openVerified(file)
                if body == nil { self.forget(file) }
            } catch {
                if !error.isWantOfDescriptor { self.forget(file) }
            }
            deliver { [body] in completion(body) }
        }
    }

    private func forget(_ file: StoredFile) {
        indexThread.submit { self.withIndex { try $0.remove(file: file.number) } }
    }

    /// - Returns: the body, which may have other readers; nil when it is damaged.
    private func openVerified(_ file: StoredFile) throws(IOFailure) -> StoredBody? {
        if let open = lock.withLock({ openBodies[file] }), open.isCurrent(file, in: folder) { return open }
        let body = try StoredBody(file, in: folder)
        guard lock.withLock({ verified[file] }) == body.status || body.has(file.checksum) else { return nil }
        return lock.withLock {
            if verified.count >= 1 << 16 { verified.removeAll() }
            verified[file] = body.status
            // The other thread may have opened it meanwhile.
            if let other = openBodies[file], other.status == body.status { return other }
            openBodies.insert(body, file)
            return body
        }
    }

    /// Reads a piece of an open body.
    ///
    /// - Parameters:
    ///   - body: the body of the response.
    ///   - offset: the offset of the first byte.
    ///   - count: the number of bytes.
    ///   - deliver: runs the completion on the thread that the caller wants.
    ///   - completion: gets `count` bytes, or fewer at the end; nil when the disk failed.
    public func read(
        _ body: StoredBody,
        at offset: Int,
        count: Int,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable ([UInt8]?) -> Void
    ) {
        someBodyThread().submit {
            let bytes = body.read(at: offset, count: count)
            deliver { completion(bytes) }
        }
    }

    /// The same of a body that may still be written.
    package func read(
        _ file: some BodyFile,
        at offset: Int,
        count: Int,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable ([UInt8]?) -> Void
    ) {
        someBodyThread().submit {
            let bytes = file.read(at: offset, count: count)
            deliver { completion(bytes) }
        }
    }

    func someBodyThread() -> WorkThread {
        lock.withLock {
            nextThread = (nextThread + 1) % bodyThreads.count
            return bodyThreads[nextThread]
        }
    }

    // MARK: - Storing

    /// Starts to store a body.
    ///
    /// - Parameters:
    ///   - length: the length of the body in bytes, if known.
    ///   - isWanted: whether the response is still wanted; called on the index thread just before it becomes visible.
    /// - Returns: nil when it is too large, or when there is no space for it.
    package func insertion(
        for key: CacheKey,
        _ response: StoredResponse,
        tags: [[UInt8]],
        length: Int?,
        isWanted: @escaping @Sendable () -> Bool = { true }
    ) -> DiskInsertion? {
        try? beginning(for: key, response, tags: tags, length: length, isWanted: isWanted)
    }

    /// The same, with the reason for a refusal.
    func beginning(
        for key: CacheKey,
        _ response: StoredResponse,
        tags: [[UInt8]],
        length: Int?,
        isWanted: @escaping @Sendable () -> Bool
    ) throws(InsertionRefusal) -> DiskInsertion {
        guard length ?? 0 <= configuration.largestBody else { throw .tooLarge }
        guard mayTakeBodies else { throw .noRoom }
        var file: FileInsertion?
        if let length, length > configuration.smallBody {
            file = FileInsertion(self, length: length)
            guard file != nil else { throw .noRoom }
        }
        return DiskInsertion(self, key, response, tags: tags, length: length, file: file, isWanted: isWanted)
    }

    /// Whether a new body is likely to be stored. This is unknown until the folder is open.
    private var mayTakeBodies: Bool {
        lock.withLock {
            !isClosed && (isOn || numbers.offBecause == nil)
                && (storesAgain == 0 || Clock.monotonic >= storesAgain)
        }
    }

    /// Makes a complete body visible to lookups. Called on any thread.
    ///
    /// - Parameter completion: is called once, on any thread, with whether lookups find it.
    func commit(
        _ key: CacheKey,
        _ response: StoredResponse,
        tags: [[UInt8]],
        _ body: DiskIndex.Body,
        _ isWanted: @escaping @Sendable () -> Bool,
        _ completion: @escaping @Sendable (Bool) -> Void
    ) {
        let drop: @Sendable () -> Void = {
            if case .file(let file) = body {
                // Its file may have the temporary or the final name.
                unlink(self.folder.partialBody(file.number))
                self.folder.remove(file.number)
            }
            completion(false)
        }
        let isAsked = onIndex(evenIfClosing: true) {
            // Removals run on this thread too, so that a later removal finds the body.
            guard self.stores,
                self.withIndex({
                    try $0.insert(key, response, tags: tags, body: body, isWanted: isWanted)
                }) == true
            else { return drop() }
            self.noteStored()
            completion(true)
        }
        if !isAsked { drop() }
    }

    /// Replaces the head of a stored response after a validation. If this fails, all responses of the URI are removed,
    /// because the old head may allow what the origin now forbids.
    package func update(_ entry: CachedEntry, by response: StoredResponse) {
        _ = onIndex {
            if self.stores, self.withIndex({ try $0.update(entry, by: response) }) != nil { return }
            _ = self.remove(.uri(entry.key))
        }
    }

    /// Removes the entries that `purge` names; later lookups do not find them.
    ///
    /// - Parameters:
    ///   - purge: which entries.
    ///   - deliver: runs the completion on the thread that the caller wants.
    ///   - completion: gets the number of removed entries.
    public func remove(
        _ purge: Purge,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable (Int) -> Void
    ) {
        let isAsked = onIndex {
            let count = self.remove(purge)
            deliver { completion(count) }
        }
        if !isAsked { deliver { completion(0) } }
    }

    /// Ends the lifetime of the entries that `purge` names. If this fails, they are removed.
    ///
    /// - Parameters:
    ///   - now: in seconds since 1970.
    ///   - completion: gets the number of these entries.
    func expire(
        _ purge: Purge,
        now: Int,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable (Int) -> Void
    ) {
        let isAsked = onIndex {
            let count = self.withIndex { try $0.expire(purge, now: now) } ?? self.remove(purge)
            deliver { completion(count) }
        }
        if !isAsked { deliver { completion(0) } }
    }

    /// The latest entries up to a limit, with all bodies as files: for operators.
    ///
    /// - Parameter host: in its normal form; nil for all hosts.
    func list(
        host: String?,
        atMost limit: Int,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable ([CachedEntry]) -> Void
    ) {
        let isAsked = onIndex {
            let entries = self.withIndex { try $0.list(host: host, atMost: limit) } ?? []
            deliver { completion(entries) }
        }
        if !isAsked { deliver { completion([]) } }
    }

    /// Whether the disk can be written to.
    var takesBodies: Bool {
        lock.withLock { isOn && (storesAgain == 0 || Clock.monotonic >= storesAgain) }
    }

    /// Handles a failure to write a body. Called on any thread.
    func bodyFailed(_ failure: IOFailure) {
        indexThread.submit {
            if failure.code == ENOSPC || failure.code == EDQUOT {
                self.stopStoring("\(failure)")
            } else {
                self.turnOff("\(failure)")
            }
        }
    }

    /// Ends the pause after a failure.
    func tryAgainAtOnce() {
        indexThread.submit {
            self.nextAttempt = 0
            self.lock.withLock { self.storesAgain = min(self.storesAgain, 1) }
        }
    }

    // MARK: - The index thread

    private func openIndex() {
        guard index == nil, !isGone, Clock.monotonic >= nextAttempt else { return }
        do {
            try folder.prepare()
            if !folder.isLocked(by: lockDescriptor) {
                leaveFolder()
                lockDescriptor = try folder.takeLock()
            }
            try folder.secureIndex()
            // An eighth is reserved for bodies that are being written.
            let capacity = configuration.capacity - configuration.capacity / 8
            let opened = try DiskIndex(folder, capacity: capacity, options)
            // Entries whose removal failed before must not be found now.
            while let purge = owedRemovals.last {
                _ = try opened.remove(purge)
                owedRemovals.removeLast()
            }
            let totals = try opened.totals()
            index = opened
            let wasOff = lock.withLock {
                defer {
                    isOn = true
                    filter = opened.filter
                    filterSeed = opened.seed
                    numbers = Statistics(entries: totals.entries, bytes: totals.cost)
                }
                return numbers.offBecause != nil
            }
            if wasOff { report("the cache in \(configuration.folder) is on again") }
            indexThread.submit { self.countRows() }
            if !hasSwept {
                hasSwept = true
                sweep(0)
            }
        } catch let failure as SQLiteFailure where failure.isCorruption {
            dropIndex(failure)
        } catch {
            turnOff("\(error)")
        }
    }

    private func leaveFolder() {
        index = nil
        folder.unlock(lockDescriptor)
        lockDescriptor = -1
        hasSwept = false
    }

    /// Removes an index that cannot be used; the next attempt makes a new one.
    private func dropIndex(_ failure: SQLiteFailure) {
        index = nil
        folder.removeIndex()
        hasSwept = false
        turnOff("\(failure); its index is made anew", remedy: "it is empty after a pause")
    }

    @discardableResult
    private func withIndex<Result>(_ body: (DiskIndex) throws -> Result) -> Result? {
        // Nothing is done in the folder of another process.
        if index != nil, !folder.isLocked(by: lockDescriptor) {
            leaveFolder()
            turnOff("the folder was removed or replaced", remedy: "it is made anew after a pause")
        }
        if index == nil { openIndex() }
        guard let index else { return nil }
        do {
            let result = try body(index)
            let totals = try index.totals()
            lock.withLock {
                numbers.entries = totals.entries
                numbers.bytes = totals.cost
                numbers.evictions = index.evictions
            }
            if try index.growFilter() {
                lock.withLock { filter = index.filter }
                indexThread.submit { self.countRows() }
            }
            return result
        } catch let failure as SQLiteFailure where failure.isFull {
            stopStoring("\(failure)")
        } catch let failure as SQLiteFailure where failure.isCorruption {
            dropIndex(failure)
        } catch {
            turnOff("\(error)")
        }
        return nil
    }

    /// Removes the named entries now, or, if the index is unavailable, before its next use.
    ///
    /// - Returns: the number of removed entries.
    private func remove(_ purge: Purge) -> Int {
        if let count = withIndex({ try $0.remove(purge) }) { return count }
        // Too many pending removals to remember: all entries are removed.
        if owedRemovals.count < 10_000 { owedRemovals.append(purge) } else { owedRemovals = [.everything] }
        if index != nil { turnOff("an entry could not be removed") }
        return 0
    }

    // MARK: - Without room

    private var stores: Bool { lock.withLock { storesAgain == 0 || Clock.monotonic >= storesAgain } }

    /// Handles a full disk: stored responses are still used, the oldest are removed, and nothing is added for a while.
    private func stopStoring(_ reason: String) {
        try? index?.shrink()
        lock.withLock {
            storesAgain = Clock.monotonic.addingSaturated(TimeSpan.seconds(fractional: configuration.pause).nanoseconds)
            numbers.offBecause = reason
        }
        report("the cache in \(configuration.folder) stores nothing: \(reason)")
    }

    private func noteStored() {
        let wasFull = lock.withLock {
            guard storesAgain != 0 else { return false }
            storesAgain = 0
            numbers.offBecause = nil
            return true
        }
        if wasFull { report("the cache in \(configuration.folder) stores again") }
    }

    private func turnOff(
        _ reason: String,
        remedy: String = "make room there, or let the user of this process write there; it is tried again after a pause"
    ) {
        index = nil
        nextAttempt = Clock.monotonic.addingSaturated(TimeSpan.seconds(fractional: configuration.pause).nanoseconds)
        lock.withLock {
            isOn = false
            numbers.offBecause = reason
        }
        report("the cache in \(configuration.folder) is off: \(reason) (\(remedy))")
    }

    private func report(_ text: String) {
        let now = Clock.monotonic
        if let noticedAt, now - noticedAt < TimeSpan.seconds(fractional: configuration.quiet).nanoseconds { return }
        noticedAt = now
        notice(text)
    }

    /// Adds the rows' hashes to the filter, some thousands at a time, between other work.
    private func countRows() {
        guard accepts, index != nil, withIndex({ try $0.countRows() }) == true else { return }
        indexThread.submit { self.countRows() }
    }

    /// Removes bodies without a row, some hundreds at a time, between other work. A crash between a body's rename and its
    /// row's transaction leaves such bodies.
    ///
    /// - Parameter bodies: those of the folder before, which are left.
    private func sweep(_ number: Int, _ bodies: ArraySlice<UInt64> = []) {
        guard number < 256 || !bodies.isEmpty, accepts, let index else { return }
        let isNext = bodies.isEmpty
        let bodies = isNext ? folder.bodies(inFolder: number)[...] : bodies
        for body in bodies.prefix(500) {
            guard let isKnown = try? index.knows(file: body), !isKnown else { continue }
            folder.remove(body)
        }
        indexThread.submit { self.sweep(isNext ? number + 1 : number, bodies.dropFirst(500)) }
    }
}
