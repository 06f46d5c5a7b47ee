// SPDX-License-Identifier: Apache-2.0
import HTTPCore
public import SessionCore

/// The HTTP methods with completion handlers. The request is under way when they return; the returned object cancels
/// it, suspends it, and has its tasks.
///
/// Handlers get the result of `serializer`, otherwise of `responseSerializer`, on `queue`, otherwise on the session's callback queue. For
/// parameters of a type use `Parameters(value)`.
extension HTTPSessionManager {
    /// Runs on the session's callback queue.
    public typealias CompletionHandler =
        @Sendable (_ result: sending Result<SerializedResponse<any Sendable>, RequestFailure>) -> Void

    /// HEAD. The response has no body.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func head(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        completionHandler: @escaping @Sendable (_ result: Result<DataResponse, RequestFailure>) -> Void
    ) throws(SessionError) -> DataRequest {
        try request(.head, url, parameters: parameters, headers: headers, options: options)
            .response(serializer: .manager) { result in completionHandler(result.map(\.response)) }
    }

    /// GET.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func get(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try request(.get, url, parameters, headers, options, progress)
            .response(serializer: .manager, completionHandler: completionHandler)
    }

    /// POST.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func post(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try request(.post, url, parameters, headers, options, progress)
            .response(serializer: .manager, completionHandler: completionHandler)
    }

    /// PUT.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func put(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try request(.put, url, parameters, headers, options, progress)
            .response(serializer: .manager, completionHandler: completionHandler)
    }

    /// PATCH.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func patch(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try request(.patch, url, parameters, headers, options, progress)
            .response(serializer: .manager, completionHandler: completionHandler)
    }

    /// DELETE.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func delete(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try request(.delete, url, parameters, headers, options, progress)
            .response(serializer: .manager, completionHandler: completionHandler)
    }

    /// POST of a `multipart/form-data` body, which is read while it is sent.
    ///
    /// - Throws: `requestInvalid`, and what `constructingBody` throws; then the handler is not called.
    @discardableResult
    public func post(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        constructingBody: (inout MultipartFormData) throws -> Void,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try multipartRequest(
            .post,
            url,
            parameters: parameters,
            headers: headers,
            options: options,
            uploadProgress: progress,
            constructingBody: constructingBody
        ).response(serializer: .manager, completionHandler: completionHandler)
    }

    // MARK: With a serializer

    /// GET, with another serializer.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func get<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer,
        queue: CallbackQueue? = nil,
        completionHandler:
            @escaping @Sendable (
                _ result: sending Result<SerializedResponse<Serializer.Output>, RequestFailure>
            ) -> Void
    ) throws(SessionError) -> DataRequest {
        try request(.get, url, parameters, headers, options, progress)
            .response(serializer: serializer, queue: queue, completionHandler: completionHandler)
    }

    /// POST, with another serializer.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func post<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer,
        queue: CallbackQueue? = nil,
        completionHandler:
            @escaping @Sendable (
                _ result: sending Result<SerializedResponse<Serializer.Output>, RequestFailure>
            ) -> Void
    ) throws(SessionError) -> DataRequest {
        try request(.post, url, parameters, headers, options, progress)
            .response(serializer: serializer, queue: queue, completionHandler: completionHandler)
    }

    /// PUT, with another serializer.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func put<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer,
        queue: CallbackQueue? = nil,
        completionHandler:
            @escaping @Sendable (
                _ result: sending Result<SerializedResponse<Serializer.Output>, RequestFailure>
            ) -> Void
    ) throws(SessionError) -> DataRequest {
        try request(.put, url, parameters, headers, options, progress)
            .response(serializer: serializer, queue: queue, completionHandler: completionHandler)
    }

    /// PATCH, with another serializer.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func patch<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer,
        queue: CallbackQueue? = nil,
        completionHandler:
            @escaping @Sendable (
                _ result: sending Result<SerializedResponse<Serializer.Output>, RequestFailure>
            ) -> Void
    ) throws(SessionError) -> DataRequest {
        try request(.patch, url, parameters, headers, options, progress)
            .response(serializer: serializer, queue: queue, completionHandler: completionHandler)
    }

    /// DELETE, with another serializer.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func delete<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer,
        queue: CallbackQueue? = nil,
        completionHandler:
            @escaping @Sendable (
                _ result: sending Result<SerializedResponse<Serializer.Output>, RequestFailure>
            ) -> Void
    ) throws(SessionError) -> DataRequest {
        try request(.delete, url, parameters, headers, options, progress)
            .response(serializer: serializer, queue: queue, completionHandler: completionHandler)
    }

    /// POST of a `multipart/form-data` body, with another serializer.
    ///
    /// - Throws: `requestInvalid`, and what `constructingBody` throws; then the handler is not called.
    @discardableResult
    public func post<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        constructingBody: (inout MultipartFormData) throws -> Void,
        serializer: Serializer,
        queue: CallbackQueue? = nil,
        completionHandler:
            @escaping @Sendable (
                _ result: sending Result<SerializedResponse<Serializer.Output>, RequestFailure>
            ) -> Void
    ) throws(SessionError) -> DataRequest {
        try multipartRequest(
            .post,
            url,
            parameters: parameters,
            headers: headers,
            options: options,
            uploadProgress: progress,
            constructingBody: constructingBody
        ).response(serializer: serializer, queue: queue, completionHandler: completionHandler)
    }
}
