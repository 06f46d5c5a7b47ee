import IOCore
import Synchronization

/// A body on its way to a disk store, in pieces, from one thread. What is neither finished nor whole is never found.
///
/// The disk does not hold up the transfer: when more than 8 MB wait to be written, or the disk fails, the insertion gives
/// up and takes in the rest unseen.
package final class DiskInsertion {
    private let store: DiskStore
    private let key: CacheKey
    private let response: StoredResponse
    private let tags: [[UInt8]]
    private let expected: Int?
    private let isWanted: @Sendable () -> Bool
    private var length = 0
    /// What has come, until it is too much to be kept in the index.
    private var small: [UInt8] = []
    private var file: FileInsertion?
    private var isOver = false
    /// Why it was given up, where that was not the caller's wish.
    private(set) var refusal: InsertionRefusal?

    private static let waitingAtMost = 8 << 20

    /// - Parameters:
    ///   - file: where the length is known, and too large for the index.
    ///   - isWanted: whether the response may still be found; asked on the store's thread just before it is. A
    ///     removal that comes later than that finds it there.
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

    /// Takes a piece of the body.
    package func append(_ bytes: [UInt8]) {
        guard !isOver, !bytes.isEmpty else { return }
        length += bytes.count
        guard length <= min(store.configuration.largestBody, expected ?? Int.max) else { return giveUp(.tooLarge) }
        if file == nil {
            guard length > store.configuration.smallBody else { return small.append(contentsOf: bytes) }
            guard let file = FileInsertion(store, length: nil) else { return giveUp(.noRoom) }
            self.file = file
            if !small.isEmpty, !file.append(small) { return giveUp(.noRoom) }
            small = []
        }
        guard let file, file.waiting + bytes.count <= Self.waitingAtMost, file.append(bytes) else {
            return giveUp(.noRoom)
        }
    }

    /// The body is whole; it is found soon after. One that is not as long as it was said to be is dropped.
    ///
    /// - Parameter completion: is called once, on any thread, when it is found, or with false when it will not be.
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
            store.commit(key, response, tags: tags, .small(small), isWanted, completion)
            small = []
        }
    }

    /// The body will not come to its end.
    package func abort() {
        guard !isOver else { return }
        isOver = true
        small = []
        file?.abort()
    }

    private func giveUp(_ reason: InsertionRefusal) {
        refusal = reason
        abort()
    }
}

/// The file of an insertion. `waitingBytes` and `hasFailed` are for all threads, `share` is set before another thread knows
/// of it; `writer` belongs to the thread of `loop` alone, which `@unchecked Sendable` rests upon.
final class FileInsertion: @unchecked Sendable {
    private let store: DiskStore
    private let loop: EventLoop
    private let waitingBytes = Atomic<Int>(0)
    private let hasFailed = Atomic<Bool>(false)
    /// Its room, given back when the file is gone or has its name.
    private var share: TransitBudget.Share?
    // The loop's thread.
    private var writer: BodyFileWriter?

    /// - Parameter length: of the body, in bytes; nil where it is not known.
    /// - Returns: nil where the disk has no room.
    init?(_ store: DiskStore, length: Int?) {
        self.store = store
        loop = store.someBodyLoop()
        share = store.transit.begin(length: length, now: Clock.monotonic) { [weak self] in self?.abort() }
        guard share != nil else { return nil }
    }

    var waiting: Int { waitingBytes.load(ordering: .relaxed) }

    /// - Returns: false when it has failed.
    func append(_ bytes: [UInt8]) -> Bool {
        guard let share, !hasFailed.load(ordering: .relaxed),
            store.transit.consume(bytes.count, for: share, now: Clock.monotonic)
        else { return false }
        waitingBytes.wrappingAdd(bytes.count, ordering: .relaxed)
        loop.submit {
            self.write(bytes)
            self.waitingBytes.wrappingSubtract(bytes.count, ordering: .relaxed)
        }
        return true
    }

    private func write(_ bytes: [UInt8]) {
        guard !hasFailed.load(ordering: .relaxed) else { return }
        guard store.takesBodies else { return drop() }
        do throws(IOFailure) {
            if writer == nil { writer = try BodyFileWriter(.random(in: 0 ... .max), in: store.folder) }
            try writer?.append(bytes)
        } catch {
            drop()
            store.bodyFailed(error)
        }
    }

    private func drop() {
        hasFailed.store(true, ordering: .relaxed)
        writer?.abandon()
        writer = nil
        if let share { store.transit.end(share) }
    }

    func finish(
        _ key: CacheKey,
        _ response: StoredResponse,
        _ tags: [[UInt8]],
        _ isWanted: @escaping @Sendable () -> Bool,
        _ completion: @escaping @Sendable (Bool) -> Void
    ) {
        loop.submit {
            guard let writer = self.writer, !self.hasFailed.load(ordering: .relaxed), !self.store.isGone else {
                self.drop()
                return completion(false)
            }
            self.writer = nil
            self.store.commit(key, response, tags: tags, .file(writer.finish()), isWanted, completion)
            if let share = self.share { self.store.transit.end(share) }
        }
    }

    /// On any thread: it is given up, or another body has its room.
    func abort() {
        hasFailed.store(true, ordering: .relaxed)
        loop.submit { self.drop() }
    }
}
