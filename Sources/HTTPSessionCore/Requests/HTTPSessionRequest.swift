// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

/// A request of the program: a URL, a method, fields and a body. Request serializers take and return it.
///
/// It is a value without a session; `HTTPSessionManager` finds the endpoint and makes a `SessionRequest` from it.
public struct HTTPSessionRequest: Sendable {
    /// `http` or `https`. What a URL cannot have in path, query and fragment is percent-encoded here (a space, `é`, `"`, `{`), as by
    /// Foundation's `URL`; escapes stay. A fragment is not sent.
    public var url: String {
        didSet { url = URLEscaping.escape(url) }
    }
    /// The method of the first request: a redirect may change it to GET (RFC 9110, section 15.4).
    public var method: HTTPMethod
    /// Headers in addition to `Host` and the framing fields, which are made from `url` and `body`.
    public var headers: HTTPHeaders
    /// The body. A source is opened again when the request has to be sent again.
    public var body: RequestBody
    /// Time limits for this request; nil for the session's.
    public var timeouts: TaskTimeouts?
    /// Whether cookies of the session's storage are sent, and those of the response stored.
    public var handlesCookies: Bool
    /// The cache policy; nil for that of the session's configuration. Downloads do not use the cache.
    public var cachePolicy: CachePolicy?
    /// Whether the body of the response is compared with its digests; nil for the session's `digestCheck`.
    public var digestCheck: DigestCheck?

    /// By default a GET without a body. Nothing is checked here: the session rejects an invalid request with
    /// `requestInvalid`.
    public init(
        url: some URLConvertible,
        method: HTTPMethod = .get,
        headers: HTTPHeaders = [:],
        body: RequestBody = .none,
        timeouts: TaskTimeouts? = nil,
        handlesCookies: Bool = true,
        cachePolicy: CachePolicy? = nil
    ) {
        self.url = URLEscaping.escape(url.urlText)
        self.method = method
        self.headers = headers
        self.body = body
        self.timeouts = timeouts
        self.handlesCookies = handlesCookies
        self.cachePolicy = cachePolicy
    }

    /// - Parameters:
    ///   - ofSession: the policy of a request without one of its own.
    ///   - isData: whether the request is a data task's; others do not use the cache.
    /// - Throws: `notStored` when the policy forbids a request to the origin that does not use the cache.
    func cachePolicy(_ ofSession: CachePolicy, isData: Bool) throws(SessionError) -> CachePolicy? {
        let policy = cachePolicy ?? ofSession
        if isData { return policy }
        guard policy != .returnCacheDataDontLoad else { throw .notStored }
        return nil
    }
}

extension HeaderFields {
    /// `set(name:value:)`, with `requestInvalid` as its error.
    mutating func setForRequest(_ name: String, _ value: String) throws(SessionError) {
        do {
            try set(name: name, value: value)
        } catch {
            throw SessionError(.requestInvalid, "A header field cannot be sent: \(error).")
        }
    }
}

extension HTTPHeaders {
    /// Sets a field.
    ///
    /// - Throws: `requestInvalid` for a name or a value that cannot be sent; nothing changes then.
    mutating func setForRequest(_ name: String, _ value: String) throws(SessionError) {
        let field: HTTPHeaders = [name: value]
        try field.validate()
        self[name] = value
    }
}
