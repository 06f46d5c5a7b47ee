public import HTTPCore
import IOCore

/// A session for use from anywhere: a `LoopSession` on an event loop thread of its own.
///
/// ```swift
/// let manager = try HTTPSessionManager(serverTrust: SessionTrust(anchors: .system(), policies: policies))
/// let answer = try await manager.data(for: "https://api.example.com/v1/items")
/// await manager.invalidateSession(cancelingTasks: false)
/// ```
///
/// Every member may be called on any thread. Nothing waits on the caller's thread: calls are handed to the loop. When
/// the last reference goes, tasks that are under way are cancelled and the thread ends by itself; a program that ends
/// should `invalidateSession` before, so that no connection is left in the middle of a word.
public final class HTTPSessionManager: Sendable {
    public struct Configuration: Sendable {
        public var session = SessionConfiguration()
        public var timeouts = TaskTimeouts()
        /// Spoken to every `https` host that can; others get HTTP/1.1.
        public var httpVersion = Endpoint.HTTPVersion.http1
        /// Sent with each request that has no field of that name: `User-Agent`, `Accept`. None are added otherwise.
        public var additionalFields = HTTPFields()
        /// The longest body that `data` collects, in bytes; a longer one fails with `responseTooLarge`.
        public var maximumBodySize = 64 << 20

        public init() {}
    }

    public let configuration: Configuration
    public let serverTrust: SessionTrust
    private let thread: SessionThread
    private let wholeLife: LoopThread

    /// Starts the thread.
    ///
    /// - Throws: `internal` when the system has no more threads or descriptors.
    public init(
        configuration: Configuration = Configuration(),
        serverTrust: SessionTrust
    ) throws(SessionError) {
        self.configuration = configuration
        self.serverTrust = serverTrust
        let thread = try SessionThread(configuration: configuration, serverTrust: serverTrust)
        self.thread = thread
        do {
            wholeLife = try LoopThread(name: "SessionCore") { thread.run() }
        } catch {
            throw SessionError(.internal, "The session's thread could not be started: \(error).")
        }
    }

    deinit {
        thread.invalidate(cancelingTasks: true)
        if !thread.isJoined { wholeLife.detach() }
    }

    /// Makes a request and collects the answer. Any status is an answer, 404 and 302 too: redirects are not followed.
    ///
    /// When the Swift task that waits is cancelled, the transfer is, and `cancelled` is thrown.
    ///
    /// - Parameters:
    ///   - url: `http` or `https`, ASCII, percent-encoded as it shall go on the wire (RFC 3986). User information is
    ///     refused; a fragment is not sent.
    ///   - fields: beside `Host` and the framing fields, which are made from `url` and `body`.
    ///   - body: nil for none.
    public func data(
        for url: String,
        method: HTTPMethod = .get,
        fields: HTTPFields = HTTPFields(),
        body: [UInt8]? = nil
    ) async throws(SessionError) -> DataResponse {
        let url = try RequestURL(url)
        var fields = fields
        fields.appendMissing(of: configuration.additionalFields)
        // Judged here, so that what is wrong with a request is told on the caller's stack.
        try SessionRequest.check(method: method, fields: fields)
        let call = DataCall(url: url, method: method, fields: fields, body: body)
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                thread.start(call) { continuation.resume(returning: $0) }
            }
        } onCancel: {
            thread.cancel(call)
        }
        return try result.get()
    }

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
    /// the thread has ended. May be called more than once, and to cancel after waiting has begun.
    public func invalidateSession(cancelingTasks: Bool) async {
        thread.invalidate(cancelingTasks: cancelingTasks)
        await withCheckedContinuation { thread.whenEnded($0) }
        // It has nothing left to do but to return.
        if thread.takeJoin() { wholeLife.join() }
    }
}

/// A whole answer.
public struct DataResponse: Sendable {
    /// Status, version and fields.
    public let response: ResponseHead
    /// The body, without any transfer coding.
    public let data: [UInt8]
    /// The trailer section (RFC 9110, section 6.5); empty for most answers.
    public let trailers: HTTPFields
    public let metrics: TaskMetrics
}
