import HTTPCore

/// Where an exchange asks who its client is. Called only where the listener wants to know.
extension Exchange {
    /// Finds out who asks, before anything is done for it.
    func authenticate(_ credentials: ClientCredentials, _ generation: Generation) {
        if user != nil {
            if carrier.transport.isStillKnown(under: credentials) { return proceed(generation) }
            user = nil
            if carrier.transport.intercepted != nil {
                // What was proved with the CONNECT cannot be proved here.
                return refuse(
                    Problem(
                        .authenticationRequired,
                        status: 403,
                        "The users of this proxy have changed since the CONNECT. Connect again."
                    ),
                    keepAlive: false
                )
            }
        }
        let asked = number
        let verdict = worker.authenticator.judge(PresentedCredentials(head.fields), credentials) { [self] verdict in
            guard number == asked, !isOver else { return }
            conclude(verdict, credentials, generation)
            if number == asked, !isOver { carrier.exchangeWantsBody() }
        }
        if let verdict { conclude(verdict, credentials, generation) }
    }

    private func conclude(
        _ verdict: ClientAuthenticator.Verdict,
        _ credentials: ClientCredentials,
        _ generation: Generation
    ) {
        switch verdict {
        case .accepted(let name):
            user = name
            proceed(generation)
        case .refused:
            refuse(.unauthenticated(credentials), keepAlive: canPersist)
        case .busy:
            refuse(
                Problem(.limitReached, "Too many clients are waiting for their passwords to be verified. Try again."),
                keepAlive: canPersist
            )
        }
    }
}
