// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

/// Writes parameters into a request's URL or body, and sets the common fields of requests.
public protocol RequestSerializer: Sendable {
    /// Fields and limits of each request, and the form of queries.
    var settings: RequestSettings { get set }

    /// Adds the parameters to a request.
    ///
    /// - Throws: `requestInvalid` when they cannot be sent in this form.
    func serialize(_ request: HTTPSessionRequest, parameters: ParameterValue?) throws(SessionError)
        -> HTTPSessionRequest
}

extension RequestSerializer {
    /// Makes a request from its parts.
    public func request(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        parameters: ParameterValue? = nil
    ) throws(SessionError) -> HTTPSessionRequest {
        try serialize(HTTPSessionRequest(url: url, method: method), parameters: parameters)
    }

    // MARK: Fields

    /// The value of a field that is set on all requests; nil for none.
    public func value(forHTTPHeaderField name: String) -> String? { settings.headers.value(for: name) }

    /// Sets a field on all requests; nil removes it. A field that a request already has is not changed.
    ///
    /// - Throws: `requestInvalid` when the name is no token or the value contains a control character; then nothing
    ///   changes.
    public mutating func setValue(_ value: String?, forHTTPHeaderField name: String) throws(SessionError) {
        if let value {
            try settings.headers.setForRequest(name, value)
        } else {
            settings.headers.remove(name: name)
        }
    }

    /// Sets HTTP Basic credentials (RFC 7617), in UTF-8. Each request sends the password: use them only for hosts with
    /// TLS.
    ///
    /// - Throws: `requestInvalid` when the name contains a colon, which would end it, or either contains a control
    ///   character.
    public mutating func setAuthorizationHeaderField(username: String, password: String) throws(SessionError) {
        guard !username.utf8.contains(UInt8(ascii: ":")),
            (username + password).unicodeScalars.allSatisfy({ $0.value > 0x1F && $0.value != 0x7F })
        else {
            throw SessionError(.requestInvalid, "A user name has no colon, and neither part a control character.")
        }
        let credentials = Base64.encode(Array("\(username):\(password)".utf8))
        try setValue("Basic \(credentials)", forHTTPHeaderField: "Authorization")
    }

    /// Sets a bearer token (RFC 6750, section 2.1).
    ///
    /// - Throws: `requestInvalid` when it contains other characters than a token may.
    public mutating func setAuthorizationHeaderField(bearerToken token: String) throws(SessionError) {
        let marks = Array("-._~+/=".utf8)
        guard !token.isEmpty, token.utf8.allSatisfy({ ASCII.isLetter($0) || ASCII.isDigit($0) || marks.contains($0) })
        else {
            throw SessionError(.requestInvalid, "A bearer token is letters, digits and -._~+/= alone.")
        }
        try setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
    }

    /// Removes the credentials from further requests.
    public mutating func clearAuthorizationHeader() {
        settings.headers.remove(name: "Authorization")
    }
}

extension HTTPSessionRequest {
    /// Sets a body of bytes, and a Content-Type unless there is one.
    mutating func setBody(_ bytes: [UInt8], contentType: String) throws(SessionError) {
        body = .bytes(bytes)
        if headers["Content-Type"] == nil { try headers.setForRequest("Content-Type", contentType) }
    }
}
