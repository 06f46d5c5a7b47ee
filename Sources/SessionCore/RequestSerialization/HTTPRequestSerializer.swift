/// Parameters as a query string: in the URL for GET, HEAD and DELETE, as a form in the body for all other methods.
public struct HTTPRequestSerializer: RequestSerializer {
    public var settings: RequestSettings

    public init(settings: RequestSettings = RequestSettings()) {
        self.settings = settings
    }

    public func serialize(_ request: HTTPRequest, parameters: ParameterValue?) throws(SessionError) -> HTTPRequest {
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
