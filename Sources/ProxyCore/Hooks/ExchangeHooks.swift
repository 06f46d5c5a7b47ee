import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// What the hooks of a host know of one exchange. There is none for hosts without hooks.
final class ExchangeHooks {
    /// Those of the host that the client asked for.
    private(set) var rules: HostHooks
    /// Of the request under way; the client's own until a redirect is followed.
    private(set) var route: Route
    /// The requests before the one under way, each answered by a redirect.
    private(set) var earlier: [EarlierTransaction] = []
    /// When the whole exchange has to be over, in nanoseconds of the loop's clock.
    private let deadline: UInt64?

    // Of the request under way, once there was a redirect.
    private(set) var redirects: RedirectHook?
    private(set) var url: AbsoluteURL?
    private(set) var method = HTTPMethod.get
    /// The client's fields as far as they have come along: without what hosts are given by the configuration.
    var fields: HTTPFields?

    var replayBuffer: ReplayBuffer?
    /// The hop that is made when the answer under way is over.
    var next: RedirectHook.Plan?
    /// The latest redirect that is followed, so that it can be judged again.
    private var followed: Redirect?
    /// The body of that response.
    private var unwanted = UnwantedBody()
    /// Why the client gets an error instead of the answer.
    var failure: Problem?
    var download: ResponseDownload?
    /// The file that the answer went to.
    var downloaded: ResponseDownload.Outcome?
    /// Bytes of the answer's body that are handed on at most, and how many have come.
    private(set) var limit = Int.max
    private var received = 0

    /// A redirect, and all as it was when it came.
    private struct Redirect {
        let head: ResponseHead
        let url: AbsoluteURL
        let method: HTTPMethod
        let before: RedirectHook
        let fields: HTTPFields?
        /// That brought it; nil when the cache had it.
        var task: LoopTask?
        /// The request that it leads to has been made, perhaps under an earlier policy.
        var isMade = false
    }

    init(_ rules: HostHooks, route: Route, deadline: UInt64?) {
        self.rules = rules
        self.route = route
        self.deadline = deadline
    }

    var hasFollowed: Bool { !earlier.isEmpty }

    // MARK: Redirects

    /// Judges an answer, after the host's own rules for the client's request have been made ready.
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

    /// Whether a redirect is being followed: the request under way is not the client's own any more.
    var isFollowing: Bool { followed != nil }

    /// Where the latest redirect came from.
    var redirectedFrom: Origin? { followed?.url.origin }

    /// The answer that leads on is over.
    func leave(_ task: LoopTask?) { followed?.task = task }

    /// Judges the latest redirect under another policy, as if it came now.
    ///
    /// - Parameter rules: those of the host that the client asked for; nil when that has none any more, and its redirects
    ///   are the client's to follow.
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

    /// Where the request under way went; nil where there is nothing to be judged.
    private func makeReady(for head: borrowing RequestHead) -> AbsoluteURL? {
        if let url { return url }
        guard case .origin(let endpoint) = route.destination else { return nil }
        let first = AbsoluteURL(origin: endpoint.origin, rest: Array(copying: head.target))
        url = first
        method = head.method
        redirects = RedirectHook(rules, url: first, method: method)
        return first
    }

    /// The answer under way leads on: it is dropped.
    ///
    /// - Returns: whether what comes of it is read to the end.
    func follow(_ plan: RedirectHook.Plan, after framing: BodyFraming, requestIsWhole: Bool) -> Bool {
        next = plan
        unwanted = UnwantedBody()
        return requestIsWhole && UnwantedBody.isWorthReading(framing)
    }

    /// Takes bytes of an answer that leads on; false when there are too many.
    func drop(_ count: Int) -> Bool {
        unwanted.didReceive(count)
    }

    /// The next request goes out.
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

    /// The limits of a hop's task: the whole exchange has no more time than the host that was asked gives it.
    ///
    /// - Returns: nil when it is over.
    func timeouts(of endpoint: Endpoint, now: UInt64) -> TaskTimeouts? {
        var timeouts = endpoint.timeouts
        guard let deadline else { return timeouts }
        guard deadline > now else { return nil }
        let left = TimeSpan(nanoseconds: deadline - now)
        if let own = timeouts.total, own.nanoseconds <= left.nanoseconds { return timeouts }
        timeouts.total = left
        return timeouts
    }

    // MARK: Answers

    func bound(by limit: Int) {
        self.limit = limit
        received = 0
    }

    /// Counts bytes of the answer's body; false when there are too many.
    func takes(_ count: Int) -> Bool {
        received += count
        return received <= limit
    }

    /// Where the answer comes from, when that is not what the client asked for.
    var base: AbsoluteURL? { hasFollowed ? url : nil }

    /// The head as the configuration wants it.
    func changed(_ response: borrowing ResponseHead) -> ResponseHead {
        var head = copy response
        let crosses = earlier.first.map { $0.origin != url?.origin } ?? false
        let changes = route.hooks?.headers.response
        guard crosses || changes?.isEmpty == false else { return head }
        head.changeFields { fields in
            if crosses { Self.removeSelfStatements(from: &fields) }
            changes?.apply(to: &fields)
        }
        return head
    }

    /// What a host says of itself to its clients: to this client it would seem to be said by the host that it asked.
    private static func removeSelfStatements(from fields: inout HTTPFields) {
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

    /// The exchange is over, well or not.
    func end() {
        replayBuffer?.end()
        download?.end()
    }
}

/// A request that a redirect has answered, for the log.
struct EarlierTransaction {
    let origin: Origin
    let prefix: [UInt8]
    let target: [UInt8]
    /// nil when the cache had the redirect.
    let metrics: TransactionMetrics?
    let evaluation: TrustEvaluation?
    /// Microseconds since 1970: what the metrics' times count from.
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
