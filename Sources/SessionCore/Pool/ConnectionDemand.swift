// SPDX-License-Identifier: Apache-2.0
/// Which connections one request may have, as a value: the outcomes of its dials and exchanges go in.
struct ConnectionDemand {
    /// The request's endpoint may speak HTTP/2, by its settings.
    private let offersHTTP2: Bool
    /// The request wants a connection of its own, for a stream.
    let isExclusive: Bool
    /// The request gets credentials that its client does not have.
    private let hasCredentials: Bool
    /// The origin, or the owner of the connection, wants this request over HTTP/1.1.
    private var isHTTP1Required = false
    /// A handshake has failed that offered HTTP/1.1 alone.
    private var hasFailedOverHTTP1 = false
    /// A server has refused the request without processing it.
    private var wasRefused = false
    /// Shared connections older than this are not used, because the request has already failed on one of them; in nanoseconds of
    /// the loop's clock.
    private var notBefore: UInt64 = 0

    init(offersHTTP2: Bool = false, isExclusive: Bool = false, hasCredentials: Bool = false) {
        self.offersHTTP2 = offersHTTP2
        self.isExclusive = isExclusive
        self.hasCredentials = hasCredentials
    }

    /// The request can go out on a shared connection, unless its server is known to choose HTTP/1.1.
    var isShareable: Bool { offersHTTP2 && !isExclusive && !isHTTP1Required }

    /// Whether a connection that was made then can be shared by this request.
    func canShare(madeAt: UInt64) -> Bool { madeAt >= notBefore }

    /// Whether the request goes out on a connection before the server's settings show how many streams it allows: a request that
    /// is refused a second time fails.
    var canJoinDial: Bool { !wasRefused }

    /// Whether the request can go out on a connection that its client has authenticated, or authenticate one. A stream has a connection
    /// of its own in any case. A credential that a client does not have is not sent where the client has authenticated the connection.
    var mayBeAuthenticated: Bool { !isExclusive && !hasCredentials }

    /// The request authenticates its connection: from now on it takes none of HTTP/2, which carries requests of others.
    mutating func beAuthenticated() { isHTTP1Required = true }

    /// The handshake of a connection for this request alone has failed.
    ///
    /// - Returns: whether the request tries HTTP/2, once: it was not offered, and the server may speak nothing else now.
    mutating func triesHTTP2() -> Bool {
        guard isShareable, !hasFailedOverHTTP1 else { return false }
        hasFailedOverHTTP1 = true
        return true
    }

    /// The request is sent again.
    ///
    /// - Parameter madeAt: when the shared connection was made that it was on; nil for HTTP/1.1.
    mutating func repeatRequest(after cause: ExchangeEnding.Cause, sharedMadeAt madeAt: UInt64?) {
        switch cause {
        // Those that were made since may be well: many requests leave a dead connection one after another.
        case .connectionLost: if let madeAt { notBefore = madeAt &+ 1 }
        case .http11Required: isHTTP1Required = true
        case .notProcessed: wasRefused = true
        case .reset: break
        }
    }
}
