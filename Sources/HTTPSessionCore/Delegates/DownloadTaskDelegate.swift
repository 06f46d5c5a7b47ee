// SPDX-License-Identifier: Apache-2.0
import IOCore
public import SessionCore

/// The result of a download: the path of its file, or the resume data to continue it.
///
/// `@unchecked Sendable`: `download` is accessed with `lock` held.
public final class DownloadTaskDelegate: TaskDelegate, @unchecked Sendable {
    /// Behind `lock`.
    private var download = Download()

    private struct Download {
        var filePath: String?
        var resumeData: [UInt8]?
        var resumedAt: Int64 = 0
        var validation: ResponseValidation?
        var hooks = Hooks()
    }

    private struct Hooks {
        var destination: DownloadDestination?
        var finished: (@Sendable (DownloadTask, String) -> String?)?
        var moveFailed: (@Sendable (DownloadTask, SessionError) -> Void)?
        var wrote: (@Sendable (DownloadTask, Int64, Int64, Int64?) -> Void)?
        var resumed: (@Sendable (DownloadTask, Int64, Int64?) -> Void)?
    }

    /// The destination of the complete file; nil: it stays in the session's temporary folder. Set it before the end of
    /// the task, after which it is nil. `downloadTaskDidFinishDownloading` goes before it.
    public var destination: DownloadDestination? {
        get { lock.withLock { download.hooks.destination } }
        set { unlessComplete { exchange(&download.hooks.destination, with: newValue) } }
    }

    /// The path of the complete file; nil before.
    public internal(set) var filePath: String? {
        get { lock.withLock { download.filePath } }
        set { lock.withLock { download.filePath = newValue } }
    }

    /// Resume data after a failure or `cancel(byProducingResumeData:)`, for
    /// `URLSessionManager.downloadTask(withResumeData:)` in this process or another. Nil when the download cannot be
    /// resumed.
    public internal(set) var resumeData: [UInt8]? {
        get { lock.withLock { download.resumeData } }
        set { lock.withLock { download.resumeData = newValue } }
    }

    /// `SessionHooks.downloadTaskDidFinishDownloading`, of this task.
    public var downloadTaskDidFinishDownloading: (@Sendable (_ task: DownloadTask, _ temporaryPath: String) -> String?)?
    {
        get { lock.withLock { download.hooks.finished } }
        set { unlessComplete { exchange(&download.hooks.finished, with: newValue) } }
    }

    /// `SessionHooks.downloadTaskDidFailToMove`, of this task: called instead of the session's with the error of the
    /// task, mostly `fileFailed`. The file has been deleted by then.
    public var downloadTaskDidFailToMove: (@Sendable (_ task: DownloadTask, _ error: SessionError) -> Void)? {
        get { lock.withLock { download.hooks.moveFailed } }
        set { unlessComplete { exchange(&download.hooks.moveFailed, with: newValue) } }
    }

    /// `SessionHooks.downloadTaskDidWriteData`, of this task: called instead of the session's. Counts are bytes of the
    /// body; `totalBytesWritten` includes those of earlier attempts.
    public var downloadTaskDidWriteData:
        (
            @Sendable (_ task: DownloadTask, _ bytesWritten: Int64, _ totalBytesWritten: Int64, _ expected: Int64?) ->
                Void
        )?
    {
        get { lock.withLock { download.hooks.wrote } }
        set { unlessComplete { exchange(&download.hooks.wrote, with: newValue) } }
    }

    /// `SessionHooks.downloadTaskDidResumeAtOffset`, of this task: called instead of the session's. `offset` is the
    /// length of the part from earlier attempts.
    public var downloadTaskDidResumeAtOffset:
        (@Sendable (_ task: DownloadTask, _ offset: Int64, _ expected: Int64?) -> Void)?
    {
        get { lock.withLock { download.hooks.resumed } }
        set { unlessComplete { exchange(&download.hooks.resumed, with: newValue) } }
    }

    /// Sets the handler of the download's progress, called on `queue`; nil for the session's callback queue.
    public func setProgressHandler(
        on queue: CallbackQueue? = nil,
        _ handler: (@Sendable (_ progress: TaskProgress) -> Void)?
    ) {
        receiving.setHandler(handler, on: queue ?? callbacks)
    }

    // MARK: For TaskExecution

    override func takeHooks() -> Any? {
        defer { download.hooks = Hooks() }
        return download.hooks
    }

    /// Which responses are written; nil: all.
    var validation: ResponseValidation? {
        get { lock.withLock { download.validation } }
        set { lock.withLock { download.validation = newValue } }
    }

    var resumedAt: Int64 { lock.withLock { download.resumedAt } }

    func resumed(at offset: Int64) {
        lock.withLock { download.resumedAt = offset }
    }

    func result(of task: DownloadTask) -> Result<DownloadResponse, SessionError> {
        if let error { return .failure(error) }
        guard let response = task.response, let metrics, let filePath else {
            return .failure(SessionError(.internal, "The download ended without a file and without an error."))
        }
        return .success(
            DownloadResponse(response: response, url: task.currentRequest.url, path: filePath, metrics: metrics)
        )
    }
}
