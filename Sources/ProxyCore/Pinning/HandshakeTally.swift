// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust

/// Counts of one loop's handshakes with pinned domains since the last hand-over. A handshake costs one lookup, and no
/// other thread is involved.
struct HandshakeTally {
    /// The handshakes under one policy.
    struct Entry: Sendable {
        let domain: Host
        /// The policy's keys without repetition.
        let keys: [PublicKeyPin]
        /// For each key, the number of accepted chains that contained it.
        var matched: [Int]
        var handshakes = 0
        /// In the order of `TrustEvaluation.Verdict`.
        var verdicts = Array(repeating: 0, count: TrustEvaluation.Verdict.allCases.count)
        var failures = DomainFailures()
        /// The pin of the last chain in which only a backup pin matched.
        var backupOnly: PublicKeyPin?
        /// The last evaluation, and its time in seconds since 1970.
        var last: (evaluation: TrustEvaluation, time: Int64)?
        /// The most urgent of the ends of certificates that are near.
        var certificate: Expiry?

        init(domain: Host, policy: SecurityPolicy) {
            self.domain = domain
            keys = policy.distinctPins
            matched = Array(repeating: 0, count: keys.count)
        }
    }

    /// Keeps the policy until the hand-over, so that no other policy gets its identifier.
    private struct Slot {
        let policy: SecurityPolicy
        var entry: Entry
    }

    private var slots: [ObjectIdentifier: Slot] = [:]
    /// Of all hosts without pins together.
    private var others = DomainFailures()

    var isEmpty: Bool { slots.isEmpty && others == DomainFailures() }

    /// Counts a handshake, accepted or refused.
    ///
    /// - Parameter now: seconds since 1970.
    mutating func note(_ evaluation: TrustEvaluation, of policy: SecurityPolicy, at now: Int64) {
        guard policy.pinningMode != .none, let domain = evaluation.domain else {
            if evaluation.verdict == .fail { others.note(evaluation) }
            return
        }
        withEntry(of: policy, domain) { $0.note(evaluation, of: policy, at: now) }
    }

    /// Counts a request that got no connection.
    ///
    /// - Parameters:
    ///   - policy: of its host and port; nil where no pin file names these.
    ///   - now: seconds since 1970.
    mutating func note(_ error: Problem.Code, of policy: SecurityPolicy?, at now: Int64) {
        guard let policy, policy.pinningMode != .none, let domain = policy.domain else {
            return others.note(error, at: now)
        }
        withEntry(of: policy, domain) { $0.failures.note(error, at: now) }
    }

    private mutating func withEntry(of policy: SecurityPolicy, _ domain: Host, _ change: (inout Entry) -> Void) {
        let identifier = ObjectIdentifier(policy)
        change(&slots[identifier, default: Slot(policy: policy, entry: Entry(domain: domain, policy: policy))].entry)
    }

    /// Returns the failures of hosts without pins, and starts again from zero.
    mutating func drainOthers() -> DomainFailures {
        defer { others = DomainFailures() }
        return others
    }

    /// Returns all counts, and starts again from zero.
    mutating func drain() -> [Entry] {
        defer { slots.removeAll(keepingCapacity: true) }
        return slots.values.map(\.entry)
    }
}

extension HandshakeTally.Entry {
    fileprivate mutating func note(_ evaluation: TrustEvaluation, of policy: SecurityPolicy, at now: Int64) {
        handshakes += 1
        last = (evaluation, now)
        failures.note(evaluation)
        if let index = TrustEvaluation.Verdict.allCases.firstIndex(of: evaluation.verdict) { verdicts[index] += 1 }
        for key in Set(policy.pinsPresent(in: evaluation)) {
            if let index = keys.firstIndex(of: key) { matched[index] += 1 }
        }
        if evaluation.matchedBackupOnly { backupOnly = evaluation.matchedPin }
        if let near = evaluation.certificateExpiry(at: now), certificate.map(near.isMoreUrgent(than:)) ?? true {
            certificate = near
        }
    }
}

extension SecurityPolicy {
    /// The expected keys without repetition.
    var distinctPins: [PublicKeyPin] {
        var seen: Set<PublicKeyPin> = []
        return expectedPins.filter { seen.insert($0).inserted }
    }
}
