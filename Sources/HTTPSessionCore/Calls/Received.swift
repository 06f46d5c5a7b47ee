// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The response of the latest attempt of a request, for the calls that serialize it again.
///
/// `@unchecked Sendable`: what changes is behind `lock`.
final class Received<Response: Sendable>: @unchecked Sendable {
    private let lock = PosixLock()
    private var latest: Response?

    var response: Response? {
        get { lock.withLock { latest } }
        set { lock.withLock { latest = newValue } }
    }
}
