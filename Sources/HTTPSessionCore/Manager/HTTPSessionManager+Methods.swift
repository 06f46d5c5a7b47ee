// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// The HTTP methods as asynchronous functions. When the calling Swift task is cancelled, the request is cancelled.
///
/// - URLs are relative to `baseURL`, or absolute.
/// - Parameters are a literal, with variables or without, or a value of any `Encodable` type; `requestSerializer` places them.
/// - Headers take precedence over those of `requestSerializer`.
/// - The value is made by the serializer that is named, otherwise by `responseSerializer`.
/// - `progress` reports the request's body of POST, PUT and PATCH, and the response's body of GET and DELETE.
extension HTTPSessionManager {
    // MARK: HEAD

    /// HEAD, with the parameters in the URL. The status is validated as by `responseSerializer`.
    @discardableResult
    public func head(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions()
    ) async throws(RequestFailure) -> DataResponse {
        try await made { () throws(SessionError) in
            try request(.head, url, parameters: parameters, headers: headers, options: options)
        }.response(serializer: .manager).response
    }

    /// HEAD with parameters of any `Encodable` type.
    @discardableResult
    public func head(
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions()
    ) async throws(RequestFailure) -> DataResponse {
        try await head(url, parameters: .some(Parameters(parameters)), headers: headers, options: options)
    }

    // MARK: GET

    /// GET, with the parameters in the URL.
    public func get<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.get, url, parameters, headers, options, progress, serializer)
    }

    /// GET with parameters of any `Encodable` type.
    public func get<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.get, url, Parameters(parameters), headers, options, progress, serializer)
    }

    /// GET with a literal that nests values of several kinds: `["user": ["tags": [1, true]]]`.
    @_disfavoredOverload
    public func get<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: ParameterValue,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.get, url, Parameters(parameters), headers, options, progress, serializer)
    }

    // MARK: POST

    /// POST, with the parameters in the body.
    @discardableResult
    public func post<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.post, url, parameters, headers, options, progress, serializer)
    }

    /// POST with parameters of any `Encodable` type.
    @discardableResult
    public func post<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.post, url, Parameters(parameters), headers, options, progress, serializer)
    }

    /// POST with a literal that nests values of several kinds: `["user": ["tags": [1, true]]]`.
    @_disfavoredOverload
    @discardableResult
    public func post<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: ParameterValue,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.post, url, Parameters(parameters), headers, options, progress, serializer)
    }

    // MARK: PUT

    /// PUT, with the parameters in the body.
    @discardableResult
    public func put<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.put, url, parameters, headers, options, progress, serializer)
    }

    /// PUT with parameters of any `Encodable` type.
    @discardableResult
    public func put<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.put, url, Parameters(parameters), headers, options, progress, serializer)
    }

    /// PUT with a literal that nests values of several kinds: `["user": ["tags": [1, true]]]`.
    @_disfavoredOverload
    @discardableResult
    public func put<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: ParameterValue,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.put, url, Parameters(parameters), headers, options, progress, serializer)
    }

    // MARK: PATCH

    /// PATCH, with the parameters in the body.
    @discardableResult
    public func patch<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.patch, url, parameters, headers, options, progress, serializer)
    }

    /// PATCH with parameters of any `Encodable` type.
    @discardableResult
    public func patch<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.patch, url, Parameters(parameters), headers, options, progress, serializer)
    }

    /// PATCH with a literal that nests values of several kinds: `["user": ["tags": [1, true]]]`.
    @_disfavoredOverload
    @discardableResult
    public func patch<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: ParameterValue,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.patch, url, Parameters(parameters), headers, options, progress, serializer)
    }

    // MARK: DELETE

    /// DELETE, with the parameters in the URL.
    @discardableResult
    public func delete<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.delete, url, parameters, headers, options, progress, serializer)
    }

    /// DELETE with parameters of any `Encodable` type.
    @discardableResult
    public func delete<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.delete, url, Parameters(parameters), headers, options, progress, serializer)
    }

    /// DELETE with a literal that nests values of several kinds: `["user": ["tags": [1, true]]]`.
    @_disfavoredOverload
    @discardableResult
    public func delete<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: ParameterValue,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await object(.delete, url, Parameters(parameters), headers, options, progress, serializer)
    }

    // MARK: POST of a form

    /// POST of a `multipart/form-data` body, which is read while it is sent.
    ///
    /// ```swift
    /// try await manager.post("reports", parameters: ["author": "Ada"]) { form in
    ///     try form.appendFile("/srv/report.pdf", name: "report")
    /// }
    /// ```
    ///
    /// It runs on the caller's actor until the request is made, so that the closure may use what the actor owns.
    @discardableResult
    nonisolated(nonsending) public func post<Serializer: ResponseSerializer>(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        progress: ProgressHandler? = nil,
        serializer: Serializer = AnyResponseSerializer.manager,
        constructingBody: (inout MultipartFormData) throws -> Void
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await made { () throws(SessionError) in
            try multipartRequest(
                .post,
                url,
                parameters: parameters,
                headers: headers,
                options: options,
                uploadProgress: progress,
                constructingBody: constructingBody
            )
        }.response(serializer: serializer)
    }

    // MARK: Inside

    /// Carries a request out: all of the functions above but those of HEAD and of forms.
    private func object<Serializer: ResponseSerializer>(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        _ parameters: Parameters?,
        _ headers: HTTPHeaders,
        _ options: RequestOptions,
        _ progress: ProgressHandler?,
        _ serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await made { () throws(SessionError) in
            try request(method, url, parameters, headers, options, progress)
        }.response(serializer: serializer)
    }

    /// A request whose progress is that of the interesting body: the request's of POST, PUT and PATCH, else the response's.
    func request(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        _ parameters: Parameters?,
        _ headers: HTTPHeaders,
        _ options: RequestOptions,
        _ progress: ProgressHandler?
    ) throws(SessionError) -> DataRequest {
        let isUpload = method == .post || method == .put || method == .patch
        return try request(
            method,
            url,
            parameters: parameters,
            headers: headers,
            options: options,
            uploadProgress: isUpload ? progress : nil,
            downloadProgress: isUpload ? nil : progress
        )
    }

    /// Makes a request, and throws its errors as a failure of the call.
    private func made(_ make: () throws(SessionError) -> DataRequest) throws(RequestFailure) -> DataRequest {
        do throws(SessionError) {
            return try make()
        } catch {
            throw .session(error)
        }
    }
}
