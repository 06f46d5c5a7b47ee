// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

extension HTTPSessionManager {
    /// A download for a complete request: its URL is absolute, and no serializer changes it. It starts with
    /// `DownloadRequest.response`.
    ///
    /// - Parameters:
    ///   - request: with an absolute URL.
    ///   - options: those of this request.
    ///   - validation: which responses are written; by default those with a status from 200 to 299.
    ///   - progress: progress of the response's body; an attempt that resumes an earlier one counts from there.
    ///   - destination: the path of the complete file; nil as for `URLSessionManager.downloadTask`.
    public func download(
        _ request: HTTPSessionRequest,
        options: RequestOptions = RequestOptions(),
        validation: ResponseValidation = ResponseValidation(),
        progress: ProgressHandler? = nil,
        to destination: DownloadDestination? = nil
    ) -> DownloadRequest {
        DownloadRequest(
            options.applied(to: request),
            manager: self,
            options: options,
            validation: validation,
            progress: progress,
            destination: destination
        )
    }

    /// A download for a request that `requestSerializer` makes from parameters.
    ///
    /// - Parameters:
    ///   - method: decides where the parameters go: `RequestSettings.methodsEncodingParametersInURI`.
    ///   - url: relative to `baseURL`, or absolute.
    ///   - parameters: nil for none.
    ///   - headers: take precedence over the serializer's.
    ///   - options: those of this request.
    ///   - validation: which responses are written; by default those with a status from 200 to 299.
    ///   - progress: progress of the response's body; an attempt that resumes an earlier one counts from there.
    ///   - destination: the path of the complete file; nil as for `URLSessionManager.downloadTask`.
    /// - Throws: `requestInvalid` when no request can be made from these arguments.
    public func download(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        validation: ResponseValidation = ResponseValidation(),
        progress: ProgressHandler? = nil,
        to destination: DownloadDestination? = nil
    ) throws(SessionError) -> DownloadRequest {
        download(
            try made(method, url, parameters, headers, options),
            options: options,
            validation: validation,
            progress: progress,
            to: destination
        )
    }

    /// The same with parameters of any `Encodable` type.
    public func download(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        validation: ResponseValidation = ResponseValidation(),
        progress: ProgressHandler? = nil,
        to destination: DownloadDestination? = nil
    ) throws(SessionError) -> DownloadRequest {
        try download(
            method,
            url,
            parameters: .some(Parameters(parameters)),
            headers: headers,
            options: options,
            validation: validation,
            progress: progress,
            to: destination
        )
    }

    /// Resumes a download that was cut off, in this process or an earlier one; as
    /// `URLSessionManager.downloadTask(withResumeData:)`.
    ///
    /// - Parameters:
    ///   - resumeData: from a `DownloadRequest` or a download task.
    ///   - headers: added to those of the first request; resume data does not contain credentials.
    ///   - options: those of this request; its serializer is not used.
    ///   - validation: which responses are written when the download starts over; a response with the rest has status
    ///     206.
    ///   - progress: counts from the resumed offset.
    ///   - destination: the path of the complete file; nil as for any download.
    /// - Throws: `requestInvalid` for what is no resume data.
    public func download(
        resumingWith resumeData: [UInt8],
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        validation: ResponseValidation = ResponseValidation(),
        progress: ProgressHandler? = nil,
        to destination: DownloadDestination? = nil
    ) throws(SessionError) -> DownloadRequest {
        let resumption = try ResumeData(resumeData)
        var all = headers
        all.appendMissing(of: resumption.headers)
        return DownloadRequest(
            options.applied(to: HTTPSessionRequest(url: resumption.url, headers: all)),
            resuming: resumeData,
            manager: self,
            options: options,
            validation: validation,
            progress: progress,
            destination: destination
        )
    }
}
