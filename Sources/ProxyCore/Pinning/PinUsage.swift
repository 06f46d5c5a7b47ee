// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import ServerTrust

/// How often each pin of each domain has matched since the start, over all reloads. It shows which keys are really in
/// use, and which pins never were. Handshakes are counted, not requests.
package struct PinUsage: Sendable {
    /// The usage of one domain's pins.
    package struct Account: Equatable, Sendable {
        package let domain: Host
        package let handshakes: Int
        /// Pins that matched, including pins that the policy no longer has; the most frequent first.
        package let matched: [(pin: PublicKeyPin, count: Int)]
        /// Pins of the policy that never matched, in its order.
        package let neverMatched: [PublicKeyPin]

        package static func == (a: Account, b: Account) -> Bool {
            a.domain == b.domain && a.handshakes == b.handshakes && a.neverMatched == b.neverMatched
                && a.matched.elementsEqual(b.matched) { $0.pin == $1.pin && $0.count == $1.count }
        }
    }

    /// The verdicts of one domain's handshakes, and what the last of them has shown.
    package struct Verdicts: Equatable, Sendable {
        package let domain: Host
        /// In the order of `TrustEvaluation.Verdict`.
        package let counts: [Int]
        /// How often each pin has matched.
        package var matched: [PublicKeyPin: Int] = [:]
        package var failures = DomainFailures()
        /// Nil before the first handshake.
        package var last: LastHandshake?
    }

    private struct Record: Sendable {
        var handshakes = 0
        var failures = DomainFailures()
        var verdicts = Array(repeating: 0, count: TrustEvaluation.Verdict.allCases.count)
        var matched: [PublicKeyPin: Int] = [:]
        var last: LastHandshake?
    }

    private var records: [Host: Record] = [:]
    private var pins: [Host: [PublicKeyPin]] = [:]
    /// The pinned domains, sorted by name, and the place of each among them.
    private var order: [Host] = []
    private var places: [Host: Int] = [:]
    /// The places of the domains that have been counted since the last `takeChanges`.
    private var changed: Set<Int> = []

    package init() {}

    /// Sets the domains that are pinned now. Counts of other domains are forgotten.
    package mutating func setPins(of domains: PinnedDomains) {
        pins = [:]
        for domain in domains.domains {
            guard let policy = domain.policy, policy.pinningMode != .none else { continue }
            pins[domain.host] = policy.distinctPins
        }
        for domain in records.keys where pins[domain] == nil { records[domain] = nil }
        // Each name is made once, not in each comparison.
        order = pins.keys.map { (name: $0.description, domain: $0) }.sorted { $0.name < $1.name }.map(\.domain)
        places = Dictionary(uniqueKeysWithValues: order.enumerated().map { ($1, $0) })
        changed = []
    }

    /// Counts handshakes of a domain, unless it is no longer pinned.
    ///
    /// - Parameter verdicts: in the order of `TrustEvaluation.Verdict`.
    package mutating func count(
        _ handshakes: Int,
        of domain: Host,
        matched: [(pin: PublicKeyPin, count: Int)],
        verdicts: [Int] = [],
        failures: DomainFailures = DomainFailures(),
        last: LastHandshake? = nil
    ) {
        guard let place = places[domain] else { return }
        changed.insert(place)
        records[domain, default: Record()].handshakes += handshakes
        records[domain]?.failures += failures
        for (index, count) in verdicts.enumerated() { records[domain]?.verdicts[index] += count }
        for (pin, count) in matched where count > 0 { records[domain]?.matched[pin, default: 0] += count }
        // The loops hand their counts over one after the other.
        if let last, last.time >= records[domain]?.last?.time ?? .min { records[domain]?.last = last }
    }

    /// The verdicts of all pinned domains, sorted by name.
    package var verdicts: [Verdicts] {
        // Domains without a handshake share one array.
        let none = Record().verdicts
        return order.map { domain in
            records[domain].map { Self.verdicts($0, of: domain) } ?? Verdicts(domain: domain, counts: none)
        }
    }

    /// The verdicts of the domains that have been counted since the last call, each with its place among `verdicts`.
    package mutating func takeChanges() -> [(place: Int, verdicts: Verdicts)] {
        defer { changed.removeAll(keepingCapacity: true) }
        return changed.map { place in
            let domain = order[place]
            return (place, Self.verdicts(records[domain] ?? Record(), of: domain))
        }
    }

    private static func verdicts(_ record: Record, of domain: Host) -> Verdicts {
        Verdicts(
            domain: domain,
            counts: record.verdicts,
            matched: record.matched,
            failures: record.failures,
            last: record.last
        )
    }

    /// The usage for all domains that had a handshake, sorted by name.
    package var accounts: [Account] {
        records.map { domain, record in
            Account(
                domain: domain,
                handshakes: record.handshakes,
                matched: record.matched.map { (pin: $0.key, count: $0.value) }
                    .sorted { ($1.count, $0.pin.description) < ($0.count, $1.pin.description) },
                neverMatched: (pins[domain] ?? []).filter { record.matched[$0] == nil }
            )
        }.sorted { $0.domain.description < $1.domain.description }
    }
}
