import Glibc
import IOCore

/// Stored responses on disk: an index with small bodies in SQLite, larger bodies in files. It survives restarts and
/// crashes, is bounded, and is for one process at a time.
///
/// A body is written under a temporary name and gets its own when it is complete, together with its row. Nothing is
/// synced beyond what SQLite does at its checkpoints: what a power cut tears is found by checksum (XXH64, of each head and
/// each body) and is a miss. A file is read through once, before this process uses it first, and again when it was
/// touched since.
///
/// Nothing here waits for the disk on the caller's thread: the index has a thread of its own, bodies have two, and answers
/// are delivered as the caller says.
///
/// When the disk has no room, nothing is stored for a while, and what is stored is still read. When it fails otherwise (not
/// writable, the index corrupt) the store is off: everything is a miss and nothing is stored, until an attempt a while
/// later succeeds.
///
/// `@unchecked Sendable`: what threads share is behind `lock`, the one lock of the store; `index` and what belongs to it
/// are touched on the index thread alone.
public final class DiskStore: @unchecked Sendable {
    /// How a store is set up.
    public struct Configuration: Sendable {
        /// Made when it is not there.
        public var folder: String
        /// In bytes.
        public var capacity: Int
        /// Bodies up to this size are kept in the index, in bytes.
        public var smallBody = 32 * 1024
        /// Bodies that are larger are not taken, in bytes.
        public var largestBody: Int
        /// How long a body may stand still on its way before another one may have its room, in seconds.
        public var stall = 10.0
        /// How long it stays off after a failure before it tries again, in seconds.
        public var pause = 10.0
        /// How long the same notice is not repeated, in seconds.
        public var quiet = 60.0

        public init(folder: String, capacity: Int) {
            self.folder = folder
            self.capacity = capacity
            largestBody = capacity / 8
        }
    }

    let configuration: Configuration
    let folder: DiskFolder
    /// The room for bodies that are being written: an eighth of the capacity.
    let transit: TransitBudget
    private let options: CacheOptions
    private let notice: @Sendable (String) -> Void

    // Threads.
    private let indexLoop: EventLoop
    private let bodyLoops: [EventLoop]
    private let threads: [LoopThread]

    // Index thread alone.
    private var index: DiskIndex?
    private var lockDescriptor: Int32 = -1
    private var nextAttempt: UInt64 = 0
    private var noticedAt: UInt64?
    private var hasSwept = false
    /// Removals that failed; they are carried out before the index is used again.
    private var owedRemovals: [Purge] = []

    private let lock = PosixLock()
    // Behind `lock`.
    private var verified: [UInt64: StoredBody.FileStatus] = [:]
    private var nextLoop = 0
    private var numbers = Statistics()
    /// Whether the folder is ours and the index is open.
    private var isOn = false
    /// When the disk may have room again, on the monotonic clock; 0 while it has.
    private var storesAgain: UInt64 = 0
    /// What the index has, nearly, and the seed of its hashes.
    private var filter: CountingBloomFilter?
    private var filterSeed: UInt64 = 0
    private var isClosed = false
    /// The index thread has been given its last work.
    private var isEnding = false
    /// The folder was given up: it may be another's by now.
    private var hasLeft = false

    /// Numbers about a store.
    public struct Statistics: Hashable, Sendable {
        public var entries = 0
        /// In bytes, of entries and their bodies.
        public var bytes = 0
        /// How many had to go for others since the start.
        public var evictions = 0
        /// Why the store is off, or stores nothing; nil while it works.
        public var offBecause: String?

        package init(entries: Int = 0, bytes: Int = 0) {
            self.entries = entries
            self.bytes = bytes
        }
    }

    /// Starts the threads; the folder is opened by them, and a failure there is a notice.
    ///
    /// - Parameters:
    ///   - options: those of the cache.
    ///   - notice: is told, in words for people, when the store goes off or comes back: at most once a minute, from a
    ///     thread of the store.
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
        transit = TransitBudget(capacity: configuration.capacity / 8, patience: UInt64(configuration.stall * 1e9))
        var loops: [EventLoop] = []
        var threads: [LoopThread] = []
        for name in ["cache-index", "cache-body-1", "cache-body-2"] {
            let loop = try EventLoop()
            threads.append(try LoopThread(name: name) { loop.run() })
            loops.append(loop)
        }
        indexLoop = loops[0]
        bodyLoops = Array(loops[1...])
        self.threads = threads
        // No body is written before the folder is ours.
        let isOpen = Latch(count: 1)
        indexLoop.submit {
            self.openIndex()
            isOpen.countDown()
        }
        for loop in bodyLoops { loop.submit { isOpen.wait() } }
    }

    /// Waits until what was asked for before is done, and gives up the folder. What is asked afterwards is a miss; but a
    /// body that is open can be read to its end: the threads for that end with the store.
    public func close() {
        let wasClosed = lock.withLock {
            defer { isClosed = true }
            return isClosed
        }
        guard !wasClosed else { return }
        // Bodies first: what they finish goes to the index.
        for loop in bodyLoops { waitForAll(loop) }
        lock.withLock {
            isEnding = true
            indexLoop.submit {
                self.lock.withLock { (self.isOn, self.hasLeft) = (false, true) }
                self.index = nil
                if self.lockDescriptor >= 0 { Glibc.close(self.lockDescriptor) }
                self.lockDescriptor = -1
            }
        }
        waitForAll(indexLoop)
        indexLoop.stop()
        threads[0].join()
    }

    /// Waits until what was asked for before is done, bodies first: what they finish goes to the index.
    package func settle() {
        guard accepts else { return }
        for loop in bodyLoops { waitForAll(loop) }
        let latch = Latch(count: 1)
        if onIndex({ latch.countDown() }) { latch.wait() }
    }

    private func waitForAll(_ loop: EventLoop) {
        let latch = Latch(count: 1)
        loop.submit { latch.countDown() }
        latch.wait()
    }

    /// The threads that are left end by themselves.
    deinit {
        for loop in bodyLoops { loop.stop() }
        for thread in threads[1...] { thread.detach() }
        guard !isClosed else { return }
        indexLoop.stop()
        threads[0].detach()
        if lockDescriptor >= 0 { Glibc.close(lockDescriptor) }
    }

    /// Where it is.
    public var path: String { configuration.folder }

    /// In bytes.
    public var capacity: Int { configuration.capacity }

    public var statistics: Statistics { lock.withLock { numbers } }

    /// Whether nothing can be stored any more.
    var isGone: Bool { lock.withLock { hasLeft } }

    private var accepts: Bool { lock.withLock { !isClosed } }

    // MARK: - Looking up

    /// False where certainly nothing is stored for the key. Answers at once.
    public func mayHave(_ key: CacheKey) -> Bool {
        let (filter, seed, isOn) = lock.withLock { (self.filter, filterSeed, self.isOn) }
        // Whoever asks a store that is off has it try again.
        guard isOn, let filter else { return true }
        return filter.mayContain(XXH64.hash(key.uri.span, seed: seed))
    }

    /// Finds all variants of a key; small bodies are in them, larger ones are opened with `open`.
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

    /// Has work done on the index thread.
    ///
    /// - Parameter evenIfClosing: as long as that thread is there at all.
    /// - Returns: false, and it is not done, when the store is closed.
    private func onIndex(evenIfClosing: Bool = false, _ work: @escaping @Sendable () -> Void) -> Bool {
        // The lock is held, so that nothing is handed over behind the work that ends the thread: nobody would do it, and
        // whoever waits for it would wait for ever.
        lock.withLock {
            guard !(evenIfClosing ? isEnding : isClosed) else { return false }
            indexLoop.submit(work)
            return true
        }
    }

    /// Opens a body.
    ///
    /// - Parameter completion: gets nil when the file is gone or is not what was written: a miss.
    public func open(
        _ file: StoredFile,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable (StoredBody?) -> Void
    ) {
        guard accepts else { return deliver { completion(nil) } }
        someBodyLoop().submit {
            let body = self.openVerified(file)
            if body == nil {
                self.indexLoop.submit { self.withIndex { try $0.remove(file: file.number) } }
            }
            deliver { completion(body) }
        }
    }

    private func openVerified(_ file: StoredFile) -> StoredBody? {
        guard let body = StoredBody(file, in: folder) else { return nil }
        if lock.withLock({ verified[file.number] }) == body.status { return body }
        guard body.has(file.checksum) else { return nil }
        lock.withLock {
            if verified.count >= 1 << 16 { verified.removeAll() }
            verified[file.number] = body.status
        }
        return body
    }

    /// Reads a piece of an open body; the next one is read when the caller asks for it.
    ///
    /// - Parameter completion: gets `count` bytes, or what is left of them; nil when the disk failed.
    public func read(
        _ body: StoredBody,
        at offset: Int,
        count: Int,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable ([UInt8]?) -> Void
    ) {
        someBodyLoop().submit {
            let bytes = body.read(at: offset, count: count)
            deliver { completion(bytes) }
        }
    }

    func someBodyLoop() -> EventLoop {
        lock.withLock {
            nextLoop = (nextLoop + 1) % bodyLoops.count
            return bodyLoops[nextLoop]
        }
    }

    // MARK: - Storing

    /// Begins to store a body.
    ///
    /// - Parameters:
    ///   - length: of the body, where it is known, in bytes.
    ///   - isWanted: whether the response may still be found; asked on the index thread just before it is.
    /// - Returns: nil when it is too large, or there is no room for it.
    package func insertion(
        for key: CacheKey,
        _ response: StoredResponse,
        tags: [[UInt8]],
        length: Int?,
        isWanted: @escaping @Sendable () -> Bool = { true }
    ) -> DiskInsertion? {
        try? beginning(for: key, response, tags: tags, length: length, isWanted: isWanted)
    }

    /// The same, and says why a body is not taken.
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

    /// Whether a body that begins now is likely to be stored. At the very beginning nobody knows yet.
    private var mayTakeBodies: Bool {
        lock.withLock {
            !isClosed && (isOn || numbers.offBecause == nil)
                && (storesAgain == 0 || Clock.monotonic >= storesAgain)
        }
    }

    /// Has a complete body be found from now on. Called on any thread.
    ///
    /// - Parameter completion: is called once, on any thread: whether it is found.
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
                // Wherever it was left.
                unlink(self.folder.partialBody(file.number))
                self.folder.remove(file.number)
            }
            completion(false)
        }
        let isAsked = onIndex(evenIfClosing: true) {
            // Removals pass this thread too: what is asked here and removed later is found by the removal.
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

    /// Gives a stored response another head, after a validation. Where that cannot be, what is stored for the URI goes:
    /// the head of before may allow what the origin does not allow any more.
    package func update(_ entry: CachedEntry, by response: StoredResponse) {
        _ = onIndex {
            if self.stores, self.withIndex({ try $0.update(entry, by: response) }) != nil { return }
            _ = self.remove(.uri(entry.key))
        }
    }

    /// Removes what `purge` names; what is asked for later does not find it any more.
    ///
    /// - Parameter completion: gets how many entries that was.
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

    /// The entries that came last, at most so many, with all bodies as files: for operators.
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

    /// A body could not be written. Called on any thread.
    func bodyFailed(_ failure: IOFailure) {
        indexLoop.submit {
            if failure.code == ENOSPC || failure.code == EDQUOT {
                self.stopStoring("\(failure)")
            } else {
                self.turnOff("\(failure)")
            }
        }
    }

    /// Ends the pause after a failure.
    func tryAgainAtOnce() {
        indexLoop.submit {
            self.nextAttempt = 0
            self.lock.withLock { self.storesAgain = min(self.storesAgain, 1) }
        }
    }

    // MARK: - The index thread

    private func openIndex() {
        guard index == nil, !isGone, Clock.monotonic >= nextAttempt else { return }
        do {
            if lockDescriptor < 0 { lockDescriptor = try folder.open() }
            try folder.secureIndex()
            // An eighth is left for bodies that are being written.
            let capacity = configuration.capacity - configuration.capacity / 8
            let opened = try DiskIndex(folder, capacity: capacity, options)
            // What could not be removed before must not be found now.
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
            indexLoop.submit { self.countRows() }
            if !hasSwept {
                hasSwept = true
                sweep(0)
            }
        } catch let failure as SQLiteFailure where failure.isCorruption {
            folder.removeIndex()
            hasSwept = false
            turnOff("\(failure); its index is made anew")
        } catch {
            turnOff("\(error)")
        }
    }

    @discardableResult
    private func withIndex<Result>(_ body: (DiskIndex) throws -> Result) -> Result? {
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
                indexLoop.submit { self.countRows() }
            }
            return result
        } catch let failure as SQLiteFailure where failure.isFull {
            stopStoring("\(failure)")
        } catch let failure as SQLiteFailure {
            self.index = nil
            if failure.isCorruption {
                folder.removeIndex()
                hasSwept = false
            }
            turnOff("\(failure)" + (failure.isCorruption ? "; its index is made anew" : ""))
        } catch {
            turnOff("\(error)")
        }
        return nil
    }

    /// Removes what is named, now or, when the index cannot be had, before it is used again.
    ///
    /// - Returns: how many entries that was.
    private func remove(_ purge: Purge) -> Int {
        if let count = withIndex({ try $0.remove(purge) }) { return count }
        // Too many are owed to be kept: all go.
        if owedRemovals.count < 10_000 { owedRemovals.append(purge) } else { owedRemovals = [.everything] }
        if index != nil { turnOff("an entry could not be removed") }
        return 0
    }

    // MARK: - Without room

    private var stores: Bool { lock.withLock { storesAgain == 0 || Clock.monotonic >= storesAgain } }

    /// There is no room on the disk: what is stored is still used, the oldest of it goes, and nothing is added for a
    /// while.
    private func stopStoring(_ reason: String) {
        try? index?.shrink()
        lock.withLock {
            storesAgain = Clock.monotonic + UInt64(configuration.pause * 1e9)
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

    private func turnOff(_ reason: String) {
        index = nil
        nextAttempt = Clock.monotonic + UInt64(configuration.pause * 1e9)
        lock.withLock {
            isOn = false
            numbers.offBecause = reason
        }
        report("the cache in \(configuration.folder) is off: \(reason)")
    }

    private func report(_ text: String) {
        let now = Clock.monotonic
        if let noticedAt, now - noticedAt < UInt64(configuration.quiet * 1e9) { return }
        noticedAt = now
        notice(text)
    }

    /// Takes the rows' hashes into the filter, some thousands at a time and between other work.
    private func countRows() {
        guard accepts, index != nil, withIndex({ try $0.countRows() }) == true else { return }
        indexLoop.submit { self.countRows() }
    }

    /// Removes bodies that no row has, a folder at a time and between other work: what a crash left between a body's
    /// last name and its row's transaction.
    private func sweep(_ number: Int) {
        guard number < 256, accepts, let index else { return }
        for body in folder.bodies(inFolder: number) {
            guard let isKnown = try? index.knows(file: body), !isKnown else { continue }
            folder.remove(body)
        }
        indexLoop.submit { self.sweep(number + 1) }
    }
}
