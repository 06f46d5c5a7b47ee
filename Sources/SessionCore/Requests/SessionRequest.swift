// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// How long a request's body is.
public enum RequestBodyLength: Sendable, Equatable {
    /// There is no body.
    case none
    /// That many bytes; the request has a Content-Length.
    case bytes(Int)
    /// Not known beforehand; chunked in HTTP/1.1.
    case unknown

    package var hasBody: Bool { self != .none && self != .bytes(0) }
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
    package var fields: HeaderFields
    /// How many bytes `LoopTask.send` will give; it makes the framing fields.
    public var bodyLength: RequestBodyLength
    /// Instead of the endpoint's, for this request alone; nil for those.
    public var timeouts: TaskTimeouts?
    /// How the session's cache is used, where there is one; nil: the request bypasses it.
    public var cachePolicy: CachePolicy? = .useProtocolCachePolicy
    /// The body may continue while the response comes: a stream in both directions, over HTTP/2.
    package var isBidirectional = false
    /// It offers another protocol among its fields: what the task sends and receives behind a response that agrees are bytes of that
    /// protocol, on a connection of its own, or on a stream of HTTP/2 (RFC 8441).
    package var isUpgrade = false
    /// It was sent before, to no effect: it is not repeated once more (rule 57).
    package var isRepetition = false

    package init(
        endpoint: Endpoint,
        method: HTTPMethod,
        target: [UInt8],
        fields: HeaderFields,
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
    /// A request from its parts, checked.
    ///
    /// - Parameters:
    ///   - endpoint: where it goes: of `URLSessionManager.endpoint`, or made for it.
    ///   - method: any but CONNECT and TRACE.
    ///   - target: the path and query as they go on the wire, beginning with `/`; or `*` with OPTIONS.
    ///   - fields: beside `Host` and the framing fields.
    ///   - bodyLength: how much `LoopTask.send` will give.
    /// - Throws: `requestInvalid` when the target holds what no target may (a space, a control character, a fragment,
    ///   anything outside ASCII), the method is CONNECT or TRACE, or `fields` holds one of those that are made from
    ///   `endpoint` and `bodyLength` or belong to the connection.
    public init(
        endpoint: Endpoint,
        method: HTTPMethod,
        target: String,
        fields: HeaderFields = HeaderFields(),
        bodyLength: RequestBodyLength = .none
    ) throws(SessionError) {
        let bytes = Array(target.utf8)
        let isValid = bytes.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }
        guard isValid, bytes.first == UInt8(ascii: "/") || (target == "*" && method == .options) else {
            throw SessionError(.requestInvalid, "The request target is no path and query in ASCII.")
        }
        try Self.check(method: method, fields: fields)
        self.init(endpoint: endpoint, method: method, target: bytes, fields: fields, bodyLength: bodyLength)
    }

    /// Refuses what would let a caller's fields contradict the framing (request smuggling), or another's connection.
    package static func check(method: HTTPMethod, fields: HeaderFields) throws(SessionError) {
        guard method != .connect, method != .trace else {
            throw SessionError(.requestInvalid, "\(method) requests are not made by a session.")
        }
        for index in 0..<fields.count {
            switch fields.id(at: index) {
            case .host, .connection, .keepAlive, .proxyConnection, .te, .trailer, .transferEncoding, .upgrade, .expect,
                .http2Settings, .contentLength, .underscoredContentLength, .underscoredTransferEncoding:
                throw SessionError(
                    .requestInvalid,
                    "The field \(String(copying: fields.name(at: index))) is the session's own; leave it out."
                )
            default:
                continue
            }
        }
    }
}

extension SessionRequest {
    /// Whether the bytes behind a head are those of the protocol that the request offers: behind 101 of HTTP/1.1, and behind any 2xx
    /// to an extended CONNECT of HTTP/2 (RFC 9113, section 8.5).
    package func isSwitched(by head: borrowing ResponseHead) -> Bool {
        guard isUpgrade else { return false }
        return head.majorVersion == 2 ? (200..<300).contains(head.status) : head.status == 101
    }

    /// Whether the request may be a stream in both directions: a response that continues while the request does, and trailers
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

extension SessionRequest {
    /// The URL, without a fragment.
    package var url: AbsoluteURL {
        AbsoluteURL(
            origin: Origin(
                scheme: endpoint.scheme == .https ? .https : .http,
                host: endpoint.host,
                port: endpoint.port
            ),
            rest: target
        )
    }
}
