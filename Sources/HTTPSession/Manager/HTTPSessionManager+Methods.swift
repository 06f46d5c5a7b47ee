import HTTPCore
import SessionCore

/// The methods of HTTP, to be awaited. When the Swift task that waits is cancelled, the request is.
///
/// URLs are relative to `baseURL`. `requestSerializer` puts the parameters where the method wants them; `headers` go
/// before its fields.
extension HTTPSessionManager {
    /// HEAD, with the parameters in the URL. The answer is validated as `responseSerializer` does; it has no body.
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

    /// GET, with the parameters in the URL. The answer is what `responseSerializer` makes.
    /// `progress` is that of the answer's body.
    public func get(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await get(url, parameters: parameters, headers: headers, progress: progress, serializer: anySerializer)
    }

    /// GET, with the parameters in the URL. The answer is what the serializer makes.
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

    /// POST, with the parameters in the body. The answer is what `responseSerializer` makes.
    /// `progress` is that of the request's body.
    public func post(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await post(url, parameters: parameters, headers: headers, progress: progress, serializer: anySerializer)
    }

    /// POST, with the parameters in the body. The answer is what the serializer makes.
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

    /// PUT, with the parameters in the body. The answer is what `responseSerializer` makes.
    /// `progress` is that of the request's body.
    public func put(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await put(url, parameters: parameters, headers: headers, progress: progress, serializer: anySerializer)
    }

    /// PUT, with the parameters in the body. The answer is what the serializer makes.
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

    /// PATCH, with the parameters in the body. The answer is what `responseSerializer` makes.
    /// `progress` is that of the request's body.
    public func patch(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await patch(url, parameters: parameters, headers: headers, progress: progress, serializer: anySerializer)
    }

    /// PATCH, with the parameters in the body. The answer is what the serializer makes.
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

    /// DELETE, with the parameters in the URL. The answer is what `responseSerializer` makes.
    /// `progress` is that of the answer's body.
    public func delete(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await delete(url, parameters: parameters, headers: headers, progress: progress, serializer: anySerializer)
    }

    /// DELETE, with the parameters in the URL. The answer is what the serializer makes.
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

    /// POST of a `multipart/form-data` body, which is read while it is sent. The answer is what `responseSerializer`
    /// makes.
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

    /// POST of a `multipart/form-data` body. The answer is what the serializer makes.
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

    /// A request, with what is wrong with it as the failure of the call.
    private func made(_ make: () throws(SessionError) -> DataRequest) throws(RequestFailure) -> DataRequest {
        do throws(SessionError) {
            return try make()
        } catch {
            throw .session(error)
        }
    }
}
