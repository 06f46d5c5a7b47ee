// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

extension HTTPSessionManager {
    // MARK: Requests to carry out

    /// A complete request: its URL is absolute, and no serializer changes it. It starts with `DataRequest.response`.
    ///
    /// - Parameters:
    ///   - request: with an absolute URL.
    ///   - options: those of this request; its serializer is not used.
    ///   - uploadProgress: progress of the request's body, from its beginning in each attempt.
    ///   - downloadProgress: progress of the response's body, likewise.
    public func request(
        _ request: HTTPSessionRequest,
        options: RequestOptions = RequestOptions(),
        uploadProgress: ProgressHandler? = nil,
        downloadProgress: ProgressHandler? = nil
    ) -> DataRequest {
        DataRequest(
            options.applied(to: request),
            manager: self,
            options: options,
            uploadProgress: uploadProgress,
            downloadProgress: downloadProgress
        )
    }

    /// A request that `requestSerializer` makes from parameters.
    ///
    /// - Parameters:
    ///   - method: decides where the parameters go: `RequestSettings.methodsEncodingParametersInURI`.
    ///   - url: relative to `baseURL`, or absolute.
    ///   - parameters: nil for none.
    ///   - headers: take precedence over the serializer's.
    ///   - options: those of this request.
    ///   - uploadProgress: progress of the request's body, from its beginning in each attempt.
    ///   - downloadProgress: progress of the response's body, likewise.
    /// - Throws: `requestInvalid` when no request can be made from these arguments.
    public func request(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        uploadProgress: ProgressHandler? = nil,
        downloadProgress: ProgressHandler? = nil
    ) throws(SessionError) -> DataRequest {
        request(
            try made(method, url, parameters, headers, options),
            options: options,
            uploadProgress: uploadProgress,
            downloadProgress: downloadProgress
        )
    }

    /// The same with parameters of any `Encodable` type.
    public func request(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        uploadProgress: ProgressHandler? = nil,
        downloadProgress: ProgressHandler? = nil
    ) throws(SessionError) -> DataRequest {
        try request(
            method,
            url,
            parameters: .some(Parameters(parameters)),
            headers: headers,
            options: options,
            uploadProgress: uploadProgress,
            downloadProgress: downloadProgress
        )
    }

    /// The same with a literal that nests values of several kinds: `["user": ["tags": [1, true]]]`.
    @_disfavoredOverload
    public func request(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        parameters: ParameterValue,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        uploadProgress: ProgressHandler? = nil,
        downloadProgress: ProgressHandler? = nil
    ) throws(SessionError) -> DataRequest {
        try request(
            method,
            url,
            parameters: .some(Parameters(parameters)),
            headers: headers,
            options: options,
            uploadProgress: uploadProgress,
            downloadProgress: downloadProgress
        )
    }

    /// A request with a `multipart/form-data` body: the parameters, then the parts that the closure adds. The body is
    /// read while it is sent.
    ///
    /// - Throws: `requestInvalid`, and what the closure throws.
    public func multipartRequest(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        uploadProgress: ProgressHandler? = nil,
        downloadProgress: ProgressHandler? = nil,
        constructingBody construct: (inout MultipartFormData) throws -> Void
    ) throws(SessionError) -> DataRequest {
        let made = try named(method, url) { () throws(SessionError) in
            let serializer = options.requestSerializer ?? requestSerializer
            try headers.validate()
            return try serializer.multipartFormRequest(
                method,
                try self.url(url),
                parameters: try Self.encoded(parameters, serializer),
                headers: headers,
                constructingBody: construct
            )
        }
        return request(
            made,
            options: options,
            uploadProgress: uploadProgress,
            downloadProgress: downloadProgress
        )
    }

    /// Makes a request and serializes its response: `request(_:).response(serializer:)`.
    @concurrent
    public func response<Serializer: ResponseSerializer>(
        for request: HTTPSessionRequest,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await self.request(request).response(serializer: serializer)
    }

    // MARK: Inside

    /// A request that the serializer of the options, or the manager's, makes from its parts.
    func made(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        _ parameters: Parameters?,
        _ headers: HTTPHeaders,
        _ options: RequestOptions
    ) throws(SessionError) -> HTTPSessionRequest {
        try named(method, url) { () throws(SessionError) in
            let serializer = options.requestSerializer ?? requestSerializer
            // The call that has written a header that cannot be sent fails, not the task.
            try headers.validate()
            let base = HTTPSessionRequest(url: try self.url(url), method: method, headers: headers)
            return try serializer.serialize(base, parameters: try Self.encoded(parameters, serializer))
        }
    }

    /// Names the request in an error of its making.
    private func named<Made>(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        _ make: () throws(SessionError) -> Made
    ) throws(SessionError) -> Made {
        do throws(SessionError) {
            return try make()
        } catch {
            throw error.named(RequestName.text(method, url.urlText))
        }
    }

    /// - Throws: `requestInvalid` when the type cannot be encoded.
    private static func encoded(
        _ parameters: Parameters?,
        _ serializer: any RequestSerializer
    ) throws(SessionError) -> ParameterValue? {
        do {
            return try parameters?.value(serializer.settings.parameterEncoder)
        } catch let error as SessionError {
            throw error
        } catch {
            throw SessionError(.requestInvalid, "The parameters cannot be encoded: \(error).")
        }
    }

    /// The manager's serializer in place of `AnyResponseSerializer.manager`; any other as it is.
    func resolved<Serializer: ResponseSerializer>(_ serializer: Serializer) -> Serializer {
        guard let any = serializer as? AnyResponseSerializer, any.isManagers else { return serializer }
        return responseSerializer as? Serializer ?? serializer
    }

    /// Notifies the manager's event monitors and then those of a request, each on its queue.
    func notifyMonitors(
        and others: [any EventMonitor],
        _ event: @escaping @Sendable (any EventMonitor) -> Void
    ) {
        for monitor in eventMonitors { notify(monitor, event) }
        for monitor in others { notify(monitor, event) }
    }

    private func notify(_ monitor: any EventMonitor, _ event: @escaping @Sendable (any EventMonitor) -> Void) {
        (monitor.queue ?? session.thread.callbacks).enqueue { event(monitor) }
    }

    func combined(_ own: (any RequestInterceptor)?) -> (any RequestInterceptor)? {
        guard let own, let interceptor else { return own ?? interceptor }
        return Interceptor(interceptors: [own, interceptor])
    }
}
