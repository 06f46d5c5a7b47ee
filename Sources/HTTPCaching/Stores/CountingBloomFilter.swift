import IOCore

/// Which hashes a disk store's rows have, nearly: what it does not know is certainly not there, so that a miss need not
/// ask the disk. A counting Bloom filter with two counters of a byte for each hash, eight bytes an entry; about one in
/// twenty unknown hashes is taken for known.
///
/// `@unchecked Sendable`: everything is behind `lock`.
final class CountingBloomFilter: @unchecked Sendable {
    private let lock = PosixLock()
    // Behind `lock`.
    private var counters: [UInt8]
    /// Whether all rows have been counted; until then everything may be there.
    private var isComplete = false

    /// For more rows than this it stays as it is, and takes more of the unknown for known: 128 MB are enough.
    private static let mostEntries = 1 << 24

    /// - Parameter entries: how many rows there are to begin with.
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
                // A full counter stays full: then its hashes are asked for in vain.
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

    /// Whether there are so many rows that a larger one is due.
    func isOverfull(_ entries: Int) -> Bool {
        lock.withLock { min(entries, Self.mostEntries) * 4 > counters.count }
    }
}
