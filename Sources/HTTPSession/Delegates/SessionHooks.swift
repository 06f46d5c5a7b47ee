public import HTTPCore
public import SessionCore

/// What to do with the response of a data task.
public enum DataTaskDisposition: Sendable, Equatable {
    /// Collect the body, or hand it to `dataStream`.
    case allow
    /// End the task, with the error `cancelled`.
    case cancel
    /// Have the body written to a file: a download task takes over.
    case becomeDownload
}

/// A redirect that may be followed.
public struct RedirectProposal: Sendable {
    /// What the rules of RFC 9110, section 15.4, make of the request: method and body as the status says, without
    /// `Authorization` and `Cookie` where the origin is another one.
    public let request: HTTPRequest
    /// Why the session would not follow it on its own account.
    public let denial: Denial?

    /// Why a redirect is denied: the next server could not be trusted as the last one was.
    public enum Denial: Sendable, Equatable {
        /// From https to http.
        case losesTLS
        /// From a host with pins to one that is held to none now (`SecurityPolicy.isHeldToPins`).
        case leavesPins
    }
}

/// What a hook says of a redirect.
public enum RedirectDecision: Sendable {
    /// As the session would do without a hook: follow it, or fail with `redirectDenied` where it is denied.
    case proceed
    /// Make this request, even where the redirect is denied: of that the hook takes the responsibility. A host with a
    /// security policy is not reached without TLS all the same.
    case follow(HTTPRequest)
    /// Do not follow it: the redirect is the answer.
    case stop
}

/// The hooks of a session, under the names that AFNetworking and Alamofire give them.
///
/// They are called on the session's loop, for each task in the order of its events, and must not block: every task of
/// the session waits meanwhile. (`downloadTaskDidFinishDownloading` is the exception: see there.) What a hook of the
/// task's own delegate decides is not asked of the session's.
public struct SessionHooks: Sendable {
    /// Answers a challenge for a task.
    public typealias TaskChallenge =
        @Sendable (_ task: SessionTask, _ challenge: AuthenticationChallenge) -> ChallengeDisposition

    /// Decides what is stored of a data task's answer.
    public typealias WillCache = @Sendable (_ task: DataTask, _ proposed: CachedResponse) -> CachedResponse?

    /// A new TLS connection: the server's trust, after the security policy has accepted it and before any byte of a
    /// request; and the server's wish for a client certificate, where the policy names none, within the handshake. Not
    /// asked again for later requests on the connection.
    public var sessionDidReceiveAuthenticationChallenge:
        (@Sendable (_ challenge: AuthenticationChallenge) -> ChallengeDisposition)?
    /// A 401 asks for Basic, Digest or Bearer: once for each way, the best first. Also what
    /// `sessionDidReceiveAuthenticationChallenge` is asked, where that is not set.
    public var taskDidReceiveChallenge: TaskChallenge?
    /// After the end of the last task of an invalidated session.
    public var sessionDidBecomeInvalid: (@Sendable () -> Void)?
    /// There is no network, and the task waits until there is: `Configuration.waitsForConnectivity`.
    public var taskIsWaitingForConnectivity: (@Sendable (_ task: SessionTask) -> Void)?
    /// A redirect (301, 302, 303, 307, 308 with a usable `Location`).
    public var taskWillPerformHTTPRedirection:
        (@Sendable (_ task: SessionTask, _ response: ResponseHead, _ redirect: RedirectProposal) -> RedirectDecision)?
    /// The body of a streamed upload is needed: at its start, and again when the request is sent a second time (on a
    /// redirect, or with credentials). Nil: the request's own body, if that can be read again.
    public var taskNeedNewBodyStream: (@Sendable (_ task: SessionTask) -> BodySource?)?
    /// Bytes of the body have been handed to the connection.
    ///
    /// - Parameter expected: nil when only the body's end will tell.
    public var taskDidSendBodyData:
        (@Sendable (_ task: SessionTask, _ bytesSent: Int64, _ totalBytesSent: Int64, _ expected: Int64?) -> Void)?
    /// Just before `taskDidComplete`.
    public var taskDidFinishCollectingMetrics: (@Sendable (_ task: SessionTask, _ metrics: TaskMetrics) -> Void)?
    /// Exactly once a task, the last of its hooks. `state` is `completed` by then.
    public var taskDidComplete: (@Sendable (_ task: SessionTask, _ error: SessionError?) -> Void)?
    /// The final head of a data or upload task.
    public var dataTaskDidReceiveResponse:
        (@Sendable (_ task: DataTask, _ response: ResponseHead) -> DataTaskDisposition)?
    /// Bytes of a body, as they come.
    public var dataTaskDidReceiveData: (@Sendable (_ task: DataTask, _ data: [UInt8]) -> Void)?

    /// The answer to a data task is about to be stored in the session's cache: what is stored, with other fields if need
    /// be; nil to have nothing stored. Asked before any of the body has come, and once more when a validation has changed
    /// what is stored. Of a request in the background (`stale-while-revalidate`) the task may be complete.
    public var dataTaskWillCacheResponse: WillCache?
    /// A data task goes on as a download, because its response hook said so: the place to set the download's
    /// `destination`. The data task tells no more.
    public var dataTaskDidBecomeDownloadTask: (@Sendable (_ task: DataTask, _ download: DownloadTask) -> Void)?
    /// A download without a `destination` is whole: the path that it shall be moved to, where no file may be; nil leaves
    /// it where it is. This hook alone runs on the thread that waits for the disk.
    public var downloadTaskDidFinishDownloading: (@Sendable (_ task: DownloadTask, _ temporaryPath: String) -> String?)?
    /// A whole download could not be moved; the task fails with this error, and the file is gone.
    public var downloadTaskDidFailToMove: (@Sendable (_ task: DownloadTask, _ error: SessionError) -> Void)?
    /// Bytes of the body are in the file. The last call comes when they are on the way.
    public var downloadTaskDidWriteData:
        (
            @Sendable (_ task: DownloadTask, _ bytesWritten: Int64, _ totalBytesWritten: Int64, _ expected: Int64?) ->
                Void
        )?
    /// The origin sends the rest of a download that was begun earlier.
    public var downloadTaskDidResumeAtOffset:
        (@Sendable (_ task: DownloadTask, _ offset: Int64, _ expected: Int64?) -> Void)?

    /// No hook at all: the session does what is the rule.
    public init() {}
}
