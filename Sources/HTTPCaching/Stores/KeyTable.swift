// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The stored responses of all keys.
struct KeyTable {
    /// All variants of one key.
    final class Resource: HashTableElement {
        let key: CacheKey
        /// Lookups return this array without a copy; an insertion replaces it.
        var entries: [CachedEntry] = []
        /// The places of the entries in the memory queue, parallel to `entries`.
        var places: [MemoryQueue.Place] = []
        var hash: UInt64 { key.hash }

        init(_ key: CacheKey) { self.key = key }
    }

    private var resources = HashTable<Resource>(slots: 1024)

    var all: [Resource] { resources.all }

    func find(_ key: CacheKey) -> Resource? {
        for resource in resources.candidates(key.hash) where resource.key == key { return resource }
        return nil
    }

    /// The resources of one URI in every partition.
    func all(ofURI key: CacheKey) -> [Resource] {
        resources.candidates(key.hash).filter { $0.key.uri == key.uri }
    }

    /// Finds the resource of a key, and makes it if there is none.
    mutating func findOrInsert(_ key: CacheKey) -> Resource {
        if let known = find(key) { return known }
        let resource = Resource(key)
        resources.insert(resource)
        return resource
    }

    mutating func remove(_ resource: Resource) { resources.remove(resource) }
}
