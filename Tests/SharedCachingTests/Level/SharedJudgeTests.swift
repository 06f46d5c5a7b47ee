// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import Testing

@testable import SharedCaching

@Suite("The judgement of shared records")
struct SharedJudgeTests {
    private let stage: LevelStage
    private let judge: SharedJudge
    private let question: SharedQuestion
    private let names: SharedNames

    init() throws {
        stage = try LevelStage()
        let secret = try #require(SharedSecret(Array(repeating: 7, count: 32), prefix: []))
        judge = SharedJudge(secret: secret, options: CacheOptions())
        question = try LevelStage.question()
        names = secret.names(of: question.key, under: question.digest)
    }

    private func record(
        _ question: SharedQuestion,
        generation: [UInt8] = [],
        _ body: SharedRecord.Body = .inline([1])
    ) -> SharedRecord.Response {
        SharedRecord.Response(
            purgeNumber: 3,
            generation: generation,
            uri: question.key.uri,
            part: question.key.part,
            response: stage.entry(question).response,
            tags: [],
            body: body
        )
    }

    /// The judgement of a record in the place of `question`, as a word.
    private func word(
        _ record: SharedRecord,
        generation: [UInt8] = [],
        field: [UInt8]? = nil,
        now: Int = LevelStage.time
    ) -> String {
        let sealed = judge.secret.seal(record.encoded(), .record, at: [names.key, names.field])
        let judgement = judge.judge(sealed, names.key, field ?? names.field, generation, for: question, now: now)
        return String("\(judgement)".prefix { $0 != "(" })
    }

    @Test("a record of its place, generation and request is usable")
    func usable() {
        #expect(word(.response(record(question))) == "response")
        let generation = [UInt8](repeating: 9, count: 16)
        #expect(word(.response(record(question, generation: generation)), generation: generation) == "response")
        #expect(word(.variants([Array("accept".utf8)])) == "variants")
    }

    @Test("a record of another place is tampered")
    func place() throws {
        #expect(word(.response(record(question)), field: Array(repeating: 1, count: 16)) == "tampered")
        let other = try LevelStage.question("https://a.example/other")
        #expect(word(.response(record(other))) == "tampered")
        let part = try LevelStage.question(partition: [1])
        #expect(word(.response(record(part))) == "tampered")
        let nonsense = judge.judge([1, 2, 3], names.key, names.field, [], for: question, now: LevelStage.time)
        #expect("\(nonsense)" == "tampered")
    }

    @Test("another generation, policy, request or time is of no use")
    func useless() throws {
        let generation = [UInt8](repeating: 9, count: 16)
        #expect(word(.response(record(question)), generation: generation) == "useless")
        #expect(word(.response(record(question, generation: generation))) == "useless")
        let policy = try LevelStage.question(digest: PolicyDigest([4]))
        #expect(word(.response(record(policy))) == "useless")
        #expect(word(.response(record(question)), now: LevelStage.time - 60) == "response")
        #expect(word(.response(record(question)), now: LevelStage.time - 61) == "useless")
        var varied = record(question)
        let request = try LevelStage.question(LevelStage.url, [("Accept", "a/b")])
        varied.response = stage.entry(request, [], [("Vary", "accept"), ("Cache-Control", "max-age=9")]).response
        #expect(word(.response(varied)) == "useless")
    }

    @Test("a chunk opens in its place, with its length")
    func chunks() {
        let identifier = [UInt8](repeating: 5, count: 16)
        let length = SharedRecord.chunkSize + 3
        let body = SharedRecord.Body.chunks(identifier: identifier, count: 2, length: length)
        #expect(SharedJudge.range(0, length: length) == 0..<SharedRecord.chunkSize)
        #expect(SharedJudge.range(1, length: length) == SharedRecord.chunkSize..<length)
        let sealed = judge.sealed([1, 2, 3], 1, of: identifier, 2, names.key, names.field)
        #expect(judge.chunk(sealed, 1, of: body, names.key, names.field) == [1, 2, 3])
        #expect(judge.chunk(sealed, 0, of: body, names.key, names.field) == nil)
        #expect(judge.chunk(sealed, 1, of: body, names.key, [1]) == nil)
        let longer = SharedRecord.Body.chunks(identifier: identifier, count: 2, length: length + 1)
        #expect(judge.chunk(sealed, 1, of: longer, names.key, names.field) == nil)
        let other = SharedRecord.Body.chunks(identifier: Array(repeating: 6, count: 16), count: 2, length: length)
        #expect(judge.chunk(sealed, 1, of: other, names.key, names.field) == nil)
    }

    @Test("an entry lives while it could be of use, at most a day")
    func lifetime() {
        func lifetime(_ fields: [(String, String)], _ grace: CacheGrace = CacheGrace(), after: Int = 0) -> Int {
            let response = stage.entry(question, [], fields).response
            return SharedJudge.lifetime(of: response, grace, CacheOptions(), now: LevelStage.time + after)
        }
        #expect(lifetime([("Cache-Control", "max-age=100")]) == 100)
        #expect(lifetime([("Cache-Control", "max-age=100")], after: 40) == 60)
        #expect(lifetime([("Cache-Control", "max-age=100")], after: 100) == 0)
        #expect(lifetime([("Cache-Control", "max-age=10, stale-if-error=30")]) == 40)
        #expect(lifetime([("Cache-Control", "max-age=10")], CacheGrace(whileRevalidating: 20)) == 30)
        #expect(lifetime([("Cache-Control", "no-cache"), ("ETag", "\"a\"")]) == 60)
        #expect(lifetime([("Cache-Control", "max-age=9999999")]) == 86_400)
    }
}
