// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Synchronization
import TestSupport
import Testing

@testable import HTTPCaching

/// The fate of waiting requests, and of bodies without space.
@Suite("Requests that wait for another one's response", .onOwnThreads)
struct CacheWaitingTests {
    typealias Stage = CachingStage

    private let loop: EventLoop
    private let disk: DiskStoreStage
    private let cache: ResponseCache

    init() throws {
        loop = try EventLoop()
        disk = try DiskStoreStage(capacity: 8 << 20) { $0.stall = 3600 }
        // Memory takes bodies of 8 KB at most, and 32 KB of them on their way.
        let store = CacheStore(memory: MemoryStore(capacity: 64 << 10, stall: 3600), disk: disk.store, Stage.shared)
        cache = ResponseCache(store, patience: .seconds(600))
        try disk.settle()
    }

    private func transaction(_ url: String = "http://a.example/") throws -> CacheTransaction {
        CacheTransaction(
            cache,
            url: try #require(AbsoluteURL(url)),
            try Stage.request(),
            digest: Stage.digest,
            loop: loop
        )
    }

    /// Sends the request to the origin and receives its response head.
    private func relay(_ transaction: CacheTransaction, length: Int?) throws -> CacheStatus {
        var status: CacheStatus?
        transaction.begin { step in
            guard case .forward = step else { return }
            transaction.didReceiveHead(status: 200, Self.fresh, length: length, mayStore: true) { step in
                if case .relay(let told) = step { status = told }
            }
        }
        loop.run(until: { status != nil }, atMost: .seconds(10))
        return try #require(status)
    }

    private static var fresh: HeaderFields {
        var fields = HeaderFields()
        try? fields.append(name: "Cache-Control", value: "max-age=60")
        return fields
    }

    private final class Steps {
        var responses = 0
        var forwards = 0
        /// The readers of the answers whose bodies are still being received.
        var readers: [GrowingReader] = []
    }

    /// - Parameter isAnswered: whether the response is being received already.
    private func follow(_ count: Int, isServed: Bool = false, isAlone: Bool = false) throws -> Steps {
        let steps = Steps()
        for _ in 0..<count {
            try transaction().begin { step in
                switch step {
                case .respond(let response):
                    steps.responses += 1
                    if case .growing(let reader) = response.body { steps.readers.append(reader) }
                case .forward: steps.forwards += 1
                default: break
                }
            }
        }
        #expect(cache.waitingCount == (isServed || isAlone ? 0 : count))
        #expect(steps.readers.count == (isServed ? count : 0))
        return steps
    }

    /// What a reader gets up to the end.
    ///
    /// - Returns: nil when the body is broken.
    private func read(_ reader: GrowingReader) throws -> [UInt8]? {
        var found: [UInt8] = []
        while true {
            try disk.settle()
            switch reader.read(at: found.count, atMost: 30_000, wake: {}) {
            case .bytes(let bytes): found += bytes
            case .file(let file, let count): found += try #require(file.read(at: found.count, count: count))
            case .wait: throw TimedOut("a body")
            case .end: return found
            case .broken: return nil
            }
        }
    }

    @Test("a failure of the origin releases all waiting requests at once")
    func failure() throws {
        let leader = try transaction()
        leader.begin { _ in }
        let steps = try follow(11)
        leader.originDidFail(.unreachable) { _ in }
        loop.run(until: { steps.forwards == 11 }, atMost: .seconds(10))
        #expect(steps.forwards == 11 && cache.waitingCount == 0)
    }

    @Test("half a body is incomplete for all that read along")
    func half() throws {
        let leader = try transaction()
        #expect(try relay(leader, length: 200).isStored)
        let steps = try follow(11, isServed: true)
        leader.didReceiveBody([UInt8](repeating: 1, count: 100).span)
        leader.didEnd(isWhole: false)
        for reader in steps.readers { #expect(try read(reader) == nil) }
        #expect(cache.counts.stored == 0)
    }

    @Test("requests that waited for the head read the body along, too")
    func waited() throws {
        let leader = try transaction()
        leader.begin { _ in }
        let steps = try follow(4)
        leader.didReceiveHead(status: 200, Self.fresh, length: 3, mayStore: true) { _ in }
        loop.run(until: { steps.readers.count == 4 }, atMost: .seconds(10))
        leader.didReceiveBody([1, 2, 3].span)
        leader.didEnd(isWhole: true)
        for reader in steps.readers { #expect(try read(reader) == [1, 2, 3]) }
        #expect(cache.counts.collapsed == 4 && cache.counts.stored == 1)
    }

    @Test("a response from before a purge serves only requests from before it")
    func purged() throws {
        let leader = try transaction()
        #expect(try relay(leader, length: 2).isStored)
        let steps = try follow(1, isServed: true)
        leader.didReceiveBody([1].span)
        cache.store.remove(.everything, deliver: { $0() }, { _ in })
        let late = try follow(1, isServed: false, isAlone: true)
        #expect(late.forwards == 1)
        leader.didReceiveBody([2].span)
        leader.didEnd(isWhole: true)
        #expect(try read(steps.readers[0]) == [1, 2])
        #expect(cache.counts.stored == 0)
    }

    @Test("a request after a removal does not get the response requested before it")
    func invalidatedBefore() throws {
        let leader = try transaction()
        leader.begin { _ in }
        let early = try follow(1)
        cache.store.invalidate(try Stage.key("http://a.example/"))
        let late = Steps()
        try transaction().begin { step in
            switch step {
            case .respond: late.responses += 1
            case .forward: late.forwards += 1
            default: break
            }
        }
        #expect(cache.waitingCount == 2)
        leader.didReceiveHead(status: 200, Self.fresh, length: 1, mayStore: true) { _ in }
        loop.run(until: { early.responses == 1 && late.responses + late.forwards == 1 }, atMost: .seconds(10))
        #expect(early.readers.count == 1 && late.forwards == 1)
        #expect(leader.isReadAlong)
        leader.didEnd(isWhole: false)
    }

    @Test("a small body that only the disk takes is read along to its end", arguments: [true, false])
    func smallOnDiskAlone(isWhole: Bool) throws {
        let store = CacheStore(memory: MemoryStore(capacity: 64 << 10, largestBody: 10), disk: disk.store, Stage.shared)
        let cache = ResponseCache(store, patience: .seconds(600))
        let url = try #require(AbsoluteURL("http://a.example/small"))
        let leader = CacheTransaction(cache, url: url, try Stage.request(), digest: Stage.digest, loop: loop)
        leader.begin { _ in }
        leader.didReceiveHead(status: 200, Self.fresh, length: 100, mayStore: true) { _ in }
        let reader = try #require(leader.makeReader(at: 0))
        let body = [UInt8](repeating: 5, count: 100)
        leader.didReceiveBody(body.span.extracting(0..<50))
        #expect(leader.isReadAlong)
        if isWhole { leader.didReceiveBody(body.span.extracting(50..<100)) }
        leader.didEnd(isWhole: isWhole)
        #expect(try read(reader) == (isWhole ? body : nil))
        loop.run(until: { cache.counts.stored == (isWhole ? 1 : 0) }, atMost: .seconds(10))
        #expect(cache.counts.stored == (isWhole ? 1 : 0))
    }

    @Test(
        "a body that only the disk takes is read from its growing file",
        arguments: [true, false]
    )
    func onDiskAlone(isSaid: Bool) throws {
        let body = patternBytes(500_000)
        let leader = try transaction()
        #expect(try relay(leader, length: isSaid ? body.count : nil).isStored)
        let steps = try follow(6, isServed: isSaid)
        leader.didReceiveBody(body.span)
        leader.didEnd(isWhole: true)
        for reader in steps.readers { #expect(try read(reader) == body) }
        loop.run(until: { cache.counts.stored == 1 && steps.responses + steps.forwards == 6 }, atMost: .seconds(10))
        #expect(steps.responses == 6)
        #expect(cache.counts.collapsed == 6 && cache.counts.stored == 1)
    }

    @Test("without room for a new body, requests do not wait for it")
    func noRoom() throws {
        // 1 MB for bodies on their way, of which these two take all.
        let standing = try (0..<2).map { try transaction("http://a.example/\($0)") }
        for transaction in standing { #expect(try relay(transaction, length: 500_000).isStored) }
        let leader = try transaction()
        var status: CacheStatus?
        leader.begin { _ in }
        let steps = try follow(3)
        leader.didReceiveHead(status: 200, Self.fresh, length: 200_000, mayStore: true) { step in
            if case .relay(let told) = step { status = told }
        }
        #expect(status?.isStored == false && status?.reason == .noRoom)
        #expect(status?.text == "pinproxy; fwd=uri-miss; ttl=60; detail=no-room")
        loop.run(until: { steps.forwards == 3 }, atMost: .seconds(10))
        #expect(steps.forwards == 3)
        // The cause was not the size of the body: later requests wait again.
        for transaction in standing { transaction.cancel() }
        try disk.settle()
        let next = try transaction()
        #expect(try relay(next, length: 200_000).isStored)
        let following = try follow(1, isServed: true)
        next.didEnd(isWhole: false)
        #expect(try read(following.readers[0]) == nil)
    }

    @Test("a growing body without room releases waiting requests and is not counted")
    func noRoomLater() throws {
        let standing = try transaction("http://a.example/standing")
        #expect(try relay(standing, length: 900_000).isStored)
        let leader = try transaction()
        #expect(try relay(leader, length: nil).isStored)
        let steps = try follow(3)
        for _ in 0..<20 { leader.didReceiveBody([UInt8](repeating: 7, count: 10_000).span) }
        loop.run(until: { steps.forwards == 3 }, atMost: .seconds(10))
        #expect(steps.forwards == 3 && !leader.isStoring)
        leader.didEnd(isWhole: true)
        #expect(cache.counts.stored == 0)
    }

    @Test("stalled bodies give their room to others, and are not stored", arguments: [true, false])
    func standing(hasDisk: Bool) throws {
        let disk = try DiskStoreStage(capacity: 8 << 20) { $0.stall = 0 }
        let store = CacheStore(
            memory: MemoryStore(capacity: 800_000, stall: 0),
            disk: hasDisk ? disk.store : nil,
            Stage.shared
        )
        let length = hasDisk ? 500_000 : 100_000
        func insertion(_ name: String) throws -> CacheInsertion? {
            let key = try Stage.key("http://a.example/\(name)")
            return store.insertion(for: key, try Stage.stored([]), epoch: store.epoch(of: key), length: length)
        }
        let standing = try (0..<12).map { try #require(try insertion("\($0)")) }
        let half = [UInt8](repeating: 1, count: length / 2)
        // The latest bodies have the space; the others notice it when they continue.
        for insertion in standing.reversed() { insertion.append(half) }
        let lost = standing.filter(\.isOver)
        #expect(lost.count == 12 - (hasDisk ? 2 : 4))
        let last = try #require(try insertion("last"))
        last.append(half + half)
        #expect(last.finish())
        let late = standing.filter { !$0.isOver }
        for insertion in late { insertion.append(half) }
        #expect(late.filter(\.isOver).count == 1)
    }
}
