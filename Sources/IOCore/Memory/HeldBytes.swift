// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// The limit for the bytes that peers make the process hold: decoded heads, bodies and responses that wait.
///
/// All loops share it. Each draws large pieces for its own account (`HeldBytes`), so that the number is seldom written.
package final class HeldBytesBudget: Sendable {
    private let drawn = Atomic<Int>(0)
    private let limit: Atomic<Int>

    /// What a connection may hold, at most, when the limit is reached: enough for requests of the usual size.
    private static let leastPart = 64 << 10

    package init(limit: Int) { self.limit = Atomic(limit) }

    /// The bytes that are held, rounded up for each loop.
    package var used: Int { drawn.load(ordering: .relaxed) }

    /// The limit may change at a reload.
    package func setLimit(_ bytes: Int) { limit.store(bytes, ordering: .relaxed) }

    fileprivate func draw(_ bytes: Int) { drawn.wrappingAdd(bytes, ordering: .relaxed) }

    /// Whether half of the limit is used: the rest is for those that hold little.
    package var isShort: Bool { used >= limit.load(ordering: .relaxed) / 2 }

    /// Whether a connection may hold more.
    ///
    /// One that holds little may always: it has to be served however much others hold. From half of the limit on, a connection
    /// has its equal part of the other half. That part was larger for those that came when there were fewer connections, so
    /// that from the limit on it is `leastPart` at most.
    ///
    /// - Parameters:
    ///   - held: the bytes that it holds.
    ///   - connections: the number of connections.
    package func mayHoldMore(_ held: Int, of connections: Int) -> Bool {
        let (used, limit) = (used, limit.load(ordering: .relaxed))
        guard used >= limit / 2 else { return true }
        let part = limit / 2 / max(1, connections)
        return held < (used < limit ? part : min(part, Self.leastPart))
    }
}

/// One loop's account of the bytes that its peers make it hold. Belongs to the loop's thread.
package final class HeldBytes {
    package let budget: HeldBytesBudget
    private(set) package var count = 0
    private var drawn = 0

    /// So much is drawn at once.
    package static let step = 256 << 10

    package init(_ budget: HeldBytesBudget) { self.budget = budget }

    deinit { budget.draw(-drawn) }

    @inline(__always)
    package func change(by delta: Int) {
        count &+= delta
        if count > drawn || drawn &- count > 2 * Self.step { settle() }
    }

    private func settle() {
        let next = (count / Self.step + 1) * Self.step
        budget.draw(next - drawn)
        drawn = next
    }
}
