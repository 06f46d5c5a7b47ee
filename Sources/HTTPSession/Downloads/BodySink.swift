import HTTPCore
import SessionCore

/// Where the body of a task's answer goes. Belongs to the loop.
class BodySink {
    enum Reception {
        case accept
        /// End the task; nothing went wrong but what the error says.
        case end(SessionError)
        /// Not this answer: the one to that request.
        case ask(HTTPRequest)
        /// Let a download have it.
        case becomeDownload
    }

    enum AppendResult {
        case more
        /// Appended, but no more for now: the sink calls `TaskExecution.receiveAgain` later.
        case pause
        case failed(SessionError)
    }

    /// Makes ready for the first request, which may be another than was asked for.
    func prepare(_ request: HTTPRequest, then go: @escaping @Sendable (Result<HTTPRequest, SessionError>) -> Void) {
        go(.success(request))
    }

    /// The head of the answer that counts.
    func receive(_ head: ResponseHead, expected: Int?) -> Reception { .accept }

    func append(_ bytes: borrowing Span<UInt8>) -> AppendResult { .more }

    func didReceiveTrailers(_ trailers: HTTPFields) {}

    /// The task ends, well or with an error; `done` is called with how it ends in the end.
    func finish(_ error: SessionError?, then done: @escaping @Sendable (SessionError?) -> Void) { done(error) }
}

/// The body of a data task's answer goes to the task's delegate.
final class DataSink: BodySink {
    private let task: DataTask
    private let session: SessionThread
    private var own: DataTaskDelegate { task.dataDelegate }

    init(_ task: DataTask) {
        self.task = task
        session = task.session
    }

    override func receive(_ head: ResponseHead, expected: Int?) -> Reception {
        let hook = own.dataTaskDidReceiveResponse ?? session.hookBox.hooks.dataTaskDidReceiveResponse
        switch hook?(task, head) ?? .allow {
        case .cancel: return .end(.taskCancelled)
        case .becomeDownload: return .becomeDownload
        case .allow: break
        }
        guard let expected, expected > 0 else { return .accept }
        guard expected <= own.limitOfCollection else { return .end(own.tooLarge) }
        own.expect(expected)
        return .accept
    }

    /// Who cancels the task on another thread, or as it is told of bytes, is told of no more: what cancels it on the loop
    /// comes later than these.
    private var isCancelled: Bool { task.state == .canceling }

    override func append(_ bytes: borrowing Span<UInt8>) -> AppendResult {
        guard !isCancelled else { return .failed(.taskCancelled) }
        guard own.append(bytes) else { return .failed(own.tooLarge) }
        let count = Int64(bytes.count)
        let counts = task.count { $0.received += count }
        own.report(counts)
        if let hook = session.hookBox.hooks.dataTaskDidReceiveData { hook(task, [UInt8](copying: bytes)) }
        return isCancelled ? .failed(.taskCancelled) : .more
    }

    override func didReceiveTrailers(_ trailers: HTTPFields) { own.didReceiveTrailers(trailers) }
}
