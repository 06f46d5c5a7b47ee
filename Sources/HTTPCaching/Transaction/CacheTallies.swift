// SPDX-License-Identifier: Apache-2.0
import IOCore
import Synchronization

/// What a cache has done for one host and its rules, for any thread.
package final class CacheTally: Sendable {
    let counters: CacheCounters
    private let rules: RuleMatches

    fileprivate init(_ counters: CacheCounters, _ rules: RuleMatches) {
        self.counters = counters
        self.rules = rules
    }

    /// Records that a rule has decided about a request or a response.
    ///
    /// - Parameter place: in the list of the configuration, from 0 on.
    package func countRule(_ place: Int) { rules.count(place) }
}

/// How often each rule of one list has decided.
private final class RuleMatches: Sendable {
    /// The rules in words.
    let texts: [String]
    private let numbers: [Number]

    private final class Number: Sendable {
        let value = Atomic<Int>(0)
    }

    init(_ texts: [String]) {
        self.texts = texts
        numbers = texts.map { _ in Number() }
    }

    func count(_ place: Int) {
        if numbers.indices.contains(place) { numbers[place].value.wrappingAdd(1, ordering: .relaxed) }
    }

    var counts: [Int] { numbers.map { $0.value.load(ordering: .relaxed) } }
}

/// The tallies of a cache, bounded in number: clients choose the names of hosts.
///
/// `@unchecked Sendable`: `lock` guards `hosts`, `rules` and `freeHosts`.
package final class CacheTallies: @unchecked Sendable {
    private let lock = PosixLock()
    private var hosts: [String: CacheCounters] = [:]
    private var rules: [String: RuleMatches] = [:]
    /// How many hosts without an entry have a tally.
    private var freeHosts = 0

    /// The name of all hosts without a tally, and of the rules for all hosts without an entry.
    package static let others = "*"
    /// The hosts without an entry in the configuration that have a tally of their own: those that came first.
    package static let freeHostsAtMost = 100
    /// The entries that have one: former ones of a configuration that was reloaded count, too.
    package static let entriesAtMost = 1000

    init() {}

    /// The tally for a host; the same one for the same host and rules.
    ///
    /// - Parameters:
    ///   - entry: the name of its entry in the configuration, under which its requests are counted; nil without one.
    ///   - texts: its rules in words, in their order. Other rules are counted from 0 on.
    package func tally(host: @autoclosure () -> String, entry: String?, rules texts: [String]) -> CacheTally {
        let name = entry ?? Self.others
        let counted = entry ?? host()
        return lock.withLock {
            let counters = counters(counted, isFree: entry == nil)
            let known = rules[name]
            if let known, known.texts == texts { return CacheTally(counters, known) }
            let matches = RuleMatches(texts)
            if known != nil || rules.count < Self.entriesAtMost { rules[name] = matches }
            return CacheTally(counters, matches)
        }
    }

    /// Behind the lock.
    private func counters(_ name: String, isFree: Bool) -> CacheCounters {
        if let known = hosts[name] { return known }
        let hasRoom = isFree ? freeHosts < Self.freeHostsAtMost : hosts.count < Self.entriesAtMost
        let made = CacheCounters()
        if hasRoom {
            hosts[name] = made
            if isFree { freeHosts += 1 }
            return made
        }
        if let others = hosts[Self.others] { return others }
        hosts[Self.others] = made
        return made
    }

    /// The counts of one host since the start.
    package struct OfHost: Hashable, Sendable {
        package var host: String
        package var counts: CacheCounters.Reading
    }

    /// How often a rule has decided since it was read.
    package struct OfRule: Hashable, Sendable {
        /// The name of its entry.
        package var entry: String
        package var place: Int
        package var text: String
        package var matches: Int
    }

    /// Sorted by name.
    package var ofHosts: [OfHost] {
        let all = lock.withLock { hosts }
        return all.map { OfHost(host: $0.key, counts: $0.value.reading) }.sorted { $0.host < $1.host }
    }

    /// Sorted by entry and place.
    package var ofRules: [OfRule] {
        let all = lock.withLock { rules }
        return all.sorted { $0.key < $1.key }.flatMap { entry, rules in
            zip(rules.texts, rules.counts).enumerated().map { place, rule in
                OfRule(entry: entry, place: place, text: rule.0, matches: rule.1)
            }
        }
    }
}
