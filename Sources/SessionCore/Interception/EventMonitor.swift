/// Is told what becomes of an `HTTPSessionManager`'s requests: for logs and measurements. It decides nothing; that is
/// for interceptors, and for the hooks of the session (`SessionHooks`), which also tell of redirects, heads and bytes.
///
/// Every method has a default that does nothing. Calls come in their order for each request, off the session's loop.
public protocol EventMonitor: Sendable {
    /// Where it is called; nil for the session's callback queue.
    var queue: CallbackQueue? { get }

    func requestDidResume(_ request: DataRequest)
    func requestDidSuspend(_ request: DataRequest)
    func requestDidCancel(_ request: DataRequest)
    /// Exactly once, the last of its calls.
    func requestDidFinish(_ request: DataRequest)
    /// An adapter has made another request of the first; before each attempt.
    func request(_ request: DataRequest, didAdapt initial: HTTPRequest, to adapted: HTTPRequest)
    func request(_ request: DataRequest, didFailToAdapt initial: HTTPRequest, with error: any Error)
    /// The task of an attempt, before it is started.
    func request(_ request: DataRequest, didCreate task: DataTask)
    func request(_ request: DataRequest, didGather metrics: TaskMetrics)
    func request(_ request: DataRequest, didComplete task: DataTask, with error: SessionError?)
    /// An answer has been serialized, or was refused.
    func request(_ request: DataRequest, didParse response: DataResponse, failure: RequestFailure?)
    /// After the delay, before the next attempt; `retryCount` counts it already.
    func requestIsRetrying(_ request: DataRequest)
}

extension EventMonitor {
    public var queue: CallbackQueue? { nil }

    public func requestDidResume(_ request: DataRequest) {}
    public func requestDidSuspend(_ request: DataRequest) {}
    public func requestDidCancel(_ request: DataRequest) {}
    public func requestDidFinish(_ request: DataRequest) {}
    public func request(_ request: DataRequest, didAdapt initial: HTTPRequest, to adapted: HTTPRequest) {}
    public func request(_ request: DataRequest, didFailToAdapt initial: HTTPRequest, with error: any Error) {}
    public func request(_ request: DataRequest, didCreate task: DataTask) {}
    public func request(_ request: DataRequest, didGather metrics: TaskMetrics) {}
    public func request(_ request: DataRequest, didComplete task: DataTask, with error: SessionError?) {}
    public func request(_ request: DataRequest, didParse response: DataResponse, failure: RequestFailure?) {}
    public func requestIsRetrying(_ request: DataRequest) {}
}
