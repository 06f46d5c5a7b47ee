// SPDX-License-Identifier: Apache-2.0
public import SessionCore

/// A task that writes the response body to a file.
///
/// `@unchecked Sendable`: as `SessionTask`; `resumption` does not change.
public final class DownloadTask: SessionTask, @unchecked Sendable {
    /// The resume data of an earlier task.
    let resumption: ResumeData?

    init(
        _ request: HTTPSessionRequest,
        _ checked: CheckedRequest,
        delegate: DownloadTaskDelegate,
        session: SessionThread,
        resumption: ResumeData? = nil
    ) {
        self.resumption = resumption
        super.init(request, checked, delegate: delegate, session: session)
    }

    /// A download that continues the transfer of a data task.
    init(takingOver task: DataTask, _ machine: TaskMachine, delegate: DownloadTaskDelegate) {
        resumption = nil
        super.init(takingOver: task, machine, delegate: delegate)
    }

    override func makeSink(_ execution: TaskExecution) -> BodySink { DownloadSink(self, execution: execution) }

    /// `delegate` with the members of a download.
    public var downloadDelegate: DownloadTaskDelegate {
        // `URLSessionManager` makes it so, and it never changes.
        guard let delegate = delegate as? DownloadTaskDelegate else { preconditionFailure("a download's delegate") }
        return delegate
    }

    /// Ends the task, and keeps the received part for `URLSessionManager.downloadTask(withResumeData:)`.
    ///
    /// There is resume data when the response was a 200 with a strong `ETag` or a `Last-Modified`, and some of its body
    /// has been received. The partial file stays in the session's temporary folder until the caller uses it or removes
    /// it.
    ///
    /// - Parameter handler: called once, on the session's callback queue; with nil when the download cannot be resumed.
    public func cancel(byProducingResumeData handler: @escaping @Sendable (_ resumeData: [UInt8]?) -> Void) {
        cancelKeepingDownload()
        delegate.queue.add { [downloadDelegate] in handler(downloadDelegate.resumeData) }
    }

    /// The same as an asynchronous function.
    public func cancelByProducingResumeData() async -> [UInt8]? {
        await handedOver { give in
            cancelKeepingDownload()
            delegate.whenComplete { [downloadDelegate] in give(downloadDelegate.resumeData) }
        }
    }

    /// Adds a handler of the result. It is called on the session's callback queue, in the order of `delegate.queue`.
    public func onCompletion(_ handler: @escaping @Sendable (Result<DownloadResponse, SessionError>) -> Void) {
        delegate.queue.add { [self] in handler(downloadDelegate.result(of: self)) }
    }

    /// Starts the task and waits for the file. When the calling Swift task is cancelled, this task is cancelled.
    public func value() async throws(SessionError) -> DownloadResponse {
        let result = await withTaskCancellationHandler {
            await handedOver { give in
                delegate.whenComplete { [self] in give(downloadDelegate.result(of: self)) }
                resume()
            }
        } onCancel: {
            cancel()
        }
        return try result.get()
    }
}
