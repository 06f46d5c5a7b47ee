// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Testing

@testable import HTTPCaching

@Suite("Counts of a cache by host and rule")
struct CacheTalliesTests {
    @Test("a host's counts stay when its rules change, and new rules count from 0")
    func rules() {
        let tallies = CacheTallies()
        let first = tallies.tally(host: "a.test", entry: "a.test", rules: ["skip", "store"])
        first.counters.count(.hit)
        first.countRule(1)
        first.countRule(2)
        first.countRule(-1)
        let same = tallies.tally(host: "x.a.test", entry: "a.test", rules: ["skip", "store"])
        same.counters.count(.hit)
        same.countRule(1)
        #expect(tallies.ofHosts.map(\.host) == ["a.test"] && tallies.ofHosts[0].counts.hits == 2)
        #expect(tallies.ofRules.map(\.matches) == [0, 2] && tallies.ofRules.map(\.text) == ["skip", "store"])
        let other = tallies.tally(host: "a.test", entry: "a.test", rules: ["store"])
        other.counters.count(.miss)
        other.countRule(0)
        #expect(tallies.ofHosts[0].counts.hits == 2 && tallies.ofHosts[0].counts.misses == 1)
        #expect(
            tallies.ofRules == [CacheTallies.OfRule(entry: "a.test", place: 0, text: "store", matches: 1)]
        )
    }

    @Test("clients' hosts are bounded in number and take no room from configured hosts")
    func bounds() {
        let tallies = CacheTallies()
        for number in 0..<(CacheTallies.freeHostsAtMost + 50) {
            let tally = tallies.tally(host: "\(number).test", entry: nil, rules: ["skip"])
            tally.counters.count(.miss)
            tally.countRule(0)
        }
        tallies.tally(host: "a.test", entry: "a.test", rules: []).counters.count(.hit)
        let hosts = tallies.ofHosts
        #expect(hosts.count == CacheTallies.freeHostsAtMost + 2)
        #expect(hosts.first { $0.host == CacheTallies.others }?.counts.misses == 50)
        #expect(hosts.first { $0.host == "0.test" }?.counts.misses == 1)
        #expect(hosts.first { $0.host == "a.test" }?.counts.hits == 1)
        // They share the rules for all hosts.
        let rules = tallies.ofRules
        #expect(rules.count == 1 && rules[0].entry == CacheTallies.others)
        #expect(rules[0].matches == CacheTallies.freeHostsAtMost + 50)
        for number in 0..<(CacheTallies.entriesAtMost + 50) {
            _ = tallies.tally(host: "e", entry: "\(number)", rules: ["a"])
        }
        #expect(tallies.ofHosts.count <= CacheTallies.entriesAtMost + 1)
        #expect(tallies.ofRules.count <= CacheTallies.entriesAtMost)
    }
}
