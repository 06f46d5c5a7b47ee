// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// The signals that a server waits for (`pinproxy_block_servers_signals`), as a descriptor (signalfd(2)).
package final class SignalDescriptor {
    package let descriptor: Int32

    package init() throws(IOFailure) {
        descriptor = pinproxy_signal_descriptor()
        guard descriptor >= 0 else { throw IOFailure(code: -descriptor, during: "signalfd") }
    }

    deinit { close(descriptor) }

    /// The next pending signal; nil without one. Never blocks.
    package func readSignal() -> Int32? {
        let signal = pinproxy_take_signal(descriptor)
        return signal > 0 ? signal : nil
    }
}

/// Waits for descriptors without a loop (poll(2)).
package enum DescriptorPoll {
    /// Returns when one of them is readable, or at the deadline.
    ///
    /// - Parameter deadline: nanoseconds of the monotonic clock; nil for none.
    package static func wait(_ descriptors: [Int32], until deadline: UInt64?) {
        var waiting = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        var milliseconds: Int32 = -1
        if let deadline {
            let now = Clock.monotonic
            milliseconds = deadline > now ? Int32(clamping: (deadline - now + 999_999) / 1_000_000) : 0
        }
        poll(&waiting, nfds_t(waiting.count), milliseconds)
    }

    /// A descriptor that is readable when a child of this process has ended, for the caller to close (pidfd_open(2));
    /// nil if the kernel does not support it.
    package static func exitDescriptor(ofProcess identifier: Int32) -> Int32? {
        let descriptor = pinproxy_process_descriptor(identifier)
        return descriptor >= 0 ? descriptor : nil
    }

    /// Whether it is readable now.
    package static func isReadable(_ descriptor: Int32) -> Bool {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&waiting, 1, 0) > 0
    }
}
