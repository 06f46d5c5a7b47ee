import HTTPCore
import IOCore
import SessionCore

/// HTTP authentication: the questions of servers, and what the hooks and the credentials of a task answer.
extension TaskExecution {
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
            return .deliver
        }
        let offers = OfferedAuthentication.list(head, at: origin)
        if let sent {
            if let fresh = offers.first(where: { $0.digest?.isStale ?? false && $0.space == sent.space }),
                authentication.beginRound()
            {
                // The nonce was too old, and nothing else wrong (RFC 7616, section 3.3).
                return repeatRequest(fresh, with: sent.credential, at: url)
            }
            authentication.failed(at: origin)
            if session.authorizers[origin] === sent { session.authorizers[origin] = nil }
        }
        guard authentication.beginRound() else { return .deliver }
        return ask(AuthenticationQuestion(response: copy head, url: url, offers: offers[...]), of: task)
    }

    /// Asks about each way that is left, until one is answered.
    func ask(_ question: AuthenticationQuestion, of task: SessionTask) -> Step {
        var question = question
        while let offer = question.offers.first {
            let challenge = AuthenticationChallenge(
                offer.space,
                proposed: task.proposedCredential(for: offer.space),
                previousFailureCount: authentication.failureCount(at: question.url.origin),
                response: question.response
            )
            let disposition = task.challengeHook?(task, challenge) ?? .performDefaultHandling
            if let step = apply(disposition, of: question, task) { return step }
            question.offers = question.offers.dropFirst()
        }
        return .deliver
    }

    /// What an answer to the first of the question's ways leads to; nil: the next is asked about.
    func apply(_ disposition: ChallengeDisposition, of question: AuthenticationQuestion, _ task: SessionTask) -> Step? {
        guard let offer = question.offers.first else { return .deliver }
        switch disposition {
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
            return repeatRequest(offer, with: credential, at: question.url)
        case .performDefaultHandling:
            // Once refused, the same is not tried again.
            guard authentication.failureCount(at: question.url.origin) == 0,
                let proposed = task.proposedCredential(for: offer.space), offer.space.mayCarry(proposed)
            else { return nil }
            return repeatRequest(offer, with: proposed, at: question.url)
        case .cancelAuthenticationChallenge:
            return .fail(Self.cancelled)
        case .rejectProtectionSpace:
            return nil
        case .answerLater(let decision):
            return .wait(question, decision)
        }
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

    private func remember(_ authorizer: Authorizer, at origin: Origin, _ fields: borrowing HTTPFields) {
        authorizer.updateNonce(from: fields)
        guard authorizer.credential.persistence == .forSession, session.authorizers[origin] !== authorizer else {
            return
        }
        if session.authorizers.count >= SessionThread.authorizerLimit { session.authorizers.removeAll() }
        session.authorizers[origin] = authorizer
        session.configuration.credentialStorage?.setDefaultCredential(authorizer.credential, for: authorizer.space)
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
