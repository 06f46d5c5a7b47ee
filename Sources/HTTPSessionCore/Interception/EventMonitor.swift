// SPDX-License-Identifier: Apache-2.0
public import SessionCore

/// Observes an `HTTPSessionManager`'s requests, for logs and measurements. It decides nothing: interceptors do, and the
/// hooks of the session (`SessionHooks`), which also report redirects, heads and bytes.
///
/// Every method has a default that does nothing. The calls for one request are in order, and not on the session's loop.
public protocol EventMonitor: Sendable {
    /// The queue of the calls; nil for the session's callback queue.
    var queue: CallbackQueue? { get }

    /// The request has started, or continues after it was suspended.
    func requestDidResume(_ request: Request)
    /// The request was suspended.
    func requestDidSuspend(_ request: Request)
    /// The request was cancelled; `requestDidFinish` follows.
    func requestDidCancel(_ request: Request)
    /// The request has ended: called exactly once, as the last call.
    func requestDidFinish(_ request: Request)
    /// An adapter has changed the request; called before each attempt.
    func request(_ request: Request, didAdapt initial: HTTPSessionRequest, to adapted: HTTPSessionRequest)
    /// An adapter has failed; retriers are called next.
    func request(_ request: Request, didFailToAdapt initial: HTTPSessionRequest, with error: any Error)
    /// The task of an attempt was made, and not started yet.
    func request(_ request: Request, didCreate task: SessionTask)
    /// An attempt has ended, with or without success.
    func request(_ request: Request, didGather metrics: TaskMetrics)
    /// Called after the metrics.
    func request(_ request: Request, didComplete task: SessionTask, with error: SessionError?)
    /// A download is at its destination.
    func request(_ request: DownloadRequest, didFinishDownloading response: DownloadResponse)
    /// A response, or the file of a download, was serialized, or serialization failed.
    func request(_ request: Request, didParse response: DataResponse, failure: RequestFailure?)
    /// Called after the delay, before the next attempt; `retryCount` includes this retry.
    func requestIsRetrying(_ request: Request)
}

extension EventMonitor {
    /// The session's callback queue.
    public var queue: CallbackQueue? { nil }

    /// Does nothing.
    public func requestDidResume(_ request: Request) {}
    /// Does nothing.
    public func requestDidSuspend(_ request: Request) {}
    /// Does nothing.
    public func requestDidCancel(_ request: Request) {}
    /// Does nothing.
    public func requestDidFinish(_ request: Request) {}
    /// Does nothing.
    public func request(_ request: Request, didAdapt initial: HTTPSessionRequest, to adapted: HTTPSessionRequest) {}
    /// Does nothing.
    public func request(_ request: Request, didFailToAdapt initial: HTTPSessionRequest, with error: any Error) {}
    /// Does nothing.
    public func request(_ request: Request, didCreate task: SessionTask) {}
    /// Does nothing.
    public func request(_ request: Request, didGather metrics: TaskMetrics) {}
    /// Does nothing.
    public func request(_ request: Request, didComplete task: SessionTask, with error: SessionError?) {}
    /// Does nothing.
    public func request(_ request: DownloadRequest, didFinishDownloading response: DownloadResponse) {}
    /// Does nothing.
    public func request(_ request: Request, didParse response: DataResponse, failure: RequestFailure?) {}
    /// Does nothing.
    public func requestIsRetrying(_ request: Request) {}
}
