import HTTPCore
import IOCore
import ProxyCore
import ServerTrust

/// The domains that a reload holds to pins no longer: a file that was removed, perhaps only for a moment or by mistake,
/// looks like one that is not wanted any more.
struct DroppedPins {
    private let domains: [Host]
    /// So many are named; the rest is counted.
    private static let named = 20

    /// - Parameter now: seconds since 1970: pin sets expire.
    init(from old: PinnedDomains, to new: PinnedDomains, at now: Int64 = Clock.realtime / 1_000_000) {
        domains = old.domains.filter { domain in
            guard let policy = domain.policy, policy.isHeldToPins(at: now) else { return false }
            return !(domain.ports ?? [443]).allSatisfy { new.isHeldToPins(host: domain.host, port: $0, at: now) }
        }.map(\.host)
    }

    var count: Int { domains.count }

    /// Nil when there is none.
    var event: EventLine? {
        guard !domains.isEmpty else { return nil }
        let names = domains.prefix(Self.named).map { JSONString.quoted($0.description) }
        return EventLine(event: "warning")
            .with("code", "pins_dropped")
            .with("count", domains.count)
            .with("domains", json: "[\(names.joined(separator: ","))]")
            .with(
                "message",
                "pins that were enforced are not any more: a host that no pin file names may be reached over plain HTTP, "
                    + "and with any key"
            )
    }
}
