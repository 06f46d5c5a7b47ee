package import HTTPCore

/// What holds for one host (and, where it says so, for those below it): an entry of `hosts` laid over `defaults`.
package struct HostConfiguration: Sendable {
    /// The entry's name; nil for `defaults` themselves.
    package var host: Host?
    /// Whether hosts at any depth below have this entry too, unless they have a nearer one.
    package var includeSubdomains = false
    /// Plain `http://` requests go to the origin over TLS. A host that a pin file names is upgraded without it.
    package var upgrade = false
    /// In answers to upgraded requests, https leads back to http.
    package var rewriteUpgraded = true
    package var httpVersion = OriginHTTPVersion.http11
    /// Where connections really go; TLS name and pins stay those of the host.
    package var resolve: AddressAndPort?
    package var connect = ConnectPolicy.deny
    /// What connections go through; nil: none.
    package var upstreamProxy: UpstreamProxyConfiguration?
    package var timeouts = Timeouts()
    /// Connections to the origin in use at once, over all workers; nil for the number of `limits`.
    package var connectionsPerHost: Int?
    package var redirects = RedirectRules()
    package var responses = ResponseRules()
    package var headers = HeaderRules()
    package var cache = CacheRules()

    package init() {}

    package init(host: Host, over defaults: HostConfiguration = HostConfiguration()) {
        self = defaults
        self.host = host
    }
}

/// The version of HTTP spoken to an origin over TLS.
package enum OriginHTTPVersion: String, CaseIterable, Sendable {
    case http11 = "1.1"
    /// Offered by ALPN; an origin without it is spoken to in 1.1.
    case http2 = "2"
}

/// What CONNECT to a host gets.
package enum ConnectPolicy: String, CaseIterable, Sendable {
    /// 403, with the alternatives in the body.
    case deny
    /// The bytes as they are, to hosts that no pin file names.
    case tunnel
    /// The client's TLS ends here, and each of its requests goes the way of all others.
    case intercept
}

/// How long each wait may last before the request fails, or the idle connection is closed.
package struct Timeouts: Hashable, Sendable {
    /// DNS, TCP and TLS to the origin together.
    package var connect = Milliseconds(10_000)
    /// A free connection, where as many to the origin are in use as there may be.
    package var queue = Milliseconds(10_000)
    /// The client's request head, from its first byte.
    package var head = Milliseconds(10_000)
    /// The origin's response head, from the end of the request.
    package var firstByte = Milliseconds(60_000)
    /// The next kilobyte of the client's request body, or its end.
    package var body = Milliseconds(60_000)
    /// No byte of a body in either direction.
    package var stall = Milliseconds(300_000)
    /// A client connection between two requests.
    package var idle = Milliseconds(60_000)
    /// The whole request; nil is no bound.
    package var total: Milliseconds?
    /// What a clean stop leaves to the requests under way.
    package var drain = Milliseconds(30_000)

    package init() {}
}
