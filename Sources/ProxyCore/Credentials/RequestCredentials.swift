// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// The credentials of a client's request, or of the hop of it that is under way: which it gets, what it waits for, and what was sent.
///
/// The values are written by the engine when the server has proved enough (`GuardedFields`).
struct RequestCredentials {
    /// What a request with credentials has to do next.
    enum Step {
        /// It can be sent.
        case ready
        /// It waits for the end of its body, which is signed.
        case gather
        /// It waits for a source.
        case wait
        indirect case refused(Problem)
    }

    /// Those of the rule that has let the request through; nil for most requests.
    private(set) var rule: RuleCredentials?
    /// The body, where a signature holds its digest.
    var body = SignedBody()
    private var desk: CredentialDesk?
    /// The fields of the latest request that was sent with any; it masks those of the earlier ones, too.
    private var sent: CredentialFields?
    private var wait: CredentialWait?
    /// The values that a server has refused (401) in this request.
    private var refused: [CredentialValue] = []
    /// A redirect is being followed. The next hop has no body, or the one that is kept: none is gathered for it.
    private var isHop = false

    /// Forgets everything: the request is over.
    mutating func end() {
        // Most requests have none: looking is cheaper than a release.
        guard desk != nil || sent != nil || !refused.isEmpty else { return }
        wait?.cancel()
        self = RequestCredentials()
    }

    /// The request starts again under another policy: what a server has refused stays refused, and what it has got may come back.
    mutating func restart() {
        guard desk != nil else { return }
        let (refused, sent) = (refused, sent)
        end()
        (self.refused, self.sent) = (refused, sent)
    }

    /// Determines what the rule gives to the client's request.
    ///
    /// - Parameter place: the rule's, in the configuration; nil where none has let the request through.
    mutating func begin(_ desk: CredentialDesk, ofRule place: Int?, for head: borrowing RequestHead) -> Step {
        rule = desk.credentials(ofRule: place)
        isHop = false
        if let problem = desk.refusal(of: head, rule) { return .refused(problem) }
        guard let rule else { return .ready }
        self.desk = desk
        if needsBody(of: head), case .length(let count) = head.framing, count > SignedBody.limit {
            return .refused(SignedBody.tooLong)
        }
        return step(rule, desk, after: head)
    }

    /// The same for a hop.
    ///
    /// - Parameters:
    ///   - head: the client's.
    ///   - target: path and query of the hop.
    ///   - keepsBody: whether the request's body goes there, too.
    mutating func begin(
        _ desk: CredentialDesk,
        ofRule place: Int?,
        forHopOf head: borrowing RequestHead,
        to target: [UInt8],
        keepsBody: Bool
    ) -> Step {
        rule = desk.credentials(ofRule: place)
        isHop = true
        if let problem = desk.refusal(of: head, rule) { return .refused(problem) }
        guard let rule else { return .ready }
        if rule.signing != nil, AWSFields.hasSignature(inQueryOf: target.span) {
            return .refused(CredentialDemand.signedQuery)
        }
        self.desk = desk
        body.forgetDigest()
        if keepsBody, needsBody(of: head) {
            return .refused(
                Problem(
                    .credentialWithheld,
                    "A redirect leads to a server whose requests are signed with their body, which goes on as it is kept. Send the request there."
                )
            )
        }
        return step(rule, desk)
    }

    private func step(_ rule: RuleCredentials, _ desk: CredentialDesk) -> Step {
        switch desk.outcome(for: rule) {
        case .ready: desk.awaitsOther(rule, than: refused) ? .wait : .ready
        case .wait: .wait
        case .failed(let problem): .refused(problem)
        }
    }

    private func step(_ rule: RuleCredentials, _ desk: CredentialDesk, after head: borrowing RequestHead) -> Step {
        let step = step(rule, desk)
        if case .ready = step, needsBody(of: head) { return .gather }
        return step
    }

    private func needsBody(of head: borrowing RequestHead) -> Bool {
        guard let scope = rule?.signing, head.framing.hasBody, body.digest == nil else { return false }
        return AWSFields.needsBody(head.fields, scope)
    }

    /// The time that a request may wait for credentials: as long as for a connection.
    static func patience(at endpoint: Endpoint) -> TimeSpan {
        endpoint.timeouts.spans.queue ?? endpoint.timeouts.spans.connect
    }

    /// Waits for the sources, for which the step was `wait`.
    ///
    /// - Parameter completion: called once and later, unless `end` comes first, with the next step: never `wait`.
    mutating func awaitSources(
        for head: borrowing RequestHead,
        atMost limit: TimeSpan,
        _ completion: @escaping (Step) -> Void
    ) {
        guard let rule, let desk else { return }
        let needsBody = !isHop && needsBody(of: head)
        wait = desk.wait(for: rule, otherThan: refused, atMost: limit) { problem in
            if let problem { return completion(.refused(problem)) }
            desk.takeValues(of: rule)
            completion(needsBody ? .gather : .ready)
        }
    }

    // MARK: What is sent

    /// The fields that the credentials make of a request that is about to be sent; nil for most requests.
    mutating func fields(of request: borrowing SessionRequest) -> GuardedFields? {
        guard let rule else {
            // A hop that gets none may lead to a server that knows those of an earlier one.
            return sent?.guarded.masksAlone
        }
        var fields = desk?.fields(for: rule, of: request, bodyDigest: body.digest) ?? .none
        // A server may send back what it got for an earlier hop, or before a renewal.
        if let sent, sent.guarded !== fields.guarded {
            fields.guarded = fields.guarded.masking(alsoThoseOf: sent.guarded)
        }
        sent = fields
        return fields.guarded
    }

    /// The server has refused the fields (401) of a request that is not sent again: the next ones need others.
    func noteRefusal() {
        if let rule, rule.canRenew, let desk, let sent { desk.renew(rule, sent) }
    }

    /// The fields that the server has refused (401), where the request may be sent again with others.
    var renewable: CredentialFields? {
        guard let rule, rule.canRenew, let desk, let sent, desk.canRenew(rule, sent) else { return nil }
        return sent
    }

    /// Waits for other values than the ones that the server has refused.
    ///
    /// - Parameter completion: called once and later, unless `end` comes first. Nil: the values are there.
    mutating func renew(
        _ refused: CredentialFields,
        atMost limit: TimeSpan,
        _ completion: @escaping (Problem?) -> Void
    ) {
        guard let rule, let desk else { return }
        self.refused = refused.values
        wait = desk.wait(for: rule, otherThan: refused.values, atMost: limit) { problem in
            if problem == nil { desk.takeValues(of: rule) }
            completion(problem)
        }
    }
}
