import HTTPCore
public import SessionCore

/// The HTTP methods with completion handlers. The request is under way when they return; the returned object cancels
/// it, suspends it, and has its tasks.
///
/// Handlers get the result of `responseSerializer`. For another serializer or another queue use `request`, and its
/// `response`.
extension HTTPSessionManager {
    /// Runs on the session's callback queue.
    public typealias CompletionHandler =
        @Sendable (_ result: sending Result<SerializedResponse<Any>, RequestFailure>) -> Void

    /// HEAD. The response has no body.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func head(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        completionHandler: @escaping @Sendable (_ result: Result<DataResponse, RequestFailure>) -> Void
    ) throws(SessionError) -> DataRequest {
        try request(.head, url, parameters: parameters, headers: headers).response(serializer: anySerializer) {
            result in
            completionHandler(result.map(\.response))
        }
    }

    /// GET.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func get(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try request(.get, url, parameters: parameters, headers: headers, downloadProgress: progress)
            .response(serializer: anySerializer, completionHandler: completionHandler)
    }

    /// POST.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func post(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try request(.post, url, parameters: parameters, headers: headers, uploadProgress: progress)
            .response(serializer: anySerializer, completionHandler: completionHandler)
    }

    /// PUT.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func put(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try request(.put, url, parameters: parameters, headers: headers, uploadProgress: progress)
            .response(serializer: anySerializer, completionHandler: completionHandler)
    }

    /// PATCH.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func patch(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try request(.patch, url, parameters: parameters, headers: headers, uploadProgress: progress)
            .response(serializer: anySerializer, completionHandler: completionHandler)
    }

    /// DELETE.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func delete(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try request(.delete, url, parameters: parameters, headers: headers, downloadProgress: progress)
            .response(serializer: anySerializer, completionHandler: completionHandler)
    }

    /// POST of a `multipart/form-data` body, which is read while it is sent.
    ///
    /// - Throws: `requestInvalid`, and what `constructingBody` throws; then the handler is not called.
    @discardableResult
    public func post(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        constructingBody: (inout MultipartFormData) throws -> Void,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try multipartRequest(
            .post,
            url,
            parameters: parameters,
            headers: headers,
            uploadProgress: progress,
            constructingBody: constructingBody
        ).response(serializer: anySerializer, completionHandler: completionHandler)
    }
}
