// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

/// The same calls with a dictionary for the headers, for programs that have one: a field for each pair, in the order of the names. A
/// literal is `HTTPHeaders`, which keep their order and may repeat a name.
extension HTTPSessionManager {
    // MARK: Awaited

    /// HEAD.
    @_disfavoredOverload
    @discardableResult
    public func head(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions()
    ) async throws(RequestFailure) -> DataResponse {
        try await head(url, parameters: parameters, headers: HTTPHeaders(headers), options: options)
    }

    /// GET.
    @_disfavoredOverload
    public func get<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await get(
            url,
            parameters: parameters,
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            serializer: serializer
        )
    }

    /// GET with parameters of any `Encodable` type.
    @_disfavoredOverload
    public func get<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await get(
            url,
            parameters: .some(Parameters(parameters)),
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            serializer: serializer
        )
    }

    /// POST.
    @_disfavoredOverload
    @discardableResult
    public func post<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await post(
            url,
            parameters: parameters,
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            serializer: serializer
        )
    }

    /// POST with parameters of any `Encodable` type.
    @_disfavoredOverload
    @discardableResult
    public func post<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await post(
            url,
            parameters: .some(Parameters(parameters)),
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            serializer: serializer
        )
    }

    /// PUT.
    @_disfavoredOverload
    @discardableResult
    public func put<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await put(
            url,
            parameters: parameters,
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            serializer: serializer
        )
    }

    /// PUT with parameters of any `Encodable` type.
    @_disfavoredOverload
    @discardableResult
    public func put<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await put(
            url,
            parameters: .some(Parameters(parameters)),
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            serializer: serializer
        )
    }

    /// PATCH.
    @_disfavoredOverload
    @discardableResult
    public func patch<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await patch(
            url,
            parameters: parameters,
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            serializer: serializer
        )
    }

    /// PATCH with parameters of any `Encodable` type.
    @_disfavoredOverload
    @discardableResult
    public func patch<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await patch(
            url,
            parameters: .some(Parameters(parameters)),
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            serializer: serializer
        )
    }

    /// DELETE.
    @_disfavoredOverload
    @discardableResult
    public func delete<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await delete(
            url,
            parameters: parameters,
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            serializer: serializer
        )
    }

    /// DELETE with parameters of any `Encodable` type.
    @_disfavoredOverload
    @discardableResult
    public func delete<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await delete(
            url,
            parameters: .some(Parameters(parameters)),
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            serializer: serializer
        )
    }

    /// POST of a form.
    @_disfavoredOverload
    @discardableResult
    nonisolated(nonsending) public func post<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager,
        constructingBody: (inout MultipartFormData) throws -> Void
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await post(
            url,
            parameters: parameters,
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            serializer: serializer,
            constructingBody: constructingBody
        )
    }

    /// Opens a stream.
    @_disfavoredOverload
    public func stream(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        validation: ResponseValidation = ResponseValidation()
    ) async throws(RequestFailure) -> ResponseStream {
        try await stream(
            method,
            url,
            parameters: parameters,
            headers: HTTPHeaders(headers),
            options: options,
            validation: validation
        )
    }

    // MARK: Requests to carry out

    /// A request that `requestSerializer` makes.
    @_disfavoredOverload
    public func request(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        uploadProgress: ProgressHandler? = nil,
        downloadProgress: ProgressHandler? = nil
    ) throws(SessionError) -> DataRequest {
        try request(
            method,
            url,
            parameters: parameters,
            headers: HTTPHeaders(headers),
            options: options,
            uploadProgress: uploadProgress,
            downloadProgress: downloadProgress
        )
    }

    /// The same with parameters of any `Encodable` type.
    @_disfavoredOverload
    public func request(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        uploadProgress: ProgressHandler? = nil,
        downloadProgress: ProgressHandler? = nil
    ) throws(SessionError) -> DataRequest {
        try request(
            method,
            url,
            parameters: .some(Parameters(parameters)),
            headers: HTTPHeaders(headers),
            options: options,
            uploadProgress: uploadProgress,
            downloadProgress: downloadProgress
        )
    }

    /// A download.
    @_disfavoredOverload
    public func download(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        validation: ResponseValidation = ResponseValidation(),
        progress: ProgressHandler? = nil,
        to destination: DownloadDestination? = nil
    ) throws(SessionError) -> DownloadRequest {
        try download(
            method,
            url,
            parameters: parameters,
            headers: HTTPHeaders(headers),
            options: options,
            validation: validation,
            progress: progress,
            to: destination
        )
    }

    // MARK: With handlers

    /// GET with a handler.
    @_disfavoredOverload
    @discardableResult
    public func get(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try get(
            url,
            parameters: parameters,
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            completionHandler: completionHandler
        )
    }

    /// POST with a handler.
    @_disfavoredOverload
    @discardableResult
    public func post(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try post(
            url,
            parameters: parameters,
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            completionHandler: completionHandler
        )
    }

    /// PUT with a handler.
    @_disfavoredOverload
    @discardableResult
    public func put(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try put(
            url,
            parameters: parameters,
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            completionHandler: completionHandler
        )
    }

    /// PATCH with a handler.
    @_disfavoredOverload
    @discardableResult
    public func patch(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try patch(
            url,
            parameters: parameters,
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            completionHandler: completionHandler
        )
    }

    /// DELETE with a handler.
    @_disfavoredOverload
    @discardableResult
    public func delete(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: [String: String],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try delete(
            url,
            parameters: parameters,
            headers: HTTPHeaders(headers),
            options: options,
            progress: progress,
            completionHandler: completionHandler
        )
    }
}
