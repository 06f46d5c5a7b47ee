// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPCaching

/// Bugs of validations that the simulation has found.
@Suite("What a validation leaves stored")
struct CacheUpdateTests {
    typealias Stage = CachingStage

    private let loop: EventLoop
    private let cache: ResponseCache

    init() throws {
        loop = try EventLoop()
        cache = ResponseCache(CacheStore(memory: MemoryStore(capacity: 1 << 20), Stage.shared))
    }

    /// The stored responses after a stale one was validated by a request with these fields.
    private func left(after request: Stage.Pairs, _ notModified: Stage.Pairs) throws -> [HeaderFields] {
        try validate([], request, notModified).left
    }

    /// The same, with the client's response.
    private func validate(
        _ stored: Stage.Pairs,
        _ request: Stage.Pairs,
        _ notModified: Stage.Pairs
    ) throws -> (left: [HeaderFields], response: CacheTransaction.Response) {
        func transaction(_ fields: Stage.Pairs) throws -> CacheTransaction {
            CacheTransaction(
                cache,
                url: try #require(AbsoluteURL("http://a.example/")),
                try Stage.request(fields),
                digest: Stage.digest,
                loop: loop
            )
        }
        let first = try transaction([])
        first.begin { _ in }
        let stale = try Stage.fields([("Cache-Control", "max-age=0, public"), ("ETag", "\"a\"")] + stored)
        first.didReceiveHead(status: 200, stale, length: 1, mayStore: true) { _ in }
        first.didReceiveBody([UInt8]([1]).span)
        first.didEnd(isWhole: true)
        let second = try transaction(request)
        second.begin { _ in }
        var response: CacheTransaction.Response?
        second.didReceiveHead(
            status: 304,
            try Stage.fields([("ETag", "\"a\"")] + notModified),
            length: nil,
            mayStore: true
        ) { step in
            if case .respond(let given) = step { response = given }
        }
        second.cancel()
        let key = try Stage.key("http://a.example/")
        defer { cache.store.invalidate(key) }
        return (cache.store.memory.entries(for: key).map(\.response.fields), try #require(response))
    }

    @Test("a client's no-store, or its unreadable Cache-Control, leaves the store as it is")
    func ofRequest() throws {
        for control in ["=1", "no-store"] {
            let left = try left(after: [("Cache-Control", control)], [("Cache-Control", "max-age=60")])
            #expect(left.map { $0.value(for: "Cache-Control") } == ["max-age=0, public"], "\(control)")
        }
        #expect(
            try left(after: [("Cache-Control", "no-cache")], [("Cache-Control", "max-age=60")])
                .map { $0.value(for: "Cache-Control") } == ["max-age=60"]
        )
    }

    @Test("a response that the origin forbids to store goes, whatever the client says")
    func ofResponse() throws {
        for request in ["no-cache", "no-store", "=1"] {
            for response in ["no-store", "private", "=1"] {
                #expect(try left(after: [("Cache-Control", request)], [("Cache-Control", response)]).isEmpty)
            }
        }
    }

    @Test("7.3: a client whose request was validated gets its own cookie, not the stored one")
    func cookie() throws {
        for request: Stage.Pairs in [[], [("Range", "bytes=9-")]] {
            let old: Stage.Pairs = [("Set-Cookie", "old=1")]
            let (left, response) = try validate(
                old,
                request,
                [("Cache-Control", "max-age=0"), ("Set-Cookie", "own=1")]
            )
            let cookies = response.head.fields.list.filter { $0.name == "Set-Cookie" }.map(\.value)
            #expect(cookies == ["own=1"], "\(request)")
            #expect(left.allSatisfy { $0.value(for: "Set-Cookie") != "own=1" })
        }
    }

    @Test(
        "4.3.5: a second HEAD that contradicts a response leaves its validation alone",
        arguments: [true, false]
    )
    func contradictedTwice(isInMemory: Bool) throws {
        let disk = try DiskStoreStage()
        let memory = MemoryStore(capacity: 1 << 20, largestBody: isInMemory ? nil : 0)
        let cache = ResponseCache(CacheStore(memory: memory, disk: isInMemory ? nil : disk.store, Stage.shared))
        func begin(_ method: HTTPMethod) throws -> (CacheTransaction, isForwarded: Bool) {
            let transaction = CacheTransaction(
                cache,
                url: try #require(AbsoluteURL("http://a.example/")),
                try Stage.request(method: method),
                digest: Stage.digest,
                loop: loop
            )
            var step: CacheTransaction.Step?
            transaction.begin { step = $0 }
            loop.run(until: { step != nil }, atMost: .seconds(100))
            if case .forward = try #require(step) { return (transaction, true) }
            return (transaction, false)
        }
        func receive(_ transaction: CacheTransaction, _ status: Int, _ fields: Stage.Pairs) throws {
            var isDone = false
            let fields = try Stage.fields(fields)
            transaction.didReceiveHead(status: status, fields, length: 1, mayStore: true) { _ in isDone = true }
            loop.run(until: { isDone }, atMost: .seconds(100))
            #expect(isDone)
        }
        let (first, _) = try begin(.get)
        try receive(first, 200, [("Cache-Control", "max-age=0, public"), ("ETag", "\"a\"")])
        first.didReceiveBody([7].span)
        first.didEnd(isWhole: true)
        if !isInMemory { try disk.settle() }
        let contradiction: Stage.Pairs = [("ETag", "\"b\"")]
        let (once, _) = try begin(.head)
        try receive(once, 200, contradiction)
        if !isInMemory { try disk.settle() }
        let (twice, _) = try begin(.head)
        let (validation, isForwarded) = try begin(.get)
        #expect(isForwarded)
        try receive(twice, 200, contradiction)
        if !isInMemory { try disk.settle() }
        try receive(validation, 304, [("ETag", "\"a\""), ("Cache-Control", "max-age=60")])
        if !isInMemory { try disk.settle() }
        #expect(try begin(.get).isForwarded == false)
    }
}
