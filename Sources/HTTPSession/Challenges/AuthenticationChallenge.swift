public import HTTPCore
public import ServerTrust

/// A question that a hook answers with a `ChallengeDisposition`.
public struct AuthenticationChallenge: Sendable {
    /// Who asks for what.
    public let protectionSpace: ProtectionSpace
    /// What the session would answer: of the task's delegate, or of the configuration's `credentialStorage`.
    public let proposedCredential: Credential?
    /// How many answers of this task the same place has refused already.
    public let previousFailureCount: Int
    /// The 401 that asks; nil for certificates.
    public let failureResponse: ResponseHead?
    /// What the security policy has found; nil unless the method is `serverTrust`.
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

/// What becomes of a challenge, under Foundation's names.
public enum ChallengeDisposition: Sendable {
    /// Answer with that.
    ///
    /// For a server's trust this is `.serverTrust`, and changes nothing: a hook is asked about servers that the security
    /// policy has accepted, and can only refuse them. What a policy refuses, no hook accepts.
    case useCredential(Credential)
    /// As the session does without a hook. HTTP: the proposed credential, unless one has been refused already; then the
    /// 401 is the answer. Server trust: the policy's verdict. Client certificates: the policy's, or the storage's.
    case performDefaultHandling
    /// End the task with the error `cancelled`.
    case cancelAuthenticationChallenge
    /// HTTP alone: answer when this returns, which may take as long as it wants (`TaskTimeouts.total` goes on). It runs on
    /// a thread that may block; cancelling the task cancels its Swift task. Meanwhile the connection is free, or held back
    /// where the 401 has a long body.
    ///
    /// Server trust and client certificates are decided within the handshake, which does not wait: there this fails the
    /// task with `requestInvalid`.
    case answerLater(@Sendable () async -> ChallengeDisposition)
    /// HTTP: see whether the server has another way, and else take the 401 for the answer. Server trust: refuse the
    /// server. Client certificates: show none.
    case rejectProtectionSpace
}
