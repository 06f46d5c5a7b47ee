// SPDX-License-Identifier: Apache-2.0
/// A level of the cache behind memory and disk that several machines share. One object for each loop, for that loop's thread alone.
///
/// Each call ends within the level's time; a level that fails finds nothing.
package protocol SharedLevel: AnyObject {
    /// Looks for the stored response that a request selects.
    ///
    /// - Parameter completion: is called once on the loop, later than this call; not after `SharedLookUp.cancel`.
    func lookUp(_ question: SharedQuestion, _ completion: @escaping (SharedFinding) -> Void) -> any SharedLookUp

    /// Stores a response whose body is complete and in memory.
    func store(_ entry: CachedEntry, with ticket: any SharedTicket)

    /// Gives a ticket back with which nothing is stored.
    ///
    /// - Parameter isForOthers: false: the response cannot be used for other requests, which need not wait for the next one.
    func giveBack(_ ticket: any SharedTicket, isForOthers: Bool)

    /// Removes all responses of these keys' URIs.
    ///
    /// - Parameter completion: is called once on the loop, at the latest when the level's time is over.
    func invalidate(_ keys: [CacheKey], _ completion: @escaping () -> Void)

    /// The length of the largest body that it stores, in bytes: no other machine waits for a larger one.
    var largestBody: Int { get }
}

extension SharedLevel {
    package var largestBody: Int { .max }
}

/// A request to a shared level.
package struct SharedQuestion {
    package var key: CacheKey
    package var request: CacheRequest
    package var digest: PolicyDigest
    /// Whether it waits while another machine asks the origin.
    package var waits: Bool

    package init(key: CacheKey, request: CacheRequest, digest: PolicyDigest, waits: Bool) {
        self.key = key
        self.request = request
        self.digest = digest
        self.waits = waits
    }
}

/// The result of a look-up in a shared level.
package enum SharedFinding {
    /// A response under the question's policy that the request selects, with its body in memory; it may be stale. The ticket is for the
    /// response to the request that may follow.
    case found(CachedEntry, any SharedTicket)
    /// Nothing of use. Without a ticket the response is not stored in the shared level.
    case nothing((any SharedTicket)?)
}

/// The state of the shared level when a request was about to be sent to the origin.
package protocol SharedTicket: AnyObject {}

/// A look-up that is under way.
package protocol SharedLookUp: AnyObject {
    /// Ends it without a call of its completion. A lease that it has or will get is given back.
    func cancel()
}

/// The process's part of a shared level, for any thread.
package protocol SharedPurges: AnyObject, Sendable {
    /// Lets all machines remove what the purge names, or make it stale.
    ///
    /// - Parameter completion: is called once, on any thread: whether the shared level has confirmed it.
    func publish(_ purge: Purge, expires: Bool, _ completion: @escaping @Sendable (Bool) -> Void)
}
