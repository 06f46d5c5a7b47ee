// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import IOCore
import SessionCore

/// Collects a data task's body, or passes it on as it arrives.
///
/// `@unchecked Sendable`: `collected` is accessed with `lock` held, and `limit` does not change.
public class DataTaskDelegate: TaskDelegate, @unchecked Sendable {
    private let limit: Int
    /// Behind `lock`.
    private var collected = Collected()

    private struct Collected {
        var data: [UInt8]?
        var trailers = HeaderFields()
        var hooks = Hooks()
        var consumer: (ByteStream, ResponseValidation)?
        var isOfRequest = false
    }

    private struct Hooks {
        var stream: (@Sendable ([UInt8]) -> Void)?
        var response: (@Sendable (DataTask, ResponseHead) -> DataTaskDisposition)?
        var caching: SessionHooks.WillCache?

        var isEmpty: Bool { stream == nil && response == nil && caching == nil }
    }

    /// - Parameter limit: the longest body that is collected, in bytes.
    init(limit: Int, callbacks: CallbackQueue) {
        self.limit = limit
        super.init(callbacks: callbacks)
    }

    /// The received part of the body; nil before its first byte, and with `dataStream`.
    public override var data: [UInt8]? { lock.withLock { collected.data } }
    /// The trailer section (RFC 9110, section 6.5); empty for most responses.
    public var trailers: HeaderFields { lock.withLock { collected.trailers } }

    /// Receives the body's bytes on the loop as they arrive; then nothing is collected, and there is no limit. It is
    /// not called after the task has been cancelled. Set it before `resume()`.
    public var dataStream: (@Sendable (_ data: [UInt8]) -> Void)? {
        get { lock.withLock { collected.hooks.stream } }
        set { unlessComplete { exchange(&collected.hooks.stream, with: newValue) } }
    }

    /// `SessionHooks.dataTaskDidReceiveResponse`, of this task: called instead of the session's when the final head has
    /// been received. On the session's loop; it must not block.
    public var dataTaskDidReceiveResponse:
        (@Sendable (_ task: DataTask, _ response: ResponseHead) -> DataTaskDisposition)?
    {
        get { lock.withLock { collected.hooks.response } }
        set { unlessComplete { exchange(&collected.hooks.response, with: newValue) } }
    }

    /// `SessionHooks.dataTaskWillCacheResponse`, of this task: called instead of the session's. On the session's loop;
    /// it must not block.
    public var dataTaskWillCacheResponse: SessionHooks.WillCache? {
        get { lock.withLock { collected.hooks.caching } }
        set { unlessComplete { exchange(&collected.hooks.caching, with: newValue) } }
    }

    /// Sets the handler of the body's progress, called on `queue`; nil for the session's callback queue.
    public func setProgressHandler(
        on queue: CallbackQueue? = nil,
        _ handler: (@Sendable (_ progress: TaskProgress) -> Void)?
    ) {
        receiving.setHandler(handler, on: queue ?? callbacks)
    }

    // MARK: For TaskExecution

    override func takeHooks() -> Any? {
        guard !collected.hooks.isEmpty else { return nil }
        defer { collected.hooks = Hooks() }
        return collected.hooks
    }

    override func reset() {
        collected.data = nil
        collected.trailers = HeaderFields()
    }

    /// A body of that length is to come.
    ///
    /// - Returns: false when that exceeds the limit.
    func expect(_ count: Int) -> Bool {
        lock.withLock {
            guard collected.hooks.stream == nil else { return true }
            guard count <= limit else { return false }
            collected.data = []
            collected.data?.reserveCapacity(count)
            return true
        }
    }

    /// Takes the body of an accepted response; nil: it is collected. Set before the task is resumed.
    var stream: (ByteStream, ResponseValidation)? {
        get { lock.withLock { collected.consumer } }
        set { lock.withLock { collected.consumer = newValue } }
    }

    /// Whether a `DataRequest` waits for the body. Set before the task is resumed.
    var isOfRequest: Bool {
        get { lock.withLock { collected.isOfRequest } }
        set { lock.withLock { collected.isOfRequest = newValue } }
    }

    enum Appended {
        case collected
        /// The program's own code has got the bytes.
        case passedOn
        /// The body exceeds the limit.
        case tooLong
    }

    func append(_ bytes: borrowing Span<UInt8>) -> Appended {
        // A closure cannot capture the span.
        lock.lock()
        if let stream = collected.hooks.stream {
            lock.unlock()
            stream([UInt8](copying: bytes))
            return .passedOn
        }
        defer { lock.unlock() }
        let count = collected.data?.count ?? 0
        guard count + bytes.count <= limit else { return .tooLong }
        if collected.data == nil { collected.data = [] }
        collected.data?.append(bytes)
        return .collected
    }

    func didReceiveTrailers(_ trailers: HeaderFields) {
        lock.withLock { collected.trailers = trailers }
    }

    var cannotBecomeDownload: SessionError {
        SessionError(
            .requestInvalid,
            "A hook made a download of a request whose body its caller waits for. Use HTTPSessionManager.download, or a task."
        )
    }

    var tooLarge: SessionError {
        SessionError(.responseTooLarge, "The body is longer than maximumBodySize (\(limit) bytes).")
    }

    func result(of task: DataTask) -> Result<DataResponse, SessionError> {
        let (ending, data, trailers) = lock.withLock { (self.ending, collected.data, collected.trailers) }
        if let error = ending.error { return .failure(error) }
        let (response, request) = task.outcome
        guard let response, let metrics = ending.metrics else {
            return .failure(SessionError(.internal, "The task ended without a response and without an error."))
        }
        return .success(
            DataResponse(response: response, url: request.url, data: data ?? [], trailers: trailers, metrics: metrics)
        )
    }
}

/// The delegate of an upload task: a data task's delegate with the progress of the request's body.
///
/// `@unchecked Sendable`: `sentHook` is accessed with `lock` held.
public final class UploadTaskDelegate: DataTaskDelegate, @unchecked Sendable {
    /// Behind `lock`.
    private var sentHook: (@Sendable (SessionTask, Int64, Int64, Int64?) -> Void)?

    /// Sets the handler of the request body's progress, called on `queue`; nil for the session's callback queue.
    public func setUploadProgressHandler(
        on queue: CallbackQueue? = nil,
        _ handler: (@Sendable (_ progress: TaskProgress) -> Void)?
    ) {
        sending.setHandler(handler, on: queue ?? callbacks)
    }

    /// `SessionHooks.taskDidSendBodyData`, of this task: called instead of the session's when bytes have been handed to
    /// the connection. Counts are bytes of the body; `expected` is nil when its length is not known beforehand.
    public var taskDidSendBodyData:
        (@Sendable (_ task: SessionTask, _ bytesSent: Int64, _ totalBytesSent: Int64, _ expected: Int64?) -> Void)?
    {
        get { lock.withLock { sentHook } }
        set { unlessComplete { exchange(&sentHook, with: newValue) } }
    }

    override func takeHooks() -> Any? {
        let others = super.takeHooks()
        guard let sentHook = sentHook.take() else { return others }
        return (sentHook, others)
    }
}
