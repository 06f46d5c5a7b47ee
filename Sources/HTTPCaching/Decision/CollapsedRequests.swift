/// Requests for one cold URI that wait for the answer to the first of them (RFC 9111 4).
///
/// The first request for a key leads: it goes to the origin. Those that come while it is under way follow: they wait
/// until the answer is stored, as long as their patience lasts. An answer that is not for others (private, not storable)
/// is never handed to them: all are let go to the origin, and for a while requests for that key do not wait at all. When
/// the leader fails, all are let go, too; when its client has gone, the follower that has waited longest leads.
///
/// A value without clock or threads; times are in any unit that grows, such as nanoseconds of a monotonic clock.
public struct CollapsedRequests<Identifier: Hashable & Sendable>: Sendable {
    public enum Joining: Hashable, Sendable {
        /// Ask the origin, and tell what became of it: `finished`, `isNotForOthers`, `failed` or `abandoned`.
        case lead
        /// Wait for an action, and call `expire` at that time.
        case wait(until: UInt64)
        /// Ask the origin; nobody waits for this one.
        case goAlone
    }

    public enum Action: Hashable, Sendable {
        /// The answer is stored: look it up. It may still be for other selecting fields; then go alone.
        case lookUp(Identifier)
        /// Ask the origin; nobody waits for this one.
        case goAlone(Identifier)
        /// Ask the origin, as the leader.
        case lead(Identifier)
    }

    private struct Follower: Sendable {
        let identifier: Identifier
        let deadline: UInt64
    }

    private struct Flight: Sendable {
        var leader: Identifier
        var followers: [Follower] = []
    }

    private var flights: [CacheKey: Flight] = [:]
    /// Keys whose answers were not for others, and until when that is taken for granted.
    private var separate: [CacheKey: UInt64] = [:]
    private let patience: UInt64
    private let memory: UInt64
    private let followersAtMost: Int

    /// - Parameters:
    ///   - patience: how long a follower waits.
    ///   - memory: how long a key whose answer was not for others is not collapsed.
    ///   - followersAtMost: for one key; those beyond go alone.
    public init(patience: UInt64, memory: UInt64, followersAtMost: Int = 10_000) {
        self.patience = patience
        self.memory = memory
        self.followersAtMost = followersAtMost
    }

    /// How many wait.
    public var followerCount: Int { flights.values.reduce(0) { $0 + $1.followers.count } }

    /// A request has found nothing stored that it could use.
    public mutating func join(_ identifier: Identifier, for key: CacheKey, now: UInt64) -> Joining {
        if let until = separate[key] {
            if now < until { return .goAlone }
            separate[key] = nil
        }
        guard var flight = flights[key] else {
            flights[key] = Flight(leader: identifier)
            return .lead
        }
        guard flight.followers.count < followersAtMost else { return .goAlone }
        let deadline = now &+ patience
        flight.followers.append(Follower(identifier: identifier, deadline: deadline))
        flights[key] = flight
        return .wait(until: deadline)
    }

    /// The head of the leader's answer shows that it will not be stored: nobody waits for its body.
    public mutating func isNotForOthers(_ leader: Identifier, for key: CacheKey, now: UInt64) -> [Action] {
        guard let flight = flights[key], flight.leader == leader else { return [] }
        flights[key] = nil
        // What was remembered longest ago goes, so that this stays small.
        if separate.count >= 4096 { separate = separate.filter { $0.value > now } }
        if separate.count >= 4096 { separate.removeAll() }
        separate[key] = now &+ memory
        return flight.followers.map { .goAlone($0.identifier) }
    }

    /// The leader's answer is stored in full.
    public mutating func finished(_ leader: Identifier, for key: CacheKey) -> [Action] {
        guard let flight = flights[key], flight.leader == leader else { return [] }
        flights[key] = nil
        return flight.followers.map { .lookUp($0.identifier) }
    }

    /// The leader has got no answer, or lost it halfway: all are let go to the origin at once. One after the other, the last
    /// would learn of a failure that takes a second only when its patience is over.
    public mutating func failed(_ leader: Identifier, for key: CacheKey) -> [Action] {
        guard let flight = flights[key], flight.leader == leader else { return [] }
        flights[key] = nil
        return flight.followers.map { .goAlone($0.identifier) }
    }

    /// The leader's client has gone, which says nothing of the origin: the one that has waited longest leads.
    public mutating func abandoned(_ leader: Identifier, for key: CacheKey) -> [Action] {
        guard var flight = flights[key], flight.leader == leader else { return [] }
        guard !flight.followers.isEmpty else {
            flights[key] = nil
            return []
        }
        let next = flight.followers.removeFirst()
        flight.leader = next.identifier
        flights[key] = flight
        return [.lead(next.identifier)]
    }

    /// A follower's client has gone.
    public mutating func leave(_ identifier: Identifier, for key: CacheKey) {
        flights[key]?.followers.removeAll { $0.identifier == identifier }
    }

    /// Lets go of those whose patience is over.
    public mutating func expire(_ key: CacheKey, now: UInt64) -> [Action] {
        guard var flight = flights[key] else { return [] }
        let gone = flight.followers.filter { $0.deadline <= now }
        guard !gone.isEmpty else { return [] }
        flight.followers.removeAll { $0.deadline <= now }
        flights[key] = flight
        return gone.map { .goAlone($0.identifier) }
    }
}
