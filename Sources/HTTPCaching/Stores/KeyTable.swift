/// A hash table of keys and their entries, with open addressing by the key's own hash, so that a lookup takes one or
/// two comparisons.
struct KeyTable {
    /// All variants of one key.
    final class Resource {
        let key: CacheKey
        /// Lookups return this array without a copy; an insertion replaces it.
        var entries: [CachedEntry] = []
        /// The places of the entries in the memory queue, parallel to `entries`.
        var places: [MemoryQueue.Place] = []

        init(_ key: CacheKey) { self.key = key }
    }

    private var slots: [Resource?]
    private(set) var count = 0

    init() { slots = Array(repeating: nil, count: 1024) }

    private var mask: Int { slots.count - 1 }

    func find(_ key: CacheKey) -> Resource? {
        var slot = Int(truncatingIfNeeded: key.hash) & mask
        while let resource = slots[slot] {
            if resource.key == key { return resource }
            slot = (slot + 1) & mask
        }
        return nil
    }

    /// The resources of one URI in every partition.
    func all(ofURI key: CacheKey) -> [Resource] {
        var found: [Resource] = []
        var slot = Int(truncatingIfNeeded: key.hash) & mask
        while let resource = slots[slot] {
            if resource.key.hash == key.hash, resource.key.uri == key.uri { found.append(resource) }
            slot = (slot + 1) & mask
        }
        return found
    }

    var all: [Resource] { slots.compactMap { $0 } }

    /// Finds the resource of a key, and makes it if there is none.
    mutating func findOrInsert(_ key: CacheKey) -> Resource {
        if let known = find(key) { return known }
        if (count + 1) * 2 > slots.count { grow() }
        let resource = Resource(key)
        place(resource)
        count += 1
        return resource
    }

    private mutating func place(_ resource: Resource) {
        var slot = Int(truncatingIfNeeded: resource.key.hash) & mask
        while slots[slot] != nil { slot = (slot + 1) & mask }
        slots[slot] = resource
    }

    private mutating func grow() {
        let known = all
        slots = Array(repeating: nil, count: slots.count * 2)
        for resource in known { place(resource) }
    }

    mutating func remove(_ resource: Resource) {
        var slot = Int(truncatingIfNeeded: resource.key.hash) & mask
        while slots[slot] !== resource {
            guard slots[slot] != nil else { return }
            slot = (slot + 1) & mask
        }
        slots[slot] = nil
        count -= 1
        // The resources after it that it had displaced move up.
        var next = (slot + 1) & mask
        while let other = slots[next] {
            let home = Int(truncatingIfNeeded: other.key.hash) & mask
            let isBetween = slot <= next ? (slot < home && home <= next) : (slot < home || home <= next)
            if !isBetween {
                slots[slot] = other
                slots[next] = nil
                slot = next
            }
            next = (next + 1) & mask
        }
    }
}
