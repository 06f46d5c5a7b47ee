// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

/// A hook's decision about the response of a data task.
public enum DataTaskDisposition: Sendable, Equatable {
    /// Collect the body, or pass it to `dataStream`.
    case allow
    /// End the task, with the error `cancelled`.
    case cancel
    /// Write the body to a file: a download task continues the transfer, and takes over progress and completion.
    /// A `DataRequest` or a stream, whose caller waits for the body, fails with `requestInvalid`.
    case becomeDownload
}

/// The hooks of a session, under the names that AFNetworking and Alamofire give them.
///
/// They are called on the session's loop, for each task in the order of its events, and must not block, since every
/// task of the session waits meanwhile. (The exception is `downloadTaskDidFinishDownloading`.) A hook of the task's own
/// delegate takes precedence over the session's.
public struct SessionHooks: Sendable {
    /// Answers a challenge for a task.
    public typealias TaskChallenge =
        @Sendable (_ task: SessionTask, _ challenge: AuthenticationChallenge) -> ChallengeDisposition

    /// Decides whether and with which fields a data task's response is stored.
    public typealias WillCache = @Sendable (_ task: DataTask, _ proposed: CachedResponse) -> CachedResponse?

    /// Challenges of a new TLS connection: the server's trust, after the security policy has accepted it and before any
    /// byte of a request; and the server's request for a client certificate, within the handshake, when the policy
    /// names none. Not called again for later requests on the connection.
    public var sessionDidReceiveAuthenticationChallenge:
        (@Sendable (_ challenge: AuthenticationChallenge) -> ChallengeDisposition)?
    /// Challenges of a 401 for Basic, Digest or Bearer: one for each scheme, the best first. It also receives the
    /// challenges of `sessionDidReceiveAuthenticationChallenge` when that is nil.
    public var taskDidReceiveChallenge: TaskChallenge?
    /// Called after the last task of an invalidated session has ended.
    public var sessionDidBecomeInvalid: (@Sendable () -> Void)?
    /// A task waits because there is no network: `Configuration.waitsForConnectivity`.
    public var taskIsWaitingForConnectivity: (@Sendable (_ task: SessionTask) -> Void)?
    /// A redirect (301, 302, 303, 307, 308 with a usable `Location`).
    public var taskWillPerformHTTPRedirection:
        (@Sendable (_ task: SessionTask, _ response: ResponseHead, _ redirect: RedirectProposal) -> RedirectDecision)?
    /// Provides the body of a streamed upload: at its start, and again when the request is sent a second time (after a
    /// redirect, or with credentials). Nil: the request's own body, if it can be read again.
    public var taskNeedNewBodyStream: (@Sendable (_ task: SessionTask) -> BodySource?)?
    /// Bytes of the body have been handed to the connection.
    ///
    /// - Parameter expected: the length of the body; nil when it is not known beforehand.
    public var taskDidSendBodyData:
        (@Sendable (_ task: SessionTask, _ bytesSent: Int64, _ totalBytesSent: Int64, _ expected: Int64?) -> Void)?
    /// Called just before `taskDidComplete`.
    public var taskDidFinishCollectingMetrics: (@Sendable (_ task: SessionTask, _ metrics: TaskMetrics) -> Void)?
    /// The last hook of each task, called exactly once. `state` is `completed` by then.
    public var taskDidComplete: (@Sendable (_ task: SessionTask, _ error: SessionError?) -> Void)?
    /// The final head of a data or upload task.
    public var dataTaskDidReceiveResponse:
        (@Sendable (_ task: DataTask, _ response: ResponseHead) -> DataTaskDisposition)?
    /// Bytes of a body, as they arrive.
    public var dataTaskDidReceiveData: (@Sendable (_ task: DataTask, _ data: [UInt8]) -> Void)?

    /// A data task's response is about to be stored in the session's cache. The hook returns the response to store,
    /// with other fields if need be, or nil to store nothing. It is called before the body is received, and again when
    /// a validation has changed the stored fields. After a request in the background (`stale-while-revalidate`) the
    /// task may be complete.
    public var dataTaskWillCacheResponse: WillCache?
    /// A data task continues as a download, because its response hook decided so: the place to set the download's
    /// `destination`. The data task has no further events of its own: its hooks, progress and completion handlers are the
    /// download's, and its value has no data.
    public var dataTaskDidBecomeDownloadTask: (@Sendable (_ task: DataTask, _ download: DownloadTask) -> Void)?
    /// A download is complete. The hook returns the path to move it to, where no file may exist; with nil the task's
    /// `destination` decides, and without one the file stays where it is. Only this hook runs on the thread that waits for the disk.
    public var downloadTaskDidFinishDownloading: (@Sendable (_ task: DownloadTask, _ temporaryPath: String) -> String?)?
    /// A complete download could not be moved; the task fails with this error, and the file is deleted.
    public var downloadTaskDidFailToMove: (@Sendable (_ task: DownloadTask, _ error: SessionError) -> Void)?
    /// Bytes of the body have been written to the file. The last call may come before the last bytes have been written.
    public var downloadTaskDidWriteData:
        (
            @Sendable (_ task: DownloadTask, _ bytesWritten: Int64, _ totalBytesWritten: Int64, _ expected: Int64?) ->
                Void
        )?
    /// The origin sends the rest of an earlier download.
    public var downloadTaskDidResumeAtOffset:
        (@Sendable (_ task: DownloadTask, _ offset: Int64, _ expected: Int64?) -> Void)?

    /// No hooks: the session applies its own rules.
    public init() {}
}
