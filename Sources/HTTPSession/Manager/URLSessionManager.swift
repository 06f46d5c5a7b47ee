public import HTTPCore
import IOCore
public import SessionCore

/// Makes tasks and carries them out: what `AFURLSessionManager` is on Apple's systems.
///
/// ```swift
/// let manager = try URLSessionManager(serverTrust: SessionTrust(anchors: .system(), policies: policies))
/// manager.taskDidComplete = { task, error in print(task.taskIdentifier, error ?? "done") }
/// let task = try manager.dataTask(with: HTTPRequest(url: "https://api.example.com/v1/items"))
/// let response = try await task.value()
/// await manager.invalidateSession(cancelingTasks: false)
/// ```
///
/// Every member may be called on any thread, and none waits. When the last reference goes, tasks that are under way are
/// cancelled and the thread ends by itself; a program that ends should `invalidateSession` before, so that no connection
/// is left in the middle of a word.
///
/// Hooks are properties of the manager: see `SessionHooks`.
@dynamicMemberLookup
public final class URLSessionManager: Sendable {
    /// What a session does where a request says nothing else. It holds for the session's whole life.
    public struct Configuration: Sendable {
        /// How many connections there are, and how long they are kept.
        public var session = SessionConfiguration()
        /// How long a task may take; `HTTPRequest.timeouts` goes before.
        public var timeouts = TaskTimeouts()
        /// Spoken to every `https` host that can; others get HTTP/1.1.
        public var httpVersion = Endpoint.HTTPVersion.http1
        /// Sent with each request that has no field of that name: `User-Agent`, `Accept`. None are added otherwise.
        public var additionalFields = HTTPFields()
        /// Whether data and upload tasks ask for gzip and deflate, and undo them. Requests that say `Accept-Encoding`
        /// or `Range` themselves are left alone, and get what the server sends; so do downloads, which may have to go on
        /// in the middle. An answer that is decoded has no expected length: `Content-Length` is that of the coding.
        public var decodesContent = true
        /// The longest body that a data task collects, in bytes; a longer one fails with `responseTooLarge`.
        public var maximumBodySize = 64 << 20
        /// Where completion handlers, progress handlers and notifications come that name no queue; nil for a thread of
        /// the session's own.
        public var callbackQueue: CallbackQueue?
        /// What is proposed when servers ask who we are, and what they have taken; nil to remember nothing.
        public var credentialStorage: CredentialStorage? = CredentialStorage()
        /// What servers set, and what is sent back to them (RFC 6265); a request with a `Cookie` of its own is left
        /// alone. Nil: cookies are neither taken nor sent.
        public var cookieStorage: CookieStorage?
        /// Where answers to data tasks are kept for later ones; nil: nowhere. None is shared by itself.
        public var cache: SessionCache?
        /// What is wanted of `cache` by requests that do not say it.
        public var cachePolicy = CachePolicy.useProtocolCachePolicy
        /// What all connections go through; nil for none. Variables of the environment are not looked at.
        public var proxy: SessionProxy?
        /// Whether a task that finds no network waits for one instead of failing with `dnsFailed` or `connectFailed`; at
        /// most for `timeouts.total`. See `SessionHooks.taskIsWaitingForConnectivity`.
        public var waitsForConnectivity = false
        var connectivity = ConnectivityWait.routes
        /// Where downloads are written before they are moved, in files of this user's alone. Nil: the folder that
        /// `TMPDIR` names, or `/var/tmp`, which outlives a restart of the system. Resume data holds only in the same
        /// folder.
        public var temporaryFolder: String?
        /// Hosts whose connections go to a fixed place; the TLS name and the policy stay those of the host.
        package var resolve: [Host: (host: Host, port: UInt16)] = [:]
        /// Finds endpoints in place of `serverTrust`, `resolve`, `timeouts` and `httpVersion`: for a program that has
        /// rules of its own. Asked once for each origin; of `serverTrust`, the pinned hosts still count for redirects.
        package var endpoints: (@Sendable (Origin) -> Result<Endpoint, SessionError>)?

        /// The defaults that stand with each property.
        public init() {}
    }

    /// What the session was made with.
    public let configuration: Configuration
    /// Which server has to prove what. It does not change: for other policies, make another session.
    public let serverTrust: SessionTrust
    let thread: SessionThread

    /// - Parameters:
    ///   - configuration: what holds for all tasks that do not say otherwise.
    ///   - serverTrust: which server has to prove what.
    ///   - loop: the thread to share with other sessions; nil for one of its own.
    /// - Throws: `internal` when the system has no more threads or descriptors.
    public init(
        configuration: Configuration = Configuration(),
        serverTrust: SessionTrust,
        loop: SessionLoop? = nil
    ) throws(SessionError) {
        self.configuration = configuration
        self.serverTrust = serverTrust
        thread = try SessionThread(configuration: configuration, serverTrust: serverTrust, home: loop)
    }

    deinit {
        thread.invalidate(cancelingTasks: true)
    }

    // MARK: Hooks

    /// All of them at once.
    public var hooks: SessionHooks {
        get { thread.hooks }
        set { thread.hooks = newValue }
    }

    /// One of them: `manager.taskDidComplete = { … }`.
    public subscript<Hook>(dynamicMember hook: WritableKeyPath<SessionHooks, Hook>) -> Hook {
        get { thread.hooks[keyPath: hook] }
        set { thread.changeHooks { $0[keyPath: hook] = newValue } }
    }

    /// Has `observer` told, on the session's callback queue, what notifications tell of; as long as the session lives.
    package func observe(_ observer: @escaping @Sendable (SessionEvent) -> Void) { thread.observe(observer) }

    // MARK: Tasks

    /// A task that collects the answer's body, or hands it on (`DataTaskDelegate.dataStream`). Any status is an answer.
    ///
    /// - Throws: `requestInvalid` when the request cannot be sent, `cancelled` when the session has been invalidated.
    public func dataTask(with request: HTTPRequest) throws(SessionError) -> DataTask {
        try check(request)
        let delegate = DataTaskDelegate(limit: configuration.maximumBodySize, callbacks: thread.callbacks)
        let task = DataTask(request, delegate: delegate, session: thread)
        try thread.add(task)
        return task
    }

    /// The same, with what to do at the end, on the session's callback queue.
    public func dataTask(
        with request: HTTPRequest,
        completionHandler: @escaping @Sendable (Result<DataResponse, SessionError>) -> Void
    ) throws(SessionError) -> DataTask {
        let task = try dataTask(with: request)
        task.onCompletion(completionHandler)
        return task
    }

    /// A task that sends a file.
    ///
    /// - Throws: also when the file cannot be read.
    public func uploadTask(with request: HTTPRequest, fromFile path: String) throws(SessionError) -> UploadTask {
        var request = request
        request.body = .source(try .file(path))
        return try uploadTask(request, isStreamed: false)
    }

    /// A task that sends bytes.
    public func uploadTask(with request: HTTPRequest, from bytes: [UInt8]) throws(SessionError) -> UploadTask {
        var request = request
        request.body = .bytes(bytes)
        return try uploadTask(request, isStreamed: false)
    }

    /// A task that sends what `taskNeedNewBodyStream` gives, or the request's own body where the hook gives nothing.
    public func uploadTask(withStreamedRequest request: HTTPRequest) throws(SessionError) -> UploadTask {
        try uploadTask(request, isStreamed: true)
    }

    func uploadTask(_ request: HTTPRequest, isStreamed: Bool) throws(SessionError) -> UploadTask {
        try check(request)
        let delegate = UploadTaskDelegate(limit: configuration.maximumBodySize, callbacks: thread.callbacks)
        let task = UploadTask(request, delegate: delegate, session: thread, isStreamed: isStreamed)
        try thread.add(task)
        return task
    }

    /// A task that writes the answer's body to a file. Any status is an answer.
    ///
    /// - Parameters:
    ///   - request: whose answer is to be written.
    ///   - destination: where the file goes when it is whole; nil: `downloadTaskDidFinishDownloading` tells, or it stays
    ///     in the session's temporary folder.
    public func downloadTask(
        with request: HTTPRequest,
        destination: DownloadDestination? = nil
    ) throws(SessionError) -> DownloadTask {
        try downloadTask(request, destination, resuming: nil)
    }

    /// A task that goes on with a download that broke off, in this process or an earlier one.
    ///
    /// The rest is asked for with `If-Range`. An origin that has another version by now, or knows no ranges, sends the
    /// whole, and the download starts over; where a part does not fit, or the partial file is gone or in use, the whole
    /// is asked for. Any other status fails with `responseInvalid`, and leaves the resume data as it is.
    ///
    /// - Parameters:
    ///   - resumeData: of `DownloadTaskDelegate.resumeData` or `cancel(byProducingResumeData:)`.
    ///   - fields: sent beside those of the first request, and in their place where the names are the same. Credentials
    ///     are not part of the resume data.
    ///   - destination: where the file goes when it is whole; nil as for any download.
    /// - Throws: `requestInvalid` for what is no resume data.
    public func downloadTask(
        withResumeData resumeData: [UInt8],
        fields: HTTPFields = HTTPFields(),
        destination: DownloadDestination? = nil
    ) throws(SessionError) -> DownloadTask {
        let resumption = try ResumeData(resumeData)
        return try downloadTask(try resumption.request(fields), destination, resuming: resumption)
    }

    /// The same for a request that was made anew: its own fields go before those of the first.
    func downloadTask(
        with request: HTTPRequest,
        resuming resumption: ResumeData,
        destination: DownloadDestination?
    ) throws(SessionError) -> DownloadTask {
        var resuming = request
        resuming.fields = try resumption.request(request.fields).fields
        return try downloadTask(resuming, destination, resuming: resumption)
    }

    private func downloadTask(
        _ request: HTTPRequest,
        _ destination: DownloadDestination?,
        resuming resumption: ResumeData?
    ) throws(SessionError) -> DownloadTask {
        try check(request)
        let delegate = DownloadTaskDelegate(callbacks: thread.callbacks)
        delegate.destination = destination
        let task = DownloadTask(request, delegate: delegate, session: thread, resumption: resumption)
        try thread.add(task)
        return task
    }

    /// What is wrong with a request is told on the caller's stack.
    private func check(_ request: HTTPRequest) throws(SessionError) {
        let url = try RequestURL(request.url)
        var fields = request.fields
        fields.appendMissing(of: configuration.additionalFields)
        try SessionRequest.check(method: request.method, fields: fields)
        _ = try thread.endpoint(for: url)
    }

    /// The tasks that are not complete, in the order in which they were made.
    public var tasks: [SessionTask] { thread.table.all }
    /// Those of `tasks` that are data tasks, uploads not among them.
    public var dataTasks: [DataTask] { tasks.compactMap { $0 is UploadTask ? nil : $0 as? DataTask } }
    /// Those of `tasks` that send a body.
    public var uploadTasks: [UploadTask] { tasks.compactMap { $0 as? UploadTask } }
    /// Cancels all of `tasks`, those that were not resumed among them; new ones may be made.
    public func cancelAllTasks() {
        for task in tasks { task.cancel() }
    }

    /// Those of `tasks` that write to a file.
    public var downloadTasks: [DownloadTask] { tasks.compactMap { $0 as? DownloadTask } }

    // MARK: The loop

    /// Does something with the session on its loop: `LoopTaskDelegate`s, streaming and all of `LoopTask` are used there,
    /// and must not be taken elsewhere. Work that blocks holds up every task.
    ///
    /// - Returns: false, and `work` is dropped, when the session has been invalidated.
    @discardableResult
    public func perform(_ work: @escaping @Sendable (LoopSession) -> Void) -> Bool {
        thread.perform { work($0.manager) }
    }

    /// Where requests for a URL go, and what is asked of the server there: the same value for the same scheme, host
    /// and port. For `SessionRequest`s in `perform`.
    ///
    /// - Throws: `requestInvalid` when the URL is none, or when `serverTrust` refuses it.
    public func endpoint(for url: String) throws(SessionError) -> Endpoint {
        try thread.endpoint(for: RequestURL(url))
    }

    /// Takes no new tasks, lets those that are there end (or cancels them), closes all connections, and returns when
    /// all is over, with the session's own thread. A task that was never resumed is waited for too: resume it, or cancel
    /// it. May be called more than once, and to cancel after waiting has begun.
    public func invalidateSession(cancelingTasks: Bool) async {
        thread.invalidate(cancelingTasks: cancelingTasks)
        await thread.whenEnded()
    }
}
