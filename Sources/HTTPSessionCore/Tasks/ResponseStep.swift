// SPDX-License-Identifier: Apache-2.0
import SessionCore

/// The effect of a response head on a task.
enum ResponseStep {
    /// The task goes on with another request: a redirect, or the same request with credentials.
    case follow(HTTPSessionRequest)
    /// The response is the task's response.
    case deliver
    case fail(SessionError)
    /// A hook decides later about the challenge of a 401.
    case wait(AuthenticationQuestion, @Sendable () async -> ChallengeDisposition)
}
