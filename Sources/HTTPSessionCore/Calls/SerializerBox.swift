// SPDX-License-Identifier: Apache-2.0
import IOCore

/// A manager's serializers.
///
/// `@unchecked Sendable`: what changes is behind `lock`.
final class SerializerBox: @unchecked Sendable {
    private let lock = PosixLock()
    private var shared = Shared()

    private struct Shared {
        var request: any RequestSerializer = HTTPRequestSerializer()
        var response = AnyResponseSerializer.json
        var decoder: (any DataDecoder)?
    }

    var decoder: (any DataDecoder)? {
        get { lock.withLock { shared.decoder } }
        set { lock.withLock { shared.decoder = newValue } }
    }

    var request: any RequestSerializer {
        get { lock.withLock { shared.request } }
        // A change is one step: another thread's change is before or after it. It is made to a copy: another thread may just have
        // ended to read this one, of which ThreadSanitizer cannot know.
        _modify {
            lock.lock()
            defer { lock.unlock() }
            var changed = shared.request
            defer { shared.request = changed }
            yield &changed
        }
    }

    var response: AnyResponseSerializer {
        get { lock.withLock { shared.response } }
        _modify {
            lock.lock()
            defer { lock.unlock() }
            var changed = shared.response
            defer { shared.response = changed }
            yield &changed
        }
    }
}
