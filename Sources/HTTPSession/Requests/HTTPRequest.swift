public import HTTPCore
public import SessionCore

/// A request as it is asked for: a URL, a method, fields and a body. Request serializers take and give it.
///
/// A value without a session; `HTTPSessionManager` finds the endpoint and makes a `SessionRequest` of it.
public struct HTTPRequest: Sendable {
    /// `http` or `https`, ASCII, percent-encoded as it shall go on the wire (RFC 3986). A fragment is not sent.
    public var url: String
    /// As it goes out at first: a redirect may make a GET of it (RFC 9110, section 15.4).
    public var method: HTTPMethod
    /// Beside `Host` and the framing fields, which are made from `url` and `body`.
    public var fields: HTTPFields
    /// What is sent behind the head. A source is opened again when the request has to be sent once more.
    public var body: RequestBody
    /// Instead of the session's, for this request alone; nil for those.
    public var timeouts: TaskTimeouts?
    /// Whether cookies of the session's storage are sent, and those of the answer taken in.
    public var handlesCookies: Bool
    /// What is wanted of the session's cache; nil: what the session's configuration says. Downloads neither use the cache
    /// nor fill it.
    public var cachePolicy: CachePolicy?

    /// A GET without a body, unless told otherwise. Nothing is looked at yet: a request that cannot be sent is refused
    /// by the session, with `requestInvalid`.
    public init(
        url: String,
        method: HTTPMethod = .get,
        fields: HTTPFields = HTTPFields(),
        body: RequestBody = .none,
        timeouts: TaskTimeouts? = nil,
        handlesCookies: Bool = true,
        cachePolicy: CachePolicy? = nil
    ) {
        self.url = url
        self.method = method
        self.fields = fields
        self.body = body
        self.timeouts = timeouts
        self.handlesCookies = handlesCookies
        self.cachePolicy = cachePolicy
    }
}

extension HTTPFields {
    /// `set(name:value:)`, with the error that a request's other faults have.
    mutating func setForRequest(_ name: String, _ value: String) throws(SessionError) {
        do {
            try set(name: name, value: value)
        } catch {
            throw SessionError(.requestInvalid, "A header field cannot be sent: \(error).")
        }
    }
}
