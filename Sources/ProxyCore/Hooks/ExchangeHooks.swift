// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// State of the hooks for one exchange. Hosts without hooks have none.
final class ExchangeHooks {
    /// The hooks of the host that the client requested.
    private(set) var rules: HostHooks
    /// The route of the current request; the client's own until a redirect is followed.
    private(set) var route: Route
    /// The earlier requests, each of which got a redirect as response.
    private(set) var earlier: [EarlierTransaction] = []
    /// The end of the whole exchange's time, in nanoseconds of the loop's clock.
    private let deadline: UInt64?

    // State of the current request after the first redirect.
    private var redirects: RedirectHook?
    private(set) var url: AbsoluteURL?
    private var method = HTTPMethod.get
    /// The client's fields that are still sent, without the fields that the configuration adds for a host.
    private var fields: HeaderFields?

    private(set) var replayBuffer: ReplayBuffer?
    /// The hop that follows when the current response is over.
    private var next: RedirectHook.Plan?
    /// The latest followed redirect, kept so that it can be evaluated again.
    private var followed: Redirect?
    /// The received bytes of the redirect response.
    private var unwanted = UnwantedBody()
    /// The error that the client gets instead of the response.
    private(set) var failure: Problem?
    private var download: ResponseDownload?
    /// The file that the response was saved to.
    private(set) var downloaded: DownloadedFile?
    /// The limit of response body bytes, and the bytes received.
    private(set) var limit = Int.max
    private var received = 0

    /// A redirect, with the state in which it was received.
    private struct Redirect {
        let head: ResponseHead
        let url: AbsoluteURL
        let method: HTTPMethod
        let before: RedirectHook
        let fields: HeaderFields?
        /// The task that received the redirect; nil when it came from the cache.
        var task: LoopTask?
        /// The redirected request was made, perhaps under an earlier policy.
        var isMade = false
    }

    init(_ rules: HostHooks, route: Route, deadline: UInt64?) {
        self.rules = rules
        self.route = route
        self.deadline = deadline
    }

    var hasFollowed: Bool { !earlier.isEmpty }

    /// Keeps the request body for redirects.
    func keepBody(in buffer: ReplayBuffer) { replayBuffer = buffer }

    // MARK: Redirects

    /// Evaluates a response that may be a redirect.
    func decide(
        _ response: borrowing ResponseHead,
        to head: borrowing RequestHead,
        body: RedirectHook.Body,
        router: Router
    ) -> RedirectHook.Decision {
        guard (300..<400).contains(response.status), let url = makeReady(for: head), var redirects else {
            return .deliver
        }
        let before = redirects
        let decision = redirects.decide(response, url: url, method: method, body: body, router: router)
        self.redirects = redirects
        if case .follow = decision {
            followed = Redirect(head: copy response, url: url, method: method, before: before, fields: fields)
        }
        return decision
    }

    /// Whether a redirect is being followed: the current request is no longer the client's own.
    var isFollowing: Bool { followed != nil }

    /// The origin of the latest redirect.
    var redirectedFrom: Origin? { followed?.url.origin }

    /// Whether the current response is a redirect that is followed.
    var isLeaving: Bool { next != nil }

    /// The current response is over.
    ///
    /// - Returns: the hop that follows, once.
    func leave(_ task: LoopTask?) -> RedirectHook.Plan? {
        guard let plan = next else { return nil }
        next = nil
        followed?.task = task
        return plan
    }

    /// Evaluates the latest redirect again under another policy, as if it had arrived now.
    ///
    /// - Parameter rules: the hooks of the host that the client requested; nil when the host has none any more, so that
    ///   redirects go to the client.
    func decideAgain(
        under rules: HostHooks?,
        body: RedirectHook.Body,
        router: Router
    ) -> RedirectHook.Decision {
        guard let rules, let followed else { return .deliver }
        self.rules = rules
        fields = followed.fields
        var redirects = followed.before.under(rules)
        let decision = redirects.decide(
            followed.head,
            url: followed.url,
            method: followed.method,
            body: body,
            router: router
        )
        self.redirects = redirects
        return decision
    }

    /// The URL of the current request; nil when there is nothing to evaluate.
    private func makeReady(for head: borrowing RequestHead) -> AbsoluteURL? {
        if let url { return url }
        guard case .origin(let endpoint) = route.destination else { return nil }
        let first = AbsoluteURL(origin: endpoint.origin, rest: Array(copying: head.target))
        url = first
        method = head.method
        redirects = RedirectHook(rules, url: first, method: method)
        return first
    }

    /// The current response is a redirect that is followed, so it is dropped.
    func follow(_ plan: RedirectHook.Plan) {
        next = plan
        unwanted = UnwantedBody()
    }

    /// Counts bytes of a redirect response; false when there are too many.
    func drop(_ count: Int) -> Bool {
        unwanted.didReceive(count)
    }

    /// Prepares for the request of the next hop.
    func prepare(for hop: RedirectMachine.Hop, on route: Route) {
        if let followed, !followed.isMade {
            earlier.append(EarlierTransaction(url: followed.url, route: self.route, followed.task))
            self.followed?.task = nil
            self.followed?.isMade = true
        }
        self.route = route
        url = hop.url
        method = hop.method
        if !hop.keepsBody {
            replayBuffer?.end()
            replayBuffer = nil
        }
    }

    /// The fields of a hop's request.
    ///
    /// - Parameters:
    ///   - client: the fields of the client's request.
    ///   - credentials: what a rule gives to the hop's request.
    func fields(
        of plan: RedirectHook.Plan,
        on route: Route,
        client: @autoclosure () -> HeaderFields,
        credentials: RuleCredentials?
    ) -> HeaderFields {
        var fields = fields ?? client()
        credentials?.removeFieldsOfClient(from: &fields)
        RedirectMachine.prune(&fields, for: plan.hop, leavesTLS: plan.leavesTLS)
        plan.changes?.removeNames(from: &fields)
        // The fields below are for this host alone.
        self.fields = fields
        plan.changes?.addValues(to: &fields)
        route.hooks?.headers.request.apply(to: &fields)
        credentials?.removeWritten(from: &fields)
        return fields
    }

    /// The timeouts of a hop's task: the whole exchange has the total time of the requested host.
    ///
    /// - Returns: nil when that time is over.
    func timeouts(of endpoint: Endpoint, now: UInt64) -> TaskTimeouts? {
        var timeouts = endpoint.timeouts
        guard let deadline else { return timeouts }
        guard deadline > now else { return nil }
        let left = TimeSpan(nanoseconds: deadline - now)
        if let own = timeouts.spans.total, own.nanoseconds <= left.nanoseconds { return timeouts }
        timeouts.spans.total = left
        return timeouts
    }

    // MARK: Responses

    /// The client gets an error instead of the response.
    func refuse(_ problem: Problem) { failure = problem }

    /// The response body becomes a file.
    func saveBody(in download: ResponseDownload) { self.download = download }

    /// Saves a piece of the response body; nil when it is for the client.
    func save(_ data: borrowing Span<UInt8>) -> BodyFlow? { download?.append(data) }

    /// Completes the file.
    ///
    /// - Returns: false when the response does not become one.
    func finishDownload(_ then: @escaping (Result<DownloadedFile, Problem>) -> Void) -> Bool {
        guard let download else { return false }
        download.finish { [self] result in
            downloaded = try? result.get()
            then(result)
        }
        return true
    }

    func bound(by limit: Int) {
        self.limit = limit
        received = 0
    }

    /// Counts bytes of the response body; false when there are too many.
    func countBody(_ count: Int) -> Bool {
        received += count
        return received <= limit
    }

    /// The URL that the response came from, if redirects were followed.
    var base: AbsoluteURL? { hasFollowed ? url : nil }

    /// Passes on a response head with the configured changes.
    func change<Result>(_ response: borrowing ResponseHead, then: (borrowing ResponseHead) -> Result) -> Result {
        let crosses = earlier.first.map { $0.origin != url?.origin } ?? false
        let changes = route.hooks?.headers.response
        guard crosses || changes?.isEmpty == false else { return then(response) }
        var head = copy response
        head.changeFields { fields in
            if crosses { Self.removeSelfStatements(from: &fields) }
            changes?.apply(to: &fields)
        }
        return then(head)
    }

    /// Removes fields that a host sends about itself: this client would apply them to the host that it requested.
    private static func removeSelfStatements(from fields: inout HeaderFields) {
        fields.removeAll { fields, index in
            switch fields.id(at: index) {
            case .setCookie, .strictTransportSecurity, .altSvc: true
            case .other:
                fields.name(at: index).equalsIgnoringCase("Clear-Site-Data")
                    || fields.name(at: index).equalsIgnoringCase("Set-Cookie2")
            default: false
            }
        }
    }

    /// The exchange is over, successfully or not.
    func end() {
        replayBuffer?.end()
        download?.end()
    }
}

/// A request whose response was a redirect, for the log.
struct EarlierTransaction {
    let origin: Origin
    let prefix: [UInt8]
    let target: [UInt8]
    /// nil when the redirect came from the cache.
    let metrics: TransactionMetrics?
    let evaluation: TrustEvaluation?
    /// The start of the metrics' times, in microseconds since 1970.
    let fetchStart: Int64

    init(url: AbsoluteURL, route: Route, _ task: LoopTask?) {
        origin = url.origin
        prefix = route.logPrefix
        target = url.target
        metrics = task?.metrics.transaction
        evaluation = task?.evaluation
        fetchStart = task?.metrics.fetchStart ?? 0
    }
}

extension Endpoint {
    var origin: Origin { Origin(scheme: scheme == .https ? .https : .http, host: host, port: port) }
}
