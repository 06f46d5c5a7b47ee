// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import SessionCore

/// Evaluates the challenges of a TLS handshake by the hooks and credentials of a task. The decisions are immediate,
/// since libcurl and OpenSSL are inside the handshake.
struct ConnectionTrustEvaluator {
    let task: SessionTask
    let origin: Origin
    /// The session's hook decides about connections; without one the task's hook does.
    private let ofSession: (@Sendable (AuthenticationChallenge) -> ChallengeDisposition)?
    private let ofTask: SessionHooks.TaskChallenge?

    init(_ task: SessionTask, at origin: Origin) {
        self.task = task
        self.origin = origin
        ofSession = task.session.hookBox.hooks.sessionDidReceiveAuthenticationChallenge
        ofTask = ofSession == nil ? task.challengeHook : nil
    }

    private func disposition(of challenge: AuthenticationChallenge) -> ChallengeDisposition {
        if let ofSession { return ofSession(challenge) }
        return ofTask?(task, challenge) ?? .performDefaultHandling
    }

    /// The reason to reject a server that the policy accepts; nil to accept it.
    func evaluate(_ trust: ConnectionTrust) -> SessionError? {
        let space = ProtectionSpace(origin, .serverTrust)
        let challenge = AuthenticationChallenge(space, proposed: .serverTrust, serverTrust: trust.evaluation)
        switch disposition(of: challenge) {
        case .performDefaultHandling:
            return nil
        case .useCredential(let credential) where credential.answers(.serverTrust):
            return nil
        case .useCredential(let credential):
            return SessionError(
                .requestInvalid,
                "A hook answered \(origin.host)'s server trust with \(credential): perform default handling instead.",
                evaluation: trust.evaluation
            )
        case .rejectProtectionSpace:
            return SessionError(
                .certificateUntrusted,
                "\(origin.host) was refused by a hook of the session, although the security policy accepts it.",
                evaluation: trust.evaluation
            )
        case .cancelAuthenticationChallenge:
            return .taskCancelled
        case .answerLater:
            return SessionError(
                .requestInvalid,
                "A hook would evaluate \(origin.host) later, and the handshake does not wait. Decide at once.",
                evaluation: trust.evaluation
            )
        }
    }

    func clientIdentity() -> ClientIdentityDecision {
        let space = ProtectionSpace(origin, .clientCertificate)
        let proposed = task.proposedCredential(for: space)
        let credential: Credential?
        switch disposition(of: AuthenticationChallenge(space, proposed: proposed)) {
        case .performDefaultHandling: credential = proposed
        case .useCredential(let chosen): credential = chosen
        case .rejectProtectionSpace: credential = nil
        case .cancelAuthenticationChallenge: return .fail(.taskCancelled)
        case .answerLater:
            return .fail(
                SessionError(
                    .requestInvalid,
                    "A hook would choose a client certificate later, and the handshake does not wait. Decide at once."
                )
            )
        }
        switch credential?.kind {
        case .identity(let identity): return .show(identity)
        case nil: return .none
        default:
            return .fail(
                SessionError(
                    .requestInvalid,
                    "The hook answered the request for a client certificate with another kind of credential."
                )
            )
        }
    }
}

extension SessionTask {
    var challengeHook: SessionHooks.TaskChallenge? {
        delegate.taskDidReceiveChallenge ?? session.hookBox.hooks.taskDidReceiveChallenge
    }

    /// The delegate's own credential is for the origin of the original request; a redirect does not take it elsewhere.
    func proposedCredential(for space: ProtectionSpace) -> Credential? {
        if let own = delegate.credential, own.answers(space.authenticationMethod),
            let home = AbsoluteURL(originalRequest.url), space.isAt(home.origin)
        {
            return own
        }
        return session.configuration.credentialStorage?.defaultCredential(for: space)
    }
}
