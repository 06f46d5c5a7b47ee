// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import Testing

@testable import SharedCaching

/// Machines with a Redis in memory, on a clock that the test moves.
@Suite("The level of the cache in Redis")
struct RedisLevelTests {
    private let stage: LevelStage

    init() throws { stage = try LevelStage() }

    // MARK: - Look-ups

    @Test("a response of one machine is found by another")
    func storeAndFind() throws {
        let (one, two) = (stage.machine(), stage.machine())
        let question = try LevelStage.question()
        #expect(try two.body(question) == nil)
        try one.fill(question)
        #expect(try two.body(question) == "body")
        #expect(one.cache.status.stored == 1 && two.cache.status.hits == 1 && two.cache.status.misses == 1)
        stage.advance(by: .seconds(1000))
        #expect(try two.body(question) == nil)
    }

    @Test("a look-up that is over lets go of whoever waited for it", arguments: [true, false])
    func released(isCancelled: Bool) throws {
        let machine = stage.machine()
        weak var waiting: LevelFinding?
        do {
            let finding = machine.begin(try LevelStage.question())
            if isCancelled { finding.lookUp?.cancel() }
            stage.settle()
            #expect((finding.value == nil) == isCancelled)
            waiting = finding
        }
        #expect(waiting == nil)
    }

    @Test("a large body is stored in chunks", arguments: [65_536, 65_537, 262_144, 262_145, 1_048_576])
    func chunks(length: Int) throws {
        let (one, two) = (stage.machine(), stage.machine())
        let question = try LevelStage.question()
        let body = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
        try one.fill(question, stage.entry(question, body))
        guard case .found(let entry, _) = try two.lookUp(question), case .memory(let bytes) = entry.body else {
            Issue.record("nothing was found")
            return
        }
        #expect(bytes.bytes == body)
        // A chunk is evicted, or belongs to another response.
        guard length > SharedRecord.inlineAtMost else { return }
        let key = try #require(stage.redis.hashes.keys.first)
        let chunk = try #require(stage.redis.hashes[key]?.fields.keys.first { $0.count > 16 })
        stage.redis.hashes[key]?.fields[chunk] = [0]
        #expect(try two.body(question) == nil)
        #expect(two.cache.status.tampered == 0)
    }

    @Test("each variant of a response with Vary is found by its request")
    func variants() throws {
        let (one, two) = (stage.machine(), stage.machine())
        let head = [("Cache-Control", "max-age=60"), ("Vary", "Accept-Language")]
        for language in ["de", "en"] {
            let question = try LevelStage.question(LevelStage.url, [("Accept-Language", language)])
            try one.fill(question, stage.entry(question, Array(language.utf8), head))
        }
        for language in ["de", "en"] {
            #expect(try two.body(try LevelStage.question(LevelStage.url, [("Accept-Language", language)])) == language)
        }
        #expect(try two.body(try LevelStage.question(LevelStage.url, [("Accept-Language", "fr")])) == nil)
    }

    @Test("no other policy, partition or owner finds an entry")
    func strangers() throws {
        let one = stage.machine()
        let question = try LevelStage.question()
        try one.fill(question)
        #expect(try one.body(try LevelStage.question(digest: PolicyDigest([9]))) == nil)
        #expect(try one.body(try LevelStage.question(partition: [1])) == nil)
        // The record in the place of another one.
        let key = try #require(stage.redis.hashes.keys.first)
        let record = try #require(stage.redis.hashes[key]?.fields.values.first)
        let secret = try #require(SharedSecret(stage.settings.secret, prefix: stage.settings.prefix))
        let other = try LevelStage.question("https://a.example/other")
        let names = secret.names(of: other.key, under: other.digest)
        stage.redis.hashes[names.key] = ([names.field: record], .max)
        #expect(try one.body(other) == nil)
        #expect(one.cache.status.tampered == 1)
        stage.settings.secret = Array(repeating: 8, count: 32)
        #expect(try stage.machine().body(question) == nil)
    }

    @Test("a silent server costs a look-up its timeout, and leaves no ticket")
    func silence() throws {
        let machine = stage.machine()
        machine.nodes.fault = { _ in .silence }
        let finding = machine.begin(try LevelStage.question(waits: true))
        stage.advance(by: .milliseconds(4))
        #expect(finding.value == nil)
        stage.advance(by: .milliseconds(1))
        #expect(finding.isMiss && finding.ticket == nil)
        #expect(machine.cache.status.timeouts == 1 && machine.cache.status.lookUpMicroseconds == 5000)
    }

    @Test(
        "a strange or wrong reply makes a miss without a ticket",
        arguments: [
            RedisReply.error(Array("WRONGTYPE no".utf8)), .status([]), .integer(4), .array([]),
            .array([.null, .integer(1)]),
        ]
    )
    func strangeReplies(reply: RedisReply) throws {
        let machine = stage.machine()
        let question = try LevelStage.question(waits: true)
        for name in ["GET", "HMGET"] {
            machine.nodes.fault = { $0.words[0] == Array(name.utf8) ? .reply(reply) : .none }
            let finding = machine.begin(question)
            stage.settle()
            #expect(finding.isMiss && finding.ticket == nil)
        }
        #expect(machine.cache.status.failures.values.reduce(0, +) == 2)
    }

    @Test("a too large body, and a response of no use, are not stored")
    func notStored() throws {
        let machine = stage.machine()
        let question = try LevelStage.question()
        try machine.fill(question, stage.entry(question, Array(repeating: 1, count: 1 << 20 | 1)))
        try machine.fill(question, stage.entry(question, [], [("Cache-Control", "max-age=0")]))
        try machine.fill(question, stage.entry(try LevelStage.question("https://b.example/")))
        #expect(machine.cache.status.notStored == ["tooLarge": 1, "useless": 1, "changed": 1])
        #expect(stage.redis.hashes.values.allSatisfy { Array($0.fields.keys) == [SharedNames.generation] })
    }

    @Test("a response whose URI has lost its generation is not stored")
    func lostGeneration() throws {
        let (one, two) = (stage.machine(), stage.machine())
        let question = try LevelStage.question()
        let ticket = try #require(LevelFinding.ticket(try one.lookUp(question)))
        #expect(try two.invalidate().values == [true])
        // As an eviction does it.
        stage.redis.hashes = [:]
        one.level.store(stage.entry(question), with: ticket)
        stage.settle()
        #expect(one.cache.status.notStored == ["changed": 1])
        #expect(try two.body(question) == nil)
    }

    @Test("a ticket is used once, and too late not at all")
    func tickets() throws {
        let machine = stage.machine()
        let question = try LevelStage.question()
        let ticket = try #require(LevelFinding.ticket(try machine.lookUp(question)))
        let late = try #require(LevelFinding.ticket(try machine.lookUp(question)))
        machine.level.giveBack(ticket, isForOthers: true)
        machine.level.store(stage.entry(question), with: ticket)
        stage.advance(by: .seconds(1800))
        machine.level.store(stage.entry(question), with: late)
        stage.settle()
        #expect(stage.redis.hashes.values.allSatisfy { Array($0.fields.keys) == [SharedNames.generation] })
        #expect(machine.cache.status.notStored == ["changed": 1])
    }

    // MARK: - One fetch for all

    @Test("others wait for the machine that has the lease, and find its response")
    func waiting() throws {
        let (one, two) = (stage.machine(), stage.machine())
        let question = try LevelStage.question(waits: true)
        let first = one.begin(question)
        stage.settle()
        #expect(first.isMiss && first.hasLease)
        let second = two.begin(question)
        stage.settle()
        stage.advance(by: .milliseconds(10))
        stage.advance(by: .milliseconds(20))
        #expect(second.value == nil)
        one.level.store(stage.entry(question), with: try #require(first.ticket))
        stage.advance(by: .milliseconds(40))
        #expect(second.body == "body")
        #expect(two.cache.status.waited == 1 && two.cache.status.waitedInVain == 0)
        #expect(two.cache.status.lookUpMicroseconds == 0)
        // The lease was given back.
        #expect(stage.redis.strings.isEmpty)
    }

    @Test("a lease that was given back is taken by one that waits")
    func nextLease() throws {
        let (one, two) = (stage.machine(), stage.machine())
        let question = try LevelStage.question(waits: true)
        let first = one.begin(question)
        stage.settle()
        let second = two.begin(question)
        stage.settle()
        one.level.giveBack(try #require(first.ticket), isForOthers: true)
        stage.advance(by: .milliseconds(10))
        #expect(second.isMiss && second.hasLease)
    }

    @Test("after a response that is not for others nobody waits, for ten seconds")
    func notForOthers() throws {
        let (one, two) = (stage.machine(), stage.machine())
        let question = try LevelStage.question(waits: true)
        let first = one.begin(question)
        stage.settle()
        one.level.giveBack(try #require(first.ticket), isForOthers: false)
        stage.settle()
        let second = two.begin(question)
        stage.settle()
        #expect(second.isMiss && second.ticket != nil && !second.hasLease && two.cache.status.waited == 0)
        stage.advance(by: .seconds(10))
        let third = two.begin(question)
        stage.settle()
        #expect(third.hasLease)
    }

    @Test("the wait ends with patience, and with a failure")
    func endsOfWait() throws {
        stage.settings.patience = .milliseconds(100)
        let (one, two) = (stage.machine(), stage.machine())
        let question = try LevelStage.question(waits: true)
        let first = one.begin(question)
        stage.settle()
        let (second, third) = (two.begin(question), two.begin(question))
        third.lookUp?.cancel()
        stage.settle()
        stage.advance(by: .milliseconds(10))
        two.nodes.fault = { _ in .silence }
        stage.advance(by: .milliseconds(20))
        #expect(second.value == nil)
        stage.advance(by: .milliseconds(5))
        #expect(second.isMiss && second.ticket != nil && third.value == nil)
        two.nodes.fault = { _ in .none }
        let fourth = two.begin(question)
        stage.settle()
        for _ in 0..<9 { stage.advance(by: .milliseconds(10)) }
        // The lease is over before patience, as it is as long and began earlier.
        #expect(fourth.hasLease && first.hasLease)
        #expect(two.cache.status.waited == 2 && two.cache.status.waitedInVain == 2)
    }

    @Test("a cancelled look-up gives back the lease that it gets later")
    func cancel() throws {
        let machine = stage.machine()
        machine.nodes.delay = { LevelRedis.isScript($0, .lease) ? .milliseconds(2) : .milliseconds(0) }
        let finding = machine.begin(try LevelStage.question(waits: true))
        stage.settle()
        #expect(stage.redis.strings.count == 1)
        finding.lookUp?.cancel()
        stage.advance(by: .milliseconds(2))
        #expect(stage.redis.strings.isEmpty && finding.value == nil)
        #expect(machine.nodes.count(.release) == 1)
    }

    @Test("a lease whose reply was lost is given back with the ticket")
    func lostLease() throws {
        let machine = stage.machine()
        machine.nodes.fault = { LevelRedis.isScript($0, .lease) ? .lostReply : .none }
        let finding = machine.begin(try LevelStage.question(waits: true))
        stage.settle()
        stage.advance(by: .milliseconds(5))
        #expect(finding.hasLease && stage.redis.strings.count == 1)
        machine.level.giveBack(try #require(finding.ticket), isForOthers: true)
        stage.settle()
        #expect(stage.redis.strings.isEmpty)
    }

    @Test("a release that fails is repeated")
    func failedRelease() throws {
        let machine = stage.machine()
        machine.nodes.fault = { LevelRedis.isScript($0, .release) ? .failure(.busy) : .none }
        let ticket = try #require(LevelFinding.ticket(try machine.lookUp(try LevelStage.question(waits: true))))
        machine.level.giveBack(ticket, isForOthers: true)
        stage.settle()
        #expect(stage.redis.strings.count == 1)
        machine.nodes.fault = { _ in .none }
        stage.advance(by: .milliseconds(200))
        stage.settle()
        #expect(stage.redis.strings.isEmpty && machine.nodes.count(.release) == 2)
    }

    // MARK: - Purges

    @Test("a confirmed purge ends the use of older entries on each machine")
    func purge() throws {
        let (one, two) = (stage.machine(), stage.machine())
        let question = try LevelStage.question()
        let other = try LevelStage.question("https://a.example/other")
        for question in [question, other] {
            try one.fill(question)
            two.store.memory.insert(stage.entry(question))
        }
        let old = try #require(LevelFinding.ticket(try two.lookUp(question)))
        #expect(one.publish(.uri(question.key)).values == [true])
        #expect(try two.body(question) == nil && two.body(other) == "body")
        #expect(two.store.memory.entries(for: question.key).isEmpty)
        #expect(!two.store.memory.entries(for: other.key).isEmpty)
        // A response that was requested before the purge is stored in vain.
        two.level.store(stage.entry(question), with: old)
        stage.settle()
        #expect(try one.body(question) == nil)
        try two.fill(question)
        #expect(try one.body(question) == "body")
        #expect(one.cache.status.purgesPublished == 1 && two.cache.status.purgesLearned == 1)
        #expect(two.cache.status.purgeNumber == 1 && one.cache.status.purgesLearned == 0)
    }

    @Test("a machine without look-ups learns of a purge within a second")
    func idleMachine() throws {
        let (one, two) = (stage.machine(), stage.machine())
        let question = try LevelStage.question()
        two.store.memory.insert(stage.entry(question))
        one.publish(.everything)
        #expect(!two.store.memory.entries(for: question.key).isEmpty)
        stage.advance(by: .seconds(1))
        #expect(two.store.memory.entries(for: question.key).isEmpty)
    }

    @Test("a purge without confirmation is published later, and obeyed here at once")
    func pendingPurge() throws {
        let (one, two) = (stage.machine(), stage.machine())
        let question = try LevelStage.question()
        try one.fill(question)
        one.nodes.fault = { LevelRedis.isScript($0, .append) ? .silence : .none }
        let confirmation = one.publish(.host("a.example"))
        stage.advance(by: .milliseconds(909))
        #expect(confirmation.values.isEmpty)
        stage.advance(by: .milliseconds(101))
        #expect(confirmation.values == [false])
        #expect(try one.body(question) == nil && two.body(question) == "body")
        #expect(one.cache.status.purgesPending == 1)
        one.nodes.fault = { _ in .none }
        stage.advance(by: .seconds(1))
        stage.advance(by: .seconds(1))
        #expect(one.cache.status.purgesPending == 0 && confirmation.values == [false])
        #expect(try two.body(question) == nil)
    }

    @Test("a purge whose confirmation was lost is published once")
    func lostConfirmation() throws {
        let (one, two) = (stage.machine(), stage.machine())
        one.nodes.fault = { LevelRedis.isScript($0, .append) ? .lostReply : .none }
        one.publish(.tag("a"))
        one.nodes.fault = { _ in .none }
        for _ in 0..<4 { stage.advance(by: .seconds(1)) }
        #expect(one.cache.status.purgesPublished == 1 && one.cache.status.purgesPending == 0)
        #expect(one.cache.status.purgeNumber == 1 && two.cache.status.purgeNumber == 1)
    }

    @Test("without a loop, and with a closed one, a purge is not confirmed")
    func noLevel() throws {
        let machine = stage.machine()
        machine.nodes.fault = { _ in .silence }
        let pending = machine.publish(.everything)
        machine.level.close()
        #expect(pending.values == [false])
        #expect(machine.publish(.everything).values == [false])
        #expect(machine.cache.status.purgesPending == 2)
    }

    @Test("two machines that purge at the same time get two numbers")
    func race() throws {
        let (one, two) = (stage.machine(), stage.machine())
        one.nodes.delay = { _ in .milliseconds(1) }
        two.nodes.delay = { _ in .milliseconds(1) }
        let (first, second) = (LevelConfirmation(), LevelConfirmation())
        one.cache.publish(.tag("a"), expires: false) { first.set($0) }
        two.cache.publish(.tag("b"), expires: true) { second.set($0) }
        stage.settle()
        for _ in 0..<10 { stage.advance(by: .milliseconds(1)) }
        #expect(first.values == [true] && second.values == [true])
        for _ in 0..<3 { stage.advance(by: .seconds(1)) }
        #expect(one.cache.status.purgeNumber == 2 && two.cache.status.purgeNumber == 2)
    }

    @Test("a lost count is raised again, and everything older is purged")
    func lostCount() throws {
        let (one, two) = (stage.machine(), stage.machine())
        let question = try LevelStage.question()
        for _ in 0..<3 { one.publish(.tag("a")) }
        try one.fill(question)
        #expect(try two.body(question) == "body")
        stage.redis.strings = [:]
        stage.advance(by: .seconds(1))
        stage.advance(by: .seconds(1))
        #expect(one.cache.status.purgeNumber == 4 && two.cache.status.purgeNumber == 4)
        #expect(try one.body(question) == nil && two.body(question) == nil)
        #expect(one.lines.all.contains("redis_purges_lost") || two.lines.all.contains("redis_purges_lost"))
        try two.fill(question)
        #expect(try one.body(question) == "body")
    }

    @Test("an entry that knows more purges than Redis tells of the loss")
    func entryAhead() throws {
        let one = stage.machine()
        let question = try LevelStage.question()
        for _ in 0..<3 { one.publish(.tag("a")) }
        try one.fill(question)
        one.level.close()
        stage.redis.strings = [:]
        let two = stage.machine()
        #expect(try two.body(question) == nil)
        stage.advance(by: .seconds(1))
        #expect(two.cache.status.purgeNumber == 4 && two.lines.all == ["redis_purges_lost"])
    }

    @Test("a purge that a failover has replaced is noticed after the new connection")
    func divergence() throws {
        let (one, two) = (stage.machine(), stage.machine())
        let question = try LevelStage.question()
        two.publish(.tag("a"))
        one.level.close()
        stage.redis.strings = [:]
        // A machine that does not know the first one publishes another one with its number.
        let three = stage.machine()
        try three.fill(question)
        two.nodes.fault = { _ in .failure(.busy) }
        #expect(three.publish(.uri(question.key)).values == [true])
        two.store.memory.insert(stage.entry(question))
        two.nodes.fault = { _ in .none }
        two.nodes.change(.available)
        stage.advance(by: .seconds(1))
        #expect(two.store.memory.entries(for: question.key).isEmpty && two.cache.status.purgeNumber == 2)
    }

    // MARK: - Invalidations

    @Test("an invalidation removes a URI's responses, and those that are on their way")
    func invalidation() throws {
        let (one, two) = (stage.machine(), stage.machine())
        let question = try LevelStage.question()
        try one.fill(question)
        let old = try #require(LevelFinding.ticket(try two.lookUp(question)))
        #expect(try one.invalidate().values == [true])
        #expect(try two.body(question) == nil)
        two.level.store(stage.entry(question), with: old)
        stage.settle()
        #expect(two.cache.status.notStored == ["changed": 1])
        #expect(try one.body(question) == nil)
        try two.fill(question)
        #expect(try one.body(question) == "body")
        #expect(one.cache.status.purgesPending == 0)
    }

    @Test("after a failed invalidation the URI is not used until it has succeeded")
    func failedInvalidation() throws {
        let machine = stage.machine()
        let question = try LevelStage.question()
        try machine.fill(question)
        let generation = stage.redis.hashes.values.first?.fields[SharedNames.generation]
        machine.nodes.fault = { LevelRedis.isScript($0, .invalidate) ? .silence : .none }
        let confirmation = try machine.invalidate()
        #expect(confirmation.values.isEmpty)
        stage.advance(by: .milliseconds(5))
        #expect(confirmation.values == [true])
        #expect(machine.cache.status.invalidationsFailed == 1 && machine.cache.status.purgesPending == 1)
        #expect(try machine.body(question) == nil)
        #expect(stage.redis.hashes.values.first?.fields[SharedNames.generation] == generation)
        machine.nodes.fault = { _ in .none }
        for _ in 0..<3 { stage.advance(by: .seconds(1)) }
        #expect(machine.cache.status.purgesPending == 0)
        #expect(stage.redis.hashes.values.allSatisfy { $0.fields[SharedNames.generation] != nil })
        try machine.fill(question)
        #expect(try machine.body(question) == "body")
    }

    // MARK: - The end, and servers

    @Test("a closed level calls what waits, and finds nothing")
    func close() throws {
        let (one, two) = (stage.machine(), stage.machine())
        let question = try LevelStage.question(waits: true)
        _ = try one.lookUp(question)
        let waiting = two.begin(question)
        stage.settle()
        two.nodes.delay = { _ in .milliseconds(3) }
        let asking = two.begin(question)
        let invalidation = try two.invalidate()
        #expect(waiting.value == nil && asking.value == nil && invalidation.values.isEmpty)
        two.level.close()
        #expect(waiting.isMiss && asking.isMiss && waiting.ticket == nil && asking.ticket == nil)
        #expect(invalidation.values == [true] && two.nodes.isClosed)
        #expect(try two.lookUp(question).isNothing)
        two.level.close()
        // Late replies, and timers that would still be armed.
        let sent = two.nodes.sent.count
        for _ in 0..<3 { stage.advance(by: .seconds(1)) }
        #expect(two.nodes.sent.count == sent)
    }

    @Test("a shared cache takes over what another one has not published", arguments: [true, false])
    func inherit(isSame: Bool) throws {
        let former = stage.machine()
        former.publish(.tag("a"))
        former.nodes.fault = { _ in .failure(.busy) }
        #expect(former.publish(.tag("b")).values == [false])
        if !isSame { stage.settings.prefix = Array("u:".utf8) }
        let cache = SharedCache(stage.settings, former.store) { _, _, _ in }
        cache.inherit(from: former.cache)
        former.level.close()
        #expect(cache.status.purgesPending == 1 && cache.status.purgeNumber == (isSame ? 1 : 0))
        let level = cache.makeLevel(loop: stage.loop, LevelNodes(stage.redis, stage.loop))
        #expect(level.largestBody == stage.settings.maximumBody)
        stage.advance(by: .seconds(1))
        #expect(cache.status.purgesPending == 0 && cache.status.purgeNumber == (isSame ? 2 : 1))
        level.close()
    }

    /// A POST that began before a reload ends after it.
    @Test("an invalidation reaches Redis although the shared cache was replaced", arguments: [true, false])
    func lateInvalidation(isClosed: Bool) throws {
        let former = stage.machine()
        let question = try LevelStage.question()
        try former.fill(question)
        let cache = SharedCache(stage.settings, former.store) { _, _, _ in }
        cache.inherit(from: former.cache)
        let level = cache.makeLevel(loop: stage.loop, LevelNodes(stage.redis, stage.loop))
        defer { level.close() }
        former.nodes.fault = { _ in .silence }
        if isClosed { former.level.close() }
        let invalidation = try former.invalidate()
        former.level.close()
        #expect(invalidation.values == [true])
        // Nothing is used from Redis until it is removed there.
        let finding = LevelFinding()
        finding.lookUp = level.lookUp(question) { finding.value = $0 }
        stage.settle()
        #expect(finding.isMiss)
        stage.advance(by: .seconds(2))
        #expect(try stage.machine().body(question) == nil)
    }

    @Test("a purge is published although the shared cache was replaced", arguments: [true, false])
    func latePurge(isSame: Bool) throws {
        let former = stage.machine()
        if !isSame { stage.settings.prefix = Array("u:".utf8) }
        let cache = SharedCache(stage.settings, former.store) { _, _, _ in }
        cache.inherit(from: former.cache)
        former.nodes.fault = { _ in .failure(.busy) }
        #expect(former.publish(.tag("a")).values == [false])
        #expect(cache.status.purgesPending == 1)
        let level = cache.makeLevel(loop: stage.loop, LevelNodes(stage.redis, stage.loop))
        stage.advance(by: .seconds(1))
        #expect(cache.status.purgesPending == 0 && cache.status.purgeNumber == 1)
        level.close()
    }

    @Test("the log has one line for a change that two loops see")
    func serverStates() throws {
        let machine = stage.machine()
        let loop = try EventLoop(clock: .byHand)
        let nodes = LevelNodes(stage.redis, loop)
        let level = machine.cache.makeLevel(loop: loop, nodes)
        for one in [machine.nodes, nodes] { one.change(.available) }
        #expect(machine.lines.all.isEmpty && machine.cache.status.servers == ["redis.test:6379": nil])
        for one in [machine.nodes, nodes] { one.change(.unavailable(reason: "NOAUTH")) }
        #expect(machine.lines.all == ["redis_unavailable"])
        #expect(machine.cache.status.servers == ["redis.test:6379": "NOAUTH"])
        nodes.change(.available)
        #expect(machine.lines.all.count == 1)
        machine.nodes.change(.available)
        #expect(machine.lines.all == ["redis_unavailable", "redis_available"])
        level.close()
        machine.level.close()
        #expect(machine.cache.status.servers.isEmpty)
    }

    @Test("a server that changes all the time has few lines")
    func lines() throws {
        let machine = stage.machine()
        let began = Clock.realtime
        for _ in 0..<100 {
            machine.nodes.change(.unavailable(reason: "timeout"))
            machine.nodes.change(.available)
        }
        // A machine that is held up may see one more span begin.
        let spans = Int((Clock.realtime - began) / 1_000_000 / ServerLines.span) + 2
        #expect(machine.lines.all.count >= 4 && machine.lines.all.count <= spans * ServerLines.atMost)
    }

    @Test("a server is forgotten when no loop asks it any more")
    func goneServer() throws {
        let machine = stage.machine()
        let loop = try EventLoop(clock: .byHand)
        let nodes = LevelNodes(stage.redis, loop)
        let level = machine.cache.makeLevel(loop: loop, nodes)
        for one in [machine.nodes, nodes] { one.change(.unavailable(reason: "replica")) }
        nodes.noteGone(RedisAddress(host: "redis.test", port: 6379))
        #expect(machine.cache.status.servers == ["redis.test:6379": "replica"])
        machine.nodes.noteGone(RedisAddress(host: "redis.test", port: 6379))
        #expect(machine.cache.status.servers.isEmpty)
        level.close()
    }
}

extension SharedFinding {
    fileprivate var isNothing: Bool {
        guard case .nothing(nil) = self else { return false }
        return true
    }
}
