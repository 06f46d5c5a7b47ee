// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import IOCore
public import SessionCore

/// A session for requests with parameters, relative to a base URL, and for responses as objects: the counterpart of
/// Apple's `AFHTTPSessionManager`, on a `URLSessionManager`.
///
/// ```swift
/// let manager = try HTTPSessionManager(
///     baseURL: "https://api.example.com/v1",
///     serverTrust: SessionTrust(anchors: .system(), policies: policies)
/// )
/// let items = try await manager.get("items", serializer: DecodableResponseSerializer([Item].self)).value
/// await manager.invalidateSession(cancelingTasks: false)
/// ```
///
/// Every member may be called on any thread, and none blocks.
public final class HTTPSessionManager: Sendable {
    /// The configuration of the session underneath.
    public typealias Configuration = URLSessionManager.Configuration

    /// The session that makes the tasks, with its hooks and its lists of tasks.
    public let session: URLSessionManager
    /// Adapts and retries all requests except those of `data`, after the interceptor of the request itself.
    public let interceptor: (any RequestInterceptor)?
    /// Observe the requests that `interceptor` handles.
    public let eventMonitors: [any EventMonitor]
    private let base: BaseURL?
    private let serializers = SerializerBox()
    let requests = RequestTable()

    /// - Parameters:
    ///   - baseURL: the base of relative URLs; a base with a path gets a slash at its end if it has none. Nil: all URLs
    ///     are absolute.
    ///   - configuration: the defaults of all tasks.
    ///   - serverTrust: the rules for trusting servers; nil for `SessionTrust.system`.
    ///   - interceptor: adapts and retries requests, after the interceptor of the request itself.
    ///   - eventMonitors: observers of requests.
    ///   - loop: the thread to share with other sessions; nil for one of its own.
    /// - Throws: `requestInvalid` for a base URL that is none, `internal` when the system has no more threads or
    ///   descriptors.
    public init(
        baseURL: String? = nil,
        configuration: Configuration = Configuration(),
        serverTrust: SessionTrust? = nil,
        interceptor: (any RequestInterceptor)? = nil,
        eventMonitors: [any EventMonitor] = [],
        loop: SessionLoop? = nil
    ) throws(SessionError) {
        if let baseURL { base = try BaseURL(baseURL) } else { base = nil }
        self.interceptor = interceptor
        self.eventMonitors = eventMonitors
        session = try URLSessionManager(configuration: configuration, serverTrust: serverTrust, loop: loop)
    }

    /// The configuration of the session underneath.
    public var configuration: Configuration { session.configuration }
    /// The rules for trusting servers.
    public var serverTrust: SessionTrust { session.serverTrust }
    /// The base URL in its normal form, with the slash.
    public var baseURL: String? { base?.text }
    /// Scheme, host and port of the base URL.
    var baseOrigin: Origin? { base?.origin }

    /// Makes requests from parameters; by default an `HTTPRequestSerializer`. Its fields, credentials among them, are
    /// added to every request that is made from parameters, also for the host of an absolute URL.
    ///
    /// A change, as `requestSerializer.setValue(…)`, is one step for other threads; for several changes in one step see
    /// `withRequestSerializer`.
    public var requestSerializer: any RequestSerializer {
        get { serializers.request }
        _modify { yield &serializers.request }
    }

    /// Changes `requestSerializer` in one step for other threads. The closure must not use the manager.
    public func withRequestSerializer<Result, Failure: Error>(
        _ change: (inout any RequestSerializer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try change(&serializers.request)
    }

    /// Makes objects from responses when a call names no serializer; by default `.json`. Another one:
    /// `AnyResponseSerializer(serializer)`. A call names a serializer whose objects are not `Sendable`.
    public var responseSerializer: AnyResponseSerializer {
        get { serializers.response }
        _modify { yield &serializers.response }
    }

    /// The decoder for serializers and streams that have none of their own; nil for Foundation's `JSONDecoder`. `HTTPSessionCodable`
    /// makes it public.
    package var givenDecoder: (any DataDecoder)? {
        get { serializers.decoder }
        set { serializers.decoder = newValue }
    }

    /// Encodes the parameters of `Encodable` types, for calls that name no serializer of their own: the `parameterEncoder` of
    /// `requestSerializer`.
    public var encoder: ParameterValueEncoder {
        get { requestSerializer.settings.parameterEncoder }
        set { requestSerializer.settings.parameterEncoder = newValue }
    }

    /// Resolves a URL against the base URL. What a URL cannot have in path, query and fragment is percent-encoded.
    ///
    /// - Throws: `requestInvalid` for what is no URL, and for what is not absolute when there is no base.
    public func url(_ reference: some URLConvertible) throws(SessionError) -> String {
        let reference = reference.urlText
        guard let base else {
            _ = try RequestURL(reference)
            return URLEscaping.escape(reference)
        }
        return try base.resolve(reference)
    }

    // MARK: All requests

    /// The `DataRequest`s and `DownloadRequest`s that are under way or suspended, in no order.
    public var activeRequests: [Request] { requests.all }

    /// Cancels all of `activeRequests`. New ones can be made meanwhile. Tasks without a request (`data`, and those made
    /// with `session`) go on: see `URLSessionManager.cancelAllTasks`.
    ///
    /// - Parameters:
    ///   - queue: where `completion` runs; nil for the session's callback queue.
    ///   - completion: called when all of them have ended; a request that was about to end may have succeeded.
    public func cancelAllRequests(
        queue: CallbackQueue? = nil,
        completion: (@Sendable () -> Void)? = nil
    ) {
        let queue = queue ?? session.thread.callbacks
        Task(executorPreference: session.thread.blocking) { [self, requests = requests.all] in
            await cancel(requests)
            if let completion { queue.enqueue(completion) }
        }
    }

    /// The same; returns when all of them have ended.
    public func cancelAllRequests() async { await cancel(requests.all) }

    private func cancel(_ requests: [Request]) async {
        for request in requests { request.cancel() }
        for request in requests {
            await withCheckedContinuation { continuation in request.whenFinished { continuation.resume() } }
        }
    }

    // MARK: Plain requests

    /// Makes a request and collects the response. A response of any status is a success, 404 too; redirects are
    /// followed. Base URL, serializers, interceptors and monitors are not used.
    ///
    /// When the calling Swift task is cancelled, the transfer is cancelled, and `cancelled` is thrown.
    ///
    /// - Parameters:
    ///   - url: `http` or `https`; see `HTTPSessionRequest.url`. User information is refused; a fragment is not sent.
    ///   - method: GET by default.
    ///   - headers: in addition to `Host` and the framing fields, which are made from `url` and `body`.
    ///   - body: nil for none.
    public func data(
        for url: some URLConvertible,
        method: HTTPMethod = .get,
        headers: HTTPHeaders = [:],
        body: [UInt8]? = nil
    ) async throws(SessionError) -> DataResponse {
        try await data(
            for: HTTPSessionRequest(url: url, method: method, headers: headers, body: body.map { .bytes($0) } ?? .none)
        )
    }

    /// Makes a request and collects the response, as `data(for:method:headers:body:)` does. The source of a body is read
    /// while it is sent, at most 128 KB ahead.
    ///
    /// - Throws: also what the body's source throws, as `requestInvalid`.
    public func data(for request: HTTPSessionRequest) async throws(SessionError) -> DataResponse {
        try await session.dataTask(with: request).value()
    }

    /// `URLSessionManager.perform`.
    @discardableResult
    public func perform(_ work: @escaping @Sendable (LoopSession) -> Void) -> Bool { session.perform(work) }

    /// `URLSessionManager.endpoint`.
    public func endpoint(for url: String) throws(SessionError) -> Endpoint { try session.endpoint(for: url) }

    /// `URLSessionManager.invalidateSession`. With `cancelingTasks` also `activeRequests` are cancelled that have no task at the time,
    /// since an adapter or a retrier is at work, or a retry is delayed: their handlers are called at once.
    public func invalidateSession(cancelingTasks: Bool) async {
        session.thread.invalidate(cancelingTasks: cancelingTasks)
        if cancelingTasks {
            // Behind the tasks, which end in the order of their creation. No request gets a further one any more.
            for request in requests.all { request.cancel() }
        }
        await session.thread.whenEnded()
    }
}
