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

    private static let waitingAtMost = 8 << 20

    /// - Parameter isWanted: whether the response may still be found; asked on the store's thread just before it is. A
    ///   removal that comes later than that finds it there.
    init(
        _ store: DiskStore,
        _ key: CacheKey,
        _ response: StoredResponse,
        tags: [[UInt8]],
        length: Int?,
        isWanted: @escaping @Sendable () -> Bool
    ) {
        self.store = store
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
        guard length <= min(store.configuration.largestBody, expected ?? Int.max) else { return abort() }
        if let file {
            guard file.waiting + bytes.count <= Self.waitingAtMost else { return abort() }
            if !file.append(bytes) { abort() }
        } else if length <= store.configuration.smallBody {
            small.append(contentsOf: bytes)
        } else {
            let file = FileInsertion(store)
            self.file = file
            let isTaken = (small.isEmpty || file.append(small)) && file.append(bytes)
            small = []
            if !isTaken { abort() }
        }
    }

    /// The body is whole; it is found soon after. One that is not as long as it was said to be is dropped.
    package func finish() {
        guard !isOver else { return }
        guard expected == nil || expected == length else { return abort() }
        isOver = true
        if let file {
            file.finish(key, response, tags, isWanted)
        } else {
            store.commit(key, response, tags: tags, .small(small), isWanted)
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
}

/// The file of an insertion. `waitingBytes` and `hasFailed` are for both threads; `writer` and `reserved` belong to the
/// thread of `loop` alone, which `@unchecked Sendable` rests upon.
private final class FileInsertion: @unchecked Sendable {
    private let store: DiskStore
    private let loop: EventLoop
    private let waitingBytes = Atomic<Int>(0)
    private let hasFailed = Atomic<Bool>(false)
    // The loop's thread.
    private var writer: BodyFileWriter?
    private var reserved = 0

    init(_ store: DiskStore) {
        self.store = store
        loop = store.someBodyLoop()
    }

    var waiting: Int { waitingBytes.load(ordering: .relaxed) }

    /// - Returns: false when it has failed.
    func append(_ bytes: [UInt8]) -> Bool {
        guard !hasFailed.load(ordering: .relaxed) else { return false }
        waitingBytes.wrappingAdd(bytes.count, ordering: .relaxed)
        loop.submit {
            self.write(bytes)
            self.waitingBytes.wrappingSubtract(bytes.count, ordering: .relaxed)
        }
        return true
    }

    private func write(_ bytes: [UInt8]) {
        guard !hasFailed.load(ordering: .relaxed) else { return }
        guard store.reserve(bytes.count) else { return drop() }
        reserved += bytes.count
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
        store.release(reserved)
        reserved = 0
    }

    func finish(
        _ key: CacheKey,
        _ response: StoredResponse,
        _ tags: [[UInt8]],
        _ isWanted: @escaping @Sendable () -> Bool
    ) {
        loop.submit {
            guard let writer = self.writer, !self.hasFailed.load(ordering: .relaxed) else { return }
            guard !self.store.isGone else { return self.drop() }
            self.store.commit(key, response, tags: tags, .file(writer.finish()), isWanted)
            self.writer = nil
            self.store.release(self.reserved)
            self.reserved = 0
        }
    }

    func abort() { loop.submit { self.drop() } }
}
