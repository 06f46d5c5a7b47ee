// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import SessionCore

/// Whether a client's request may be sent, and where to: its route, what the rules say of it and of the hops that it follows, the
/// credentials that it gets.
struct RequestAdmission {
    /// What is done with a request next.
    enum Step {
        /// It is sent, after what its credentials need.
        case send(UpgradeOffer?, Endpoint, RequestCredentials.Step)
        case tunnel(Endpoint)
        case intercept(Endpoint)
        /// The requests of plain HTTP inside the CONNECT are served.
        indirect case serve(InterceptedAuthority)
        /// An OPTIONS that is for the proxy itself, or that may not be forwarded (RFC 9110, section 7.6.2).
        case respondToOptions
        /// It gets an error response. Nothing of it was sent.
        indirect case refuse(Problem)
    }

    /// What becomes of a hop when the policy was replaced before it was sent.
    enum HopStep {
        case follow(Route)
        indirect case fail(Problem)
    }

    /// The latest route; nil before the first one.
    private(set) var route: Route?
    /// What `requests` says of the request, where its route has rules.
    private(set) var ruling = RequestRuling()
    var credentials = RequestCredentials()

    /// Forgets the request before. Its credentials have ended.
    mutating func begin() {
        if route != nil { route = nil }
    }

    /// Releases what belongs to a policy.
    mutating func release() { route = nil }

    // MARK: The client's request

    /// The listener refuses the request itself.
    ///
    /// - Parameter route: for the log; nil where none was found.
    mutating func note(_ route: Route?) { self.route = route }

    /// Decides about a request whose client may use the proxy.
    ///
    /// - Parameters:
    ///   - route: of the listener.
    ///   - user: the user's name; nil where clients are not authenticated.
    ///   - pseudonym: the proxy's own name in `Via`.
    ///   - canHandOver: the client's connection can be given to a relay.
    ///   - desk: of the policy; nil where no rule gives credentials.
    @inline(__always)
    mutating func admit(
        _ head: borrowing RequestHead,
        on route: Route,
        user: [UInt8]?,
        pseudonym: @autoclosure () -> [UInt8],
        canHandOver: Bool,
        _ desk: CredentialDesk?
    ) -> Step {
        self.route = route
        if route.rules != nil { ruling.begin() }
        if head.fields.mayContain(anyOf: Self.passage), OriginFields.comesFromUs(head.fields, pseudonym: pseudonym()) {
            return .refuse(Self.loop)
        }
        guard case .origin(let endpoint) = route.destination else {
            return admitConnect(head, route, user, canHandOver)
        }
        if head.method == .options, head.maxForwards == 0 { return .respondToOptions }
        let offer = canHandOver ? UpgradeOffer(head) : nil
        guard let rules = route.rules else { return .send(offer, endpoint, .ready) }
        let verdict = Self.judge(head, isUpgrade: offer != nil, by: rules, user)
        if let refusal = ruling.note(verdict, by: rules) { return .refuse(refusal) }
        guard let desk else { return .send(offer, endpoint, .ready) }
        return .send(offer, endpoint, credentials.begin(desk, ofRule: ruling.allowingRule, for: head))
    }

    /// The same for a CONNECT. Out of line: other requests would pay for it.
    @inline(never)
    private mutating func admitConnect(
        _ head: borrowing RequestHead,
        _ route: Route,
        _ user: [UInt8]?,
        _ canHandOver: Bool
    ) -> Step {
        let step: Step
        switch route.destination {
        case .refused(let problem): return .refuse(problem)
        case .origin: return .refuse(Problem(.internal, "A request was taken for a CONNECT."))
        case .tunnel(let endpoint): step = .tunnel(endpoint)
        case .intercept(let endpoint): step = .intercept(endpoint)
        case .requests(let authority): step = .serve(authority)
        }
        if let rules = route.rules, let refusal = refusal(ofConnect: step, by: rules, user) { return .refuse(refusal) }
        if head.framing.hasBody { return .refuse(Problem(.requestInvalid, "A CONNECT has no body.")) }
        guard canHandOver else {
            return .refuse(Problem(.connectDenied, "No tunnels are made in HTTP/2. Send the CONNECT in HTTP/1.1."))
        }
        return step
    }

    /// The fields that name the proxies on the way: Via, and CDN-Loop among the others.
    private static let passage: FieldNameSet = [.via, .other]

    private static let loop = Problem(
        .loopDetected,
        "The request's Via or CDN-Loop field holds this proxy's own name: it was sent here by itself. Check http_proxy of the programs behind it."
    )

    private static func judge(
        _ head: borrowing RequestHead,
        isUpgrade: Bool,
        by rules: HostRules,
        _ user: [UInt8]?
    ) -> RequestVerdict {
        rules.judge(
            head.method,
            isUpgrade: isUpgrade,
            target: head.target,
            overridden: RequestReading.override(in: head),
            user: user
        )
    }

    /// The refusal of a CONNECT by rules: of a tunnel, and of one in which every request would be refused. That such a one passes is no
    /// decision: the requests in it are judged and counted.
    private mutating func refusal(ofConnect step: Step, by rules: HostRules, _ user: [UInt8]?) -> Problem? {
        if case .tunnel = step { return ruling.note(rules.judgeTunnel(user: user), by: rules) }
        let verdict = rules.judgeInterception(user: user)
        return verdict.decision == .denied ? ruling.note(verdict, by: rules) : nil
    }

    // MARK: The hops that it follows

    /// Decides whether a hop may still be followed, under another policy than the one that has led to it.
    mutating func admitAgain(_ decision: ListenerRoutes.Decision) -> HopStep {
        switch decision {
        case .refused(let problem, _): return .fail(problem)
        // A request to the proxy itself is never sent to an origin.
        case .own: return .fail(Problem(.internal, "A request to the proxy itself has followed a redirect."))
        case .route(let route):
            self.route = route
            return .follow(route)
        }
    }

    /// The refusal of a hop by the rules of its host. A hop has fields of the client, and the client's user.
    ///
    /// - Parameter fields: of the client's request.
    mutating func refusal(
        ofHop hop: RedirectMachine.Hop,
        by rules: HostRules,
        fields: borrowing HeaderFields,
        user: [UInt8]?
    ) -> Problem? {
        let target = hop.url.target
        return ruling.note(rules.judge(hop.method, target: target.span, fields: fields, user: user), by: rules)
    }

    /// The credentials of a hop that the rules have let through.
    ///
    /// - Parameter head: of the client's request.
    mutating func credentialsOfHop(
        _ desk: CredentialDesk?,
        _ hop: RedirectMachine.Hop,
        _ head: borrowing RequestHead
    ) -> RequestCredentials.Step {
        guard let desk else { return .ready }
        return credentials.begin(
            desk,
            ofRule: ruling.allowingRule,
            forHopOf: head,
            to: hop.url.target,
            keepsBody: hop.keepsBody
        )
    }
}
