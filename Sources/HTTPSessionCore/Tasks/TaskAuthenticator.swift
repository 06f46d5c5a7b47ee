// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// HTTP authentication of one task: asks hooks and stored credentials about each 401, and adds `Authorization` to
/// requests. Belongs to the loop.
final class TaskAuthenticator {
    private let session: SessionThread
    /// Credentials that were chosen for this task, for requests to their origin.
    private var chosen: Authorizer?
    /// Credentials of the request that is under way.
    private var sent: Authorizer?
    private var failures: [Origin: Int] = [:]
    private var rounds = 0

    /// Repetitions of one task, over all origins, so that a hook with ever new credentials does not ask a server for
    /// ever.
    private static let roundLimit = 10

    init(_ session: SessionThread) { self.session = session }

    /// Adds `Authorization` to a request's fields when the credentials for its target are known.
    func authorize(_ request: HTTPSessionRequest, _ fields: inout HeaderFields, _ place: RequestURL)
        throws(SessionError)
    {
        sent = nil
        let authorizer: Authorizer
        if let chosen, chosen.space.isAt(place.origin) {
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
        sent = authorizer
    }

    /// Evaluates a response head. A 401 may lead to a second request; any other status proves that the credentials
    /// which were sent are good.
    func didReceiveHead(
        _ head: borrowing ResponseHead,
        to request: HTTPSessionRequest,
        at url: AbsoluteURL,
        of task: SessionTask
    ) -> ResponseStep {
        let origin = url.origin
        let sent = sent
        self.sent = nil
        guard head.status == 401 else {
            if let sent { remember(sent, at: origin, head.fields) }
            return .deliver
        }
        let offers = OfferedAuthentication.list(head, at: origin)
        let question = AuthenticationQuestion(request: request, response: copy head, url: url, offers: offers[...])
        if let sent {
            if let fresh = offers.first(where: { $0.digest?.isStale ?? false && $0.space == sent.space }), beginRound()
            {
                // The nonce was too old, and nothing else wrong (RFC 7616, section 3.3).
                return repeatRequest(of: question, fresh, with: sent.credential)
            }
            failures[origin, default: 0] += 1
            if session.authorizers[origin] === sent { session.authorizers[origin] = nil }
        }
        guard beginRound() else { return .deliver }
        return ask(question, of: task)
    }

    /// The hook has decided about the first offer of a question, after `ResponseStep.wait`.
    func hookDidDecide(
        _ disposition: ChallengeDisposition,
        on question: AuthenticationQuestion,
        of task: SessionTask
    ) -> ResponseStep {
        if let step = apply(disposition, to: question, of: task) { return step }
        var rest = question
        rest.offers = rest.offers.dropFirst()
        return ask(rest, of: task)
    }

    /// - Returns: false when the task has been repeated often enough.
    private func beginRound() -> Bool {
        rounds += 1
        return rounds <= Self.roundLimit
    }

    /// Asks the hook about one offer after the other, until it decides.
    private func ask(_ question: AuthenticationQuestion, of task: SessionTask) -> ResponseStep {
        var question = question
        while let offer = question.offers.first {
            let challenge = AuthenticationChallenge(
                offer.space,
                proposed: task.proposedCredential(for: offer.space),
                previousFailureCount: failures[question.url.origin] ?? 0,
                response: question.response
            )
            let disposition = task.challengeHook?(task, challenge) ?? .performDefaultHandling
            if let step = apply(disposition, to: question, of: task) { return step }
            question.offers = question.offers.dropFirst()
        }
        return .deliver
    }

    /// Applies a disposition to the first offer of a question.
    ///
    /// - Returns: nil when the next offer is to be asked about.
    private func apply(
        _ disposition: ChallengeDisposition,
        to question: AuthenticationQuestion,
        of task: SessionTask
    ) -> ResponseStep? {
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
            return repeatRequest(of: question, offer, with: credential)
        case .performDefaultHandling:
            // The same credential is not sent again after it was refused.
            guard failures[question.url.origin] == nil, let proposed = task.proposedCredential(for: offer.space),
                offer.space.mayCarry(proposed)
            else { return nil }
            return repeatRequest(of: question, offer, with: proposed)
        case .cancelAuthenticationChallenge:
            return .fail(.taskCancelled)
        case .rejectProtectionSpace:
            return nil
        case .answerLater(let decision):
            return .wait(question, decision)
        }
    }

    private static let needsTLS = SessionError(.requestInvalid, "A bearer token is not sent without TLS. Write https.")

    private func repeatRequest(
        of question: AuthenticationQuestion,
        _ offer: OfferedAuthentication,
        with credential: Credential
    ) -> ResponseStep {
        chosen = Authorizer(offer.space, credential, digest: offer.digest, target: question.url.rest)
        return .follow(question.request)
    }

    private func remember(_ authorizer: Authorizer, at origin: Origin, _ fields: borrowing HeaderFields) {
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

    /// A bearer token is valid for everyone that reads it (RFC 6750, section 5.3).
    func mayCarry(_ credential: Credential) -> Bool {
        if case .bearer = credential.kind { scheme == .https } else { true }
    }
}
