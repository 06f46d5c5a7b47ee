// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("Counts of pins, and their warnings")
struct PinUsageTests {
    private static func domains(_ text: String) throws -> PinnedDomains {
        try PinFile.load(
            text: "{ \"version\": 1, \"pinnedDomains\": { \(text) } }",
            file: "p.json",
            at: 1_800_000_000
        ).domains
    }

    private static func domain(_ name: String, _ pins: UInt8...) -> String {
        let list = pins.map { "\"\(PublicKeyPin.unrelated($0))\"" }.joined(separator: ", ")
        return "\"\(name)\": { \"pins\": [\(list)] }"
    }

    /// Behind a reference, as the expectations of a test want it.
    private final class Notices {
        private var notices = PinNotices()

        func isDue(_ subject: PinNotices.Subject, of domain: Host, now: Int64) -> Bool {
            notices.isDue(subject, of: domain, now: now)
        }

        func keepOnly(_ domains: PinnedDomains) { notices.keepOnly(domains) }
    }

    @Test("matches are counted by pin, and unmatched pins named in order")
    func counting() throws {
        let host = try Host("a.example")
        var usage = PinUsage()
        usage.setPins(of: try Self.domains(Self.domain("a.example", 1, 2, 3) + "," + Self.domain("b.example", 4, 5)))
        #expect(usage.accounts.isEmpty, "a domain that was not used has no account")
        usage.count(2, of: host, matched: [(.unrelated(3), 2), (.unrelated(1), 0)])
        usage.count(3, of: host, matched: [(.unrelated(3), 1)])
        let account = try #require(usage.accounts.first)
        #expect(usage.accounts.count == 1)
        #expect(account.domain == host && account.handshakes == 5)
        #expect(account.matched.map(\.pin) == [.unrelated(3)] && account.matched.map(\.count) == [3])
        #expect(account.neverMatched == [.unrelated(1), .unrelated(2)])
    }

    @Test("counts survive a reload, and those of removed domains are dropped")
    func reload() throws {
        let (a, b) = (try Host("a.example"), try Host("b.example"))
        var usage = PinUsage()
        usage.setPins(of: try Self.domains(Self.domain("a.example", 1, 2) + "," + Self.domain("b.example", 4, 5)))
        usage.count(1, of: a, matched: [(.unrelated(1), 1)])
        usage.count(1, of: b, matched: [(.unrelated(4), 1)])
        usage.setPins(of: try Self.domains(Self.domain("a.example", 2, 3)))
        // Counts that a loop still had from before.
        usage.count(1, of: b, matched: [(.unrelated(4), 1)])
        usage.count(1, of: a, matched: [(.unrelated(2), 1)])
        #expect(usage.accounts.map(\.domain) == [a])
        #expect(usage.accounts[0].handshakes == 2)
        #expect(Set(usage.accounts[0].matched.map(\.pin)) == [.unrelated(1), .unrelated(2)])
        #expect(usage.accounts[0].neverMatched == [.unrelated(3)])
    }

    @Test("the summary line has the pins as keys")
    func line() throws {
        var usage = PinUsage()
        usage.setPins(of: try Self.domains(Self.domain("a.example", 1, 2)))
        usage.count(7, of: try Host("a.example"), matched: [(.unrelated(1), 6)])
        let line = try #require(LogLine(PinEvents.account(usage.accounts[0]).json))
        #expect(line.string("event") == "pins" && line.string("domain") == "a.example")
        #expect(line.integer("handshakes") == 7)
        #expect(line.object("matched") as? [String: Int] == ["\(PublicKeyPin.unrelated(1))": 6])
        #expect(line["neverMatched"] as? [String] == ["\(PublicKeyPin.unrelated(2))"])
    }

    @Test("each kind of warning comes once an hour or a day")
    func notices() throws {
        let (a, b) = (try Host("a.example"), try Host("b.example"))
        let notices = Notices()
        #expect(notices.isDue(.backupOnly, of: a, now: 0))
        #expect(!notices.isDue(.backupOnly, of: a, now: PinNotices.hour - 1))
        #expect(notices.isDue(.backupOnly, of: b, now: 1))
        #expect(notices.isDue(.certificateExpiry(.third), of: a, now: 2))
        #expect(notices.isDue(.backupOnly, of: a, now: PinNotices.hour))
        // A certificate of six days gets from a third to a tenth within two: that is told on the same day.
        #expect(notices.isDue(.certificateExpiry(.tenth), of: a, now: PinNotices.hour))
        #expect(!notices.isDue(.certificateExpiry(.third), of: a, now: PinNotices.day + 1))
        #expect(notices.isDue(.certificateExpiry(.third), of: a, now: PinNotices.day + 2))
        notices.keepOnly(try Self.domains(Self.domain("a.example", 1, 2)))
        #expect(notices.isDue(.backupOnly, of: b, now: 3))
        #expect(!notices.isDue(.backupOnly, of: a, now: PinNotices.hour + 1))
    }

    @Test("a loop's tally counts every pin of the chain")
    func tally() throws {
        let pki = try TestPKI()
        let server = try pki.server("a.example")
        var configuration = SecurityPolicy.Configuration()
        configuration.domain = try Host("a.example")
        configuration.pinningMode = .publicKey
        configuration.pins = [
            Pin(server.pin, isBackup: true), Pin(.unrelated()), Pin(pki.intermediate.key.pin, scope: .leaf),
            Pin(pki.root.key.pin, isBackup: true),
        ]
        let policy = try SecurityPolicy(configuration)
        let evaluation = policy.evaluate(chain: server.chain, host: try Host("a.example"), anchors: pki.anchors)
        #expect(evaluation.verdict == .pass && evaluation.matchedBackupOnly)
        var tally = HandshakeTally()
        for _ in 0..<3 { tally.note(evaluation, of: policy, at: 1_800_000_000) }
        let refused = policy.evaluate(chain: server.chain, host: try Host("b.example"), anchors: pki.anchors)
        tally.note(refused, of: policy, at: 1_800_000_000)
        tally.note(evaluation, of: .unpinned, at: 1_800_000_000)
        let entries = tally.drain()
        #expect(tally.isEmpty && entries.count == 1)
        let entry = try #require(entries.first)
        #expect(entry.handshakes == 4)
        #expect(entry.failures.backupOnly == 3)
        #expect(entry.failures.refusals.reduce(0, +) == 1, "the name of another host")
        #expect(entry.keys == configuration.pins.map(\.key))
        #expect(entry.matched == [3, 0, 0, 3], "a pin of another scope does not count where it stands")
        #expect(entry.backupOnly == server.pin)
        #expect(entry.certificate == nil)
    }

    @Test("failures count for their policy's domain, and survive a reload")
    func failures() throws {
        let unpinned = "\"n.example\": { \"pinningMode\": \"none\" }"
        let domains = try Self.domains(Self.domain("a.example", 1, 2) + "," + unpinned)
        let host = try Host("a.example")
        let policy = try #require(domains.policy(host: host, port: 443))
        var tally = HandshakeTally()
        tally.note(.connectTimeout, of: policy, at: 1_800_000_000)
        tally.note(.connectTimeout, of: policy, at: 1_800_000_007)
        tally.note(.stalled, of: policy, at: 1_800_000_009)
        tally.note(.dnsFailed, of: nil, at: 1_800_000_000)
        tally.note(.dnsFailed, of: domains.policy(host: try Host("n.example"), port: 443), at: 1_800_000_000)
        let server = try TestPKI().server("c.example")
        let refused = SecurityPolicy.unpinned.evaluate(
            chain: server.chain,
            host: try Host("b.example"),
            anchors: TrustAnchors(certificates: [])
        )
        tally.note(refused, of: .unpinned, at: 1_800_000_000)
        let (entries, others) = (tally.drain(), tally.drainOthers())
        #expect(tally.isEmpty && entries.count == 1)
        var usage = PinUsage()
        usage.setPins(of: domains)
        usage.count(0, of: entries[0].domain, matched: [], failures: entries[0].failures)
        usage.count(0, of: entries[0].domain, matched: [], failures: entries[0].failures)
        usage.setPins(of: domains)
        func count(_ error: Problem.Code, _ failures: DomainFailures) -> Int {
            zip(DomainFailures.connectErrors, failures.unconnected).filter { $0.0 == error }.map(\.1).reduce(0, +)
        }
        #expect(count(.connectTimeout, usage.verdicts[0].failures) == 4)
        #expect(usage.verdicts[0].failures.unconnected.reduce(0, +) == 4)
        // The last one is kept, whatever the order in which the loops hand theirs over.
        var earlier = DomainFailures()
        earlier.note(.dnsFailed, at: 1_800_000_006)
        usage.count(0, of: host, matched: [], failures: earlier)
        let last = DomainFailures.Unconnected(error: .connectTimeout, time: 1_800_000_007)
        #expect(usage.verdicts[0].failures.lastUnconnected == last)
        #expect(count(.dnsFailed, others) == 2 && others.unconnected.reduce(0, +) == 2)
        #expect(others.refusals.reduce(0, +) == 1 && others.backupOnly == 0)
    }

    @Test("a pin set's end is reported with its day and remaining days")
    func pinSets() throws {
        let text = Self.domain("a.example", 1, 2).dropLast(2) + ", \"expiration\": \"2027-01-31\" }"
        let domains = try Self.domains(String(text) + "," + Self.domain("b.example", 1, 2))
        #expect(PinEvents.pinSets(domains, at: 1_801_440_000 - 31 * 86_400).isEmpty)
        let lines = PinEvents.pinSets(domains, at: 1_801_440_000 - 3 * 86_400).compactMap { LogLine($0.json) }
        #expect(lines.count == 1)
        #expect(lines[0].string("code") == "pin_set_expiry" && lines[0].string("domain") == "a.example")
        #expect(lines[0].string("expiration") == "2027-01-31" && lines[0].integer("expiresInDays") == 3)
    }

    @Test("of many domains the counted ones are passed on")
    func changes() throws {
        var usage = PinUsage()
        let names = (0..<20).map { "d\($0).example" }
        usage.setPins(of: try Self.domains(names.map { Self.domain($0, 1, 2) }.joined(separator: ",")))
        var shown = usage.verdicts
        #expect(shown.map(\.domain.description) == names.sorted())
        #expect(usage.takeChanges().isEmpty)
        for name in ["d3.example", "d15.example", "d3.example", "other.example"] {
            usage.count(1, of: try Host(name), matched: [], verdicts: [1])
        }
        let changes = usage.takeChanges()
        #expect(changes.count == 2)
        for (place, verdicts) in changes { shown[place] = verdicts }
        #expect(shown == usage.verdicts)
        #expect(shown.map { $0.counts[0] }.reduce(0, +) == 3)
        #expect(usage.takeChanges().isEmpty)
        usage.count(1, of: try Host("d3.example"), matched: [], verdicts: [1])
        usage.setPins(of: try Self.domains(Self.domain("d3.example", 1, 2)))
        #expect(usage.takeChanges().isEmpty && usage.verdicts.map { $0.counts[0] } == [3])
    }
}
