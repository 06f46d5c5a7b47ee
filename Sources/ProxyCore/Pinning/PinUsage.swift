package import HTTPCore
package import ServerTrust

/// How often each pin of each domain has matched since the start, over all reloads: which keys are really in use, and
/// which pin never was. Counted by handshakes, not by requests.
package struct PinUsage: Sendable {
    /// What there is to say of a domain.
    package struct Account: Equatable, Sendable {
        package let domain: Host
        package let handshakes: Int
        /// Pins that matched, those that the policy no longer has included; the most frequent first.
        package let matched: [(pin: PublicKeyPin, count: Int)]
        /// Pins of the policy that never did, in its order.
        package let neverMatched: [PublicKeyPin]

        package static func == (a: Account, b: Account) -> Bool {
            a.domain == b.domain && a.handshakes == b.handshakes && a.neverMatched == b.neverMatched
                && a.matched.elementsEqual(b.matched) { $0.pin == $1.pin && $0.count == $1.count }
        }
    }

    /// What became of a domain's handshakes.
    package struct Verdicts: Equatable, Sendable {
        package let domain: Host
        /// By the order of `TrustEvaluation.Verdict`.
        package let counts: [Int]
    }

    private struct Record: Sendable {
        var handshakes = 0
        var verdicts = Array(repeating: 0, count: TrustEvaluation.Verdict.allCases.count)
        var matched: [PublicKeyPin: Int] = [:]
    }

    private var records: [Host: Record] = [:]
    private var pins: [Host: [PublicKeyPin]] = [:]

    package init() {}

    /// The domains that are pinned now. Counts of a domain that is not among them are forgotten.
    package mutating func setPins(of domains: PinnedDomains) {
        pins = [:]
        for domain in domains.domains {
            guard let policy = domain.policy, policy.pinningMode != .none else { continue }
            pins[domain.host] = policy.distinctPins
        }
        for domain in records.keys where pins[domain] == nil { records[domain] = nil }
    }

    /// Counts handshakes of a domain; those of one that is not pinned any more are not counted.
    ///
    /// - Parameter verdicts: by the order of `TrustEvaluation.Verdict`.
    package mutating func count(
        _ handshakes: Int,
        of domain: Host,
        matched: [(pin: PublicKeyPin, count: Int)],
        verdicts: [Int] = []
    ) {
        guard pins[domain] != nil else { return }
        records[domain, default: Record()].handshakes += handshakes
        for (index, count) in verdicts.enumerated() { records[domain]?.verdicts[index] += count }
        for (pin, count) in matched where count > 0 { records[domain]?.matched[pin, default: 0] += count }
    }

    /// Of every domain that is pinned, by name.
    package var verdicts: [Verdicts] {
        // A name once, and not in each comparison; those without a handshake share one array.
        let none = Record().verdicts
        return pins.keys.map { (name: $0.description, domain: $0) }.sorted { $0.name < $1.name }
            .map { Verdicts(domain: $0.domain, counts: records[$0.domain]?.verdicts ?? none) }
    }

    /// Every domain that had a handshake, by name.
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
