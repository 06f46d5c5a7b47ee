// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyCore

/// The kind of a request to the admin listener, decided by its head alone.
enum AdminRequest {
    /// The live page.
    case page
    case live
    case ready
    case metrics
    /// The latest tasks that have ended.
    case tasks(limit: Int)
    /// Tasks as they end.
    ///
    /// - Parameter from: the number of the first task; nil for those that end from now on.
    case taskStream(from: Int?)
    /// The latest tasks as an HTTP archive.
    case archive(limit: Int)
    /// The figures of the moment.
    case status
    /// The policy in force.
    ///
    /// - Parameter since: only the domains with a handshake from then on, in seconds since 1970; nil for all.
    case policy(since: Int64?)
    case configuration
    /// The longest turns of the workers' loops.
    case workers
    /// The results of the last loads.
    case reloads
    case reload(dropsPins: Bool)
    case drain
    case cache(CacheRequest)
    case refused(Problem)

    /// A request about the cache.
    typealias CacheRequest = CacheAdministration.Request

    /// Whether the response may be of megabytes. Those for probes are not.
    var isLarge: Bool {
        switch self {
        case .page, .tasks, .archive, .policy, .configuration, .reloads, .cache(.entries): true
        default: false
        }
    }

    /// The number of tasks that are listed when the request names no limit.
    static let usualLimit = 100
    /// More than the memory for them holds: all of them can be had.
    static let largestLimit = 10_000

    /// - Parameters:
    ///   - isOwnName: whether Host names this listener.
    ///   - access: what the client may do.
    init(_ head: borrowing RequestHead, isOwnName: Bool, access: AdminAccess) {
        do throws(Problem) {
            self = try Self.read(head, isOwnName: isOwnName, access: access)
        } catch {
            self = .refused(error)
        }
    }

    /// Makes the refusal for a fault of the parser.
    init(_ fault: RequestFault) {
        self = .refused(fault == .methodTrace ? Self.methodRefusal(Self.reading) : Problem(fault))
    }

    private static func read(
        _ head: borrowing RequestHead,
        isOwnName: Bool,
        access: AdminAccess
    ) throws(Problem) -> AdminRequest {
        guard isOwnName else {
            if head.form == .absolute || head.form == .authority {
                throw Problem(
                    .misdirectedRequest,
                    "This is the admin listener, and no proxy. Give the client the address of a forward listener, which pinproxy "
                        + "writes when it starts."
                )
            }
            guard head.hostKind != nil else {
                throw Problem(
                    .misdirectedRequest,
                    "The request has no Host field, by which the admin listener tells web pages from programs. Send one with its address or localhost."
                )
            }
            // Invariant 16: a web page must not be able to make a browser read this under a name of the page's own.
            throw Problem(
                .misdirectedRequest,
                "The names of the admin listener are its own address, localhost and its allowedHosts; the request's Host is another. "
                    + "Add the name to admin.allowedHosts if it may be used."
            )
        }
        // Other machines learn nothing without the token, not even which paths there are.
        if access.isRemote, let refusal = access.refusal(isWrite: false) { throw refusal }
        let target = head.target
        let path = target.extracting(0..<(target.firstIndex(of: UInt8(ascii: "?")) ?? target.count))
        let isRead = head.method == .get || head.method == .head
        let allowed = Self.methods(of: path)
        guard isRead || (allowed.write != nil && head.method == allowed.write), isRead ? allowed.isRead : true else {
            throw methodRefusal(allowed)
        }
        guard !head.framing.hasBody else {
            throw Problem(.requestInvalid, "A request of the admin listener has no body. Send none.")
        }
        let isPurge = head.method == .delete
        // A browser never purges, not even for the listener's own page.
        if isPurge, RequestingSite(head).isSaid { throw browserPurge }
        let isShown = !path.equals("/tasks/stream") && !path.equals("/tasks.har")
        if let refusal = AdminAccess.crossSiteRefusal(head, isWrite: !isRead, isShown: isShown) { throw refusal }
        if let refusal = access.refusal(isWrite: !isRead, isFree: isPurge) { throw refusal }
        return try route(head, path, isPurge: isPurge)
    }

    private static func parameters(of head: borrowing RequestHead) throws(Problem) -> QueryParameters {
        guard let parameters = QueryParameters(of: head.target) else {
            throw Problem(.requestInvalid, "The query is not percent-encoded UTF-8.")
        }
        return parameters
    }

    private static func route(
        _ head: borrowing RequestHead,
        _ path: borrowing Span<UInt8>,
        isPurge: Bool
    ) throws(Problem) -> AdminRequest {
        if path.equals("/") { return .page }
        if path.equals("/live") { return .live }
        if path.equals("/ready") { return .ready }
        if path.equals("/metrics") { return .metrics }
        if path.equals("/tasks") { return .tasks(limit: try limit(head)) }
        if path.equals("/tasks.har") { return .archive(limit: try limit(head)) }
        if path.equals("/tasks/stream") {
            let from = try parameters(of: head).number("from", 0...Int.max)
            // A browser that has lost the connection repeats the same URL with Last-Event-ID.
            return .taskStream(from: lastEvent(head).map { $0 + 1 } ?? from)
        }
        if path.equals("/status") { return .status }
        if path.equals("/policy") {
            return .policy(since: try parameters(of: head).number("since", 0...Int.max).map(Int64.init))
        }
        if path.equals("/config") { return .configuration }
        if path.equals("/workers") { return .workers }
        if path.equals("/reloads") { return .reloads }
        if path.equals("/reload") { return .reload(dropsPins: try parameters(of: head).flag("dropPins")) }
        if path.equals("/drain") { return .drain }
        if isPurge { return .cache(try .purge(try parameters(of: head))) }
        if path.equals("/cache") { return .cache(.figures) }
        if path.equals("/cache/entries") { return .cache(try .entries(try parameters(of: head))) }
        throw Problem(
            .requestInvalid,
            status: 404,
            "The admin listener has /, /live, /ready, /status, /metrics, /tasks, /tasks/stream, /tasks.har, /policy, /config, "
                + "/workers, /reloads, /cache and /cache/entries, POST /reload and POST /drain, and nothing else."
        )
    }

    private static func limit(_ head: borrowing RequestHead) throws(Problem) -> Int {
        try parameters(of: head).number("limit", 1...largestLimit) ?? usualLimit
    }

    /// The number in Last-Event-ID; nil without one.
    private static func lastEvent(_ head: borrowing RequestHead) -> Int? {
        guard let index = head.fields.first(named: lastEventName.bytes) else { return nil }
        let value = head.fields.value(at: index)
        guard value.count <= 18, let number = Int(String(copying: value)), number >= 0 else { return nil }
        return number
    }

    private static var lastEventName: StaticString { "last-event-id" }

    // MARK: Methods

    private struct Methods {
        var isRead = true
        var write: HTTPMethod?
        var list: StaticString
    }

    private static let reading = Methods(list: "GET, HEAD")

    private static func methods(of path: borrowing Span<UInt8>) -> Methods {
        if path.equals("/reload") || path.equals("/drain") { return Methods(isRead: false, write: .post, list: "POST") }
        if path.equals("/cache") { return Methods(write: .delete, list: "GET, HEAD, DELETE") }
        return reading
    }

    private static func methodRefusal(_ methods: Methods) -> Problem {
        Problem(.requestInvalid, status: 405, "This path supports \(methods.list).", allow: methods.list)
    }

    // MARK: The cache

    private static var browserPurge: Problem {
        Problem(
            .requestInvalid,
            status: 403,
            "A browser does not purge the cache: the request has Origin or Sec-Fetch-Site. Use pinproxy cache purge."
        )
    }
}

extension QueryParameters {
    /// A number of the query; nil without it.
    fileprivate func number(_ name: String, _ range: ClosedRange<Int>) throws(Problem) -> Int? {
        let values = all.filter { $0.name == name }
        guard let value = values.first?.value else { return nil }
        guard values.count == 1, let number = Int(value), range.contains(number) else {
            let bounds =
                range.upperBound == .max
                ? "from \(range.lowerBound) on" : "from \(range.lowerBound) to \(range.upperBound)"
            throw Problem(.requestInvalid, "\(name) is one number \(bounds).")
        }
        return number
    }

    /// Whether the query has a name without a value.
    fileprivate func flag(_ name: String) throws(Problem) -> Bool {
        let values = all.filter { $0.name == name }
        guard values.allSatisfy(\.value.isEmpty) else { throw Problem(.requestInvalid, "\(name) takes no value.") }
        return !values.isEmpty
    }
}
