// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// How often a rule has decided. Every thread may count and read.
package final class RuleTally: Sendable {
    /// Empty for requests that no rule matches.
    package let id: String
    package let then: String
    private let counted = Atomic<Int>(0)

    init(_ id: String, _ then: String) {
        self.id = id
        self.then = then
    }

    var key: String { "\(id) \(then)" }

    func add() { counted.wrappingAdd(1, ordering: .relaxed) }

    package var count: Int { counted.load(ordering: .relaxed) }
}
