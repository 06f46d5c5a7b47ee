// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// The use of the cache that a request wants (the request policies of `URLRequest`).
public enum RequestPolicy: String, Hashable, Sendable, CaseIterable {
    /// The rules of RFC 9111.
    case useProtocolCachePolicy
    /// The request goes to the origin; its response is stored.
    case reloadIgnoringLocalCacheData
    /// A stored response of any age, unless the origin forbids that; otherwise the origin.
    case returnCacheDataElseLoad
    /// The same, but the request never goes to the origin: 504 if no stored response can be used.
    case returnCacheDataDontLoad
}

/// The parts of a request that a cache needs.
public struct CacheRequest: Sendable {
    /// The client's method.
    public let method: HTTPMethod
    /// The client's fields without hop-by-hop ones.
    public let fields: HeaderFields
    /// Whether it has credentials: Authorization, or those that this program adds for the client.
    public let hasCredentials: Bool
    /// Whether it has a body; the response to such a request is not stored.
    public let hasBody: Bool
    /// The use that it makes of the cache.
    public var policy: RequestPolicy
    /// Its directives; those of Pragma without a Cache-Control.
    public private(set) var control: CacheControl
    /// The owner's word about stale responses.
    package var grace = CacheGrace()
    /// Whether the owner keeps it from the cache: no stored response is used for it, and its response is not stored.
    package var bypasses = false

    /// - Parameters:
    ///   - method: the method of the request.
    ///   - fields: the fields of the request.
    ///   - hasInjectedCredentials: whether credentials are added on the way to the origin; they count like
    ///     Authorization (RFC 9111 3.5).
    ///   - hasBody: a request with a body is not served from the cache.
    ///   - policy: the use that the request makes of the cache.
    public init(
        method: HTTPMethod,
        fields: HeaderFields,
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

    /// Does not obey these directives, if it has them.
    package mutating func ignore(_ directives: IgnoredDirectives) {
        if fields.contains(.cacheControl) {
            control.ignore(directives)
        } else if directives.contains(.pragma) {
            control = CacheControl(HeaderFields())
        }
    }

    /// Preconditions that only the origin evaluates (RFC 9111 4.3.2).
    private static let originConditions: FieldNameSet = [.ifMatch, .ifUnmodifiedSince]

    /// Whether stored responses may be used for it at all.
    var isCacheable: Bool {
        (method == .get || method == .head) && !bypasses && !hasBody && !fields.containsAny(of: Self.originConditions)
    }
}
