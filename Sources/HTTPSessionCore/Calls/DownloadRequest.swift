// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// One request of an `HTTPSessionManager` whose response is written to a file.
///
/// ```swift
/// let file = try await manager.download(.get, "large.iso", to: { _, _ in ("/srv/large.iso", []) }).response()
/// ```
///
/// An attempt that was cut off is resumed by the next one if the origin supports it (`ResumeData`). A response that
/// `validation` rejects is not written, and its body is not read.
///
/// `@unchecked Sendable`: as `Request`; `received` has a lock, and the other properties do not change.
public final class DownloadRequest: Request, @unchecked Sendable {
    /// The required status and content type.
    public let validation: ResponseValidation
    private let destination: DownloadDestination?
    private let downloadHandler: ProgressHandler?
    /// The resume data of an earlier request.
    private let earlier: [UInt8]?
    private let received = Received<DownloadResponse>()

    init(
        _ request: HTTPSessionRequest,
        resuming earlier: [UInt8]? = nil,
        manager: HTTPSessionManager,
        options: RequestOptions,
        validation: ResponseValidation,
        progress: ProgressHandler?,
        destination: DownloadDestination?
    ) {
        self.earlier = earlier
        self.validation = validation
        downloadHandler = progress
        self.destination = destination
        super.init(request, manager: manager, options: options)
    }

    /// The resume data of the latest attempt, or with which it was made, for
    /// `HTTPSessionManager.download(resumingWith:)`. Nil after success, and when the download cannot be resumed.
    public var resumeData: [UInt8]? {
        guard let task = task as? DownloadTask else { return earlier }
        return task.downloadDelegate.resumeData
    }

    /// Ends the request, and keeps the received part.
    ///
    /// - Parameter handler: called once, on the session's callback queue, when the request has ended or was not begun;
    ///   with nil when the download cannot be resumed. The caller uses or removes the partial file.
    public func cancel(byProducingResumeData handler: @escaping @Sendable (_ resumeData: [UInt8]?) -> Void) {
        let isBegun = hasBegun
        endTask { ($0 as? DownloadTask)?.cancelKeepingDownload() }
        let report: @Sendable () -> Void = { [self] in
            manager.session.thread.callbacks.enqueue { [self] in handler(resumeData) }
        }
        if isBegun { whenFinished(report) } else { report() }
    }

    override func makeTask(for request: HTTPSessionRequest) throws(SessionError) -> SessionTask {
        let task: DownloadTask
        if let resumed = try resumedTask(for: request) {
            task = resumed
        } else {
            task = try manager.session.downloadTask(with: request, destination: destination)
        }
        task.downloadDelegate.validation = validation
        if let downloadHandler {
            task.downloadDelegate.setProgressHandler(on: downloadHandler.queue, downloadHandler.handler)
        }
        return task
    }

    /// Resumes the earlier attempt. For another URL, its partial file is removed.
    private func resumedTask(for request: HTTPSessionRequest) throws(SessionError) -> DownloadTask? {
        guard let resumeData else { return nil }
        let resumption = try ResumeData(resumeData)
        guard resumption.url == request.url, request.method == .get, request.body.length == .none else {
            resumption.discard(in: manager.session.thread)
            return nil
        }
        return try manager.session.downloadTask(with: request, resuming: resumption, destination: destination)
    }

    // MARK: Carrying it out

    /// A destination in a folder, under the name that the response suggests (`ReceivedResponse.suggestedFilename`), or
    /// that of the temporary file.
    ///
    /// - Parameters:
    ///   - folder: its path.
    ///   - options: what is done with missing folders and an existing file.
    public static func suggestedDownloadDestination(
        in folder: String,
        options: DownloadOptions = []
    ) -> DownloadDestination {
        { temporaryPath, response in
            let name =
                response.suggestedFilename ?? temporaryPath.split(separator: "/").last.map(String.init) ?? "download"
            return (folder.hasSuffix("/") ? folder + name : "\(folder)/\(name)", options)
        }
    }

    /// Carries the request out. When the calling Swift task is cancelled, the request is cancelled.
    @concurrent
    public func response() async throws(RequestFailure) -> DownloadResponse {
        try await outcome(
            of: { () throws(RequestFailure) in try await attempt() },
            orJoining: { () throws(RequestFailure) in try receivedAlready() }
        )
    }

    /// Carries the request out, and calls a handler with the result.
    ///
    /// - Parameters:
    ///   - queue: the handler's queue; nil for the session's callback queue.
    ///   - completionHandler: called once, also after `cancel`.
    /// - Returns: this request.
    @discardableResult
    public func response(
        queue: CallbackQueue? = nil,
        completionHandler: @escaping @Sendable (_ result: Result<DownloadResponse, RequestFailure>) -> Void
    ) -> DownloadRequest {
        begin(
            { () throws(RequestFailure) in try await self.attempt() },
            orJoining: { () throws(RequestFailure) in try self.receivedAlready() },
            queue: queue,
            completionHandler: completionHandler
        )
        return self
    }

    /// The file that an earlier call has received.
    func receivedAlready() throws(RequestFailure) -> DownloadResponse { try joined(received.response) }

    /// One attempt, until the file is at its destination.
    func attempt() async throws(RequestFailure) -> DownloadResponse {
        let task = try await carryOut(try await adapt())
        guard let task = task as? DownloadTask else { preconditionFailure("a download's task") }
        do throws(SessionError) {
            let response = try task.downloadDelegate.result(of: task).get()
            received.response = response
            notifyMonitors { $0.request(self, didFinishDownloading: response) }
            return response
        } catch {
            throw failure(of: task, error)
        }
    }

    /// The error of an attempt; a response that `validation` rejected is reported as such.
    private func failure(of task: DownloadTask, _ error: SessionError) -> RequestFailure {
        guard error.code == .responseInvalid, let head = task.response, let metrics = task.delegate.metrics,
            let reason = validation.fault(of: head)
        else { return .session(error) }
        let response = DataResponse(response: head, url: task.currentRequest.url, metrics: metrics)
        let name = RequestName.text(task.currentRequest.method, response.url)
        return .serialization(ResponseSerializationError(reason, response: response).named(name))
    }
}

extension ResumeData {
    /// Removes the partial file.
    func discard(in session: SessionThread) {
        let file = DownloadFile(
            name: fileName,
            folder: session.temporaryFolder,
            files: session.files.loop,
            owner: session.loop
        )
        file.discard {}
    }
}
