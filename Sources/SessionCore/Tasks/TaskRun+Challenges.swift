import HTTPCore
import IOCore
import ServerTrust

/// The questions of servers, and what the hooks and the credentials of a task answer.
extension TaskRun {
    // MARK: HTTP authentication

    /// Puts `Authorization` into a request's fields, when it is known what the server wants there.
    func authorize(_ fields: inout HTTPFields, _ place: RequestURL) throws(SessionError) {
        authentication.sent = nil
        let authorizer: Authorizer
        if let chosen = authentication.chosen, chosen.space.isAt(place.origin) {
            authorizer = chosen
        } else if !fields.contains(.authorization), let known = session.authorizers[place.origin],
            known.covers(place.target)
        {
            authorizer = known
        } else {
            return
        }
        guard let value = authorizer.authorization(method: request.method, target: place.target) else {
            throw SessionError(.requestInvalid, "The credential for \(place.origin) cannot be sent as the server asks.")
        }
        try fields.setForRequest("Authorization", value)
        authentication.sent = authorizer
    }

    /// Looks at an answer: a 401 may be answered, and anything else tells that the credential was good.
    func authenticate(_ head: borrowing ResponseHead, at url: AbsoluteURL, of task: SessionTask) -> Step {
        let origin = url.origin
        let sent = authentication.sent
        authentication.sent = nil
        guard head.status == 401 else {
            if let sent { remember(sent, at: origin, head.fields) }
            return .answer
        }
        let offers = OfferedAuthentication.list(head, at: origin)
        if let sent {
            if let fresh = offers.first(where: { $0.digest?.isStale ?? false && $0.space == sent.space }),
                authentication.begin()
            {
                // The nonce was too old, and nothing else wrong (RFC 7616, section 3.3).
                return repeatRequest(fresh, with: sent.credential, at: url)
            }
            authentication.failed(at: origin)
            if session.authorizers[origin] === sent { session.authorizers[origin] = nil }
        }
        guard authentication.begin() else { return .answer }
        let response = copy head
        for offer in offers {
            let proposed = proposedCredential(for: offer.space, of: task)
            let challenge = AuthenticationChallenge(
                offer.space,
                proposed: proposed,
                previousFailureCount: authentication.failureCount(at: origin),
                response: response
            )
            switch taskHook(task)?(task, challenge) ?? .performDefaultHandling {
            case .useCredential(let credential):
                guard credential.answers(offer.space.authenticationMethod) else {
                    return .fail(
                        SessionError(
                            .requestInvalid,
                            "The hook answered \(offer.space.authenticationMethod) with \(credential)."
                        )
                    )
                }
                guard offer.space.mayCarry(credential) else { return .fail(Self.needsTLS) }
                return repeatRequest(offer, with: credential, at: url)
            case .performDefaultHandling:
                // Once refused, the same is not tried again.
                guard challenge.previousFailureCount == 0, let proposed, offer.space.mayCarry(proposed) else {
                    continue
                }
                return repeatRequest(offer, with: proposed, at: url)
            case .cancelAuthenticationChallenge:
                return .fail(Self.cancelled)
            case .rejectProtectionSpace:
                continue
            }
        }
        return .answer
    }

    private static let needsTLS = SessionError(.requestInvalid, "A bearer token is not sent without TLS. Write https.")

    private func repeatRequest(
        _ offer: OfferedAuthentication,
        with credential: Credential,
        at url: AbsoluteURL
    ) -> Step {
        authentication.chosen = Authorizer(offer.space, credential, digest: offer.digest, target: url.rest)
        return .follow(request)
    }

    /// The delegate's own credential is for the place that the task was made for: a redirect does not take it elsewhere.
    private func proposedCredential(for space: ProtectionSpace, of task: SessionTask) -> Credential? {
        if let own = task.delegate.credential, own.answers(space.authenticationMethod),
            let home = AbsoluteURL(task.originalRequest.url), space.isAt(home.origin)
        {
            return own
        }
        return session.configuration.credentialStorage?.defaultCredential(for: space)
    }

    private func remember(_ authorizer: Authorizer, at origin: Origin, _ fields: borrowing HTTPFields) {
        authorizer.takeInfo(fields)
        guard authorizer.credential.persistence == .forSession, session.authorizers[origin] !== authorizer else {
            return
        }
        if session.authorizers.count >= SessionThread.authorizerLimit { session.authorizers.removeAll() }
        session.authorizers[origin] = authorizer
        session.configuration.credentialStorage?.setDefaultCredential(authorizer.credential, for: authorizer.space)
    }

    private func taskHook(_ task: SessionTask) -> SessionHooks.TaskChallenge? {
        task.delegate.taskDidReceiveChallenge ?? session.hookBox.hooks.taskDidReceiveChallenge
    }

    // MARK: TLS

    /// The session's hook is asked about connections; where there is none, the task's is.
    private func answer(_ challenge: AuthenticationChallenge, of task: SessionTask) -> ChallengeDisposition {
        if let hook = session.hookBox.hooks.sessionDidReceiveAuthenticationChallenge { return hook(challenge) }
        return taskHook(task)?(task, challenge) ?? .performDefaultHandling
    }

    /// Why a server that the policy accepts is refused all the same; nil to accept it.
    func judge(_ trust: ConnectionTrust) -> SessionError? {
        guard let task, let origin = url?.origin else { return Self.cancelled }
        let space = ProtectionSpace(origin, .serverTrust)
        let challenge = AuthenticationChallenge(space, proposed: .serverTrust, serverTrust: trust.evaluation)
        switch answer(challenge, of: task) {
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
            return Self.cancelled
        }
    }

    func clientIdentity() -> ClientIdentityDecision {
        guard let task, let origin = url?.origin else { return .fail(Self.cancelled) }
        let space = ProtectionSpace(origin, .clientCertificate)
        let proposed = proposedCredential(for: space, of: task)
        let credential: Credential?
        switch answer(AuthenticationChallenge(space, proposed: proposed), of: task) {
        case .performDefaultHandling: credential = proposed
        case .useCredential(let chosen): credential = chosen
        case .rejectProtectionSpace: credential = nil
        case .cancelAuthenticationChallenge: return .fail(Self.cancelled)
        }
        switch credential?.kind {
        case .identity(let identity): return .show(identity)
        case nil: return .none
        default:
            return .fail(
                SessionError(
                    .requestInvalid,
                    "The hook answered the wish for a client certificate with something else."
                )
            )
        }
    }
}

extension ProtectionSpace {
    func isAt(_ origin: Origin) -> Bool {
        (scheme == .https) == (origin.scheme == .https) && host == origin.host && port == origin.port
    }

    /// A token is good for whoever reads it (RFC 6750, section 5.3).
    func mayCarry(_ credential: Credential) -> Bool {
        if case .bearer = credential.kind { scheme == .https } else { true }
    }
}
