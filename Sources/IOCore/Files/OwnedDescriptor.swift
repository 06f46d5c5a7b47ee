// SPDX-License-Identifier: Apache-2.0
import Glibc

/// A descriptor that is closed once, when its owner is gone.
///
/// A class that has a plain number closes it in its `deinit`. That runs also when an initializer throws after the last property
/// is set, so that an initializer which closes the number itself closes it twice: the second time it may be another file's,
/// or another connection's.
package struct OwnedDescriptor: ~Copyable, Sendable {
    package let number: Int32

    /// - Parameters:
    ///   - number: what the call has returned; -1 after a failure, with `errno`.
    ///   - call: its name, for the error.
    package init(_ number: Int32, of call: StaticString) throws(IOFailure) {
        guard number >= 0 else { throw IOFailure(code: errno, during: call) }
        self.number = number
    }

    deinit { close(number) }
}
