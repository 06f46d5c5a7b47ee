public import HTTPCore
public import SessionCore

/// Parameters as a JSON body; in the URL's query for GET, HEAD and DELETE.
public struct JSONRequestSerializer: RequestSerializer {
    /// What is set on each request.
    public var settings: RequestSettings
    /// How the body is written; compact, unless told otherwise.
    public var writingOptions: JSONWritingOptions

    /// Compact JSON, unless told otherwise.
    public init(settings: RequestSettings = RequestSettings(), writingOptions: JSONWritingOptions = []) {
        self.settings = settings
        self.writingOptions = writingOptions
    }

    /// - Throws: `requestInvalid`, also for a number that JSON cannot say: infinities and NaN.
    public func serialize(_ request: HTTPRequest, parameters: ParameterValue?) throws(SessionError) -> HTTPRequest {
        var (request, rest) = try settings.apply(to: request, parameters)
        guard let rest else { return request }
        let value: JSONValue
        do {
            value = try JSONValue(rest)
        } catch {
            throw SessionError(.requestInvalid, "\(error.value) is no number in JSON.")
        }
        try request.setBody(value.serialized(writingOptions), contentType: "application/json")
        return request
    }

    /// A request with any JSON for its body, whatever its method; numbers keep their spelling.
    public func request(
        _ method: HTTPMethod,
        _ url: String,
        json: JSONValue
    ) throws(SessionError) -> HTTPRequest {
        var (request, _) = try settings.apply(to: HTTPRequest(url: url, method: method), nil)
        try request.setBody(json.serialized(writingOptions), contentType: "application/json")
        return request
    }
}
