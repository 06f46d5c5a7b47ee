public import HTTPCore
import ServerTrust
public import SessionCore

/// Turns parameters into a request's URL or body, and sets what all requests of a kind have in common.
public protocol RequestSerializer: Sendable {
    /// What is set on each request, and how queries are written.
    var settings: RequestSettings { get set }

    /// The request with the parameters in it.
    ///
    /// - Throws: `requestInvalid` when they cannot be sent in this form.
    func serialize(_ request: HTTPRequest, parameters: ParameterValue?) throws(SessionError) -> HTTPRequest
}

extension RequestSerializer {
    /// A request from its parts.
    public func request(
        _ method: HTTPMethod,
        _ url: String,
        parameters: ParameterValue? = nil
    ) throws(SessionError) -> HTTPRequest {
        try serialize(HTTPRequest(url: url, method: method), parameters: parameters)
    }

    // MARK: Fields

    /// The value of a field that is set on all requests; nil when there is none.
    public func value(forHTTPHeaderField name: String) -> String? { settings.fields.value(for: name) }

    /// Sets a field on all requests; nil takes it out. A field that a request has already is left alone.
    ///
    /// - Throws: `requestInvalid` when the name is no token or the value holds a control character, and nothing changes.
    public mutating func setValue(_ value: String?, forHTTPHeaderField name: String) throws(SessionError) {
        if let value {
            try settings.fields.setForRequest(name, value)
        } else {
            settings.fields.remove(name: name)
        }
    }

    /// HTTP Basic (RFC 7617), in UTF-8. The password goes out with each request: only to hosts reached over TLS.
    ///
    /// - Throws: `requestInvalid` when the name holds a colon, which would end it, or either holds a control character.
    public mutating func setAuthorizationHeaderField(username: String, password: String) throws(SessionError) {
        guard !username.utf8.contains(UInt8(ascii: ":")),
            (username + password).unicodeScalars.allSatisfy({ $0.value > 0x1F && $0.value != 0x7F })
        else {
            throw SessionError(.requestInvalid, "A user name has no colon, and neither part a control character.")
        }
        let credentials = Base64.encode(Array("\(username):\(password)".utf8))
        try setValue("Basic \(credentials)", forHTTPHeaderField: "Authorization")
    }

    /// A bearer token (RFC 6750, section 2.1).
    ///
    /// - Throws: `requestInvalid` when it holds anything but the characters of a token there.
    public mutating func setAuthorizationHeaderField(bearerToken token: String) throws(SessionError) {
        let marks = Array("-._~+/=".utf8)
        guard !token.isEmpty, token.utf8.allSatisfy({ ASCII.isLetter($0) || ASCII.isDigit($0) || marks.contains($0) })
        else {
            throw SessionError(.requestInvalid, "A bearer token is letters, digits and -._~+/= alone.")
        }
        try setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
    }

    /// No credentials on further requests.
    public mutating func clearAuthorizationHeader() {
        settings.fields.remove(name: "Authorization")
    }
}

extension HTTPRequest {
    /// Gives it a body of bytes, and a Content-Type unless it has one.
    mutating func setBody(_ bytes: [UInt8], contentType: String) throws(SessionError) {
        body = .bytes(bytes)
        if fields.value(for: "Content-Type") == nil { try fields.setForRequest("Content-Type", contentType) }
    }
}
