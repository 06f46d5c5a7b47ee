// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import SessionCore

/// The exchange as the stages of its response see it: its request, and what they ask of it. A base class.
class StageOwner {
    final var head = RequestHead()
    final var upload = RequestUpload()
    final var life = RequestLife()
    final var identity = ClientIdentity()
    final var admission = RequestAdmission()
    /// The policy generation of the request's latest start. Everything sent to an origin is sent under this one.
    final var generation: Generation?
    /// The client's side; nil while the exchange is unused.
    final var stream: ExchangeStream!
    /// Trace and id of the request; nil where requests have neither.
    final var requestIdentity: RequestIdentity?

    /// Whether the exchange has begun and not ended.
    final var isUnderWay: Bool { !life.isOver }

    // MARK: The request

    /// The authenticated user; nil when the listener does not authenticate clients.
    final var user: [UInt8]? { identity.user }

    /// The credentials that the request gets, or the hop of it that is under way; nil for most.
    final var credentials: RuleCredentials? { admission.credentials.rule }

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
    final func clientFields(on route: Route) -> HeaderFields {
        // At each hop of redirects: the client has asked for the first one.
        let rewriter = admission.route.flatMap {
            RequestRewriter.make(for: head, on: $0, stream.listener, stream.services.generation.router)
        }
        let mark = OriginFields.Mark(for: head, on: route, stream.services)
        var fields = OriginFields.make(from: head, mark: mark, rewriter: rewriter)
        credentials?.removeFieldsOfClient(from: &fields)
        if let requestIdentity {
            requestIdentity.write(to: &fields)
            // The configuration is refused where they share a field; a credential is never beside a client's value.
            credentials?.removeWritten(from: &fields)
        }
        return fields
    }

    /// A connection carries the request.
    func originDidConnect() { preconditionFailure("a subclass overrides this") }

    // MARK: Credentials

    /// Waits for other credentials than the refused ones.
    func renewCredentials(_ refused: CredentialFields, _ then: @escaping () -> Void) {
        preconditionFailure("a subclass overrides this")
    }

    /// Sends a request without body and hooks once more, with credentials that were renewed.
    func sendAgain() { preconditionFailure("a subclass overrides this") }

    /// Waits for what the credentials of the request need, or those of a hop.
    ///
    /// - Parameter then: called when they are there, unless the request was refused.
    func follow(_ step: RequestCredentials.Step, to endpoint: Endpoint, _ then: @escaping () -> Void) {
        preconditionFailure("a subclass overrides this")
    }

    /// The relay is over, and so is the request.
    func relayDidEnd(_ problem: Problem?) { preconditionFailure("a subclass overrides this") }

    // MARK: The response

    /// Everything besides the response itself that decides how it is written.
    ///
    /// - Parameter route: of the client's request.
    func responseContext(for response: borrowing ResponseHead, on route: Route) -> ResponseContext {
        preconditionFailure("a subclass overrides this")
    }

    /// Sends a response of the proxy's own that is no error.
    func respond(with own: consuming OwnResponse) { preconditionFailure("a subclass overrides this") }

    /// Starts the background refresh of a stored response that is being served stale.
    func refresh(_ stage: CacheStage) { preconditionFailure("a subclass overrides this") }

    /// The last stage has received the end of the response.
    func responseDidEnd(_ error: SessionError?) { preconditionFailure("a subclass overrides this") }
}
