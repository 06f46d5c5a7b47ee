// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import IOCore

/// Removals by an operator, one after the other.
struct CachePurge: Sendable {
    /// Whether they make responses stale.
    private let softly: Bool
    private let cache: ResponseCache
    private let deliver: Delivery
    private let completion: @Sendable (String) -> Void

    /// - Parameters:
    ///   - deliver: calls the completion on the caller's thread.
    ///   - completion: receives the document for the response.
    init(
        softly: Bool,
        in cache: ResponseCache,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable (String) -> Void
    ) {
        self.softly = softly
        self.cache = cache
        self.deliver = deliver
        self.completion = completion
    }

    /// - Parameters:
    ///   - done: the number of responses that were removed before.
    ///   - isShared: whether the shared level has confirmed all so far.
    func perform(_ purges: ArraySlice<Purge>, done: Int = 0, isShared: Bool = true) {
        guard let first = purges.first else {
            let shared = cache.shared == nil ? nil : isShared
            return completion(CacheAdministration.document(purged: done, softly: softly, isShared: shared))
        }
        let rest = purges.dropFirst()
        guard let shared = cache.shared else {
            return perform(first) { perform(rest, done: done + $0) }
        }
        // The other machines come first: what is found there afterwards, on its way into this machine's memory, is not older.
        shared.publish(first, expires: softly) { isConfirmed in
            deliver { perform(first) { perform(rest, done: done + $0, isShared: isShared && isConfirmed) } }
        }
    }

    private func perform(_ purge: Purge, _ next: @escaping @Sendable (Int) -> Void) {
        guard softly else { return cache.store.remove(purge, deliver: deliver, next) }
        cache.store.expire(purge, now: Int(Clock.seconds), deliver: deliver, next)
    }
}
