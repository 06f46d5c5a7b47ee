public import SessionCore

/// A task that writes the response body to a file.
///
/// `@unchecked Sendable`: as `SessionTask`; `resumption` does not change.
public final class DownloadTask: SessionTask, @unchecked Sendable {
    /// What an earlier task has left.
    let resumption: ResumeData?

    init(_ request: HTTPRequest, delegate: DownloadTaskDelegate, session: SessionThread, resumption: ResumeData? = nil)
    {
        self.resumption = resumption
        super.init(request, delegate: delegate, session: session)
    }

    /// For a download that takes a data task's transfer over.
    init(takingOver task: DataTask, _ machine: TaskMachine, delegate: DownloadTaskDelegate) {
        resumption = nil
        super.init(takingOver: task, machine, delegate: delegate)
    }

    var downloadDelegate: DownloadTaskDelegate {
        // Made so by `URLSessionManager`, and never changed.
        guard let delegate = delegate as? DownloadTaskDelegate else { preconditionFailure("a download's delegate") }
        return delegate
    }

    /// Ends the task, and keeps what has come for `URLSessionManager.downloadTask(withResumeData:)`.
    ///
    /// Resume data is there when the answer was a 200 with a strong `ETag` or a `Last-Modified`, and something of it has
    /// come. The partial file stays in the session's temporary folder: it is the caller's to use up.
    ///
    /// - Parameter handler: called once, on the session's callback queue; nil where nothing can be resumed.
    public func cancel(byProducingResumeData handler: @escaping @Sendable (_ resumeData: [UInt8]?) -> Void) {
        cancelKeepingDownload()
        delegate.queue.add { [downloadDelegate] in handler(downloadDelegate.resumeData) }
    }

    /// The same, waiting for it.
    public func cancelByProducingResumeData() async -> [UInt8]? {
        await withCheckedContinuation { continuation in
            cancelKeepingDownload()
            delegate.whenComplete { [downloadDelegate] in continuation.resume(returning: downloadDelegate.resumeData) }
        }
    }

    /// Has `handler` called on the session's callback queue with how the task ended, in the order of `delegate.queue`.
    public func onCompletion(_ handler: @escaping @Sendable (Result<DownloadResponse, SessionError>) -> Void) {
        delegate.queue.add { [self] in handler(downloadDelegate.result(of: self)) }
    }

    /// Starts the task and waits for the file. When the Swift task that waits is cancelled, so is this one.
    public func value() async throws(SessionError) -> DownloadResponse {
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                delegate.whenComplete { [self] in continuation.resume(returning: downloadDelegate.result(of: self)) }
                resume()
            }
        } onCancel: {
            cancel()
        }
        return try result.get()
    }
}
