public import HTTPCore
public import SessionCore

/// Parameters written as a dictionary of any values, variables among them:
///
/// ```swift
/// try await manager.get("items", parameters: ["q": text, "page": 2, "tags": tags, "after": date])
/// ```
///
/// Values are encoded as by `ParameterValueEncoder`; nil is null. Names keep their order. Literals of several types inside
/// others need a type: `["city": city, "floor": 3] as Parameters`.
public struct Parameters: ExpressibleByDictionaryLiteral, Encodable, Sendable {
    private var members: [(name: String, value: (any Encodable & Sendable)?)]

    /// The last value of a repeated name counts.
    public init(dictionaryLiteral elements: (String, (any Encodable & Sendable)?)...) {
        members = elements.map { (name: $0.0, value: $0.1) }
    }

    /// The value of a name; a new name is added at the end, nil removes a name.
    public subscript(name: String) -> (any Encodable & Sendable)? {
        get { members.last { $0.name == name }?.value }
        set {
            members.removeAll { $0.name == name }
            if let newValue { members.append((name: name, value: newValue)) }
        }
    }

    /// Encodes the values by name.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Name.self)
        for (name, value) in members {
            if let value {
                try container.encode(value, forKey: Name(stringValue: name))
            } else {
                try container.encodeNil(forKey: Name(stringValue: name))
            }
        }
    }

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}

extension HTTPSessionManager {
    /// Encodes parameters with the encoder of `requestSerializer`.
    ///
    /// - Throws: `requestInvalid` when the type cannot be encoded.
    func encoded(_ parameters: some Encodable) throws(SessionError) -> ParameterValue {
        do {
            return try requestSerializer.settings.parameterEncoder.encode(parameters)
        } catch let error as SessionError {
            throw error
        } catch {
            throw SessionError(.requestInvalid, "The parameters cannot be encoded: \(error).")
        }
    }

    /// The same for requests that fail with a `RequestFailure`.
    private func forRequest(_ parameters: some Encodable) throws(RequestFailure) -> ParameterValue {
        do throws(SessionError) { return try encoded(parameters) } catch { throw .session(error) }
    }
}

/// Parameters of any `Encodable` type: structures, dictionaries, or a literal with variables (`Parameters`). They are encoded
/// by `RequestSettings.parameterEncoder`, and go where the serializer puts a `ParameterValue`.
extension HTTPSessionManager {
    /// `request(_:_:parameters:headers:interceptor:uploadProgress:downloadProgress:)` with parameters of any `Encodable` type.
    public func request(
        _ method: HTTPMethod,
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        interceptor: (any RequestInterceptor)? = nil,
        uploadProgress: ProgressHandler? = nil,
        downloadProgress: ProgressHandler? = nil
    ) throws(SessionError) -> DataRequest {
        try request(
            method,
            url,
            parameters: try encoded(parameters) as ParameterValue?,
            headers: headers,
            interceptor: interceptor,
            uploadProgress: uploadProgress,
            downloadProgress: downloadProgress
        )
    }

    /// `request(_:_:parameters:headers:interceptor:uploadProgress:downloadProgress:)` with a literal of parameters with variables.
    public func request(
        _ method: HTTPMethod,
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        interceptor: (any RequestInterceptor)? = nil,
        uploadProgress: ProgressHandler? = nil,
        downloadProgress: ProgressHandler? = nil
    ) throws(SessionError) -> DataRequest {
        try request(
            method,
            url,
            parameters: try encoded(parameters) as ParameterValue?,
            headers: headers,
            interceptor: interceptor,
            uploadProgress: uploadProgress,
            downloadProgress: downloadProgress
        )
    }

    /// `download(_:_:parameters:headers:interceptor:validation:downloadProgress:to:)` with parameters of any `Encodable` type.
    public func download(
        _ method: HTTPMethod = .get,
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        interceptor: (any RequestInterceptor)? = nil,
        validation: ResponseValidation = ResponseValidation(),
        downloadProgress: ProgressHandler? = nil,
        to destination: DownloadDestination? = nil
    ) throws(SessionError) -> DownloadRequest {
        try download(
            method,
            url,
            parameters: try encoded(parameters) as ParameterValue?,
            headers: headers,
            interceptor: interceptor,
            validation: validation,
            downloadProgress: downloadProgress,
            to: destination
        )
    }

    /// `download(_:_:parameters:headers:interceptor:validation:downloadProgress:to:)` with a literal of parameters with variables.
    public func download(
        _ method: HTTPMethod = .get,
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        interceptor: (any RequestInterceptor)? = nil,
        validation: ResponseValidation = ResponseValidation(),
        downloadProgress: ProgressHandler? = nil,
        to destination: DownloadDestination? = nil
    ) throws(SessionError) -> DownloadRequest {
        try download(
            method,
            url,
            parameters: try encoded(parameters) as ParameterValue?,
            headers: headers,
            interceptor: interceptor,
            validation: validation,
            downloadProgress: downloadProgress,
            to: destination
        )
    }

    /// `stream(_:_:parameters:headers:interceptor:validation:)` with parameters of any `Encodable` type.
    public func stream(
        _ method: HTTPMethod = .get,
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        interceptor: (any RequestInterceptor)? = nil,
        validation: ResponseValidation = ResponseValidation()
    ) async throws(RequestFailure) -> ResponseStream {
        try await stream(
            method,
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            interceptor: interceptor,
            validation: validation
        )
    }

    /// `stream(_:_:parameters:headers:interceptor:validation:)` with a literal of parameters with variables.
    public func stream(
        _ method: HTTPMethod = .get,
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        interceptor: (any RequestInterceptor)? = nil,
        validation: ResponseValidation = ResponseValidation()
    ) async throws(RequestFailure) -> ResponseStream {
        try await stream(
            method,
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            interceptor: interceptor,
            validation: validation
        )
    }

    /// HEAD with parameters of any `Encodable` type.
    public func head(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:]
    ) async throws(RequestFailure) -> DataResponse {
        try await head(url, parameters: try forRequest(parameters) as ParameterValue?, headers: headers)
    }

    /// HEAD with a literal of parameters with variables.
    public func head(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:]
    ) async throws(RequestFailure) -> DataResponse {
        try await head(url, parameters: try forRequest(parameters) as ParameterValue?, headers: headers)
    }

    /// GET with parameters of any `Encodable` type. The result is made by `responseSerializer`.
    public func get(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await get(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress
        )
    }

    /// GET with a literal of parameters with variables. The result is made by `responseSerializer`.
    public func get(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await get(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress
        )
    }

    /// GET with parameters of any `Encodable` type. The result is made by the serializer.
    public func get<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await get(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            serializer: serializer
        )
    }

    /// GET with a literal of parameters with variables. The result is made by the serializer.
    public func get<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await get(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            serializer: serializer
        )
    }

    /// GET with parameters of any `Encodable` type, and a handler of the result of `responseSerializer`.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func get(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try get(
            url,
            parameters: try encoded(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            completionHandler: completionHandler
        )
    }

    /// GET with a literal of parameters with variables, and a handler of the result of `responseSerializer`.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func get(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try get(
            url,
            parameters: try encoded(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            completionHandler: completionHandler
        )
    }

    /// POST with parameters of any `Encodable` type. The result is made by `responseSerializer`.
    public func post(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await post(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress
        )
    }

    /// POST with a literal of parameters with variables. The result is made by `responseSerializer`.
    public func post(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await post(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress
        )
    }

    /// POST with parameters of any `Encodable` type. The result is made by the serializer.
    public func post<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await post(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            serializer: serializer
        )
    }

    /// POST with a literal of parameters with variables. The result is made by the serializer.
    public func post<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await post(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            serializer: serializer
        )
    }

    /// POST with parameters of any `Encodable` type, and a handler of the result of `responseSerializer`.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func post(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try post(
            url,
            parameters: try encoded(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            completionHandler: completionHandler
        )
    }

    /// POST with a literal of parameters with variables, and a handler of the result of `responseSerializer`.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func post(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try post(
            url,
            parameters: try encoded(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            completionHandler: completionHandler
        )
    }

    /// PUT with parameters of any `Encodable` type. The result is made by `responseSerializer`.
    public func put(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await put(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress
        )
    }

    /// PUT with a literal of parameters with variables. The result is made by `responseSerializer`.
    public func put(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await put(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress
        )
    }

    /// PUT with parameters of any `Encodable` type. The result is made by the serializer.
    public func put<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await put(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            serializer: serializer
        )
    }

    /// PUT with a literal of parameters with variables. The result is made by the serializer.
    public func put<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await put(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            serializer: serializer
        )
    }

    /// PUT with parameters of any `Encodable` type, and a handler of the result of `responseSerializer`.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func put(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try put(
            url,
            parameters: try encoded(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            completionHandler: completionHandler
        )
    }

    /// PUT with a literal of parameters with variables, and a handler of the result of `responseSerializer`.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func put(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try put(
            url,
            parameters: try encoded(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            completionHandler: completionHandler
        )
    }

    /// PATCH with parameters of any `Encodable` type. The result is made by `responseSerializer`.
    public func patch(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await patch(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress
        )
    }

    /// PATCH with a literal of parameters with variables. The result is made by `responseSerializer`.
    public func patch(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await patch(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress
        )
    }

    /// PATCH with parameters of any `Encodable` type. The result is made by the serializer.
    public func patch<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await patch(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            serializer: serializer
        )
    }

    /// PATCH with a literal of parameters with variables. The result is made by the serializer.
    public func patch<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await patch(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            serializer: serializer
        )
    }

    /// PATCH with parameters of any `Encodable` type, and a handler of the result of `responseSerializer`.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func patch(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try patch(
            url,
            parameters: try encoded(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            completionHandler: completionHandler
        )
    }

    /// PATCH with a literal of parameters with variables, and a handler of the result of `responseSerializer`.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func patch(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try patch(
            url,
            parameters: try encoded(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            completionHandler: completionHandler
        )
    }

    /// DELETE with parameters of any `Encodable` type. The result is made by `responseSerializer`.
    public func delete(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await delete(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress
        )
    }

    /// DELETE with a literal of parameters with variables. The result is made by `responseSerializer`.
    public func delete(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil
    ) async throws(RequestFailure) -> sending SerializedResponse<Any> {
        try await delete(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress
        )
    }

    /// DELETE with parameters of any `Encodable` type. The result is made by the serializer.
    public func delete<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await delete(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            serializer: serializer
        )
    }

    /// DELETE with a literal of parameters with variables. The result is made by the serializer.
    public func delete<Serializer: ResponseSerializer>(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await delete(
            url,
            parameters: try forRequest(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            serializer: serializer
        )
    }

    /// DELETE with parameters of any `Encodable` type, and a handler of the result of `responseSerializer`.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func delete(
        _ url: String,
        parameters: some Encodable & Sendable,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try delete(
            url,
            parameters: try encoded(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            completionHandler: completionHandler
        )
    }

    /// DELETE with a literal of parameters with variables, and a handler of the result of `responseSerializer`.
    ///
    /// - Throws: `requestInvalid`; then the handler is not called.
    @discardableResult
    public func delete(
        _ url: String,
        parameters: Parameters,
        headers: [String: String] = [:],
        progress: ProgressHandler? = nil,
        completionHandler: @escaping CompletionHandler
    ) throws(SessionError) -> DataRequest {
        try delete(
            url,
            parameters: try encoded(parameters) as ParameterValue?,
            headers: headers,
            progress: progress,
            completionHandler: completionHandler
        )
    }
}
