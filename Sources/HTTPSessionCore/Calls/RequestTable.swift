// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The requests of a manager that are under way.
///
/// `@unchecked Sendable`: `lock` guards `requests`. No foreign code is called with it held.
final class RequestTable: @unchecked Sendable {
    private let lock = PosixLock()
    private var requests: [ObjectIdentifier: Request] = [:]

    func insert(_ request: Request) {
        lock.withLock { requests[ObjectIdentifier(request)] = request }
    }

    func remove(_ request: Request) {
        lock.withLock { requests[ObjectIdentifier(request)] = nil }
    }

    var all: [Request] { lock.withLock { Array(requests.values) } }
}
