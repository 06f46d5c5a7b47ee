// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// Connection numbers, unique in the process.
enum ConnectionIdentifiers {
    private static let last = Atomic<UInt64>(0)

    static func next() -> UInt64 {
        last.wrappingAdd(1, ordering: .relaxed).newValue
    }
}
