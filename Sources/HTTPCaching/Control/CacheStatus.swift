// SPDX-License-Identifier: Apache-2.0
import HTTPCore
package import IOCore

/// The contents of the Cache-Status field: how a cache handled a request (RFC 9211).
public struct CacheStatus: Hashable, Sendable {
    /// The source of the response.
    public enum Outcome: Hashable, Sendable {
        /// Served from the cache, without the origin.
        case hit
        /// The request went to the origin, for this reason.
        case forward(ForwardReason)
    }

    /// The source of the response (2.1, 2.2).
    public var outcome: Outcome
    /// The origin's status, if it differs from the status that the client gets (2.3).
    public var forwardStatus: Int?
    /// Seconds until the response is stale; negative when it is (2.4).
    public var timeToLive: Int?
    /// Whether the origin's response was stored (2.5).
    public var isStored = false
    /// Whether the request waited for the response to another request (2.6).
    public var isCollapsed = false
    /// Whether the stored response is from a level that several machines share; the detail says so.
    package var isShared = false
    /// The reason why the response was not stored; it becomes the detail (2.8).
    public var reason: Storability.Reason?

    /// A status with an outcome, and the remaining seconds of freshness.
    public init(_ outcome: Outcome, timeToLive: Int? = nil) {
        self.outcome = outcome
        self.timeToLive = timeToLive
    }

    /// Writes one member of the list. It follows the members of caches nearer to the origin.
    ///
    /// - Parameter name: of this cache: a token.
    package func serialize(into buffer: inout ByteBuffer, name: StaticString = "pinproxy") {
        buffer.appendStructured(token: name)
        switch outcome {
        case .hit: buffer.appendStructuredFlag(key: "hit")
        case .forward(let reason):
            buffer.appendStructuredParameter(key: "fwd", token: reason.token)
            if let forwardStatus { buffer.appendStructuredParameter(key: "fwd-status", integer: forwardStatus) }
            if isStored { buffer.appendStructuredFlag(key: "stored") }
            if isCollapsed { buffer.appendStructuredFlag(key: "collapsed") }
        }
        if let timeToLive { buffer.appendStructuredParameter(key: "ttl", integer: timeToLive) }
        if let reason {
            buffer.appendStructuredParameter(key: "detail", token: reason.token)
        } else if isShared {
            buffer.appendStructuredParameter(key: "detail", token: "shared")
        }
    }

    /// The member as text: for logs and tests.
    public var text: String {
        var buffer = ByteBuffer()
        serialize(into: &buffer)
        return String(copying: buffer.bytes)
    }
}

extension ForwardReason {
    /// The value of `fwd`.
    package var token: StaticString {
        switch self {
        case .bypass: "bypass"
        case .method: "method"
        case .uriMiss: "uri-miss"
        case .varyMiss: "vary-miss"
        case .miss: "miss"
        case .request: "request"
        case .stale: "stale"
        case .partial: "partial"
        }
    }
}

extension Storability.Reason {
    /// The value of `detail` in Cache-Status.
    package var token: StaticString {
        switch self {
        case .method: "method"
        case .status: "status"
        case .statusNotUnderstood: "status-not-understood"
        case .requestNoStore: "request-no-store"
        case .responseNoStore: "no-store"
        case .isPrivate: "private"
        case .authorization: "authorization"
        case .noLifetime: "no-lifetime"
        case .variesOnEverything: "vary-everything"
        case .malformedCacheControl: "malformed-cache-control"
        case .contradiction: "contradiction"
        case .setCookie: "set-cookie"
        case .requestBody: "request-body"
        case .rule: "rule"
        case .tooLarge: "too-large"
        case .noRoom: "no-room"
        }
    }
}
