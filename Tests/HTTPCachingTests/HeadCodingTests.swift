// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import HTTPCaching

@Suite("Heads on disk")
struct HeadCodingTests {
    private typealias Stage = CachingStage

    private static func sample() throws -> StoredResponse {
        try Stage.stored(
            [("Vary", "A, B"), ("Cache-Control", "max-age=9"), ("Age", "4"), ("ETag", "\"é\""), ("X", "")],
            status: 404,
            to: [("A", "1")]
        )
    }

    @Test("a head comes back as it was written")
    func roundTrip() throws {
        let stored = try Self.sample()
        let bytes = HeadCoding.encode(stored, tags: [[1, 2], []], .none)
        let (read, tags) = try #require(HeadCoding.decode(bytes, .none, Stage.shared))
        #expect(read.status == 404 && read.fields == stored.fields && read.selecting == stored.selecting)
        #expect(read.requestTime == stored.requestTime && read.responseTime == stored.responseTime)
        #expect(read.initialAge == 4 && read.ruleLifetime == nil && read.digest == stored.digest && read.isShared)
        #expect(read.terms == stored.terms && read.date == stored.date && tags == [[1, 2], []])
        var stale = stored
        stale.markStale()
        #expect(
            HeadCoding.decode(HeadCoding.encode(stale, tags: [], .none), .none, Stage.shared)?.0.isMarkedStale == true
        )
    }

    @Test("a head with one byte changed, removed or added is invalid")
    func damage() throws {
        let bytes = HeadCoding.encode(try Self.sample(), tags: [], .none)
        for index in bytes.indices {
            var changed = bytes
            changed[index] ^= 0x10
            #expect(HeadCoding.decode(changed, .none, Stage.shared) == nil)
            #expect(HeadCoding.decode(Array(bytes[..<index]), .none, Stage.shared) == nil)
        }
        #expect(HeadCoding.decode(bytes + [0], .none, Stage.shared) == nil)
    }

    @Test("bytes with a right checksum but no head in them do no harm")
    func nonsense() throws {
        let bytes = HeadCoding.encode(try Self.sample(), tags: [[1]], .none)
        var generator = SeededGenerator(seed: 2)
        for _ in 0..<3000 {
            var changed = Array(bytes.dropLast(8))
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                changed[Int.random(in: 0..<changed.count, using: &generator)] = UInt8.random(
                    in: 0...255,
                    using: &generator
                )
            }
            if Bool.random(using: &generator) { changed.removeLast(Int.random(in: 1..<50, using: &generator)) }
            let checksum = XXH64.hash(changed.span)
            for shift in 0..<8 { changed.append(UInt8(truncatingIfNeeded: checksum >> UInt64(shift * 8))) }
            // It may be a head by chance; then it is a valid one.
            if let (read, _) = HeadCoding.decode(changed, .none, Stage.shared) {
                #expect((200...599).contains(read.status) && read.initialAge >= 0)
                _ = read.freshness(now: Stage.now)
            }
        }
    }

    @Test("heads of version 1, which have no end by a soft purge, are read")
    func versionOne() throws {
        var response = try Stage.stored([("Cache-Control", "max-age=1000"), ("ETag", "\"a\"")])
        func asVersionOne(_ bytes: [UInt8]) -> [UInt8] {
            var old = Array(bytes.dropLast(8))
            old[0] = 1
            old.removeSubrange(41..<49)
            let checksum = XXH64.hash(old.span)
            return old + (0..<8).map { UInt8(truncatingIfNeeded: checksum >> UInt64($0 * 8)) }
        }
        let (read, _) = try #require(
            HeadCoding.decode(asVersionOne(HeadCoding.encode(response, tags: [], .none)), .none, Stage.shared)
        )
        #expect(read.expiredAge == nil && read.etag == response.etag)
        #expect(read.freshness(now: Stage.now) == response.freshness(now: Stage.now))
        response.expire(now: Stage.now + 7)
        let (expired, _) = try #require(
            HeadCoding.decode(HeadCoding.encode(response, tags: [], .none), .none, Stage.shared)
        )
        #expect(expired.expiredAge == 7 && !expired.freshness(now: Stage.now + 7).isFresh)
    }

    @Test("heads of version 2, whose checksum does not cover the other columns, are read")
    func versionTwo() throws {
        let seal = RowSeal(uri: [1], part: [], file: nil, length: 2, checksum: 3)
        var old = Array(HeadCoding.encode(try Self.sample(), tags: [], seal).dropLast(8))
        old[0] = 2
        let checksum = XXH64.hash(old.span)
        old += (0..<8).map { UInt8(truncatingIfNeeded: checksum >> UInt64($0 * 8)) }
        #expect(HeadCoding.decode(old, seal, Stage.shared)?.0.status == 404)
    }

    @Test("a head of another row is invalid")
    func otherRow() throws {
        let seals = [
            RowSeal(uri: [1], part: [2], file: nil, length: 0, checksum: 0),
            RowSeal(uri: [1, 2], part: [], file: nil, length: 0, checksum: 0),
            RowSeal(uri: [1], part: [2], file: 0, length: 0, checksum: 0),
            RowSeal(uri: [1], part: [2], file: 1, length: 0, checksum: 0),
            RowSeal(uri: [1], part: [2], file: nil, length: -1, checksum: 0),
            RowSeal(uri: [1], part: [2], file: nil, length: 0, checksum: .max),
        ]
        for (index, seal) in seals.enumerated() {
            let bytes = HeadCoding.encode(try Self.sample(), tags: [], seal)
            for (other, key) in seals.enumerated() {
                #expect((HeadCoding.decode(bytes, key, Stage.shared) == nil) == (other != index))
            }
        }
    }

    @Test("no bytes in a targeted field, a Vary or a condition crash the program")
    func anyFields() throws {
        var generator = SeededGenerator(seed: 5)
        let letters = Array("max-age=\"\\,;:()?=W/*bytes 0123456789-\té".utf8)
        for _ in 0..<3000 {
            let count = Int.random(in: 0..<40, using: &generator)
            var value = (0..<count).map { _ in letters[Int.random(in: 0..<letters.count, using: &generator)] }
            while let last = value.last, last == 0x20 || last == 0x09 { value.removeLast() }
            while let first = value.first, first == 0x20 || first == 0x09 { value.removeFirst() }
            var fields = HeaderFields()
            for name in [
                "Pinproxy-Cache-Control", "Vary", "ETag", "If-None-Match", "Range", "If-Range", "Accept", "Age",
            ] {
                let name = Array(name.utf8)
                fields.append(name: name.span, value: value.span)
            }
            let request = CacheRequest(method: .get, fields: fields)
            let stored = StoredResponse(
                status: 200,
                response: fields,
                to: request,
                requestTime: Stage.now,
                responseTime: Stage.now,
                digest: Stage.digest,
                Stage.shared
            )
            #expect(stored.selecting.matches(fields))
            let response = CacheResponse(stored, length: 10, to: request, age: 1)
            #expect([200, 206, 304, 416].contains(response.status))
            _ = Revalidation.fields(of: request, selected: 0, variants: [stored])
            _ = Revalidation.outcome(fields, to: request, selected: 0, variants: [stored])
        }
    }
}
