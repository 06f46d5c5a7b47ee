public import HTTPCore
public import SessionCore

extension RequestSerializer {
    /// A request with a form of parts: the parameters first, in the order of a query string, then what the closure adds.
    ///
    /// - Parameters:
    ///   - method: any but GET and HEAD.
    ///   - url: as the request has it; nothing is added to it.
    ///   - parameters: a dictionary, a part for each of its pairs; nil for none.
    ///   - fields: of this request; they go before those of `settings`.
    ///   - construct: adds parts to the form.
    /// - Throws: `requestInvalid` for GET and HEAD, and what the closure throws: errors that are no `SessionError` in the
    ///   words of one, as `requestInvalid`.
    public func multipartFormRequest(
        _ method: HTTPMethod,
        _ url: String,
        parameters: ParameterValue? = nil,
        fields: HTTPFields = HTTPFields(),
        constructingBody construct: (inout MultipartFormData) throws -> Void
    ) throws(SessionError) -> HTTPRequest {
        var (request, _) = try settings.apply(to: HTTPRequest(url: url, method: method, fields: fields), nil)
        var form = MultipartFormData()
        switch parameters {
        case nil: break
        case .dictionary(let members):
            for pair in settings.queryString.pairs(of: members) {
                try form.append(pair.value ?? "", name: pair.name)
            }
        default:
            throw SessionError(.requestInvalid, "Parameters of a form are a dictionary: names and values.")
        }
        do {
            try construct(&form)
        } catch let error as SessionError {
            throw error
        } catch {
            throw SessionError(.requestInvalid, "The form could not be put together: \(error).")
        }
        try form.attach(to: &request)
        return request
    }
}
