// SPDX-License-Identifier: Apache-2.0
import IOCore

/// A counting Bloom filter of the hashes of a disk store's rows, so that most misses need no lookup on disk. Each hash
/// has two counters of one byte, each entry eight bytes; the rate of false positives is about one in twenty.
///
/// `@unchecked Sendable`: `lock` guards the whole state.
final class CountingBloomFilter: @unchecked Sendable {
    private let lock = PosixLock()
    // Behind `lock`.
    private var counters: [UInt8]
    /// Whether all rows have been added; until then no hash can be excluded.
    private var isComplete = false

    /// The filter does not grow beyond this number of rows (128 MB); its rate of false positives grows instead.
    private static let mostEntries = 1 << 24

    /// - Parameter entries: the initial number of rows.
    init(entries: Int) {
        var size = 1 << 16
        while size < min(entries, Self.mostEntries) * 8 { size *= 2 }
        counters = Array(repeating: 0, count: size)
    }

    private func places(_ hash: UInt64) -> (Int, Int) {
        let mask = UInt64(counters.count - 1)
        return (Int(hash & mask), Int((hash >> 32) & mask))
    }

    func mayContain(_ hash: UInt64) -> Bool {
        lock.withLock {
            guard isComplete else { return true }
            let (one, other) = places(hash)
            return counters[one] > 0 && counters[other] > 0
        }
    }

    func insert(_ hashes: [UInt64]) {
        lock.withLock {
            for hash in hashes {
                let (one, other) = places(hash)
                // A saturated counter stays so: its hashes become false positives.
                if counters[one] < .max { counters[one] += 1 }
                if counters[other] < .max { counters[other] += 1 }
            }
        }
    }

    func remove(_ hashes: [UInt64]) {
        lock.withLock {
            for hash in hashes {
                let (one, other) = places(hash)
                if counters[one] > 0, counters[one] < .max { counters[one] -= 1 }
                if counters[other] > 0, counters[other] < .max { counters[other] -= 1 }
            }
        }
    }

    func complete() { lock.withLock { isComplete = true } }

    /// Whether the number of rows requires a larger filter.
    func isOverfull(_ entries: Int) -> Bool {
        lock.withLock { min(entries, Self.mostEntries) * 4 > counters.count }
    }
}
