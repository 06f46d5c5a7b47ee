import HTTPCore

/// Where an exchange asks who its client is. Called only where the listener wants to know.
extension Exchange {
    /// Finds out who asks, before anything is done for it.
    func authenticate(_ credentials: ClientCredentials) {
        if user != nil {
            if stream.transport.isStillKnown(under: credentials) { return routeRequest() }
            user = nil
            if stream.transport.intercepted != nil {
                // What was proved with the CONNECT cannot be proved here.
                return fail(
                    Problem(
                        .authenticationRequired,
                        status: 403,
                        "This proxy does not know the user of the CONNECT any more. Connect again."
                    )
                )
            }
        }
        let current = number
        let presented = PresentedCredentials(head.fields)
        let verdict = worker.authenticator.verify(presented, credentials) { [self] verdict in
            guard number == current, !isOver, isRefused(presented, verdict, credentials) || canContinue() else {
                return
            }
            conclude(verdict, credentials)
            if number == current, !isOver { stream.exchangeNeedsBody() }
        }
        if let verdict { conclude(verdict, credentials) }
    }

    /// Whether a refusal holds whatever policy came in between. It is not verified again then: a client that guesses would
    /// have it done once for each reload.
    private func isRefused(
        _ presented: PresentedCredentials,
        _ verdict: ClientAuthenticator.Verdict,
        _ former: ClientCredentials
    ) -> Bool {
        guard verdict == .refused, case .credentials(let current) = stream.listener.security.authentication else {
            return false
        }
        return current.agrees(with: former, about: presented)
    }

    private func conclude(_ verdict: ClientAuthenticator.Verdict, _ credentials: ClientCredentials) {
        switch verdict {
        case .accepted(let name):
            user = name
            self.credentials = credentials
            routeRequest()
        case .refused:
            refuseUnsent(.unauthenticated(credentials))
        case .busy:
            refuseUnsent(
                Problem(.limitReached, "Too many clients are waiting for their passwords to be verified. Try again.")
            )
        }
    }

    /// The user that this request has proved to be, and the credentials under which it was proved.
    var proven: (name: [UInt8], credentials: ClientCredentials)? {
        guard let user, let credentials else { return nil }
        return (user, credentials)
    }
}
