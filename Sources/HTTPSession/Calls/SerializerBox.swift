import IOCore

/// A manager's serializers.
///
/// `@unchecked Sendable`: what changes is behind `lock`.
final class SerializerBox: @unchecked Sendable {
    private let lock = PosixLock()
    private var shared = Shared()

    private struct Shared {
        var request: any RequestSerializer = HTTPRequestSerializer()
        var response: any ResponseSerializer = JSONResponseSerializer()
    }

    var request: any RequestSerializer {
        get { lock.withLock { shared.request } }
        set { lock.withLock { shared.request = newValue } }
    }

    var response: any ResponseSerializer {
        get { lock.withLock { shared.response } }
        set { lock.withLock { shared.response = newValue } }
    }
}
