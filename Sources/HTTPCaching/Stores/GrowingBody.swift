// SPDX-License-Identifier: Apache-2.0
import Glibc
package import IOCore

/// A body that is being received: the store's copy in memory, and what readers on any loop take, each at its own pace.
///
/// While it fits, memory has all of it. When memory gives it up, readers read the file that the disk store writes.
/// Where there is no file either, it keeps the bytes that its readers still need, and the origin waits for the slowest of
/// them. A reader that has come late, and whose bytes were on their way to a disk that failed, finds the body broken.
///
/// `@unchecked Sendable`: `lock` guards all mutable state, and only the pool's lock is taken behind it; `share` is set
/// before other threads know this object, and used by the receiving thread alone.
package final class GrowingBody: @unchecked Sendable {
    /// The result of a reading.
    package enum Piece {
        case bytes([UInt8])
        /// So many bytes can be read from this file, at the reader's position.
        case file(PartialFile, count: Int)
        /// Nothing yet: `wake` is called when there is.
        case wait
        case end
        /// The body was not received to its end.
        case broken
    }

    private enum Ending { case complete, broken }

    private struct ReaderState {
        var position: Int
        var wake: (@Sendable () -> Void)?
    }

    private let store: MemoryStore
    private var share: TransitBudget.Share?
    private let lock = PosixLock()
    // Behind `lock`.
    /// All bytes, while memory keeps the body.
    private var writer: ChunkWriter
    private var isWhole: Bool
    /// All bytes of a complete body, in the place of `writer`.
    private var finished: StoredBytes?
    /// The bytes that readers still need of a body that memory has given up, and the position of the first one.
    private var rest: [UInt8] = []
    private var base = 0
    private var received = 0
    private var ending: Ending?
    private var isWrittenToDisk = false
    private var file: PartialFile?
    private var written = 0
    private var readers: [UInt64: ReaderState] = [:]
    private var lastReader: UInt64 = 0
    /// Is called when a reader comes.
    private var noticeOfReader: (@Sendable () -> Void)?
    /// The memory that the store counts for this body.
    private var counted = 0
    /// Set while the origin waits for the slowest reader.
    private var resumeOrigin: (@Sendable () -> Void)?

    /// The most that the slowest reader may be behind where only readers keep the bytes.
    private static let window = 256 << 10
    /// The most that may wait for the disk where readers depend on it.
    private static let waitingAtMost = 2 << 20

    /// - Parameters:
    ///   - keeps: whether memory tries to keep it.
    ///   - length: in bytes; nil when unknown.
    init(in store: MemoryStore, keeps: Bool, length: Int?) {
        self.store = store
        writer = ChunkWriter(in: store.pool, expecting: length)
        isWhole = keeps
        guard keeps else { return }
        share = store.transit.begin(length: length, now: Clock.monotonic) { [weak self] in self?.leaveMemory() }
        isWhole = share != nil
    }

    deinit {
        if counted > 0 { store.transitDidShrink(by: counted) }
        giveBack()
    }

    /// Whether memory still has all of it.
    var isInMemory: Bool { lock.withLock { isWhole } }

    /// Whether readers are attached.
    var hasReaders: Bool { lock.withLock { !readers.isEmpty } }

    // MARK: - Receiving

    /// The disk store writes it, too.
    func beginsOnDisk() { lock.withLock { isWrittenToDisk = true } }

    /// Appends a piece.
    ///
    /// - Returns: whether memory still has all of it.
    @discardableResult
    func append(_ span: borrowing Span<UInt8>) -> Bool {
        if let share, isInMemory, !store.transit.consume(span.count, for: share, now: Clock.monotonic) {
            giveBack()
            leaveMemory()
        }
        lock.lock()
        received += span.count
        if isWhole {
            if !writer.append(span) {
                // The system has no memory. Readers that need these bytes get them.
                leave()
                if keepsNothing { base = received } else { rest.append(span) }
            }
        } else if keepsNothing {
            base = received
        } else {
            rest.append(span)
        }
        let isWhole = isWhole
        let isKept = isWhole || !readers.isEmpty
        let growth = count()
        let wakes = takeWakes()
        lock.unlock()
        account(growth)
        // Other bodies may have its room.
        if !isKept { giveBack() }
        for wake in wakes { wake() }
        return isWhole
    }

    private func account(_ growth: Int) {
        if growth > 0 { store.transitDidGrow(by: growth) }
        if growth < 0 { store.transitDidShrink(by: -growth) }
    }

    /// Whether the origin has to wait: for the slowest reader, or for the disk that readers depend on.
    ///
    /// - Parameter resume: is called once, on any thread, when it need not wait any longer; only after true.
    func holdsOrigin(_ resume: @escaping @Sendable () -> Void) -> Bool {
        lock.withLock {
            guard isFull else { return false }
            resumeOrigin = resume
            return true
        }
    }

    /// Whether `holdsOrigin` may be true now.
    var isFullForReaders: Bool { lock.withLock { isFull } }

    /// Memory gives it up: it is too large, or another body gets its room.
    func leaveMemory() {
        lock.lock()
        leave()
        let growth = count()
        let wakes = takeWakes()
        lock.unlock()
        account(growth)
        for wake in wakes { wake() }
    }

    /// The disk store has written so many bytes of it to this file.
    func didWrite(_ count: Int, to file: PartialFile) {
        lock.lock()
        written = count
        self.file = file
        dropUnneeded()
        let wakes = takeWakes()
        let resume = takeResume()
        lock.unlock()
        for wake in wakes { wake() }
        resume?()
    }

    /// The disk store has given it up. Its file ends where it is.
    func leavesDisk() {
        lock.lock()
        isWrittenToDisk = false
        let wakes = takeWakes()
        let resume = takeResume()
        lock.unlock()
        for wake in wakes { wake() }
        resume?()
    }

    /// It is complete.
    ///
    /// - Returns: the whole body, if memory has it.
    func complete() -> StoredBytes? {
        lock.lock()
        ending = .complete
        if isWhole { finished = StoredBytes(&writer) }
        let body = finished
        let hasReaders = !readers.isEmpty
        let growth = count()
        let wakes = takeWakes()
        lock.unlock()
        account(growth)
        // What its readers hold may be evicted from the store, and takes its room until they have gone.
        if let share, hasReaders { store.transit.pin(share) } else { giveBack() }
        for wake in wakes { wake() }
        return body
    }

    /// It will not be received to its end.
    func fail() {
        lock.lock()
        if ending == nil { ending = .broken }
        let wakes = takeWakes()
        lock.unlock()
        giveBack()
        for wake in wakes { wake() }
    }

    private func giveBack() {
        if let share { store.transit.end(share) }
        share = nil
    }

    // MARK: - Behind the lock

    /// - Returns: by how much the memory has grown that the store has to count: also that of a complete body which
    ///   readers hold, because it may be evicted.
    private func count() -> Int {
        let held = finished.map { readers.isEmpty ? 0 : $0.footprint } ?? (writer.footprint + rest.count)
        defer { counted = held }
        return held - counted
    }

    /// The bytes that arrive have no reader.
    private var keepsNothing: Bool { readers.isEmpty }

    private var isFull: Bool {
        if isWhole || readers.isEmpty { return false }
        if isWrittenToDisk { return received - written > Self.waitingAtMost }
        guard let slowest = readers.values.lazy.map(\.position).min() else { return false }
        return received - slowest > Self.window
    }

    /// Memory gives the body up: the bytes that readers still need are kept.
    private func leave() {
        guard isWhole, ending == nil else { return }
        isWhole = false
        base = writer.count
        if !keepsNothing, let slowest = readers.values.lazy.map(\.position).min() {
            base = min(slowest, writer.count)
            rest = writer.copy(base..<writer.count)
        }
        writer.removeAll()
    }

    /// Frees what no reader needs, when memory has given the body up.
    private func dropUnneeded() {
        guard !isWhole else { return }
        guard !keepsNothing, let slowest = readers.values.lazy.map(\.position).min() else {
            rest = []
            base = received
            return
        }
        // Moving the rest costs time: not for a few bytes. What is in the file is read from there.
        let count = min((isWrittenToDisk ? max(slowest, written) : slowest) - base, rest.count)
        guard count >= Self.window / 4 || count == rest.count else { return }
        rest.removeFirst(max(0, count))
        base += max(0, count)
    }

    private func takeWakes() -> [@Sendable () -> Void] {
        var wakes: [@Sendable () -> Void] = []
        guard !readers.isEmpty else { return wakes }
        for (number, state) in readers {
            guard let wake = state.wake else { continue }
            readers[number]?.wake = nil
            wakes.append(wake)
        }
        return wakes
    }

    /// The origin may send on, because the slowest reader has caught up or gone.
    private func takeResume() -> (@Sendable () -> Void)? {
        guard resumeOrigin != nil, !isFull else { return nil }
        let resume = resumeOrigin
        resumeOrigin = nil
        return resume
    }

    // MARK: - Reading

    /// - Parameter position: of the first byte that it reads.
    /// - Returns: nil when those bytes are gone, or will not come.
    package func makeReader(at position: Int = 0) -> GrowingReader? {
        var notice: (@Sendable () -> Void)?
        let reader: GrowingReader? = lock.withLock {
            guard ending != .broken, position >= base || isWrittenToDisk || written > position else { return nil }
            lastReader += 1
            readers[lastReader] = ReaderState(position: position)
            swap(&notice, &noticeOfReader)
            return GrowingReader(self, lastReader)
        }
        notice?()
        return reader
    }

    /// - Parameter notice: is called once, on any thread: when the next reader comes, or at once when one is there.
    func whenRead(_ notice: @escaping @Sendable () -> Void) {
        let isRead = lock.withLock {
            if readers.isEmpty { noticeOfReader = notice }
            return !readers.isEmpty
        }
        if isRead { notice() }
    }

    fileprivate func read(
        _ reader: UInt64,
        at position: Int,
        atMost count: Int,
        wake: @escaping @Sendable () -> Void
    ) -> Piece {
        lock.lock()
        readers[reader]?.position = position
        dropUnneeded()
        let resume = takeResume()
        let piece = piece(at: position, atMost: count)
        if case .wait = piece { readers[reader]?.wake = wake }
        let growth = self.count()
        lock.unlock()
        account(growth)
        resume?()
        return piece
    }

    private func piece(at position: Int, atMost count: Int) -> Piece {
        if isWhole {
            let end = min(position + count, received)
            if position < end { return .bytes(finished?.copy(position..<end) ?? writer.copy(position..<end)) }
        } else if position >= base, position < base + rest.count {
            let start = position - base
            return .bytes(Array(rest[start..<min(start + count, rest.count)]))
        }
        if position < written, let file { return .file(file, count: min(count, written - position)) }
        if position >= received {
            switch ending {
            case nil: return .wait
            case .complete: return .end
            case .broken: return .broken
            }
        }
        return isWrittenToDisk && ending != .broken ? .wait : .broken
    }

    fileprivate func leave(_ reader: UInt64) {
        lock.lock()
        let removed = readers.removeValue(forKey: reader)
        dropUnneeded()
        let resume = takeResume()
        let growth = count()
        lock.unlock()
        account(growth)
        // What its closure holds may be freed here, and not with the lock held.
        withExtendedLifetime(removed) { resume?() }
    }
}

/// One reader of a `GrowingBody`.
package final class GrowingReader: Sendable {
    private let body: GrowingBody
    private let number: UInt64

    fileprivate init(_ body: GrowingBody, _ number: UInt64) {
        self.body = body
        self.number = number
    }

    deinit { close() }

    /// Ends the reading.
    package func close() { body.leave(number) }

    /// Reads at a position, which never goes back.
    ///
    /// - Parameter wake: is called once, on any thread, after `wait` only.
    package func read(at position: Int, atMost count: Int, wake: @escaping @Sendable () -> Void) -> GrowingBody.Piece {
        body.read(number, at: position, atMost: count, wake: wake)
    }
}

/// A file that a body is read from.
package protocol BodyFile: Sendable {
    /// These bytes of the file, or fewer at its end, to be sent from there. What the kernel does not have in memory has to be read
    /// from the disk (`DiskStore.read`).
    func bytes(_ range: Range<Int>) -> FileBytes

    /// Blocks on the disk: never on a loop.
    ///
    /// - Returns: `count` bytes, or fewer at the end of the file; nil when the disk failed.
    func read(at offset: Int, count: Int) -> [UInt8]?
}

/// The file of a body that is being written. It stays readable while this exists, even after it was renamed or removed.
package final class PartialFile: BodyFile {
    private let file: SharedFile
    private var descriptor: Int32 { file.descriptor }

    /// - Returns: nil when it cannot be opened.
    init?(_ path: String) {
        do { file = try SharedFile(path, O_RDONLY) } catch { return nil }
    }

    /// The range of the file, for bytes that have been written to it.
    package func bytes(_ range: Range<Int>) -> FileBytes { FileBytes(descriptor, range) }

    package func read(at offset: Int, count: Int) -> [UInt8]? {
        DescriptorInput.read(descriptor, at: offset, count: count)
    }
}

/// A response that is being received, for other requests.
struct GrowingResponse {
    let response: StoredResponse
    /// The length of its body in bytes, if known.
    let length: Int?
    let body: GrowingBody
}
