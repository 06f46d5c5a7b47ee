public import HTTPCore

/// How long a request's body is.
public enum RequestBodyLength: Sendable, Equatable {
    /// There is no body.
    case none
    /// That many bytes; the request has a Content-Length.
    case bytes(Int)
    /// Not known beforehand; chunked in HTTP/1.1.
    case unknown

    var hasBody: Bool { self != .none && self != .bytes(0) }
}

/// A request as it goes to the origin: where to, what is asked for, and the fields.
///
/// `Host` and the framing fields are not among `fields`: they are made from `endpoint` and `bodyLength`.
public struct SessionRequest: Sendable {
    /// Where it goes, and what the server there has to prove.
    public var endpoint: Endpoint
    /// Sent as it is; no redirect is followed here.
    public var method: HTTPMethod
    /// The request target in origin form, as it stands on the wire: `/v1/items?page=2`, or `*` with OPTIONS.
    package var target: [UInt8]
    package var fields: HTTPFields
    /// How many bytes `LoopTask.send` will give; it makes the framing fields.
    public var bodyLength: RequestBodyLength
    /// Instead of the endpoint's, for this request alone; nil for those.
    public var timeouts: TaskTimeouts?
    /// What is wanted of the session's cache, where it has one; nil: the request passes it by.
    public var cachePolicy: CachePolicy? = .useProtocolCachePolicy
    /// The body may go on while the answer comes: a stream in both directions, where the server speaks HTTP/2.
    package var isBidirectional = false
    /// It was sent before, to no effect: it is not repeated once more (rule 57).
    package var isRepetition = false

    package init(
        endpoint: Endpoint,
        method: HTTPMethod,
        target: [UInt8],
        fields: HTTPFields,
        bodyLength: RequestBodyLength = .none,
        timeouts: TaskTimeouts? = nil
    ) {
        self.endpoint = endpoint
        self.method = method
        self.target = target
        self.fields = fields
        self.bodyLength = bodyLength
        self.timeouts = timeouts
    }
}

extension SessionRequest {
    /// Whether it needs more of HTTP/2 than libcurl 7.88 has: an answer that goes on while the request does, and trailers
    /// behind either (gRPC, for one).
    var isFullDuplex: Bool {
        guard endpoint.httpVersion == .http2, endpoint.scheme == .https else { return false }
        return isBidirectional || fields.acceptsTrailers || isRemoteCall
    }

    /// Whether it is a call of gRPC.
    var isRemoteCall: Bool {
        guard let index = fields.first(.contentType) else { return false }
        return fields.value(at: index).hasPrefixIgnoringCase("application/grpc")
    }
}
