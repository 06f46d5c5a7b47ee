package import SessionCore

/// What notifications tell of: more distant than hooks, in order for each task, on the session's callback queue.
package enum SessionEvent: Sendable {
    case didResume(SessionTask)
    case didSuspend(SessionTask)
    case didComplete(SessionTask)
    case moveFailed(DownloadTask, SessionError)
    case didInvalidate
}
