// SPDX-License-Identifier: Apache-2.0
import IOCore
import Synchronization

/// A body that is being stored on disk, in pieces, from one thread. Lookups never find it before it is complete and
/// finished.
///
/// The disk never delays the transfer: when more than 8 MB wait to be written, or the disk fails, the insertion gives
/// up and ignores the rest.
package final class DiskInsertion {
    private let store: DiskStore
    private let key: CacheKey
    private let response: StoredResponse
    private let tags: [[UInt8]]
    private let expected: Int?
    private let isWanted: @Sendable () -> Bool
    private var length = 0
    /// The received bytes, until they are too many for the index.
    private var small: [UInt8] = []
    private var file: FileInsertion?
    private var isOver = false
    /// The reason why the store gave it up; nil when the caller did.
    private(set) var refusal: InsertionRefusal?
    /// Is told of what is in the file.
    private var growing: GrowingBody?

    private static let waitingAtMost = 8 << 20

    /// - Parameters:
    ///   - file: the file of a body with a known length that is too large for the index.
    ///   - isWanted: whether the response is still wanted; called on the store's thread just before it becomes visible.
    ///     A later removal finds it.
    init(
        _ store: DiskStore,
        _ key: CacheKey,
        _ response: StoredResponse,
        tags: [[UInt8]],
        length: Int?,
        file: FileInsertion?,
        isWanted: @escaping @Sendable () -> Bool
    ) {
        self.store = store
        self.file = file
        self.key = key
        self.response = response
        self.tags = tags
        expected = length
        self.isWanted = isWanted
    }

    deinit { abort() }

    /// Has the readers of the body read the file, where memory does not have it. To be called before the first piece.
    func tell(_ growing: GrowingBody) {
        self.growing = growing
        growing.beginsOnDisk()
        file?.growing = growing
    }

    /// Whether a file gets the body.
    var hasFile: Bool { file != nil }

    /// Has the body in a file from now on, whatever its size: memory does not have it.
    func openFile() {
        guard !isOver, file == nil else { return }
        guard let file = FileInsertion(store, length: nil) else { return giveUp(.noRoom) }
        file.growing = growing
        self.file = file
        if !small.isEmpty, !file.append(small) { return giveUp(.noRoom) }
        small = []
    }

    /// Appends a piece of the body.
    package func append(_ bytes: [UInt8]) {
        guard !isOver, !bytes.isEmpty else { return }
        length += bytes.count
        guard length <= min(store.configuration.largestBody, expected ?? Int.max) else { return giveUp(.tooLarge) }
        if file == nil {
            guard length > store.configuration.smallBody else { return small.append(contentsOf: bytes) }
            openFile()
        }
        guard !isOver, let file, file.waiting + bytes.count <= Self.waitingAtMost, file.append(bytes) else {
            return giveUp(.noRoom)
        }
    }

    /// Finishes a complete body; lookups find it soon after. A body without the announced length is dropped.
    ///
    /// - Parameter completion: is called once, on any thread: with true when lookups find it, with false when it was
    ///   not stored.
    package func finish(_ completion: @escaping @Sendable (Bool) -> Void = { _ in }) {
        guard !isOver else { return completion(false) }
        guard expected == nil || expected == length else {
            abort()
            return completion(false)
        }
        isOver = true
        if let file {
            file.finish(key, response, tags, isWanted, completion)
        } else {
            growing?.leavesDisk()
            store.commit(key, response, tags: tags, .small(small), isWanted, completion)
            small = []
        }
    }

    /// Aborts an incomplete body.
    package func abort() {
        guard !isOver else { return }
        isOver = true
        small = []
        file?.abort()
        growing?.leavesDisk()
    }

    private func giveUp(_ reason: InsertionRefusal) {
        refusal = reason
        abort()
    }
}

/// The file of an insertion. `@unchecked Sendable`: `waitingBytes` and `hasFailed` are for all threads, `share` is set
/// before other threads know this object, and only `thread` uses `writer`.
final class FileInsertion: @unchecked Sendable {
    private let store: DiskStore
    private let thread: WorkThread
    private let waitingBytes = Atomic<Int>(0)
    private let hasFailed = Atomic<Bool>(false)
    /// Its share of the budget, released when the file is removed or has its final name.
    private var share: TransitBudget.Share?
    /// Set before the first piece.
    fileprivate(set) var growing: GrowingBody?
    // Used by `thread` alone.
    private var writer: BodyFileWriter?
    private var partial: PartialFile?

    /// - Parameter length: the length of the body in bytes; nil when unknown.
    /// - Returns: nil when the disk has no space.
    init?(_ store: DiskStore, length: Int?) {
        self.store = store
        thread = store.someBodyThread()
        share = store.transit.begin(length: length, now: Clock.monotonic) { [weak self] in self?.abort() }
        guard share != nil else { return nil }
    }

    var waiting: Int { waitingBytes.load(ordering: .relaxed) }

    /// - Returns: false after a failure.
    func append(_ bytes: [UInt8]) -> Bool {
        guard let share, !hasFailed.load(ordering: .relaxed),
            store.transit.consume(bytes.count, for: share, now: Clock.monotonic)
        else { return false }
        waitingBytes.wrappingAdd(bytes.count, ordering: .relaxed)
        thread.submit {
            self.write(bytes)
            self.waitingBytes.wrappingSubtract(bytes.count, ordering: .relaxed)
        }
        return true
    }

    private func write(_ bytes: [UInt8]) {
        guard !hasFailed.load(ordering: .relaxed) else { return }
        guard store.takesBodies else { return drop() }
        do throws(IOFailure) {
            if writer == nil {
                let writer = try BodyFileWriter(.random(in: 0 ... .max), in: store.folder)
                self.writer = writer
                if growing != nil { partial = PartialFile(writer.path) }
            }
            try writer?.append(bytes)
            if let writer, let partial {
                growing?.didWrite(writer.length, to: partial)
            } else {
                // There is no descriptor to read it with.
                growing?.leavesDisk()
            }
        } catch {
            drop()
            // The disk has not failed then: this body alone is not stored.
            if !error.isWantOfDescriptor { store.bodyFailed(error) }
        }
    }

    private func drop() {
        hasFailed.store(true, ordering: .relaxed)
        writer?.abandon()
        writer = nil
        growing?.leavesDisk()
        if let share { store.transit.end(share) }
    }

    func finish(
        _ key: CacheKey,
        _ response: StoredResponse,
        _ tags: [[UInt8]],
        _ isWanted: @escaping @Sendable () -> Bool,
        _ completion: @escaping @Sendable (Bool) -> Void
    ) {
        thread.submit {
            guard let writer = self.writer, !self.hasFailed.load(ordering: .relaxed), !self.store.isGone else {
                self.drop()
                return completion(false)
            }
            self.writer = nil
            self.store.commit(key, response, tags: tags, .file(writer.finish()), isWanted, completion)
            if let share = self.share { self.store.transit.end(share) }
        }
    }

    /// Called on any thread: the body is given up, or another body has its share.
    func abort() {
        hasFailed.store(true, ordering: .relaxed)
        thread.submit { self.drop() }
    }
}
