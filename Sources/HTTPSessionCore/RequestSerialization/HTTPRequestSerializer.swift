// SPDX-License-Identifier: Apache-2.0
public import SessionCore

/// Writes parameters as a query string: in the URL for GET, HEAD and DELETE, as a form in the body for all other
/// methods.
public struct HTTPRequestSerializer: RequestSerializer {
    /// Fields and limits of each request, and the form of queries.
    public var settings: RequestSettings

    /// A serializer with AFNetworking's rules as the default settings.
    public init(settings: RequestSettings = RequestSettings()) {
        self.settings = settings
    }

    /// - Throws: `requestInvalid` for parameters that are no dictionary, or cannot be encoded in the charset.
    public func serialize(_ request: HTTPSessionRequest, parameters: ParameterValue?) throws(SessionError)
        -> HTTPSessionRequest
    {
        var (request, rest) = try settings.apply(to: request, parameters)
        guard let rest else { return request }
        let query = try settings.query(for: request, rest)
        guard settings.stringEncoding.extendsASCII, let bytes = settings.stringEncoding.encode(query) else {
            throw SessionError(.requestInvalid, "A form cannot be written in \(settings.stringEncoding.charset).")
        }
        let charset = settings.stringEncoding.charset
        try request.setBody(bytes, contentType: "application/x-www-form-urlencoded; charset=\(charset)")
        return request
    }
}
