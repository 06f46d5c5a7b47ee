// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import ServerTrust

/// The settings for one host (and, with `includeSubdomains`, for those below it): an entry of `hosts` merged with
/// `defaults`.
package struct HostConfiguration: Sendable {
    /// The entry's name; nil for `defaults` themselves.
    package var host: Host?
    /// Whether hosts at any depth below use this entry too, unless they have a nearer one.
    package var includeSubdomains = false
    /// Plain `http://` requests are sent to the origin over TLS. A host in a pin file is always upgraded.
    package var upgrade = false
    /// In responses to upgraded requests, https URLs become http.
    package var rewriteUpgraded = true
    package var httpVersion = OriginHTTPVersion.http11
    package var via = ViaPolicy.on
    /// The address that connections are really made to; TLS name and pins stay those of the host.
    package var resolve: AddressAndPort?
    /// The cipher suites that are offered to the origin.
    package var tlsProfile = TLSProfile.modern
    /// The name that the origin is asked for (SNI) and that its certificate has to have; nil for the host's.
    package var tlsServerName: Host?
    package var connect = ConnectPolicy.deny
    /// Whether pages of other sites may use the host's gateways.
    package var browsers = false
    /// The proxy for connections to origins; nil for none.
    package var upstreamProxy: UpstreamProxyConfiguration?
    package var timeouts = Timeouts()
    /// The limit of connections to the origin in use at once, over all workers; nil for the number of `limits`.
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

/// The version of HTTP for an origin over TLS.
package enum OriginHTTPVersion: String, CaseIterable, Sendable {
    case http11 = "1.1"
    /// HTTP/2 is offered by ALPN; an origin without it gets HTTP/1.1.
    case http2 = "2"
}

/// Whether messages to and from a host say that they went through a proxy (RFC 9110, section 7.6.3).
package enum ViaPolicy: String, CaseIterable, Sendable {
    case on
    /// Only a request that has a Via already gets this proxy's, so that a loop through other proxies is found.
    case off
}

/// The treatment of CONNECT to a host.
package enum ConnectPolicy: String, CaseIterable, Sendable {
    /// 403, with the alternatives in the body.
    case deny
    /// The bytes are relayed unchanged, for hosts that no pin file names.
    case tunnel
    /// The client's TLS ends in the proxy, and its requests are treated like all others.
    case intercept
}

/// The limits of each wait, after which the request fails or the idle connection is closed.
package struct Timeouts: Hashable, Sendable {
    /// DNS, TCP and TLS to the origin together.
    package var connect = Milliseconds(10_000)
    /// Waiting for a free connection while the limit of connections to the origin is reached.
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
    /// The time that a clean stop leaves to current requests.
    package var drain = Milliseconds(30_000)

    package init() {}
}
