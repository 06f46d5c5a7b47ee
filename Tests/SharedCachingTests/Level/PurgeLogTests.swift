// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import SharedCaching

/// A value, without seals: a record's bytes are those that the test gives it.
@Suite("The log of purges")
struct PurgeLogTests {
    private let stage: LevelStage
    private let first: CachedEntry
    private let second: CachedEntry

    init() throws {
        stage = try LevelStage()
        first = stage.entry(try LevelStage.question("https://a.example/1"), tags: [Array("red".utf8)])
        second = stage.entry(try LevelStage.question("https://b.example/2"))
    }

    private static func record(_ number: Int, _ purge: Purge, expires: Bool = false) -> PurgeLog.Record {
        PurgeLog.Record(sealed: [UInt8(number % 200) + 1], purge: SharedPurge(purge, expires: expires, time: 0))
    }

    private static let missing = PurgeLog.Record(sealed: [], purge: nil)

    /// A log that has read this count, and these purges up to it.
    private func log(_ purges: [Purge] = []) -> PurgeLog {
        var log = PurgeLog()
        #expect(log.read(0, askedKnowing: 0) == .current)
        let records = purges.enumerated().map { Self.record($0 + 1, $1) }
        _ = log.learn(records, from: 1, now: 0)
        return log
    }

    @Test("a purge is for the entries that were requested before it")
    func numbers() {
        let log = log([.uri(first.key), .tag("red"), .host("b.example")])
        #expect(log.known == 3 && log.floor == 0)
        #expect(log.verdict(first, number: 0) == .purged && log.verdict(first, number: 1) == .purged)
        #expect(log.verdict(first, number: 2) == .usable)
        #expect(log.verdict(second, number: 2) == .purged && log.verdict(second, number: 3) == .usable)
        #expect(log.verdict(first, number: 4) == .ahead)
    }

    @Test("a soft purge and one of everything end the use of older entries")
    func everything() {
        var log = log()
        _ = log.learn([Self.record(1, .uri(first.key), expires: true)], from: 1, now: 0)
        #expect(log.verdict(first, number: 0) == .purged && log.verdict(second, number: 0) == .usable)
        let lesson = log.learn([Self.record(2, .everything)], from: 2, now: 0)
        #expect(log.floor == 2 && log.purges.isEmpty && !lesson.hasLost && lesson.applications.count == 1)
        #expect(log.verdict(second, number: 1) == .purged && log.verdict(second, number: 2) == .usable)
    }

    @Test("a larger count asks for the records between, a smaller one is lost")
    func counts() {
        var log = log([.uri(first.key)])
        #expect(log.read(1, askedKnowing: 1) == .current)
        #expect(log.read(3, askedKnowing: 1) == .behind && log.missing(upTo: 3) == 2..<4)
        #expect(log.missing(upTo: 500) == 2..<32)
        _ = log.learn([Self.record(2, .everything), Self.record(3, .everything)], from: 2, now: 0)
        // The question was sent before the others were known.
        #expect(log.read(1, askedKnowing: 1) == .current)
        #expect(log.read(2, askedKnowing: 3) == .lost && log.read(nil, askedKnowing: 0) == .lost)
        #expect(log.read(PurgeLog.most, askedKnowing: 3) == .lost)
        #expect(log.missing(upTo: PurgeLog.most) == nil && log.missing(upTo: .max) == nil)
    }

    @Test("a missing record raises the floor, and everything here is purged")
    func missingRecord() {
        var log = log([.uri(first.key)])
        let lesson = log.learn(
            [Self.missing, Self.record(3, .uri(first.key)), Self.missing, Self.missing],
            from: 2,
            now: 0
        )
        #expect(log.floor == 5 && log.known == 5 && log.purges.isEmpty && lesson.hasLost)
        let kinds = lesson.applications.map { "\($0)".prefix { $0 != "(" } }
        #expect(kinds == ["everything", "purge", "everything"])
        #expect(log.verdict(second, number: 4) == .purged && log.verdict(second, number: 5) == .usable)
    }

    @Test("more than a thousand purges behind, the older ones are not read")
    func farBehind() throws {
        var log = log()
        #expect(log.read(5000, askedKnowing: 0) == .behind)
        let range = try #require(log.missing(upTo: 5000))
        #expect(range == 4001..<4031)
        let lesson = log.learn(range.map { Self.record($0, .uri(first.key)) }, from: 4001, now: 0)
        #expect(log.floor == 4000 && log.known == 4030 && lesson.hasLost)
        #expect(log.missing(upTo: 5000) == 4031..<4061)
    }

    @Test("records that expired before the start purge nothing recent")
    func start() {
        var log = PurgeLog()
        #expect(log.read(2, askedKnowing: 0) == .behind)
        var early = log
        let records = [Self.missing, Self.record(2, .uri(first.key))]
        // A younger record behind it does not tell that the missing one is old: it was evicted.
        let eviction = early.learn(records, from: 1, now: PurgeLog.lifetime)
        #expect(eviction.hasLost && eviction.applications.contains { if case .everything = $0 { true } else { false } })
        let lesson = log.learn(records, from: 1, now: PurgeLog.lifetime + 1)
        #expect(!lesson.hasLost && log.floor == 1)
        guard case .everythingUnlessRecent = lesson.applications.first else {
            Issue.record("everything was purged")
            return
        }
        // Later the same is a loss.
        #expect(log.learn([Self.missing], from: 3, now: 0).hasLost)
    }

    @Test("no more than a thousand purges are kept")
    func bound() {
        var log = log()
        for number in 1...1500 { _ = log.learn([Self.record(number, .uri(first.key))], from: number, now: 0) }
        #expect(log.purges.count == PurgeLog.knownAtMost && log.floor == 500 && log.known == 1500)
        #expect(log.verdict(second, number: 499) == .purged && log.verdict(second, number: 500) == .usable)
    }

    @Test("a pending purge ends the use of entries with any number")
    func pending() {
        var log = log([.everything])
        log.add(SharedPurge(.uri(first.key), expires: false, time: 0), 7)
        #expect(log.verdict(first, number: 1) == .purged && log.verdict(second, number: 1) == .usable)
        let attempt = log.nextAttempt { _, number in [UInt8(number)] }
        #expect(attempt?.number == 2)
        let own = PurgeLog.Record(sealed: [2], purge: nil)
        let lesson = log.learn([own], from: 2, now: 0)
        // Its own purge was applied here before.
        #expect(lesson.confirmed == [7] && lesson.applications.isEmpty && log.pending.isEmpty)
        #expect(log.verdict(first, number: 1) == .purged && log.verdict(first, number: 2) == .usable)
    }

    @Test("a purge whose confirmation was lost is recognised, and another machine's is not")
    func lostConfirmation() {
        var log = log()
        log.add(SharedPurge(.uri(first.key), expires: false, time: 0), 1)
        var seals: UInt8 = 100
        func seal(_ purge: SharedPurge, _ number: Int) -> [UInt8] {
            seals += 1
            return [seals]
        }
        #expect(log.nextAttempt(seal)?.sealed == [101])
        // The same bytes again, as long as the number is free.
        #expect(log.nextAttempt(seal)?.sealed == [101])
        let others = log.learn([Self.record(1, .host("b.example"))], from: 1, now: 0)
        #expect(others.confirmed.isEmpty && others.applications.count == 1)
        let again = log.nextAttempt(seal)
        #expect(again?.number == 2 && again?.sealed == [102])
        #expect(log.learn([PurgeLog.Record(sealed: [102], purge: nil)], from: 2, now: 0).confirmed == [1])
    }

    @Test("more than a thousand pending purges become one of everything")
    func overflow() {
        var log = log()
        for number in 0...PurgeLog.pendingAtMost {
            log.add(SharedPurge(.uri(first.key), expires: true, time: 0), number)
        }
        #expect(log.pending.count == 1 && log.pending[0].identifiers.count == PurgeLog.pendingAtMost + 1)
        #expect(!log.pending[0].purge.expires && log.verdict(second, number: 0) == .purged)
    }

    @Test("after a new connection the latest purge is compared once")
    func divergence() {
        var log = log([.uri(first.key), .uri(first.key)])
        log.doubt()
        #expect(log.read(2, askedKnowing: 2) == .behind && log.missing(upTo: 2) == 2..<3)
        #expect(!log.learn([Self.record(2, .uri(first.key))], from: 2, now: 0).hasDiverged)
        #expect(log.read(2, askedKnowing: 2) == .current)
        log.doubt()
        // An expired record says nothing.
        #expect(!log.learn([Self.missing], from: 2, now: 0).hasDiverged && log.floor == 0)
        log.doubt()
        #expect(log.learn([Self.record(9, .everything)], from: 2, now: 0).hasDiverged)
        // Nothing is learned behind it but a purge of everything.
        #expect(log.learn([Self.record(3, .uri(first.key))], from: 3, now: 0).applications.isEmpty && log.known == 2)
        // Until a repair has ended it.
        #expect(log.read(2, askedKnowing: 2) == .behind)
        #expect(!log.learn([Self.record(3, .everything)], from: 3, now: 0).hasDiverged)
        #expect(log.read(3, askedKnowing: 3) == .current && log.floor == 3)
    }

    @Test("another purge under the latest known number is noticed without a new connection")
    func comparison() {
        var log = log([.uri(first.key), .uri(second.key)])
        let latest = Self.record(2, .uri(second.key)).sealed
        log.compare(latest, with: 2)
        // An evicted record says nothing, and neither does one of a number that was read before.
        log.compare(nil, with: 2)
        log.compare([9], with: 1)
        #expect(log.read(2, askedKnowing: 2) == .current)
        log.compare(Self.record(9, .everything).sealed, with: 2)
        #expect(log.read(2, askedKnowing: 2) == .behind)
        #expect(log.learn([Self.record(9, .everything)], from: 2, now: 0).hasDiverged)
    }

    @Test("a gap of a thousand purges after a new connection is learned")
    func doubtBeforeGap() throws {
        var log = log([.uri(first.key)])
        log.doubt()
        let count = 1 + PurgeLog.knownAtMost
        let range = try #require(log.missing(upTo: count))
        let records = range.map { Self.record($0, .uri(first.key)) }
        #expect(log.learn(records, from: range.lowerBound, now: 0).hasLost && log.known == range.upperBound - 1)
    }

    @Test("no machine uses an older entry after a confirmed purge", arguments: 1...40)
    func model(seed: Int) throws {
        var model = try PurgeModel(seed: UInt64(seed))
        for _ in 0..<1500 { try model.step() }
        #expect(model.uses > 10 && model.confirmations > 50)
    }
}

/// Machines that purge, look up and store, and a Redis that loses now and then what it has.
private struct PurgeModel {
    private struct Machine {
        var log = PurgeLog()
        var tickets: [(uri: Int, number: Int, time: Int)] = []
        var publications: [Int: (uri: Int?, time: Int)] = [:]
    }

    private var random: SeededGenerator
    private var machines = [Machine](repeating: Machine(), count: 4)
    private let entries: [CachedEntry]
    private var clock = 0
    private var nextIdentifier = 0
    private var nextSeal = 0
    /// The confirmed purges of a URI, or of everything, with the time when each was asked for.
    private var confirmed: [(uri: Int?, time: Int)] = []
    private(set) var confirmations = 0
    private(set) var uses = 0

    // Redis.
    private var count: Int?
    private var records: [Int: PurgeLog.Record] = [:]
    private var stored: [Int: (number: Int, time: Int)] = [:]

    init(seed: UInt64) throws {
        random = SeededGenerator(seed: seed)
        let stage = try LevelStage()
        entries = try (0..<3).map { stage.entry(try LevelStage.question("https://a.example/\($0)")) }
    }

    mutating func step() throws {
        clock += 1
        let machine = machines.indices.randomElement(using: &random)!
        switch Int.random(in: 0..<100, using: &random) {
        case ..<45: lookUp(machine, entries.indices.randomElement(using: &random)!)
        case ..<70: store(machine)
        case ..<90: purge(machine, confirms: Bool.random(using: &random))
        case ..<94: publish(machine)
        case ..<96: forgetRecord()
        case ..<97: machines[machine].tickets = []
        default: fail()
        }
    }

    private mutating func lookUp(_ machine: Int, _ uri: Int) {
        guard catchUp(machine) else { return }
        let log = machines[machine].log
        machines[machine].tickets.append((uri, log.known, clock))
        guard let entry = stored[uri] else { return }
        switch log.verdict(entries[uri], number: entry.number) {
        case .purged: break
        case .ahead: repair(machine, entry.number, below: entry.number)
        case .usable:
            uses += 1
            for purge in confirmed where purge.uri == nil || purge.uri == uri {
                #expect(purge.time < entry.time, "an entry of \(entry.time) after the purge of \(purge.time)")
            }
        }
    }

    private mutating func store(_ machine: Int) {
        let tickets = machines[machine].tickets.indices
        guard let late = tickets.randomElement(using: &random), let last = tickets.last else { return }
        let index = Int.random(in: 0..<4, using: &random) == 0 ? late : last
        let ticket = machines[machine].tickets.remove(at: index)
        stored[ticket.uri] = (ticket.number, ticket.time)
    }

    private mutating func purge(_ machine: Int, confirms: Bool) {
        let uri = Int.random(in: 0..<10, using: &random) == 0 ? nil : entries.indices.randomElement(using: &random)!
        nextIdentifier += 1
        machines[machine].publications.updateValue((uri, clock), forKey: nextIdentifier)
        let purge: Purge = uri.map { .uri(entries[$0].key) } ?? .everything
        machines[machine].log.add(SharedPurge(purge, expires: Bool.random(using: &random), time: 0), nextIdentifier)
        if confirms { publish(machine) }
    }

    /// Publishes what is pending; now and then the command or its reply is lost.
    private mutating func publish(_ machine: Int) {
        for _ in 0..<10 {
            guard let purge = machines[machine].log.pending.first?.purge else { return }
            var seals = nextSeal
            let attempt = machines[machine].log.nextAttempt { _, _ in
                seals += 1
                return Self.bytes(seals)
            }
            nextSeal = seals
            guard let attempt else { return }
            if machines[machine].log.missing(upTo: attempt.number - 1) != nil {
                guard catchUp(machine) else { return }
                continue
            }
            let luck = Int.random(in: 0..<10, using: &random)
            if luck == 0 { return }
            if count ?? 0 == attempt.number - 1 {
                let record = PurgeLog.Record(sealed: attempt.sealed, purge: purge)
                records[attempt.number] = record
                count = attempt.number
                if luck == 1 { return }
                learn(machine, [record], from: attempt.number)
            } else if !catchUp(machine) {
                return
            }
        }
    }

    private static func bytes(_ number: Int) -> [UInt8] { Array(String(number).utf8) }

    private mutating func catchUp(_ machine: Int) -> Bool {
        for _ in 0..<100 {
            let known = machines[machine].log.known
            switch machines[machine].log.read(count ?? 0, askedKnowing: known) {
            case .current: return true
            case .lost:
                repair(machine, known, below: known)
                return false
            case .behind:
                guard let range = machines[machine].log.missing(upTo: count ?? 0) else { return false }
                let read = range.map { records[$0] ?? PurgeLog.Record(sealed: [], purge: nil) }
                guard learn(machine, read, from: range.lowerBound) else {
                    let number = max(count ?? 0, known)
                    repair(machine, number, below: number + 1)
                    return false
                }
            }
        }
        Issue.record("a machine never catches up")
        return false
    }

    private mutating func repair(_ machine: Int, _ number: Int, below bound: Int) {
        guard count ?? 0 < bound else { return }
        nextSeal += 1
        let purge = SharedPurge(.everything, expires: false, time: 0)
        let record = PurgeLog.Record(sealed: Self.bytes(nextSeal), purge: purge)
        records[number + 1] = record
        count = number + 1
        learn(machine, [record], from: number + 1)
    }

    @discardableResult
    private mutating func learn(_ machine: Int, _ records: [PurgeLog.Record], from start: Int) -> Bool {
        let lesson = machines[machine].log.learn(records, from: start, now: 0)
        for identifier in lesson.confirmed {
            guard let purge = machines[machine].publications.removeValue(forKey: identifier) else { continue }
            confirmations += 1
            confirmed.append(purge)
        }
        return !lesson.hasDiverged
    }

    /// A record is evicted, but not one of the latest: without these nobody could see that they are others.
    private mutating func forgetRecord() {
        guard let count, let number = records.keys.filter({ $0 < count - 8 }).randomElement(using: &random) else {
            return
        }
        records[number] = nil
    }

    /// The server is replaced by one that lacks the latest purges, or all. Before all have noticed, some machines purge there.
    private mutating func fail() {
        let kept = Bool.random(using: &random) ? max(0, (count ?? 0) - Int.random(in: 0...3, using: &random)) : 0
        count = kept == 0 ? nil : kept
        records = records.filter { $0.key <= kept }
        for machine in machines.indices { machines[machine].log.doubt() }
        for _ in 0..<Int.random(in: 0...5, using: &random) {
            clock += 1
            purge(machines.indices.randomElement(using: &random)!, confirms: true)
        }
        // Each reads the count once a second. One that finds a loss repairs it, which the next round shows to the others.
        for _ in 0..<4 {
            for machine in machines.indices { _ = catchUp(machine) }
        }
    }
}
