// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import TestSupport
import Testing

@testable import SharedCaching

@Suite("Records of a shared cache")
struct SharedRecordTests {
    private typealias Stage = SealingStage

    private static func decoded(_ record: SharedRecord) -> SharedRecord? {
        SharedRecord(record.encoded(), Stage.options)
    }

    private static func response(_ record: SharedRecord) throws -> SharedRecord.Response {
        guard case .response(let response) = try #require(decoded(record)) else {
            throw Problem("a response became the names of Vary fields")
        }
        return response
    }

    private struct Problem: Error {
        let message: String
        init(_ message: String) { self.message = message }
    }

    @Test("a response in a record comes back as it was")
    func roundTrip() throws {
        let stored = try Stage.response(
            [("Vary", "Accept-Language, X"), ("Cache-Control", "max-age=60"), ("ETag", "\"é\""), ("X", "")],
            to: [("Accept-Language", "DE, en")]
        )
        let read = try Self.response(try Stage.record(response: stored, tags: [[1, 2], []]) { $0.part = [0, 1] })
        #expect(read.purgeNumber == 7 && read.generation == Array(1...16) && read.part == [0, 1])
        #expect(read.uri == Array("GET https://a.example:443/".utf8) && read.tags == [[1, 2], []])
        #expect(read.response.fields == stored.fields && read.response.selecting == stored.selecting)
        #expect(read.response.status == 200 && read.response.digest == Stage.policy && read.response.isShared)
        #expect(read.response.requestTime == Stage.now - 1 && read.response.responseTime == Stage.now)
        #expect(read.response.freshness(now: Stage.now + 9) == stored.freshness(now: Stage.now + 9))
        #expect(read.response.selecting.names == ["accept-language", "x"].map { Array($0.utf8) })
        let same = CacheRequest(method: .get, fields: try Stage.fields([("Accept-Language", "de,EN")]))
        #expect(read.response.matches(same, under: Stage.policy, Stage.options))
        let other = CacheRequest(method: .get, fields: try Stage.fields([("Accept-Language", "de")]))
        #expect(!read.response.matches(other, under: Stage.policy, Stage.options))
        guard case .inline(let body) = read.body else { throw Problem("the body is not inline") }
        #expect(body == Array("body".utf8))
    }

    @Test("random records come back as they were")
    func randomRoundTrips() throws {
        var generator = SeededGenerator(seed: 8)
        for round in 0..<100 {
            let count = Int.random(in: 1...SharedRecord.chunksAtMost, using: &generator)
            let length = count * SharedRecord.chunkSize - Int.random(in: 0..<SharedRecord.chunkSize, using: &generator)
            let identifier = Stage.random(SharedRecord.identifierLength, &generator)
            let inline = Stage.random(Int.random(in: 0...300, using: &generator), &generator)
            let isInline = Bool.random(using: &generator)
            let tags = (0..<Int.random(in: 0...5, using: &generator)).map { [UInt8($0)] }
            let wanted = try Stage.record(
                isInline ? .inline(inline) : .chunks(identifier: identifier, count: count, length: length),
                response: try Stage.response([("X-Number", "\(round)")]),
                tags: tags
            ) { record in
                record.purgeNumber = Int.random(in: 0...SharedRecord.purgeNumberAtMost, using: &generator)
                record.generation = Bool.random(using: &generator) ? [] : Stage.random(16, &generator)
                record.uri = Stage.random(Int.random(in: 0...500, using: &generator), &generator)
                record.part = Stage.random(Int.random(in: 0...500, using: &generator), &generator)
            }
            let read = try #require(Self.decoded(wanted))
            #expect(read.encoded() == wanted.encoded(), "round \(round)")
        }
    }

    @Test("the names of Vary fields come back as they were")
    func variants() throws {
        for count in [1, 2, SelectingFields.namesAtMost] {
            let wanted = (0..<count).map { Array("x-\($0)".utf8) }
            guard case .variants(let names) = try #require(Self.decoded(.variants(wanted))) else {
                throw Problem("names became a response")
            }
            #expect(names == wanted)
        }
        let tooMany = (0...SelectingFields.namesAtMost).map { Array("x-\($0)".utf8) }
        let wrong: [[[UInt8]]] = [
            [], tooMany, [[]], [Array("a b".utf8)], [Array("a".utf8), [0xFF]], [Array("a:".utf8)],
            [[UInt8](repeating: UInt8(ascii: "a"), count: 1025)],
        ]
        for names in wrong { #expect(Self.decoded(.variants(names)) == nil, "\(names.count)") }
    }

    @Test("numbers and lengths at their bounds are read, and those beyond them are not")
    func bounds() throws {
        typealias Change = (inout SharedRecord.Response) -> Void
        func isRead(_ body: SharedRecord.Body? = nil, tags: [[UInt8]] = [], _ change: Change = { _ in }) throws -> Bool
        {
            let body = body ?? .inline([])
            return Self.decoded(try Stage.record(body, tags: tags, change)) != nil
        }
        for (number, isRight) in [(0, true), (1 << 53, true), (-1, false), (1 << 53 + 1, false), (.max, false)] {
            #expect(try isRead { $0.purgeNumber = number } == isRight, "\(number)")
        }
        for count in [0, 1, 15, 16, 17, 32] {
            let generation = [UInt8](repeating: 1, count: count)
            #expect(try isRead { $0.generation = generation } == [0, 16].contains(count), "\(count)")
        }
        for more in [0, 1] {
            let bytes = [UInt8](repeating: 1, count: SharedRecord.uriAtMost + more)
            #expect(try isRead { $0.uri = bytes } == (more == 0))
            #expect(try isRead { $0.part = bytes } == (more == 0))
            let body = [UInt8](repeating: 1, count: SharedRecord.inlineAtMost + more)
            #expect(try isRead(.inline(body)) == (more == 0))
            #expect(try isRead(tags: [[UInt8](repeating: 1, count: 1024 + more)]) == (more == 0))
            #expect(try isRead(tags: [[UInt8]](repeating: [], count: 1024 + more)) == (more == 0))
        }
        let value = letters("x", 60_000)
        for (fields, isRight) in [(15, true), (17, false)] {
            let response = try Stage.response((0..<fields).map { ("X-\($0)", value) })
            #expect(try isRead { $0.response = response } == isRight, "\(fields)")
        }
    }

    @Test("the number of chunks and the length of the body agree")
    func chunks() throws {
        let identifier = [UInt8](repeating: 5, count: 16)
        let size = SharedRecord.chunkSize
        let cases = [
            (1, 1, true), (1, size, true), (2, size + 1, true), (2, 2 * size, true), (64, 63 * size + 1, true),
            (64, 64 * size, true), (0, 0, false), (1, 0, false), (1, -1, false), (1, size + 1, false),
            (2, size, false), (65, 64 * size + 1, false), (-1, 1, false), (64, 64 * size + 1, false),
            (64, .max, false), (.max, .max, false), (.min, .min, false), (1, .min, false),
        ]
        for (count, length, isRight) in cases {
            let record = try Stage.record(.chunks(identifier: identifier, count: count, length: length))
            #expect((Self.decoded(record) != nil) == isRight, "\(count), \(length)")
        }
        for count in [0, 15, 17] {
            let other = [UInt8](repeating: 5, count: count)
            #expect(Self.decoded(try Stage.record(.chunks(identifier: other, count: 1, length: 1))) == nil)
        }
    }

    @Test("a record that is cut or extended is none")
    func truncations() throws {
        let identifier = [UInt8](repeating: 5, count: 16)
        let records = [
            SharedRecord.variants([Array("accept".utf8), Array("x".utf8)]),
            try Stage.record(tags: [[1]]),
            try Stage.record(.chunks(identifier: identifier, count: 2, length: 300_000)),
        ]
        for record in records {
            let bytes = record.encoded()
            for count in bytes.indices {
                #expect(SharedRecord(Array(bytes[..<count]), Stage.options) == nil, "\(count)")
            }
            #expect(SharedRecord(bytes + [0], Stage.options) == nil)
            #expect(SharedRecord([2] + bytes.dropFirst(), Stage.options) == nil)
            for kind: UInt8 in [0, 4, 255] {
                #expect(SharedRecord([1, kind] + bytes.dropFirst(2), Stage.options) == nil)
            }
        }
    }

    @Test("damaged records do no harm, and those that are read are written the same")
    func damage() throws {
        var generator = SeededGenerator(seed: 4)
        let records = [
            SharedRecord.variants([Array("accept".utf8), Array("x".utf8)]).encoded(),
            try Stage.record(tags: [[1]]).encoded(),
            try Stage.record(.chunks(identifier: Array(1...16), count: 2, length: 300_000)).encoded(),
        ]
        for round in 0..<3000 {
            var bytes = records[round % 3]
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let index = Int.random(in: bytes.indices, using: &generator)
                bytes[index] = UInt8.random(in: 0...255, using: &generator)
            }
            guard let read = SharedRecord(bytes, Stage.options) else { continue }
            #expect(read.encoded() == bytes, "round \(round)")
        }
    }
}
