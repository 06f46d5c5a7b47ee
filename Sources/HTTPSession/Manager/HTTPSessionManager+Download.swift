public import HTTPCore
public import SessionCore

extension HTTPSessionManager {
    /// A download that is ready: its URL is absolute, and no serializer adds to it. It starts with
    /// `DownloadRequest.response`.
    ///
    /// - Parameters:
    ///   - request: with an absolute URL.
    ///   - interceptor: goes before the manager's.
    ///   - validation: what the answer must be to be written: a status from 200 to 299, unless told otherwise.
    ///   - downloadProgress: of the answer's body; an attempt that goes on with an earlier one counts from there.
    ///   - destination: where the file goes when it is whole; nil as for `URLSessionManager.downloadTask`.
    public func download(
        _ request: HTTPRequest,
        interceptor: (any RequestInterceptor)? = nil,
        validation: ResponseValidation = ResponseValidation(),
        downloadProgress: ProgressHandler? = nil,
        to destination: DownloadDestination? = nil
    ) -> DownloadRequest {
        DownloadRequest(
            request,
            manager: self,
            interceptor: combined(interceptor),
            validation: validation,
            downloadProgress: downloadProgress,
            destination: destination
        )
    }

    /// A download by a request of parameters, by `requestSerializer`.
    ///
    /// - Parameters:
    ///   - method: decides where the parameters go: `RequestSettings.methodsEncodingParametersInURI`.
    ///   - url: relative to `baseURL`, or absolute.
    ///   - parameters: nil for none.
    ///   - headers: go before the serializer's.
    ///   - interceptor: goes before the manager's.
    ///   - validation: what the answer must be to be written: a status from 200 to 299, unless told otherwise.
    ///   - downloadProgress: of the answer's body; an attempt that goes on with an earlier one counts from there.
    ///   - destination: where the file goes when it is whole; nil as for `URLSessionManager.downloadTask`.
    /// - Throws: `requestInvalid` when the request cannot be made of this.
    public func download(
        _ method: HTTPMethod = .get,
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        interceptor: (any RequestInterceptor)? = nil,
        validation: ResponseValidation = ResponseValidation(),
        downloadProgress: ProgressHandler? = nil,
        to destination: DownloadDestination? = nil
    ) throws(SessionError) -> DownloadRequest {
        let base = HTTPRequest(url: try self.url(url), method: method, fields: try Self.fields(headers))
        return download(
            try requestSerializer.serialize(base, parameters: parameters),
            interceptor: interceptor,
            validation: validation,
            downloadProgress: downloadProgress,
            to: destination
        )
    }

    /// Goes on with a download that broke off, in this process or an earlier one; as
    /// `URLSessionManager.downloadTask(withResumeData:)`.
    ///
    /// - Parameters:
    ///   - resumeData: of a `DownloadRequest` or a download task.
    ///   - fields: sent beside those of the first request; credentials are not part of the resume data.
    ///   - interceptor: goes before the manager's.
    ///   - validation: what an answer must be that begins anew; that of the rest is 206.
    ///   - downloadProgress: counts from where it goes on.
    ///   - destination: where the file goes when it is whole; nil as for any download.
    /// - Throws: `requestInvalid` for what is no resume data.
    public func download(
        resumingWith resumeData: [UInt8],
        fields: HTTPFields = HTTPFields(),
        interceptor: (any RequestInterceptor)? = nil,
        validation: ResponseValidation = ResponseValidation(),
        downloadProgress: ProgressHandler? = nil,
        to destination: DownloadDestination? = nil
    ) throws(SessionError) -> DownloadRequest {
        let resumption = try ResumeData(resumeData)
        var all = fields
        all.appendMissing(of: resumption.fields)
        return DownloadRequest(
            HTTPRequest(url: resumption.url, fields: all),
            resuming: resumeData,
            manager: self,
            interceptor: combined(interceptor),
            validation: validation,
            downloadProgress: downloadProgress,
            destination: destination
        )
    }
}
