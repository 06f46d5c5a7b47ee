// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// Wakes a thread that waits for descriptors without a loop (eventfd(2)): `descriptor` is readable after `signal`, until
/// `clear`.
package final class WakeUp: Sendable {
    package let descriptor: Int32

    package init() throws(IOFailure) {
        descriptor = pinproxy_eventfd()
        guard descriptor >= 0 else { throw IOFailure(code: -descriptor, during: "eventfd") }
    }

    deinit { close(descriptor) }

    /// May be called on any thread, and more than once.
    package func signal() {
        var one: UInt64 = 1
        _ = pinproxy_write_file(descriptor, &one, 8)
    }

    package func clear() {
        var count: UInt64 = 0
        _ = read(descriptor, &count, 8)
    }
}
