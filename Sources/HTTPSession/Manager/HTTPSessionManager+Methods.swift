import HTTPCore
import SessionCore

/// The HTTP methods as asynchronous functions. When the calling Swift task is cancelled, the request is cancelled.
///
/// URLs are relative to `baseURL`. `requestSerializer` places the parameters as the method requires; `headers` take
/// precedence over its fields.
extension HTTPSessionManager {
    /// HEAD, with the parameters in the URL. The response is validated as by `responseSerializer`; it has no body.
    public func head(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:]
    ) async throws(RequestFailure) -> DataResponse {
        try await made { () throws(SessionError) in
            try request(.head, url, parameters: parameters, headers: headers)
        }.response(serializer: anySerializer).response
    }

    // MARK: GET

    /// GET, with the parameters in the URL. The result is made by `responseSerializer`. `progress` reports the
    /// response's body.
    public func get(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await get(url, parameters: parameters, headers: headers, progress: progress, serializer: anySerializer)
    }

    /// GET, with the parameters in the URL. The result is made by the serializer.
    public func get<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await made { () throws(SessionError) in
            try request(.get, url, parameters: parameters, headers: headers, downloadProgress: progress)
        }.response(serializer: serializer)
    }

    // MARK: POST

    /// POST, with the parameters in the body. The result is made by `responseSerializer`. `progress` reports the
    /// request's body.
    public func post(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await post(url, parameters: parameters, headers: headers, progress: progress, serializer: anySerializer)
    }

    /// POST, with the parameters in the body. The result is made by the serializer.
    public func post<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await made { () throws(SessionError) in
            try request(.post, url, parameters: parameters, headers: headers, uploadProgress: progress)
        }.response(serializer: serializer)
    }

    // MARK: PUT

    /// PUT, with the parameters in the body. The result is made by `responseSerializer`. `progress` reports the
    /// request's body.
    public func put(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await put(url, parameters: parameters, headers: headers, progress: progress, serializer: anySerializer)
    }

    /// PUT, with the parameters in the body. The result is made by the serializer.
    public func put<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await made { () throws(SessionError) in
            try request(.put, url, parameters: parameters, headers: headers, uploadProgress: progress)
        }.response(serializer: serializer)
    }

    // MARK: PATCH

    /// PATCH, with the parameters in the body. The result is made by `responseSerializer`. `progress` reports the
    /// request's body.
    public func patch(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await patch(url, parameters: parameters, headers: headers, progress: progress, serializer: anySerializer)
    }

    /// PATCH, with the parameters in the body. The result is made by the serializer.
    public func patch<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await made { () throws(SessionError) in
            try request(.patch, url, parameters: parameters, headers: headers, uploadProgress: progress)
        }.response(serializer: serializer)
    }

    // MARK: DELETE

    /// DELETE, with the parameters in the URL. The result is made by `responseSerializer`. `progress` reports the
    /// response's body.
    public func delete(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await delete(url, parameters: parameters, headers: headers, progress: progress, serializer: anySerializer)
    }

    /// DELETE, with the parameters in the URL. The result is made by the serializer.
    public func delete<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await made { () throws(SessionError) in
            try request(.delete, url, parameters: parameters, headers: headers, downloadProgress: progress)
        }.response(serializer: serializer)
    }

    // MARK: POST of a form

    /// POST of a `multipart/form-data` body, which is read while it is sent. The result is made by
    /// `responseSerializer`.
    ///
    /// ```swift
    /// _ = try await manager.post("reports", parameters: ["author": "Ada"]) { form in
    ///     try form.appendFile("/srv/report.pdf", name: "report")
    /// }
    /// ```
    public func post(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        constructingBody: (inout MultipartFormData) throws -> Void
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await post(
            url,
            parameters: parameters,
            headers: headers,
            progress: progress,
            serializer: anySerializer,
            constructingBody: constructingBody
        )
    }

    /// POST of a `multipart/form-data` body. The result is made by the serializer.
    public func post<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer,
        constructingBody: (inout MultipartFormData) throws -> Void
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await made { () throws(SessionError) in
            try multipartRequest(
                .post,
                url,
                parameters: parameters,
                headers: headers,
                uploadProgress: progress,
                constructingBody: constructingBody
            )
        }.response(serializer: serializer)
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
