import HTTPCore
import ServerTrust

/// What one loop has seen of the handshakes of pinned domains since it last gave account: counting costs a handshake one
/// lookup, and no other thread is asked.
struct HandshakeTally {
    /// The handshakes under one policy.
    struct Entry: Sendable {
        let domain: Host
        /// The policy's keys, each once.
        let keys: [PublicKeyPin]
        /// How often each of them stood in a chain that passed.
        var matched: [Int]
        var handshakes = 0
        /// By the order of `TrustEvaluation.Verdict`.
        var verdicts = Array(repeating: 0, count: TrustEvaluation.Verdict.allCases.count)
        /// The pin of the last chain in which nothing but a backup matched.
        var backupOnly: PublicKeyPin?
        /// The certificate of the pinned domain that ends first, if it is near its end.
        var certificate: Expiry?

        init(domain: Host, policy: SecurityPolicy) {
            self.domain = domain
            keys = policy.distinctPins
            matched = Array(repeating: 0, count: keys.count)
        }
    }

    /// The policy is kept until the account is given, so that its identifier is that of no other.
    private struct Slot {
        let policy: SecurityPolicy
        var entry: Entry
    }

    private var slots: [ObjectIdentifier: Slot] = [:]

    var isEmpty: Bool { slots.isEmpty }

    /// Takes a handshake in, accepted or refused.
    ///
    /// - Parameter now: seconds since 1970.
    mutating func note(_ evaluation: TrustEvaluation, of policy: SecurityPolicy, at now: Int64) {
        guard policy.pinningMode != .none, let domain = evaluation.domain else { return }
        let identifier = ObjectIdentifier(policy)
        slots[identifier, default: Slot(policy: policy, entry: Entry(domain: domain, policy: policy))].entry
            .note(evaluation, of: policy, at: now)
    }

    /// Hands all of it over, and begins anew.
    mutating func drain() -> [Entry] {
        defer { slots.removeAll(keepingCapacity: true) }
        return slots.values.map(\.entry)
    }
}

extension HandshakeTally.Entry {
    fileprivate mutating func note(_ evaluation: TrustEvaluation, of policy: SecurityPolicy, at now: Int64) {
        handshakes += 1
        if let index = TrustEvaluation.Verdict.allCases.firstIndex(of: evaluation.verdict) { verdicts[index] += 1 }
        for key in Set(policy.pinsPresent(in: evaluation)) {
            if let index = keys.firstIndex(of: key) { matched[index] += 1 }
        }
        if evaluation.matchedBackupOnly { backupOnly = evaluation.matchedPin }
        if let near = evaluation.certificateExpiry(at: now), near.end < certificate?.end ?? .max { certificate = near }
    }
}

extension SecurityPolicy {
    /// The keys that are expected, each once.
    var distinctPins: [PublicKeyPin] {
        var seen: Set<PublicKeyPin> = []
        return expectedPins.filter { seen.insert($0).inserted }
    }
}
