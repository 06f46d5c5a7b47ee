import HTTPCore

extension TaskRun {
    /// What an answer leads to.
    enum Step {
        case follow(HTTPRequest)
        case answer
        case fail(SessionError)
        /// A hook answers later.
        case wait(AuthenticationQuestion, @Sendable () async -> ChallengeDisposition)
    }

    func decide(on hop: RedirectMachine.Hop, after head: ResponseHead, of task: SessionTask) -> Step {
        guard let url else { return .answer }
        let target = hop.url.origin
        let denial = RedirectMachine.judge(
            from: (url.origin.scheme, session.isPinned(url.origin)),
            to: (target.scheme, session.isPinned(target))
        )
        var following = request
        following.url = hop.url.text
        following.method = hop.method
        if !hop.keepsBody { following.body = .none }
        RedirectMachine.prune(
            &following.fields,
            for: hop,
            leavesTLS: url.origin.scheme == .https && target.scheme == .http
        )
        let proposal = RedirectProposal(request: following, denial: denial.map { RedirectProposal.Denial($0) })
        let hook = task.delegate.taskWillPerformHTTPRedirection ?? session.hookBox.hooks.taskWillPerformHTTPRedirection
        switch hook?(task, head, proposal) ?? .proceed {
        case .stop: return .answer
        case .follow(let request): return .follow(request)
        case .proceed:
            guard let denial else { return .follow(following) }
            return .fail(SessionError(denial, from: url.origin, to: target))
        }
    }
}
