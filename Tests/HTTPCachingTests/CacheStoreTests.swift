import HTTPCore
import TestSupport
import Testing

@testable import HTTPCaching

@Suite("Memory and disk together")
struct CacheStoreTests {
    private typealias Stage = CachingStage

    private let disk: DiskStoreStage
    private let store: CacheStore

    init() throws {
        disk = try DiskStoreStage()
        store = CacheStore(memory: MemoryStore(capacity: 1 << 20), disk: disk.store, Stage.shared)
    }

    private func find(
        _ url: String,
        _ request: Stage.Pairs = [],
        under digest: PolicyDigest = Stage.digest,
        in store: CacheStore? = nil
    ) throws -> (found: CacheStore.Found, isFromDisk: Bool) {
        let answer = Monitor<CacheStore.Found?>(nil)
        let lookup = (store ?? self.store).find(
            try Stage.key(url),
            for: try Stage.request(request),
            under: digest,
            deliver: { $0() },
            { found in answer.with { $0 = found } }
        )
        if case .found(let found) = lookup { return (found, false) }
        return (try answer.wait(for: "the disk") { $0 }, true)
    }

    @discardableResult
    private func insert(
        _ url: String,
        _ body: [UInt8],
        _ response: Stage.Pairs = [],
        epoch: UInt64? = nil,
        length: Int? = nil,
        maximumBytes: Int? = nil
    ) throws -> Bool {
        let key = try Stage.key(url)
        let insertion = store.insertion(
            for: key,
            try Stage.stored(response),
            epoch: epoch ?? store.epoch(of: key),
            length: length,
            maximumBytes: maximumBytes
        )
        for start in stride(from: 0, to: body.count, by: 20_000) {
            insertion?.append(body.span.extracting(start..<min(start + 20_000, body.count)))
        }
        return insertion?.finish() ?? false
    }

    @Test("what is stored is found at once, and after a restart on the disk, which fills memory again")
    func levels() throws {
        let body = DiskStoreStage.bytes(5000)
        try #require(try insert("http://a.example/", body))
        let first = try find("http://a.example/")
        #expect(!first.isFromDisk && first.found.entry?.body.count == 5000)
        try disk.settle()
        let restarted = CacheStore(memory: MemoryStore(capacity: 1 << 20), disk: disk.store, Stage.shared)
        let second = try find("http://a.example/", in: restarted)
        #expect(second.isFromDisk && second.found.entry?.body.count == 5000)
        #expect(try !find("http://a.example/", in: restarted).isFromDisk)
        #expect(try find("http://b.example/").found.entry == nil)
    }

    @Test("a body that is too large for memory is on disk alone, and a smaller one before it is gone")
    func large() throws {
        try insert("http://a.example/", [1])
        let body = DiskStoreStage.bytes(300_000)
        try #require(try insert("http://a.example/", body))
        try disk.settle()
        let found = try find("http://a.example/")
        #expect(found.isFromDisk)
        #expect(try disk.body(of: try #require(found.found.entry)) == body)
        #expect(store.memory.statistics.entries == 0)
    }

    @Test("an entry is not found under another policy")
    func digest() throws {
        try insert("http://a.example/", [1])
        try disk.settle()
        let other = try find("http://a.example/", under: PolicyDigest([9]))
        #expect(other.found.entries.isEmpty && other.found.entry == nil)
        #expect(try find("http://a.example/").found.entry != nil)
    }

    @Test("4.4: what was on its way while its URI was invalidated is not stored")
    func overtaken() throws {
        let key = try Stage.key("http://a.example/")
        let epoch = store.epoch(of: key)
        try insert("http://a.example/", [1])
        store.invalidate(key)
        #expect(try find("http://a.example/").found.entry == nil)
        #expect(try !insert("http://a.example/", [2], epoch: epoch))
        #expect(try find("http://a.example/").found.entry == nil)
        #expect(try insert("http://a.example/", [3]))
        #expect(try find("http://a.example/").found.entry != nil)
    }

    @Test("a body that is cut short, too long or larger than a rule allows is in neither store")
    func truncated() throws {
        #expect(try !insert("http://a.example/", [1, 2], length: 3))
        #expect(try !insert("http://a.example/", [1, 2, 3, 4], length: 3))
        #expect(try !insert("http://a.example/", [1, 2, 3, 4], maximumBytes: 3))
        #expect(try !insert("http://a.example/", [], length: 4, maximumBytes: 3))
        try disk.settle()
        #expect(try find("http://a.example/").found.entry == nil)
    }

    @Test("a validation changes both, a purge empties both")
    func updateAndPurge() throws {
        try insert("http://a.example/", [1], [("ETag", "\"a\"")])
        let entry = try #require(try find("http://a.example/").found.entry)
        let fresh = entry.response.updated(
            by: try HTTPFields("X-New", "1"),
            to: try Stage.request(),
            requestTime: Stage.now,
            responseTime: Stage.now,
            Stage.shared
        )
        #expect(store.update(entry, by: fresh).response.fields.value(for: "X-New") == "1")
        #expect(try find("http://a.example/").found.entry?.response.fields.value(for: "X-New") == "1")
        #expect(try disk.entries("http://a.example/").first?.response.fields.value(for: "X-New") == "1")
        let count = Monitor<Int?>(nil)
        store.remove(.host("a.example"), deliver: { $0() }, { number in count.with { $0 = number } })
        #expect(try count.wait(for: "the purge") { $0 } == 1)
        #expect(try find("http://a.example/").found.entry == nil)
    }

    @Test("without a disk, memory alone answers")
    func memoryAlone() throws {
        let alone = CacheStore(memory: MemoryStore(capacity: 1 << 20), Stage.shared)
        let key = try Stage.key("http://a.example/")
        let insertion = alone.insertion(for: key, try Stage.stored([]), epoch: alone.epoch(of: key))
        let body: [UInt8] = [1, 2]
        insertion?.append(body.span)
        #expect(insertion?.finish() == true)
        #expect(try find("http://a.example/", in: alone).found.entry?.body.count == 2)
        let large = alone.insertion(for: key, try Stage.stored([]), epoch: alone.epoch(of: key), length: 1 << 20)
        #expect(large == nil)
    }
}
