// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// A system thread with a name, to run a loop on; `join` waits for its end.
///
/// `@unchecked Sendable`: the handle is written once in `init` and read by `join`; the body is handed over before
/// the thread starts.
package final class LoopThread: @unchecked Sendable {
    private let handle: pthread_t

    private final class Body {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// - Parameter name: at most 15 bytes are shown by the system.
    package init(name: String, _ run: @escaping @Sendable () -> Void) throws(IOFailure) {
        let body = Unmanaged.passRetained(Body(run))
        var created = pthread_t()
        let result = pthread_create(
            &created,
            nil,
            { pointer in
                Unmanaged<Body>.fromOpaque(pointer!).takeRetainedValue().run()
                return nil
            },
            body.toOpaque()
        )
        guard result == 0 else {
            body.release()
            throw IOFailure(code: result, during: "pthread_create")
        }
        pinproxy_name_thread(created, String(name.prefix(15)))
        handle = created
    }

    package func join() {
        pthread_join(handle, nil)
    }

    /// Waits for its end, up to a time limit.
    ///
    /// - Returns: whether it has ended; if not, it continues, and still has to be joined or detached.
    package func join(within time: TimeSpan) -> Bool {
        pinproxy_join_thread(handle, time.nanoseconds) == 0
    }

    /// Whether the caller is on this thread.
    package var isCurrent: Bool { pthread_equal(handle, pthread_self()) != 0 }

    /// Replaces `join` when no caller will wait: the system frees the thread when it ends.
    package func detach() {
        pthread_detach(handle)
    }
}
