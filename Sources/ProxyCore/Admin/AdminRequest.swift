import HTTPCore
import IOCore

/// The kind of a request to the admin listener, decided by its head alone.
enum AdminRequest {
    case live
    case ready
    case metrics
    case cache(CacheRequest)
    case refused(Problem)

    /// A request about the cache.
    typealias CacheRequest = CacheAdministration.Request

    /// - Parameters:
    ///   - isOwnName: whether Host names this listener.
    ///   - isLocal: whether the client is on this machine.
    init(_ head: borrowing RequestHead, isOwnName: Bool, isLocal: Bool) {
        guard isOwnName else {
            // Invariant 16: a web page must not be able to make a browser read this under a name of the page's own.
            self = .refused(
                Problem(
                    .misdirectedRequest,
                    "The names of the admin listener are its own address, localhost and its allowedHosts; the request's Host is another. "
                        + "Add the name to admin.allowedHosts if it may be used."
                )
            )
            return
        }
        let target = head.target
        let path = target.extracting(0..<(target.firstIndex(of: UInt8(ascii: "?")) ?? target.count))
        let isPurge = path.equals("/cache") && head.method == .delete
        guard isPurge || head.method == .get || head.method == .head else {
            self = .refused(path.equals("/cache") ? Self.cacheMethodRefusal : Self.methodRefusal)
            return
        }
        guard !head.framing.hasBody else {
            self = .refused(Problem(.requestInvalid, "A request of the admin listener has no body. Send none."))
            return
        }
        if path.equals("/live") {
            self = .live
        } else if path.equals("/ready") {
            self = .ready
        } else if path.equals("/metrics") {
            self = .metrics
        } else if path.equals("/cache"), !isPurge {
            self = .cache(.figures)
        } else if isPurge || path.equals("/cache/entries") {
            self = Self.cacheRequest(head, isPurge: isPurge, isLocal: isLocal)
        } else {
            self = .refused(
                Problem(
                    .requestInvalid,
                    status: 404,
                    "The admin listener has /live, /ready, /metrics, /cache and /cache/entries, and nothing else."
                )
            )
        }
    }

    /// Makes the refusal for a fault of the parser.
    init(_ fault: RequestFault) {
        self = .refused(fault == .methodTrace ? Self.methodRefusal : Problem(fault))
    }

    private static func cacheRequest(
        _ head: borrowing RequestHead,
        isPurge: Bool,
        isLocal: Bool
    ) -> AdminRequest {
        guard isLocal else {
            return .refused(
                Problem(
                    .requestInvalid,
                    status: 403,
                    "The contents of the cache are shown to clients on this machine alone, and purged by them alone. Send the request from "
                        + "here, at a loopback address or a Unix socket."
                )
            )
        }
        // A web page must not be able to make a browser purge the cache, under any name.
        if isPurge, head.fields.first(named: originName.bytes) != nil || head.fields.first(named: siteName.bytes) != nil
        {
            return .refused(
                Problem(
                    .requestInvalid,
                    status: 403,
                    "A browser does not purge the cache: the request has Origin or Sec-Fetch-Site. Use pinproxy cache purge."
                )
            )
        }
        guard let parameters = QueryParameters(of: head.target) else {
            return .refused(Problem(.requestInvalid, "The query is not percent-encoded UTF-8."))
        }
        do throws(Problem) {
            return .cache(isPurge ? try .purge(parameters) : try .entries(parameters))
        } catch {
            return .refused(error)
        }
    }

    private static var originName: StaticString { "origin" }
    private static var siteName: StaticString { "sec-fetch-site" }

    private static var methodRefusal: Problem {
        Problem(.requestInvalid, status: 405, "The admin listener supports GET and HEAD.", allow: "GET, HEAD")
    }

    private static var cacheMethodRefusal: Problem {
        Problem(.requestInvalid, status: 405, "/cache supports GET, HEAD and DELETE.", allow: "GET, HEAD, DELETE")
    }
}
