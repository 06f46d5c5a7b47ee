// SPDX-License-Identifier: Apache-2.0
/// A queue of entries, oldest first; a removal from the middle leaves a gap.
struct MemoryQueue {
    /// An entry's place in one of the two queues.
    final class Place {
        /// nil when the entry was removed: the place is skipped later.
        var entry: CachedEntry?
        let cost: Int
        var isInMain: Bool

        init(_ entry: CachedEntry, cost: Int, isInMain: Bool) {
            self.entry = entry
            self.cost = cost
            self.isInMain = isInMain
        }
    }

    private var places: [Place] = []
    private var first = 0
    private var gaps = 0
    /// The cost of the entries, in bytes.
    private(set) var cost = 0

    mutating func append(_ place: Place) {
        places.append(place)
        cost += place.cost
    }

    /// Removes and returns the oldest entry's place.
    mutating func popFirst() -> Place? {
        while first < places.count {
            let place = places[first]
            first += 1
            if first > 1024, first * 2 > places.count {
                places.removeFirst(first)
                first = 0
            }
            guard place.entry != nil else {
                gaps -= 1
                continue
            }
            cost -= place.cost
            return place
        }
        places.removeAll()
        first = 0
        return nil
    }

    /// Removes an entry. Its memory is freed immediately, its place later.
    mutating func remove(_ place: Place) {
        place.entry = nil
        cost -= place.cost
        gaps += 1
        if gaps > 64, gaps * 2 > places.count - first {
            places = places[first...].filter { $0.entry != nil }
            first = 0
            gaps = 0
        }
    }
}

/// The hashes of keys that were evicted unused, kept for a while.
struct GhostQueue {
    private var hashes: [UInt64] = []
    private var first = 0
    private var known: [UInt64: Int] = [:]

    mutating func append(_ hash: UInt64, atMost limit: Int) {
        hashes.append(hash)
        known[hash, default: 0] += 1
        while hashes.count - first > max(limit, 16) { dropFirst() }
        if first > 1024, first * 2 > hashes.count {
            hashes.removeFirst(first)
            first = 0
        }
    }

    private mutating func dropFirst() {
        let hash = hashes[first]
        first += 1
        if let count = known[hash], count > 1 { known[hash] = count - 1 } else { known[hash] = nil }
    }

    func contains(_ hash: UInt64) -> Bool { known[hash] != nil }
}
