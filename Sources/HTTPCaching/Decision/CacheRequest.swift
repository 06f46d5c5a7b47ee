public import HTTPCore

/// What is asked of the cache before the origin is asked (the request policies of `URLRequest`).
public enum RequestPolicy: String, Hashable, Sendable, CaseIterable {
    /// RFC 9111.
    case useProtocolCachePolicy
    /// The origin is asked; its answer is stored.
    case reloadIgnoringLocalCacheData
    /// What is stored, however old, unless the origin forbids that; else the origin.
    case returnCacheDataElseLoad
    /// The same, but the origin is never asked: 504 where nothing can be used.
    case returnCacheDataDontLoad
}

/// A request as a cache looks at it.
public struct CacheRequest: Sendable {
    public let method: HTTPMethod
    /// As the client sent it, without what is hop-by-hop.
    public let fields: HTTPFields
    /// Whether it bears credentials: Authorization, or what this program puts in for the client.
    public let hasCredentials: Bool
    public let hasBody: Bool
    public var policy: RequestPolicy
    /// Its directives; those of Pragma where there is no Cache-Control.
    public let control: CacheControl

    /// - Parameters:
    ///   - hasInjectedCredentials: whether credentials are added on the way to the origin; they count like
    ///     Authorization (RFC 9111 3.5).
    ///   - hasBody: a request that has one is not answered from the cache.
    public init(
        method: HTTPMethod,
        fields: HTTPFields,
        hasInjectedCredentials: Bool = false,
        hasBody: Bool = false,
        policy: RequestPolicy = .useProtocolCachePolicy
    ) {
        self.method = method
        self.fields = fields
        self.hasBody = hasBody
        self.policy = policy
        hasCredentials = hasInjectedCredentials || fields.contains(.authorization)
        if fields.contains(.cacheControl) || !fields.hasMember("no-cache", of: .pragma) {
            control = CacheControl(fields)
        } else {
            control = .noCache
        }
    }

    /// Preconditions that are the origin's alone to evaluate (RFC 9111 4.3.2).
    private static let originConditions: FieldNameSet = [.ifMatch, .ifUnmodifiedSince]

    /// Whether stored responses may answer it at all.
    var isCacheable: Bool {
        (method == .get || method == .head) && !hasBody && !fields.containsAny(of: Self.originConditions)
    }
}
