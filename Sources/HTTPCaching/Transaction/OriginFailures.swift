// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Synchronization

/// The origins to which a connection has failed, with the latest time.
///
/// `@unchecked Sendable`: `lock` guards `times`.
final class OriginFailures: @unchecked Sendable {
    private let lock = PosixLock()
    private var times: [Origin: UInt64] = [:]
    private let isEmpty = Atomic<Bool>(true)
    /// Beyond that many nothing is remembered: such an origin is asked again.
    private static let countAtMost = 10_000

    /// - Parameter now: of the loop, in nanoseconds.
    func note(_ origin: Origin, now: UInt64) {
        lock.withLock {
            guard times.count < Self.countAtMost || times[origin] != nil else { return }
            times[origin] = now
        }
        isEmpty.store(false, ordering: .releasing)
    }

    func forget(_ origin: Origin) {
        guard !isEmpty.load(ordering: .acquiring) else { return }
        lock.withLock {
            times[origin] = nil
            if times.isEmpty { isEmpty.store(true, ordering: .releasing) }
        }
    }

    /// Whole seconds since the latest failure, rounded down; nil without one. It takes no lock while there is none at all.
    func seconds(since origin: Origin, now: UInt64) -> Int? {
        guard !isEmpty.load(ordering: .acquiring) else { return nil }
        // Clocks of loops may differ a little.
        return lock.withLock { times[origin].map { Int((max(now, $0) - $0) / 1_000_000_000) } }
    }
}
