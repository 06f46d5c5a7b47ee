import HTTPCore
import IOCore

/// The reason why a store refuses a body.
enum InsertionRefusal: Error {
    /// It is larger than the store's limit.
    case tooLarge
    /// Bodies in transit take up all of their space, or the disk is off.
    case noRoom
}

/// *A response that is being stored in memory and on disk, in pieces, from one thread. Lookups never find it before it
/// is complete and finished.
public final class CacheInsertion {
    private let store: CacheStore
    private let key: CacheKey
    private let response: StoredResponse
    private let epoch: UInt64
    private let tags: [[UInt8]]
    private let expected: Int?
    private let limit: Int
    /// The part for the disk; nil without a disk, or when the disk gave up.
    private var disk: DiskInsertion?
    /// The part for memory, likewise.
    private var memory: TransitBody?
    private var length = 0
    /// Whether it was finished or given up.
    private(set) var isOver = false
    /// The reason why the store gave it up; nil when the caller did.
    private(set) var refusal: InsertionRefusal?

    init(
        _ store: CacheStore,
        _ key: CacheKey,
        _ response: StoredResponse,
        epoch: UInt64,
        tags: [[UInt8]],
        length: Int?,
        maximumBytes: Int?,
        disk: DiskInsertion?,
        inMemory memory: TransitBody?
    ) {
        self.store = store
        self.key = key
        self.response = response
        self.epoch = epoch
        self.tags = tags
        expected = length
        limit = min(maximumBytes ?? Int.max, length ?? Int.max)
        self.disk = disk
        self.memory = memory
    }

    deinit { abort() }

    /// Appends a piece of the body.
    public func append(_ bytes: [UInt8]) { append(bytes.span) }

    /// The same from borrowed memory.
    public func append(_ span: borrowing Span<UInt8>) {
        guard !isOver, span.count > 0 else { return }
        length += span.count
        guard length <= limit else { return giveUp(.tooLarge) }
        var refusal = InsertionRefusal.tooLarge
        if let disk {
            disk.append([UInt8](copying: span))
            if let reason = disk.refusal {
                refusal = reason
                self.disk = nil
            }
        }
        if let memory {
            if length > store.memory.largestBody {
                memory.giveBack()
                self.memory = nil
            } else if !memory.append(span) {
                refusal = .noRoom
                self.memory = nil
            }
        }
        if disk == nil, memory == nil { giveUp(refusal) }
    }

    /// Finishes a complete body: lookups find it from now on (on disk soon after), unless its URI was invalidated
    /// meanwhile.
    ///
    /// - Returns: whether it was stored, as far as this is known yet.
    @discardableResult
    public func finish() -> Bool { finish(deliver: { $0() }, { _ in }) ?? true }

    /// The same, with a notification when the disk has stored it.
    ///
    /// - Parameter completion: is called once, and only where this returns nil.
    /// - Returns: nil when only the disk stores it; otherwise whether it was stored.
    func finish(deliver: @escaping Delivery, _ completion: @escaping @Sendable (Bool) -> Void) -> Bool? {
        guard !isOver else { return false }
        guard expected == nil || expected == length, store.epoch(of: key) == epoch else {
            abort()
            return false
        }
        isOver = true
        if let bytes = memory?.takeBody() {
            store.insert(
                CachedEntry(key: key, response: response, body: .memory(bytes), tags: tags),
                unlessRemovedSince: epoch
            )
            disk?.finish()
            return true
        }
        // An older, smaller response must not stay in memory.
        store.memory.remove(sameAs: key, response)
        guard let disk else { return false }
        disk.finish { isStored in deliver { completion(isStored) } }
        return nil
    }

    /// Aborts: the body was truncated, or must not be stored after all.
    public func abort() {
        guard !isOver else { return }
        isOver = true
        memory?.giveBack()
        memory = nil
        disk?.abort()
    }

    private func giveUp(_ reason: InsertionRefusal) {
        refusal = reason
        abort()
    }
}

/// A body that is being received into memory. It has a share of the budget, which another body may get when this one
/// stalls.
///
/// `@unchecked Sendable`: `lock` guards `bytes` and `isGone`, and is never held during other calls; `share` is set
/// before other threads know this object.
final class TransitBody: @unchecked Sendable {
    private let budget: TransitBudget
    private var share: TransitBudget.Share?
    private let lock = PosixLock()
    // Behind `lock`.
    private var bytes: [UInt8] = []
    private var isGone = false

    /// - Parameter length: the length of the body in bytes; nil when unknown.
    /// - Returns: nil when there is no space.
    init?(in budget: TransitBudget, length: Int?) {
        self.budget = budget
        share = budget.begin(length: length, now: Clock.monotonic) { [weak self] in self?.letGo() }
        guard share != nil else { return nil }
        // The capacity is limited at first, because the announced length may be false.
        if let length { bytes.reserveCapacity(min(length, 256 << 10)) }
    }

    deinit { giveBack() }

    /// - Returns: false when there is no space any more.
    func append(_ span: borrowing Span<UInt8>) -> Bool {
        guard let share, budget.consume(span.count, for: share, now: Clock.monotonic) else {
            giveBack()
            return false
        }
        lock.lock()
        defer { lock.unlock() }
        guard !isGone else { return false }
        bytes.append(span)
        return true
    }

    /// Returns the complete body and releases its share; nil when the share was revoked.
    func takeBody() -> [UInt8]? {
        let taken: [UInt8]? = lock.withLock {
            guard !isGone else { return nil }
            var taken: [UInt8] = []
            swap(&taken, &bytes)
            return taken
        }
        giveBack()
        // Excess capacity is freed, too.
        guard let taken, taken.capacity > taken.count + taken.count / 4 + 1024 else { return taken }
        return taken.map { $0 }
    }

    func giveBack() {
        letGo()
        if let share { budget.end(share) }
        share = nil
    }

    private func letGo() {
        lock.withLock {
            isGone = true
            bytes = []
        }
    }
}
