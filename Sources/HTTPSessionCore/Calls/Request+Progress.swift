// SPDX-License-Identifier: Apache-2.0
extension DataRequest {
    /// The progress of the request's body, from its beginning in each attempt, until the end of the request. Of unread figures
    /// only the latest is kept, and the last figure is always delivered. Empty for a request without a body.
    ///
    /// ```swift
    /// let request = try manager.request(.post, "reports", parameters: report)
    /// let progress = request.uploadProgress()
    /// Task { for await figure in progress { print(figure.fraction ?? 0) } }
    /// _ = try await request.response(serializer: .data)
    /// ```
    public func uploadProgress() -> AsyncStream<TaskProgress> { progress(.sent) }

    /// The progress of the response's body, likewise.
    public func downloadProgress() -> AsyncStream<TaskProgress> { progress(.received) }
}

extension DownloadRequest {
    /// The progress of the response's body until the end of the request; an attempt that resumes an earlier one counts from there.
    /// Of unread figures only the latest is kept, and the last figure is always delivered.
    public func downloadProgress() -> AsyncStream<TaskProgress> { progress(.received) }
}
