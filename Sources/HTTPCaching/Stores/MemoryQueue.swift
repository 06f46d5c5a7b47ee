/// Entries in the order in which they came, oldest first; what is taken out of the middle leaves a gap.
struct MemoryQueue {
    /// An entry's place in one of the queues. It may move to the other one.
    final class Place {
        /// nil when the entry is gone: then the place waits to be passed over.
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
    /// Of the entries that are there, in bytes.
    private(set) var cost = 0

    mutating func append(_ place: Place) {
        places.append(place)
        cost += place.cost
    }

    /// The oldest entry's place, which is not in the queue any more.
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

    /// Takes an entry out. The memory that it holds is free at once, its place later.
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

/// The hashes of keys that went out unused, for a while.
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
