// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

/// A request of the program: a URL, a method, fields and a body. Request serializers take and return it.
///
/// It is a value without a session; `HTTPSessionManager` finds the endpoint and makes a `SessionRequest` from it.
public struct HTTPSessionRequest: Sendable {
    /// The members. A request passes through many hands, from the caller to the loop, and a copy of them costs hundreds of
    /// instructions each time; so they are shared until one is changed.
    private var members: Members

    /// `@unchecked Sendable`: a change is made only by the one who holds the object alone.
    private final class Members: @unchecked Sendable {
        var url: String
        var method: HTTPMethod
        var headers: HTTPHeaders
        var body: RequestBody
        var timeouts: TaskTimeouts?
        var handlesCookies: Bool
        var cachePolicy: CachePolicy?
        var digestCheck: DigestCheck?

        init(
            _ url: String,
            _ method: HTTPMethod,
            _ headers: HTTPHeaders,
            _ body: RequestBody,
            _ timeouts: TaskTimeouts?,
            _ handlesCookies: Bool,
            _ cachePolicy: CachePolicy?,
            _ digestCheck: DigestCheck?
        ) {
            self.url = url
            self.method = method
            self.headers = headers
            self.body = body
            self.timeouts = timeouts
            self.handlesCookies = handlesCookies
            self.cachePolicy = cachePolicy
            self.digestCheck = digestCheck
        }

        func copy() -> Members {
            Members(url, method, headers, body, timeouts, handlesCookies, cachePolicy, digestCheck)
        }
    }

    /// The members, to be changed.
    private var own: Members {
        mutating get {
            if !isKnownUniquelyReferenced(&members) { members = members.copy() }
            return members
        }
    }

    /// `http` or `https`. What a URL cannot have in path, query and fragment is percent-encoded here (a space, `é`, `"`, `{`), as by
    /// Foundation's `URL`; escapes stay. A fragment is not sent.
    public var url: String {
        get { members.url }
        set { own.url = URLEscaping.escape(newValue) }
    }
    /// The method of the first request: a redirect may change it to GET (RFC 9110, section 15.4).
    public var method: HTTPMethod {
        get { members.method }
        set { own.method = newValue }
    }
    /// Headers in addition to `Host` and the framing fields, which are made from `url` and `body`.
    public var headers: HTTPHeaders {
        get { members.headers }
        _modify { yield &own.headers }
    }
    /// The body. A source is opened again when the request has to be sent again.
    public var body: RequestBody {
        get { members.body }
        _modify { yield &own.body }
    }
    /// Time limits for this request; nil for the session's.
    public var timeouts: TaskTimeouts? {
        get { members.timeouts }
        _modify { yield &own.timeouts }
    }
    /// Whether cookies of the session's storage are sent, and those of the response stored.
    public var handlesCookies: Bool {
        get { members.handlesCookies }
        set { own.handlesCookies = newValue }
    }
    /// The cache policy; nil for that of the session's configuration. Downloads do not use the cache.
    public var cachePolicy: CachePolicy? {
        get { members.cachePolicy }
        set { own.cachePolicy = newValue }
    }
    /// Whether the body of the response is compared with its digests; nil for the session's `digestCheck`.
    public var digestCheck: DigestCheck? {
        get { members.digestCheck }
        set { own.digestCheck = newValue }
    }

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
        members = Members(
            URLEscaping.escape(url.urlText),
            method,
            headers,
            body,
            timeouts,
            handlesCookies,
            cachePolicy,
            nil
        )
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
