public import SessionCore

/// Is told what becomes of an `HTTPSessionManager`'s requests: for logs and measurements. It decides nothing; that is
/// for interceptors, and for the hooks of the session (`SessionHooks`), which also tell of redirects, heads and bytes.
///
/// Every method has a default that does nothing. Calls come in their order for each request, off the session's loop.
public protocol EventMonitor: Sendable {
    /// Where it is called; nil for the session's callback queue.
    var queue: CallbackQueue? { get }

    /// It is under way: at first, and after it was held back.
    func requestDidResume(_ request: Request)
    /// It is held back.
    func requestDidSuspend(_ request: Request)
    /// It was told to end; `requestDidFinish` follows.
    func requestDidCancel(_ request: Request)
    /// Exactly once, the last of its calls.
    func requestDidFinish(_ request: Request)
    /// An adapter has made another request of the first; before each attempt.
    func request(_ request: Request, didAdapt initial: HTTPRequest, to adapted: HTTPRequest)
    /// An adapter has refused; retriers are asked.
    func request(_ request: Request, didFailToAdapt initial: HTTPRequest, with error: any Error)
    /// The task of an attempt, before it is started.
    func request(_ request: Request, didCreate task: SessionTask)
    /// An attempt has ended, well or badly.
    func request(_ request: Request, didGather metrics: TaskMetrics)
    /// Right behind the metrics.
    func request(_ request: Request, didComplete task: SessionTask, with error: SessionError?)
    /// A download is where it belongs.
    func request(_ request: DownloadRequest, didFinishDownloading response: DownloadResponse)
    /// An answer, or the file of a download, has been serialized, or was refused.
    func request(_ request: Request, didParse response: DataResponse, failure: RequestFailure?)
    /// After the delay, before the next attempt; `retryCount` counts it already.
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
    public func request(_ request: Request, didAdapt initial: HTTPRequest, to adapted: HTTPRequest) {}
    /// Does nothing.
    public func request(_ request: Request, didFailToAdapt initial: HTTPRequest, with error: any Error) {}
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
