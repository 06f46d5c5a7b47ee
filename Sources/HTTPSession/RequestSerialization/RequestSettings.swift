public import HTTPCore
public import SessionCore

/// What all request serializers share: fields, time limits, and how parameters become a query string.
public struct RequestSettings: Sendable {
    /// Makes the query string in place of `queryString`. What it gives is appended to the URL or sent as the body as it
    /// is, so it has to be escaped.
    public typealias QuerySerialization =
        @Sendable (_ request: HTTPRequest, _ parameters: ParameterValue) throws -> String

    /// Set on each request that has no field of that name. `Accept-Language` and `User-Agent` to begin with.
    public internal(set) var fields: HTTPFields
    /// For each request that has none of its own; nil for the session's.
    public var timeouts: TaskTimeouts?
    /// False: the requests neither send nor take cookies, whatever storage the session has.
    public var handlesCookies = true
    /// What is wanted of the session's cache, for each request that does not say it itself; nil for the session's.
    public var cachePolicy: CachePolicy?
    /// With these methods parameters go into the URL; with all others into the body.
    public var methodsEncodingParametersInURI: Set<HTTPMethod> = [.get, .head, .delete]
    /// How parameters are turned into bytes before they are escaped. One that extends ASCII: UTF-8, US-ASCII,
    /// ISO-8859-1 or windows-1252; with others serialization throws.
    public var stringEncoding = TextEncoding.utf8
    /// How parameters are named and written.
    public var queryString = QueryString()
    /// nil for `queryString`.
    public var querySerialization: QuerySerialization?

    /// `Accept-Language` and `User-Agent`, UTF-8, AFNetworking's query strings.
    public init() {
        fields = DefaultFields.all()
    }

    /// The request with what is set for all of them, and with parameters in its URL when its method wants them there.
    ///
    /// - Returns: the request, and the parameters that remain for its body.
    func apply(
        to request: HTTPRequest,
        _ parameters: ParameterValue?
    ) throws(SessionError) -> (HTTPRequest, ParameterValue?) {
        var request = request
        request.fields.appendMissing(of: fields)
        request.timeouts = request.timeouts ?? timeouts
        request.cachePolicy = request.cachePolicy ?? cachePolicy
        request.handlesCookies = request.handlesCookies && handlesCookies
        guard methodsEncodingParametersInURI.contains(request.method) else {
            // Origins expect to be told that there is nothing (RFC 9110, section 8.6), and some answer 411 otherwise.
            if parameters == nil, case .none = request.body, Self.methodsWithContent.contains(request.method) {
                request.body = .bytes([])
            }
            return (request, parameters)
        }
        if let parameters { request.url = Self.append(try query(for: request, parameters), to: request.url) }
        return (request, nil)
    }

    private static let methodsWithContent: Set<HTTPMethod> = [.post, .put, .patch]

    func query(for request: HTTPRequest, _ parameters: ParameterValue) throws(SessionError) -> String {
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

    /// Behind what query there is, before a fragment. An empty one leaves the URL as it is.
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
