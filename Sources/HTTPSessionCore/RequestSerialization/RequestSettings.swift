// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

/// The common settings of request serializers: fields, time limits, and the form of query strings.
public struct RequestSettings: Sendable {
    /// Makes the query string in place of `queryString`. The result is appended to the URL, or sent as the body,
    /// without change, so it has to be escaped.
    public typealias QuerySerialization =
        @Sendable (_ request: HTTPSessionRequest, _ parameters: ParameterValue) throws -> String

    /// Headers for each request without a header of that name; at first `Accept-Language` and `User-Agent`.
    public var headers: HTTPHeaders
    /// Time limits for each request without its own; nil for the session's.
    public var timeouts: TaskTimeouts?
    /// Whether requests send and store cookies, if the session has a storage.
    public var handlesCookies = true
    /// The cache policy for each request without its own; nil for the session's.
    public var cachePolicy: CachePolicy?
    /// Methods whose parameters are in the URL; for other methods they are in the body.
    public var methodsEncodingParametersInURI: Set<HTTPMethod> = [.get, .head, .delete]
    /// The charset of parameters before they are escaped. It has to extend ASCII: UTF-8, US-ASCII, ISO-8859-1 or
    /// windows-1252; serialization throws for others.
    public var stringEncoding = TextEncoding.utf8
    /// Makes parameters of `Encodable` types: the strategies for names, dates and data.
    public var parameterEncoder = ParameterValueEncoder()
    /// The form of names and values.
    public var queryString = QueryString()
    /// A closure that replaces `queryString`; nil for none.
    public var querySerialization: QuerySerialization?

    /// Settings with `Accept-Language` and `User-Agent`, UTF-8 and AFNetworking's query strings.
    public init() {
        headers = HTTPHeaders(DefaultFields.all())
    }

    /// Applies the settings to a request, and adds the parameters to its URL if the method requires that.
    ///
    /// - Returns: the request, and the parameters that remain for its body.
    func apply(
        to request: HTTPSessionRequest,
        _ parameters: ParameterValue?
    ) throws(SessionError) -> (HTTPSessionRequest, ParameterValue?) {
        var request = request
        request.headers.appendMissing(of: headers)
        request.timeouts = request.timeouts ?? timeouts
        request.cachePolicy = request.cachePolicy ?? cachePolicy
        request.handlesCookies = request.handlesCookies && handlesCookies
        guard methodsEncodingParametersInURI.contains(request.method) else {
            // Origins expect an explicit length of 0 (RFC 9110, section 8.6), and some respond with 411 otherwise.
            if parameters == nil, case .none = request.body, Self.methodsWithContent.contains(request.method) {
                request.body = .bytes([])
            }
            return (request, parameters)
        }
        if let parameters { request.url = Self.append(try query(for: request, parameters), to: request.url) }
        return (request, nil)
    }

    private static let methodsWithContent: Set<HTTPMethod> = [.post, .put, .patch]

    func query(for request: HTTPSessionRequest, _ parameters: ParameterValue) throws(SessionError) -> String {
        if let querySerialization {
            do {
                return try querySerialization(request, parameters)
            } catch let error as SessionError {
                throw error
            } catch {
                throw SessionError(.requestInvalid, "The query serialization failed: \(error).")
            }
        }
        guard case .dictionary(let members) = parameters else {
            throw SessionError(.requestInvalid, "Parameters of a query string are a dictionary: names and values.")
        }
        return try queryString.text(of: members, encoding: stringEncoding)
    }

    /// Appends to the query, before a fragment. An empty text leaves the URL as it is.
    static func append(_ query: String, to url: String) -> String {
        guard !query.isEmpty else { return url }
        let end = url.utf8.firstIndex(of: UInt8(ascii: "#")) ?? url.endIndex
        let head = url[..<end]
        let separator =
            switch head.utf8.last {
            case UInt8(ascii: "?"), UInt8(ascii: "&"): ""
            default: head.utf8.contains(UInt8(ascii: "?")) ? "&" : "?"
            }
        return head + separator + query + url[end...]
    }
}
