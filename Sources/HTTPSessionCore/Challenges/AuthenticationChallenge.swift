// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import ServerTrust

/// A challenge that a hook answers with a `ChallengeDisposition`.
public struct AuthenticationChallenge: Sendable {
    /// The origin and the kind of proof that it asks for.
    public let protectionSpace: ProtectionSpace
    /// The credential that the session would use: the task delegate's, or one of the configuration's
    /// `credentialStorage`.
    public let proposedCredential: Credential?
    /// The number of this task's credentials that the same origin has rejected.
    public let previousFailureCount: Int
    /// The 401; nil for certificates.
    public let failureResponse: ResponseHead?
    /// The result of the security policy; nil unless the method is `serverTrust`.
    public let serverTrust: TrustEvaluation?

    init(
        _ space: ProtectionSpace,
        proposed: Credential? = nil,
        previousFailureCount: Int = 0,
        response: ResponseHead? = nil,
        serverTrust: TrustEvaluation? = nil
    ) {
        protectionSpace = space
        proposedCredential = proposed
        self.previousFailureCount = previousFailureCount
        failureResponse = response
        self.serverTrust = serverTrust
    }
}

/// The decision about a challenge, under Foundation's names.
public enum ChallengeDisposition: Sendable {
    /// Use this credential.
    ///
    /// For a server's trust this is `.serverTrust`, and has no effect: hooks are called only for servers that the
    /// security policy has accepted, and can only reject them. No hook can accept a server that the policy rejects.
    case useCredential(Credential)
    /// Decide as without a hook. HTTP: use the proposed credential, unless one has been rejected already; then the 401
    /// is the response. Server trust: the policy's verdict. Client certificates: the policy's, or the storage's.
    case performDefaultHandling
    /// End the task with the error `cancelled`.
    case cancelAuthenticationChallenge
    /// HTTP alone: decide when this closure returns, which may take any time (`TaskTimeouts.total` continues). It runs
    /// on a thread that may block; cancelling the task cancels its Swift task. Meanwhile the connection is free, or
    /// paused when the 401 has a long body.
    ///
    /// Server trust and client certificates are decided within the handshake, which does not wait: there this decision
    /// fails the task with `requestInvalid`.
    case answerLater(@Sendable () async -> ChallengeDisposition)
    /// HTTP: try the server's next scheme; without one the 401 is the response. Server trust: reject the server. Client
    /// certificates: send none.
    case rejectProtectionSpace
}
