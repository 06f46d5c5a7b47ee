public import HTTPCore

/// A URL as a request needs it: where to connect, and the target in origin form.
struct RequestURL: Sendable {
    let origin: Origin
    let target: [UInt8]

    /// - Parameter text: an `http` or `https` URL as `HTTPSessionManager.data` documents it.
    init(_ text: String) throws(SessionError) {
        guard let url = AbsoluteURL(text) else {
            throw SessionError(
                .requestInvalid,
                "This is no http or https URL with a valid host, in ASCII and without user information."
            )
        }
        origin = url.origin
        var target = url.rest
        if let fragment = target.firstIndex(of: UInt8(ascii: "#")) { target.removeSubrange(fragment...) }
        if target.first != UInt8(ascii: "/") { target.insert(UInt8(ascii: "/"), at: 0) }
        self.target = target
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
        fields: HTTPFields = HTTPFields(),
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
    static func check(method: HTTPMethod, fields: HTTPFields) throws(SessionError) {
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

extension HTTPFields {
    /// Adds the fields of `other` whose names are not here.
    mutating func appendMissing(of other: HTTPFields) {
        let present = self
        for index in 0..<other.count where present.first(named: other.name(at: index)) == nil {
            append(contentsOf: other, at: index)
        }
    }
}
