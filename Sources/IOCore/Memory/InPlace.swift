// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// Keeps a noncopyable struct that has it at its address, like an atomic number: to borrow it is to pass that address on. Otherwise
/// the compiler loads a struct out of the object that holds it, all its bytes for each call.
package struct InPlace: ~Copyable, Sendable {
    private let atom = Atomic<UInt8>(0)

    package init() {}
}
