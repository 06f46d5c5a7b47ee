// SPDX-License-Identifier: Apache-2.0
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
    /// The place of the body in a larger one, of which it is a part.
    struct Part {
        let start: Int
        let total: Int
        let isCompletable: Bool
        let isInMemoryOnly: Bool
    }

    private let part: Part?
    /// The part for memory and readers.
    let body: GrowingBody
    /// Whether memory has the body so far.
    private(set) var isInMemory: Bool
    /// The number of bytes that have come.
    private(set) var length = 0
    /// Whether it was finished or given up.
    private(set) var isOver = false
    /// The complete response in memory, once it was finished and stored there; nil for a part of one.
    private(set) var entry: CachedEntry?
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
        _ body: GrowingBody,
        part: Part?
    ) {
        self.store = store
        self.key = key
        self.response = response
        self.epoch = epoch
        self.tags = tags
        expected = length
        limit = min(maximumBytes ?? Int.max, length ?? Int.max)
        self.disk = disk
        self.body = body
        self.part = part
        isInMemory = body.isInMemory
        // A body of unknown length may become too large for the disk, and readers must not depend on it then.
        if length != nil {
            disk?.tell(body)
            if !isInMemory { disk?.openFile() }
        }
    }

    deinit { abort() }

    /// Whether others can read the body while it is being received: memory has it, or a file. A body of unknown length
    /// may outgrow both, and its slowest reader would hold up all others then.
    var canBeReadAlong: Bool { part == nil && expected != nil && (isInMemory || disk?.hasFile == true) }

    /// Whether the length of the body was given.
    var hasKnownLength: Bool { expected != nil }

    /// Appends a piece of the body.
    public func append(_ bytes: [UInt8]) { append(bytes.span) }

    /// The same from borrowed memory.
    public func append(_ span: borrowing Span<UInt8>) {
        guard !isOver, span.count > 0 else { return }
        length += span.count
        guard length <= limit else {
            giveUp(.tooLarge)
            body.append(span)
            return
        }
        var refusal = InsertionRefusal.tooLarge
        if let disk {
            disk.append([UInt8](copying: span))
            if let reason = disk.refusal {
                refusal = reason
                self.disk = nil
            }
        }
        if isInMemory, length > store.memory.largestBody { leaveMemory() }
        let isWhole = body.append(span)
        if isInMemory, !isWhole {
            refusal = .noRoom
            leaveMemory()
        }
        if disk == nil, !isInMemory { giveUp(refusal) }
    }

    private func leaveMemory() {
        isInMemory = false
        if expected != nil { disk?.openFile() }
        body.leaveMemory()
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
        guard expected == nil || expected == length else {
            abort()
            return false
        }
        isOver = true
        // Memory may have lost it since the last piece.
        if expected != nil, !body.isInMemory { disk?.openFile() }
        // After a removal meanwhile it is not stored, and its readers still get it.
        let isWanted = store.epoch(of: key) == epoch
        if let bytes = body.complete() {
            disk?.finish()
            guard isWanted else { return false }
            if let part { return store.insert(part: makeEntry(part, bytes), unlessRemovedSince: epoch) }
            let entry = CachedEntry(key: key, response: response, body: .memory(bytes), tags: tags)
            store.insert(entry, unlessRemovedSince: epoch)
            self.entry = entry
            return true
        }
        // An older, smaller response must not stay in memory.
        if isWanted, part == nil { store.memory.remove(sameAs: key, response) }
        guard let disk else { return false }
        disk.finish { isStored in deliver { completion(isStored) } }
        return nil
    }

    private func makeEntry(_ part: Part, _ bytes: StoredBytes) -> CachedEntry {
        let parts = StoredParts(
            bytes,
            at: part.start,
            of: part.total,
            isCompletable: part.isCompletable,
            isInMemoryOnly: part.isInMemoryOnly
        )
        return CachedEntry(key: key, response: response, body: .parts(parts), tags: tags)
    }

    /// Aborts: the body was truncated, or must not be stored after all.
    public func abort() {
        guard !isOver else { return }
        isOver = true
        body.fail()
        disk?.abort()
    }

    /// The store keeps nothing of it. Its readers still get what arrives.
    private func giveUp(_ reason: InsertionRefusal) {
        refusal = reason
        isOver = true
        disk?.abort()
        body.leaveMemory()
    }
}
