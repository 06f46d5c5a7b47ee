// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

/// What one call does otherwise than its manager:
///
/// ```swift
/// let options = RequestOptions(timeouts: TaskTimeouts(total: .seconds(5)), cachePolicy: .reloadIgnoringLocalCacheData)
/// let items = try await manager.get("items", options: options, serializer: .decodable([Item].self)).value
/// ```
///
/// Nil stands for the manager's or the session's own.
public struct RequestOptions: Sendable {
    /// Makes the request from parameters and headers, in place of the manager's.
    public var requestSerializer: (any RequestSerializer)?
    /// The limits of time.
    public var timeouts: TaskTimeouts?
    /// How the cache is used.
    public var cachePolicy: CachePolicy?
    /// Whether cookies are sent and stored.
    public var handlesCookies: Bool?
    /// Whether the body of the response is compared with its digests.
    public var digestCheck: DigestCheck?
    /// The credential for challenges of the request's first origin (`TaskDelegate.credential`).
    public var credential: Credential?
    /// The priority, from 0 to 1 (`SessionTask.priority`).
    public var priority: Double?
    /// Adapts and retries the request, before the manager's interceptor.
    public var interceptor: (any RequestInterceptor)?
    /// Observers of this request, after the manager's.
    public var eventMonitors: [any EventMonitor]

    /// `TaskDelegate.taskWillPerformHTTPRedirection` of every attempt: it decides about redirects, in place of the
    /// session's hook.
    public var taskWillPerformHTTPRedirection:
        (@Sendable (_ task: SessionTask, _ response: ResponseHead, _ redirect: RedirectProposal) -> RedirectDecision)?
    /// `DataTaskDelegate.dataTaskDidReceiveResponse` of every attempt: it allows the body, or cancels the request.
    /// Downloads do not call it.
    public var dataTaskDidReceiveResponse:
        (@Sendable (_ task: DataTask, _ response: ResponseHead) -> DataTaskDisposition)?
    /// `DataTaskDelegate.dataTaskWillCacheResponse` of every attempt. Downloads, which are not stored, do not call it.
    public var dataTaskWillCacheResponse: SessionHooks.WillCache?

    /// Options of which those count that are given.
    public init(
        requestSerializer: (any RequestSerializer)? = nil,
        timeouts: TaskTimeouts? = nil,
        cachePolicy: CachePolicy? = nil,
        handlesCookies: Bool? = nil,
        digestCheck: DigestCheck? = nil,
        credential: Credential? = nil,
        priority: Double? = nil,
        interceptor: (any RequestInterceptor)? = nil,
        eventMonitors: [any EventMonitor] = []
    ) {
        self.requestSerializer = requestSerializer
        self.timeouts = timeouts
        self.cachePolicy = cachePolicy
        self.handlesCookies = handlesCookies
        self.digestCheck = digestCheck
        self.credential = credential
        self.priority = priority
        self.interceptor = interceptor
        self.eventMonitors = eventMonitors
    }

    /// The request with these options, as far as they are a part of it.
    func applied(to request: HTTPSessionRequest) -> HTTPSessionRequest {
        var request = request
        request.timeouts = timeouts ?? request.timeouts
        request.cachePolicy = cachePolicy ?? request.cachePolicy
        request.handlesCookies = handlesCookies ?? request.handlesCookies
        request.digestCheck = digestCheck ?? request.digestCheck
        return request
    }

    /// The rest: what belongs to the task of an attempt.
    func apply(to task: SessionTask) {
        if let credential { task.delegate.credential = credential }
        if let priority { task.priority = priority }
        if let hook = taskWillPerformHTTPRedirection { task.delegate.taskWillPerformHTTPRedirection = hook }
        guard let delegate = (task as? DataTask)?.dataDelegate else { return }
        if let hook = dataTaskDidReceiveResponse { delegate.dataTaskDidReceiveResponse = hook }
        if let hook = dataTaskWillCacheResponse { delegate.dataTaskWillCacheResponse = hook }
    }

    /// The same without hooks, which may hold the request that they belong to.
    var withoutHooks: RequestOptions {
        var options = self
        options.taskWillPerformHTTPRedirection = nil
        options.dataTaskDidReceiveResponse = nil
        options.dataTaskWillCacheResponse = nil
        return options
    }
}
