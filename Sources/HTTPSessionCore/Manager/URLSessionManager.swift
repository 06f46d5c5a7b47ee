// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import IOCore
public import ServerTrust
public import SessionCore

/// Makes tasks and carries them out: what `AFURLSessionManager` is on Apple's systems.
///
/// ```swift
/// let manager = try URLSessionManager(serverTrust: SessionTrust(anchors: .system(), policies: policies))
/// manager.taskDidComplete = { task, error in print(task.taskIdentifier, error ?? "done") }
/// let task = try manager.dataTask(with: HTTPSessionRequest(url: "https://api.example.com/v1/items"))
/// let response = try await task.value()
/// await manager.invalidateSession(cancelingTasks: false)
/// ```
///
/// Every member may be called on any thread, and none blocks. When the last reference is released, running tasks are
/// cancelled and the thread ends by itself. A program should call `invalidateSession` before it ends, so that no
/// connection is cut in the middle of a transfer.
///
/// Hooks are properties of the manager: see `SessionHooks`.
@dynamicMemberLookup
public final class URLSessionManager: Sendable {
    /// The defaults of a session; requests may override some of them. They do not change while the session lives.
    public struct Configuration: Sendable {
        /// Limits of connections: how many, and how long they are kept.
        public var session = SessionConfiguration()
        /// Time limits of tasks; `HTTPSessionRequest.timeouts` takes precedence.
        public var timeouts = TaskTimeouts()
        /// The highest HTTP version that is offered to `https` hosts.
        public var httpVersion = Endpoint.HTTPVersion.http1
        /// The cipher suites of TLS 1.2 that are offered. A wider profile than `modern` is for servers without forward secrecy or
        /// authenticated encryption; the error of a refused handshake says which one such a server would need.
        public var tlsProfile = TLSProfile.modern
        /// Headers that are added to each request without a header of that name: `User-Agent`, `Accept`. There are none by
        /// default.
        public var additionalHeaders: HTTPHeaders = [:]
        /// Whether data and upload tasks ask for gzip and deflate, and decode the response. Requests with an
        /// `Accept-Encoding` or `Range` of their own get what the server sends; so do downloads, since they may have to
        /// be resumed. A decoded response has no expected length: `Content-Length` is that of the coded body.
        public var decodesContent = true
        /// Codings beside gzip and deflate that these tasks ask for and decode: `[.brotli, .zstd]` of `HTTPSessionCodings`.
        public var contentDecoders: [ContentDecoder] = []
        /// Whether bodies are compared with the digests of their responses; `HTTPSessionRequest.digestCheck` takes precedence.
        public var digestCheck = DigestCheck.off
        /// The longest body that a data task collects, in bytes; a longer one fails with `responseTooLarge`.
        public var maximumBodySize = 64 << 20
        /// The queue of completion handlers, progress handlers and notifications for which no other queue is named; nil
        /// for one thread of the session's own. A handler that blocks holds up the others of its queue, and must not wait for
        /// one of them.
        public var callbackQueue: CallbackQueue?
        /// Credentials that are proposed for challenges, and that are added when a server has accepted them; nil to
        /// store none.
        public var credentialStorage: CredentialStorage? = CredentialStorage()
        /// The cookies that servers set, and that are sent back to them (RFC 6265); a request with a `Cookie` of its
        /// own is left as it is. Nil: cookies are neither stored nor sent.
        public var cookieStorage: CookieStorage?
        /// The cache for the responses of data tasks; nil for none. Sessions share a cache only when both are given the
        /// same one.
        public var cache: SessionCache?
        /// The cache policy of requests without one.
        public var cachePolicy = CachePolicy.useProtocolCachePolicy
        /// The proxy of all connections; nil for none. Environment variables such as `https_proxy` are ignored.
        public var proxy: SessionProxy?
        /// Whether spaces and UTF-8 in the `Location` of a redirect are percent-encoded, as browsers do it. By default such a
        /// redirect fails with `redirectDenied`, since programs read it in different ways. A host with such characters is
        /// refused in any case.
        public var escapesLocation = false
        /// Whether a task waits for the network instead of failing with `dnsFailed` or `connectFailed`; at most for
        /// `timeouts.total`. See `SessionHooks.taskIsWaitingForConnectivity`.
        public var waitsForConnectivity = false
        var connectivity = ConnectivityWait.routes
        /// The folder of partial downloads, whose files only this user can read. Nil: the folder in `TMPDIR`, or
        /// `/var/tmp`, which survives a restart of the system. Resume data is valid only with the same folder.
        public var temporaryFolder: String?
        /// Fixed addresses of hosts; the TLS name and the policy stay those of the host.
        package var resolve: [Host: (host: Host, port: UInt16)] = [:]
        /// Makes endpoints in place of `serverTrust`, `resolve`, `timeouts`, `tlsProfile` and `httpVersion`, for a program with rules
        /// of its own. Called once for each origin; the pinned hosts of `serverTrust` still count for redirects.
        package var endpoints: (@Sendable (Origin) -> Result<Endpoint, SessionError>)?
        /// An origin in memory that takes all requests, in place of connections; nil but in tests of programs.
        package var stub: StubTransport?
        /// Records the requests of tasks; nil for none.
        package var recording: HopRecording.Start?

        /// A configuration with the defaults of each property.
        public init() {}
    }

    /// The configuration, which does not change.
    public let configuration: Configuration
    /// The rules for trusting servers. They do not change: other rules need another session.
    public let serverTrust: SessionTrust
    let thread: SessionThread

    /// - Parameters:
    ///   - configuration: the defaults of all tasks.
    ///   - serverTrust: the rules for trusting servers; nil for `SessionTrust.system`.
    ///   - loop: the thread to share with other sessions; nil for one of its own.
    /// - Throws: `internal` when the system has no more threads or descriptors, or lacks libcurl for a SOCKS proxy.
    public init(
        configuration: Configuration = Configuration(),
        serverTrust: SessionTrust? = nil,
        loop: SessionLoop? = nil
    ) throws(SessionError) {
        if configuration.proxy?.kind == .socks5, let fault = SOCKSLibrary.load() {
            throw SessionError(.internal, "There is no way through the proxy: \(fault); \(SOCKSLibrary.remedy).")
        }
        self.configuration = configuration
        if let serverTrust { self.serverTrust = serverTrust } else { self.serverTrust = try .system }
        thread = try SessionThread(configuration: configuration, serverTrust: self.serverTrust, home: loop)
    }

    deinit {
        thread.invalidate(cancelingTasks: true)
    }

    // MARK: Hooks

    /// All hooks at once. A change is one step for other threads.
    public var hooks: SessionHooks {
        get { thread.hooks }
        _modify { yield &thread.hooks }
    }

    /// One hook: `manager.taskDidComplete = { … }`.
    public subscript<Hook>(dynamicMember hook: WritableKeyPath<SessionHooks, Hook>) -> Hook {
        get { thread.hooks[keyPath: hook] }
        set { thread.changeHooks { $0[keyPath: hook] = newValue } }
    }

    /// Adds an observer of the events that notifications report, for the life of the session. It is called on the
    /// session's callback queue.
    package func observe(_ observer: @escaping @Sendable (SessionEvent) -> Void) { thread.observe(observer) }

    // MARK: Tasks

    /// A task that collects the response's body, or passes it on (`DataTaskDelegate.dataStream`). A response of any
    /// status is a success.
    ///
    /// - Throws: `requestInvalid` when the request cannot be sent, `sessionInvalidated` when the session
    ///   has been invalidated.
    public func dataTask(with request: HTTPSessionRequest) throws(SessionError) -> DataTask {
        let checked = try thread.check(request)
        let delegate = DataTaskDelegate(limit: configuration.maximumBodySize, callbacks: thread.callbacks)
        let task = DataTask(request, checked, delegate: delegate, session: thread)
        try thread.add(task)
        return task
    }

    /// The same, with a handler that is called at the end, on the session's callback queue.
    public func dataTask(
        with request: HTTPSessionRequest,
        completionHandler: @escaping @Sendable (Result<DataResponse, SessionError>) -> Void
    ) throws(SessionError) -> DataTask {
        let task = try dataTask(with: request)
        task.onCompletion(completionHandler)
        return task
    }

    /// A task that sends a file.
    ///
    /// - Throws: also when the file cannot be read.
    public func uploadTask(with request: HTTPSessionRequest, fromFile path: String) throws(SessionError) -> UploadTask {
        var request = request
        request.body = .source(try .file(path))
        return try uploadTask(request, isStreamed: false)
    }

    /// A task that sends bytes.
    public func uploadTask(with request: HTTPSessionRequest, from bytes: [UInt8]) throws(SessionError) -> UploadTask {
        var request = request
        request.body = .bytes(bytes)
        return try uploadTask(request, isStreamed: false)
    }

    /// A task that sends the bytes of a source while they are read: `.file(path)`, `.sequence(asyncSequence)`, with
    /// `HTTPSessionFoundation` `.inputStream { … }`.
    public func uploadTask(with request: HTTPSessionRequest, from source: BodySource) throws(SessionError) -> UploadTask
    {
        var request = request
        request.body = .source(source)
        return try uploadTask(request, isStreamed: false)
    }

    /// A task that sends the body which `taskNeedNewBodyStream` returns, or the request's own body when the hook
    /// returns nil.
    public func uploadTask(withStreamedRequest request: HTTPSessionRequest) throws(SessionError) -> UploadTask {
        try uploadTask(request, isStreamed: true)
    }

    func uploadTask(_ request: HTTPSessionRequest, isStreamed: Bool) throws(SessionError) -> UploadTask {
        let checked = try thread.check(request)
        let delegate = UploadTaskDelegate(limit: configuration.maximumBodySize, callbacks: thread.callbacks)
        let task = UploadTask(request, checked, delegate: delegate, session: thread, isStreamed: isStreamed)
        try thread.add(task)
        return task
    }

    /// A task that writes the response's body to a file. A response of any status is a success.
    ///
    /// - Parameters:
    ///   - request: the request whose response is written.
    ///   - destination: the path of the complete file; nil: `downloadTaskDidFinishDownloading` decides, or the file
    ///     stays in the session's temporary folder.
    public func downloadTask(
        with request: HTTPSessionRequest,
        destination: DownloadDestination? = nil
    ) throws(SessionError) -> DownloadTask {
        try downloadTask(request, destination, resuming: nil)
    }

    /// A task that resumes a download that was cut off, in this process or an earlier one.
    ///
    /// The rest is requested with `If-Range`. An origin that has another version by now, or does not support ranges,
    /// sends the whole file, and the download starts over. The whole file is requested when the received part does not
    /// fit, or the partial file is missing or in use. Any other status fails with `responseInvalid`, and the resume
    /// data stays valid.
    ///
    /// - Parameters:
    ///   - resumeData: from `DownloadTaskDelegate.resumeData` or `cancel(byProducingResumeData:)`.
    ///   - headers: added to those of the first request; they replace fields of the same name. Resume data does not
    ///     contain credentials.
    ///   - destination: the path of the complete file; nil as for any download.
    /// - Throws: `requestInvalid` for what is no resume data.
    public func downloadTask(
        withResumeData resumeData: [UInt8],
        headers: HTTPHeaders = [:],
        destination: DownloadDestination? = nil
    ) throws(SessionError) -> DownloadTask {
        let resumption = try ResumeData(resumeData)
        return try downloadTask(try resumption.request(headers), destination, resuming: resumption)
    }

    /// The same for a new request: its own fields replace those of the first request.
    func downloadTask(
        with request: HTTPSessionRequest,
        resuming resumption: ResumeData,
        destination: DownloadDestination?
    ) throws(SessionError) -> DownloadTask {
        var resuming = request
        resuming.headers = try resumption.request(request.headers).headers
        return try downloadTask(resuming, destination, resuming: resumption)
    }

    private func downloadTask(
        _ request: HTTPSessionRequest,
        _ destination: DownloadDestination?,
        resuming resumption: ResumeData?
    ) throws(SessionError) -> DownloadTask {
        let checked = try thread.check(request)
        let delegate = DownloadTaskDelegate(callbacks: thread.callbacks)
        delegate.destination = destination
        let task = DownloadTask(request, checked, delegate: delegate, session: thread, resumption: resumption)
        try thread.add(task)
        return task
    }

    /// The tasks that are not complete, in the order of their creation.
    public var tasks: [SessionTask] { thread.table.all }
    /// The data tasks among `tasks`, without the uploads.
    public var dataTasks: [DataTask] { tasks.compactMap { $0 is UploadTask ? nil : $0 as? DataTask } }
    /// The upload tasks among `tasks`.
    public var uploadTasks: [UploadTask] { tasks.compactMap { $0 as? UploadTask } }
    /// Cancels all of `tasks`, also those that were never resumed; new tasks can still be made.
    public func cancelAllTasks() {
        for task in tasks { task.cancel() }
    }

    /// The download tasks among `tasks`.
    public var downloadTasks: [DownloadTask] { tasks.compactMap { $0 as? DownloadTask } }

    // MARK: The loop

    /// Runs `work` on the session's loop. `LoopTask`s and their delegates are used there, and must not be used on
    /// another thread. Work that blocks delays every task.
    ///
    /// - Returns: false, and `work` is dropped, when the session has been invalidated.
    @discardableResult
    public func perform(_ work: @escaping @Sendable (LoopSession) -> Void) -> Bool {
        thread.perform { work($0.engine) }
    }

    /// The endpoint of a URL: the same value for the same scheme, host and port. For `SessionRequest`s in `perform`.
    ///
    /// - Throws: `requestInvalid` when the URL is none, or when `serverTrust` refuses it.
    public func endpoint(for url: String) throws(SessionError) -> Endpoint {
        try thread.endpoint(for: RequestURL(url).origin)
    }

    /// Accepts no new tasks, waits for the end of the existing ones (or cancels them), closes all connections, and
    /// returns when the session's own thread has ended. It waits also for tasks that were never resumed: resume or
    /// cancel these. It may be called more than once, and to cancel after waiting has begun.
    public func invalidateSession(cancelingTasks: Bool) async {
        thread.invalidate(cancelingTasks: cancelingTasks)
        await thread.whenEnded()
    }
}
