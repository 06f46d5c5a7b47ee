public import HTTPCore
public import SessionCore

extension HTTPSessionManager {
    // MARK: Requests to carry out

    /// A complete request: its URL is absolute, and no serializer changes it. It starts with `DataRequest.response`.
    ///
    /// - Parameters:
    ///   - request: with an absolute URL.
    ///   - interceptor: called before the manager's.
    ///   - uploadProgress: progress of the request's body, from its beginning in each attempt.
    ///   - downloadProgress: progress of the response's body, likewise.
    public func request(
        _ request: HTTPRequest,
        interceptor: (any RequestInterceptor)? = nil,
        uploadProgress: ProgressHandler? = nil,
        downloadProgress: ProgressHandler? = nil
    ) -> DataRequest {
        DataRequest(
            request,
            manager: self,
            interceptor: combined(interceptor),
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
    ///   - interceptor: called before the manager's.
    ///   - uploadProgress: progress of the request's body, from its beginning in each attempt.
    ///   - downloadProgress: progress of the response's body, likewise.
    /// - Throws: `requestInvalid` when no request can be made from these arguments.
    public func request(
        _ method: HTTPMethod,
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        interceptor: (any RequestInterceptor)? = nil,
        uploadProgress: ProgressHandler? = nil,
        downloadProgress: ProgressHandler? = nil
    ) throws(SessionError) -> DataRequest {
        let base = HTTPRequest(url: try self.url(url), method: method, fields: try Self.fields(headers))
        return request(
            try requestSerializer.serialize(base, parameters: parameters),
            interceptor: interceptor,
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
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        interceptor: (any RequestInterceptor)? = nil,
        uploadProgress: ProgressHandler? = nil,
        downloadProgress: ProgressHandler? = nil,
        constructingBody construct: (inout MultipartFormData) throws -> Void
    ) throws(SessionError) -> DataRequest {
        let made = try requestSerializer.multipartFormRequest(
            method,
            try self.url(url),
            parameters: parameters,
            fields: try Self.fields(headers),
            constructingBody: construct
        )
        return request(
            made,
            interceptor: interceptor,
            uploadProgress: uploadProgress,
            downloadProgress: downloadProgress
        )
    }

    /// Makes a request and serializes its response: `request(_:).response(serializer:)`.
    @concurrent
    public func response<Serializer: ResponseSerializer>(
        for request: HTTPRequest,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await self.request(request).response(serializer: serializer)
    }

    // MARK: Inside

    /// `responseSerializer` for objects of any type.
    var anySerializer: AnyResponseSerializer {
        func erase(_ serializer: some ResponseSerializer) -> AnyResponseSerializer {
            AnyResponseSerializer(serializer)
        }
        return erase(responseSerializer)
    }

    /// Notifies the event monitors, each on its queue.
    func notifyMonitors(_ event: @escaping @Sendable (any EventMonitor) -> Void) {
        for monitor in eventMonitors {
            (monitor.queue ?? session.thread.callbacks).enqueue { event(monitor) }
        }
    }

    func combined(_ own: (any RequestInterceptor)?) -> (any RequestInterceptor)? {
        guard let own, let interceptor else { return own ?? interceptor }
        return Interceptor(interceptors: [own, interceptor])
    }

    static func fields(_ headers: [String: String]) throws(SessionError) -> HTTPFields {
        var fields = HTTPFields()
        for (name, value) in headers.sorted(by: { $0.key < $1.key }) { try fields.setForRequest(name, value) }
        return fields
    }
}
