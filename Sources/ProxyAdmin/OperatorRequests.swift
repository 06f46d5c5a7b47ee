// SPDX-License-Identifier: Apache-2.0
package import IOCore
package import ProxyCore

/// Requests of the admin listener for the thread that reloads and stops the proxy.
///
/// `@unchecked Sendable`: `waiting` is touched behind `lock` alone.
package final class OperatorRequests: @unchecked Sendable {
    package enum Request: Sendable {
        /// Load the files now. The completion receives the result, on any thread.
        case reload(dropsPins: Bool, completion: @Sendable (ReloadRecord) -> Void)
        /// Stop as SIGTERM does.
        case drain
    }

    private let lock = PosixLock()
    private var waiting: [Request] = []
    private let wakeUp: WakeUp

    /// Reloads that wait; each costs the reading of all files.
    private static let mostWaiting = 16

    package init() throws(IOFailure) { wakeUp = try WakeUp() }

    /// Readable when requests may wait.
    package var descriptor: Int32 { wakeUp.descriptor }

    /// - Returns: false when too many wait.
    func submit(_ request: Request) -> Bool {
        let isAccepted = lock.withLock {
            guard waiting.count < Self.mostWaiting else { return false }
            waiting.append(request)
            return true
        }
        if isAccepted { wakeUp.signal() }
        return isAccepted
    }

    /// Returns the waiting requests in their order.
    package func take() -> [Request] {
        wakeUp.clear()
        return lock.withLock {
            defer { waiting = [] }
            return waiting
        }
    }
}
