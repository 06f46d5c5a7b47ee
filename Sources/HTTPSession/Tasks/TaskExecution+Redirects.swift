import HTTPCore
import IOCore
import SessionCore

extension TaskExecution {
    /// What an answer leads to.
    enum Step {
        case follow(HTTPRequest)
        case deliver
        case fail(SessionError)
        /// A hook answers later.
        case wait(AuthenticationQuestion, @Sendable () async -> ChallengeDisposition)
    }

    func decide(on hop: RedirectMachine.Hop, after head: ResponseHead, of task: SessionTask) -> Step {
        guard let url else { return .deliver }
        let target = hop.url.origin
        // By the endpoints, which say where requests really go: plain http may be upgraded. What has none is refused when
        // its request is made; until then it counts as what it is written.
        let from = try? session.endpoint(for: url.origin)
        let to = try? session.endpoint(for: target)
        let isSecure = (
            from: from.map { $0.scheme == .https } ?? (url.origin.scheme == .https),
            to: to.map { $0.scheme == .https } ?? (target.scheme == .https)
        )
        let denial = RedirectMachine.denial(
            from: (isSecure.from ? .https : .http, from?.hasPins ?? false),
            to: (
                isSecure.to ? .https : .http,
                to?.isHeldToPins(at: session.loop.wallClock / 1_000_000) ?? false
            )
        )
        var following = request
        following.url = hop.url.text
        following.method = hop.method
        if !hop.keepsBody { following.body = .none }
        RedirectMachine.prune(
            &following.fields,
            for: hop,
            leavesTLS: isSecure.from && !isSecure.to
        )
        let proposal = RedirectProposal(request: following, denial: denial.map { RedirectProposal.Denial($0) })
        let hook = task.delegate.taskWillPerformHTTPRedirection ?? session.hookBox.hooks.taskWillPerformHTTPRedirection
        switch hook?(task, head, proposal) ?? .proceed {
        case .stop: return .deliver
        case .follow(let request): return .follow(request)
        case .proceed:
            guard let denial else { return .follow(following) }
            return .fail(SessionError(denial, from: url.origin, to: target))
        }
    }
}
