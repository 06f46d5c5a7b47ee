// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// Task identifiers, unique in the process.
package enum TaskIdentifiers {
    private static let last = Atomic<UInt64>(0)

    package static func next() -> UInt64 {
        last.wrappingAdd(1, ordering: .relaxed).newValue
    }
}
