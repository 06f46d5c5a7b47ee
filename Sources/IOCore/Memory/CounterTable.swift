// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// Counters that one thread increments and any thread may read, without locks.
///
/// An increment is a relaxed load and a relaxed store: with one writer no increment is lost, and the cost is that of a
/// plain integer. The table has its own cache lines, so that two writers do not slow each other down.
///
/// `@unchecked Sendable`: `counters` points to atomics during the lifetime of the object, and is constant. The owner
/// guarantees that only one thread increments; otherwise increments could get lost.
package final class CounterTable: @unchecked Sendable {
    private let storage: UnsafeMutableRawPointer
    private let counters: UnsafeMutablePointer<Atomic<Int>>
    package let count: Int

    private static let cacheLine = 64

    /// Makes a table with all counters at 0.
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

    /// Increments a counter; for the writing thread only.
    @inline(__always)
    package func add(_ number: Int, at index: Int) {
        precondition(index >= 0 && index < count, "no such counter")
        let counter = counters + index
        counter.pointee.store(counter.pointee.load(ordering: .relaxed) &+ number, ordering: .relaxed)
    }

    /// Replaces a counter's value; for the writing thread only.
    package func set(_ number: Int, at index: Int) {
        precondition(index >= 0 && index < count, "no such counter")
        (counters + index).pointee.store(number, ordering: .relaxed)
    }

    /// Reads a counter; for any thread.
    package func value(at index: Int) -> Int {
        precondition(index >= 0 && index < count, "no such counter")
        return (counters + index).pointee.load(ordering: .relaxed)
    }
}
