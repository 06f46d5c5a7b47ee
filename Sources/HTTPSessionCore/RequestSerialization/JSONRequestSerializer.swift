// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

/// Writes parameters as a JSON body; in the URL's query for GET, HEAD and DELETE.
public struct JSONRequestSerializer: RequestSerializer {
    /// Fields and limits of each request.
    public var settings: RequestSettings
    /// Options for writing the body; compact by default.
    public var writingOptions: JSONWritingOptions

    /// A serializer for compact JSON by default.
    public init(settings: RequestSettings = RequestSettings(), writingOptions: JSONWritingOptions = []) {
        self.settings = settings
        self.writingOptions = writingOptions
    }

    /// - Throws: `requestInvalid`, also for infinities and NaN, which JSON cannot express.
    public func serialize(_ request: HTTPSessionRequest, parameters: ParameterValue?) throws(SessionError)
        -> HTTPSessionRequest
    {
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

    /// A request with any JSON as its body, whatever its method; numbers keep their spelling.
    public func request(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        json: JSONValue
    ) throws(SessionError) -> HTTPSessionRequest {
        var (request, _) = try settings.apply(to: HTTPSessionRequest(url: url, method: method), nil)
        try request.setBody(json.serialized(writingOptions), contentType: "application/json")
        return request
    }
}
