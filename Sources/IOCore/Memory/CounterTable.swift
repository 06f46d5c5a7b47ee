import Synchronization

/// Counters that one thread adds to and any thread may read, without a lock and without waiting for the other.
///
/// Adding is a load and a store, both relaxed: with one writer nothing is lost, and it costs what adding to a plain integer
/// costs. The table has cache lines to itself, so that two writers do not slow each other down.
///
/// `@unchecked Sendable`: `counters` points to atomics for as long as the object lives, and is never changed; that one
/// thread alone adds is its owner's promise, and all that breaks without it is a count.
package final class CounterTable: @unchecked Sendable {
    private let storage: UnsafeMutableRawPointer
    private let counters: UnsafeMutablePointer<Atomic<Int>>
    package let count: Int

    private static let cacheLine = 64

    /// All of them at 0.
    package init(count: Int) {
        self.count = count
        let bytes = count * MemoryLayout<Atomic<Int>>.stride
        storage = .allocate(
            byteCount: (bytes + Self.cacheLine - 1) / Self.cacheLine * Self.cacheLine,
            alignment: Self.cacheLine
        )
        counters = storage.bindMemory(to: Atomic<Int>.self, capacity: count)
        for index in 0..<count { (counters + index).initialize(to: Atomic(0)) }
    }

    deinit {
        counters.deinitialize(count: count)
        storage.deallocate()
    }

    /// For the one thread that counts.
    @inline(__always)
    package func add(_ number: Int, at index: Int) {
        precondition(index >= 0 && index < count, "no such counter")
        let counter = counters + index
        counter.pointee.store(counter.pointee.load(ordering: .relaxed) &+ number, ordering: .relaxed)
    }

    /// For any thread.
    package func value(at index: Int) -> Int {
        precondition(index >= 0 && index < count, "no such counter")
        return (counters + index).pointee.load(ordering: .relaxed)
    }
}
