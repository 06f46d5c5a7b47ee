// SPDX-License-Identifier: Apache-2.0
import IOCore
import TestSupport
import Testing

@Suite("Hash tables")
struct HashTableTests {
    private final class Entry: HashTableElement {
        let key: UInt64
        let hash: UInt64

        init(_ key: UInt64, hash: UInt64) {
            self.key = key
            self.hash = hash
        }
    }

    private func keys(_ table: HashTable<Entry>, _ hash: UInt64) -> Set<UInt64> {
        Set(table.candidates(hash).map(\.key))
    }

    @Test(
        "after insertions, removals and rebuilds the table agrees with a dictionary",
        arguments: 0..<8 as Range<UInt64>
    )
    func model(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var table = HashTable<Entry>()
        var model: [UInt64: Entry] = [:]
        // The hashes of most keys collide, or share a slot near the end of the table, so that its runs wrap around.
        func hash(_ key: UInt64) -> UInt64 { (key % 7) * 64 + 60 + key % 3 }
        for _ in 0..<4000 {
            let key = random.next() % 200
            switch random.next() % 16 {
            case 0..<8:
                if model[key] == nil {
                    let entry = Entry(key, hash: hash(key))
                    table.insert(entry)
                    model[key] = entry
                }
            case 15 where random.next() % 32 == 0:
                table.rebuild { $0.key % 2 == 0 }
                model = model.filter { $0.key % 2 == 0 }
            default:
                if let entry = model.removeValue(forKey: key) { table.remove(entry) }
            }
            #expect(table.count == model.count)
            let wanted = model.values.filter { $0.hash == hash(key) }
            #expect(keys(table, hash(key)) == Set(wanted.map(\.key)))
        }
        #expect(Set(table.all.map(\.key)) == Set(model.keys))
        for entry in table.all { table.remove(entry) }
        #expect(table.count == 0 && table.all.isEmpty)
    }

    @Test("the removal of an element that is not in it changes nothing")
    func absent() {
        var table = HashTable<Entry>()
        table.insert(Entry(1, hash: 5))
        table.remove(Entry(1, hash: 5))
        #expect(table.count == 1 && keys(table, 5) == [1])
    }
}
