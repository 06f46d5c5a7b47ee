// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import SessionCore

/// The exchange as the stages of its response see it: its request, and what they ask of it. A base class.
class StageOwner {
    final var head = RequestHead()
    final var body = RequestBody()
    final var startedAt: UInt64 = 0
    /// The authenticated user; nil when the listener does not authenticate clients.
    final var user: [UInt8]?
    /// The policy generation of the request's latest start. Everything sent to an origin is sent under this one.
    final var generation: Generation?
    final var isOver = true
    /// What others know the request by; nil where requests have neither trace nor id.
    final var identity: RequestIdentity?

    /// Whether the exchange has begun and not ended.
    final var isUnderWay: Bool { !isOver }

    // MARK: The request

    /// Whether a delayed step may still be carried out. Every step that had to wait checks this first.
    func canContinue() -> Bool { preconditionFailure("a subclass overrides this") }

    /// Restarts the request under the current policy.
    ///
    /// - Parameter unsent: the task that was going to send it, and has sent nothing.
    func restart(after unsent: LoopTask?) { preconditionFailure("a subclass overrides this") }

    /// Whether the connection stays open for the next request after a response of the proxy's own.
    var canPersist: Bool { preconditionFailure("a subclass overrides this") }

    /// Sends an error response before anything was sent to an origin.
    func refuse(_ problem: Problem, keepAlive: Bool) { preconditionFailure("a subclass overrides this") }

    /// Refuses a request of which nothing was sent.
    func refuseUnsent(_ problem: Problem) { preconditionFailure("a subclass overrides this") }

    /// Ends the request with an error, and cancels its task.
    func fail(_ problem: Problem) { preconditionFailure("a subclass overrides this") }

    /// The owner of the connections to origins that the client authenticates; nil as long as it has authenticated none.
    ///
    /// - Parameter isNew: the client is about to.
    func connectionOwner(isNew: Bool) -> ConnectionOwner? { preconditionFailure("a subclass overrides this") }

    /// The path and query of the client's request.
    final var target: [UInt8] { head.copyOfTarget() }

    final var bodyLength: RequestBodyLength {
        switch head.framing {
        case .none: .none
        case .length(let count): .bytes(count)
        case .chunked, .untilClose: .unknown
        }
    }

    /// The fields of the client's request that are sent to an origin.
    func clientFields(on route: Route?) -> HeaderFields { preconditionFailure("a subclass overrides this") }

    /// Sends a new task the part of the body that is here.
    func sendWaitingBody(to task: LoopTask) { preconditionFailure("a subclass overrides this") }

    /// A connection carries the request.
    func originDidConnect() { preconditionFailure("a subclass overrides this") }

    /// The origin has room for more of the body.
    func originNeedsBody() { preconditionFailure("a subclass overrides this") }

    /// The replay buffer has room for more of the body, or has let its end go.
    func bodyCanGoOn() { preconditionFailure("a subclass overrides this") }

    // MARK: Credentials

    /// The credentials that the request gets, or the hop of it that is under way; nil for most.
    var credentials: RuleCredentials? { preconditionFailure("a subclass overrides this") }

    /// The fields that the request's credentials make of it; nil for most requests.
    func guardedFields(of request: borrowing SessionRequest) -> GuardedFields? {
        preconditionFailure("a subclass overrides this")
    }

    /// The fields of the request that the server has refused (401), if there may be others: the request can be sent again then.
    func renewableCredentials() -> CredentialFields? { preconditionFailure("a subclass overrides this") }

    /// The server has refused the credentials of a request that is not sent again.
    func noteRefusedCredentials() { preconditionFailure("a subclass overrides this") }

    /// Waits for other credentials than the refused ones.
    func renewCredentials(_ refused: CredentialFields, _ then: @escaping () -> Void) {
        preconditionFailure("a subclass overrides this")
    }

    /// Sends a request without body and hooks once more, with credentials that were renewed.
    func sendAgain() { preconditionFailure("a subclass overrides this") }

    // MARK: Redirects

    /// The router of the current policy.
    var currentRouter: Router { preconditionFailure("a subclass overrides this") }

    /// The route of a redirected request.
    func route(toHop target: Origin) -> Route? { preconditionFailure("a subclass overrides this") }

    /// The refusal of a redirected request. It has fields of the client, and the client's user.
    func refusal(ofHop hop: RedirectMachine.Hop, by rules: HostRules) -> Problem? {
        preconditionFailure("a subclass overrides this")
    }

    /// Determines the credentials of a hop, by its rule.
    ///
    /// - Parameter then: called when the values are there, where their sources have to run first.
    /// - Returns: whether they are there already; otherwise the request waits, or was refused.
    func obtainCredentials(
        ofHop hop: RedirectMachine.Hop,
        to endpoint: Endpoint,
        _ then: @escaping () -> Void
    ) -> Bool {
        preconditionFailure("a subclass overrides this")
    }

    /// A redirected request is sent: determines whether the origin gets the client's expectation.
    func expectContinue(of endpoint: Endpoint, keepsBody: Bool, _ fields: inout HeaderFields) {
        preconditionFailure("a subclass overrides this")
    }

    // MARK: Relays

    /// The user that the request has authenticated, with the credentials for it.
    var authenticatedUser: (name: [UInt8], credentials: ClientCredentials)? {
        preconditionFailure("a subclass overrides this")
    }

    /// The limits of the head of the origin's response.
    var responseHeadLimits: HeadLimits { preconditionFailure("a subclass overrides this") }

    /// The relay is over, and so is the request.
    func relayDidEnd(_ problem: Problem?) { preconditionFailure("a subclass overrides this") }

    // MARK: The response

    /// Passes a 1xx head from the origin on.
    func receiveInformational(_ head: borrowing ResponseHead) { preconditionFailure("a subclass overrides this") }

    /// Everything besides the response itself that decides how it is written.
    func responseContext(for response: borrowing ResponseHead) -> ResponseContext? {
        preconditionFailure("a subclass overrides this")
    }

    /// The body was saved to a file: sends the client the file's location.
    func respondWithDownload(_ outcome: DownloadedFile) { preconditionFailure("a subclass overrides this") }

    /// Starts the background refresh of a stored response that is being served stale.
    func refresh(_ stage: CacheStage) { preconditionFailure("a subclass overrides this") }

    /// The last stage has received the end of the response.
    func responseDidEnd(_ error: SessionError?) { preconditionFailure("a subclass overrides this") }
}
