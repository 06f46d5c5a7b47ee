// SPDX-License-Identifier: Apache-2.0
/// Collapsed forwarding: requests for a URI that is not stored wait for the response to the first of them (RFC 9111 4).
///
/// The first request for a key is the leader: it goes to the origin. Requests that arrive meanwhile are followers: they
/// wait until the response is stored, or until their timeout. A response that is not reusable for others (private, not
/// storable) is never given to them: all are released to the origin, and for a while requests for that key do not wait
/// at all. All are released as well when the leader fails. When the leader's client disconnects, the follower that has
/// waited longest becomes the leader.
///
/// A value without clock or threads; times are in any unit of a monotonic clock, such as nanoseconds.
public struct CollapsedRequests<Identifier: Hashable & Sendable>: Sendable {
    /// The next step of a new request.
    public enum Joining: Hashable, Sendable {
        /// Go to the origin, and report the result with `finished`, `isNotForOthers`, `failed` or `abandoned`.
        case lead
        /// Wait for an action, and call `expire` at this time.
        case wait(until: UInt64)
        /// Go to the origin; no other request waits for this one.
        case goAlone
    }

    /// The next step of a request that has waited.
    public enum Action: Hashable, Sendable {
        /// The response is stored: look it up. It may have other selecting fields; then go to the origin alone.
        case lookUp(Identifier)
        /// Go to the origin; no other request waits for this one.
        case goAlone(Identifier)
        /// Go to the origin as the leader.
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
    /// Keys whose responses were not reusable for others, and the time until which this is assumed.
    private var separate: [CacheKey: UInt64] = [:]
    private let patience: UInt64
    private let memory: UInt64
    private let followersAtMost: Int

    /// - Parameters:
    ///   - patience: the timeout of followers.
    ///   - memory: how long requests are not collapsed after a response that was not reusable for others.
    ///   - followersAtMost: for one key; further requests go alone.
    public init(patience: UInt64, memory: UInt64, followersAtMost: Int = 10_000) {
        self.patience = patience
        self.memory = memory
        self.followersAtMost = followersAtMost
    }

    /// The number of waiting requests.
    public var followerCount: Int { flights.values.reduce(0) { $0 + $1.followers.count } }

    /// A request found no usable stored response.
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

    /// A background revalidation goes to the origin as the leader, also while requests for the key do not wait.
    ///
    /// - Returns: false when another request for the key is at the origin.
    public mutating func lead(_ identifier: Identifier, for key: CacheKey) -> Bool {
        guard flights[key] == nil else { return false }
        flights[key] = Flight(leader: identifier)
        return true
    }

    /// The head of the leader's response shows that it will not be stored: the followers do not wait for its body.
    public mutating func isNotForOthers(_ leader: Identifier, for key: CacheKey, now: UInt64) -> [Action] {
        guard let flight = flights[key], flight.leader == leader else { return [] }
        flights[key] = nil
        // The oldest entry is removed, so that the table stays small.
        if separate.count >= 4096 { separate = separate.filter { $0.value > now } }
        if separate.count >= 4096 { separate.removeAll() }
        separate[key] = now &+ memory
        return flight.followers.map { .goAlone($0.identifier) }
    }

    /// The head of the leader's response shows that the followers can read it along: they wait no longer.
    ///
    /// - Returns: the followers.
    public mutating func isReadable(_ leader: Identifier, for key: CacheKey) -> [Identifier] {
        guard var flight = flights[key], flight.leader == leader else { return [] }
        let followers = flight.followers.map(\.identifier)
        flight.followers = []
        flights[key] = flight
        return followers
    }

    /// Whether this request is at the origin for others, too.
    public func leads(_ identifier: Identifier, for key: CacheKey) -> Bool { flights[key]?.leader == identifier }

    /// The leader's response is stored completely.
    public mutating func finished(_ leader: Identifier, for key: CacheKey) -> [Action] {
        guard let flight = flights[key], flight.leader == leader else { return [] }
        flights[key] = nil
        return flight.followers.map { .lookUp($0.identifier) }
    }

    /// The leader got no response, or an incomplete one: all followers are released to the origin at once. If each led
    /// in turn, a failure that takes a second would reach the last one only after its timeout.
    public mutating func failed(_ leader: Identifier, for key: CacheKey) -> [Action] {
        guard let flight = flights[key], flight.leader == leader else { return [] }
        flights[key] = nil
        return flight.followers.map { .goAlone($0.identifier) }
    }

    /// The leader's client disconnected, so that the origin has not failed: the follower that has waited longest leads.
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

    /// A follower's client disconnected.
    public mutating func leave(_ identifier: Identifier, for key: CacheKey) {
        flights[key]?.followers.removeAll { $0.identifier == identifier }
    }

    /// Releases the followers whose timeout is over.
    public mutating func expire(_ key: CacheKey, now: UInt64) -> [Action] {
        guard var flight = flights[key] else { return [] }
        let gone = flight.followers.filter { $0.deadline <= now }
        guard !gone.isEmpty else { return [] }
        flight.followers.removeAll { $0.deadline <= now }
        flights[key] = flight
        return gone.map { .goAlone($0.identifier) }
    }
}
