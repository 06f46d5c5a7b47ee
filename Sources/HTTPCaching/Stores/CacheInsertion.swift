import HTTPCore
import IOCore

/// Why a store does not take a body.
enum InsertionRefusal: Error {
    /// It is larger than the store takes.
    case tooLarge
    /// Those that are on their way take up all the room there is for them, or the disk is off.
    case noRoom
}

/// A response on its way into both stores, in pieces, from one thread. What is neither finished nor whole is never found.
public final class CacheInsertion {
    private let store: CacheStore
    private let key: CacheKey
    private let response: StoredResponse
    private let epoch: UInt64
    private let tags: [[UInt8]]
    private let expected: Int?
    private let limit: Int
    /// nil where the disk has no part in it, or has given up.
    private var disk: DiskInsertion?
    /// The same of memory.
    private var memory: TransitBody?
    private var length = 0
    /// It was finished or given up.
    private(set) var isOver = false
    /// Why it was given up, where that was not the caller's wish.
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

    /// Takes a piece of the body.
    public func append(_ bytes: [UInt8]) { append(bytes.span) }

    /// The same out of memory that is another's.
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

    /// The body is whole: it is found from now on (on disk soon after), unless its URI was invalidated meanwhile.
    ///
    /// - Returns: whether it was stored, as far as that is known by now.
    @discardableResult
    public func finish() -> Bool { finish(deliver: { $0() }, { _ in }) ?? true }

    /// The same, and tells when the disk has it.
    ///
    /// - Parameter completion: is called once, and only where this returns nil.
    /// - Returns: nil where the disk alone takes it; else whether it was stored.
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
        // An earlier, smaller one must not outlive it.
        store.memory.remove(sameAs: key, response)
        guard let disk else { return false }
        disk.finish { isStored in deliver { completion(isStored) } }
        return nil
    }

    /// The body will not come to its end (it was cut short, or is not to be stored after all).
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

/// A body on its way to memory: in its room of the budget, which another may get when this one stands still.
///
/// `@unchecked Sendable`: `bytes` and `isGone` are behind `lock`, which is held while nothing else is called; `share` is set
/// before another thread knows of it.
final class TransitBody: @unchecked Sendable {
    private let budget: TransitBudget
    private var share: TransitBudget.Share?
    private let lock = PosixLock()
    // Behind `lock`.
    private var bytes: [UInt8] = []
    private var isGone = false

    /// - Parameter length: of the body, in bytes; nil where it is not known.
    /// - Returns: nil where there is no room.
    init?(in budget: TransitBudget, length: Int?) {
        self.budget = budget
        share = budget.begin(length: length, now: Clock.monotonic) { [weak self] in self?.letGo() }
        guard share != nil else { return nil }
        // No more than may come at once: a length is a promise.
        if let length { bytes.reserveCapacity(min(length, 256 << 10)) }
    }

    deinit { giveBack() }

    /// - Returns: false where there is no room any more.
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

    /// The whole body, and the room is given back; nil when another has it.
    func takeBody() -> [UInt8]? {
        let taken: [UInt8]? = lock.withLock {
            guard !isGone else { return nil }
            var taken: [UInt8] = []
            swap(&taken, &bytes)
            return taken
        }
        giveBack()
        // Capacity beyond the bytes is given back, too.
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
