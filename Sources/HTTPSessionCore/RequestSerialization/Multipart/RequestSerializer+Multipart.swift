// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

extension RequestSerializer {
    /// Makes a request with a form: the parameters first, in the order of a query string, then the parts of the
    /// closure.
    ///
    /// - Parameters:
    ///   - method: any but GET and HEAD.
    ///   - url: the URL of the request, to which nothing is added.
    ///   - parameters: a dictionary, with a part for each of its pairs; nil for none.
    ///   - headers: those of this request, which take precedence over those of `settings`.
    ///   - construct: adds parts to the form.
    /// - Throws: `requestInvalid` for GET and HEAD, and for errors of the closure that are no `SessionError`; a
    ///   `SessionError` of the closure as it is.
    public func multipartFormRequest(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        parameters: ParameterValue? = nil,
        headers: HTTPHeaders = [:],
        constructingBody construct: (inout MultipartFormData) throws -> Void
    ) throws(SessionError) -> HTTPSessionRequest {
        var (request, _) = try settings.apply(to: HTTPSessionRequest(url: url, method: method, headers: headers), nil)
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
