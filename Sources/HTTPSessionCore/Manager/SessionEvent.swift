// SPDX-License-Identifier: Apache-2.0
package import SessionCore

/// The events that notifications report: fewer than the hooks, in order for each task, on the session's callback queue.
package enum SessionEvent: Sendable {
    case didResume(SessionTask)
    case didSuspend(SessionTask)
    case didComplete(SessionTask)
    case moveFailed(DownloadTask, SessionError)
    case didInvalidate
}
