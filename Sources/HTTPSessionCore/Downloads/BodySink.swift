// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// The receiver of a response body. Belongs to the loop.
class BodySink {
    enum Reception {
        case accept
        /// End the task with this error.
        case end(SessionError)
        /// Discard this response, and send that request.
        case ask(HTTPSessionRequest)
        /// A download task continues the transfer.
        case becomeDownload
    }

    enum AppendResult {
        case more
        /// Appended, but no more for now: the sink calls `TaskExecution.receiveAgain` later.
        case pause
        case failed(SessionError)
    }

    /// Whether `prepare` and `finish` have something to do: the others are not asked.
    var hasEnds: Bool { false }

    /// Prepares for the first request; `go` is called with the request to send in its place, or with nil.
    func prepare(
        _ request: borrowing HTTPSessionRequest,
        then go: @escaping @Sendable (_ replacement: HTTPSessionRequest?) -> Void
    ) {
        go(nil)
    }

    /// Whether the sink gives the bodies of requests, in place of `RequestBody`: those of another protocol.
    var givesBody: Bool { false }

    /// Completes a request that is about to be sent. Called for each hop.
    func prepare(_ request: inout SessionRequest) {}

    /// The hop of that request begins; of a sink that gives its body.
    func begin(_ hop: LoopTask) {}

    /// The hop has sent what it was given.
    func needsBodyData() {}

    /// Receives the head of the final response.
    func receiveHead(_ head: ResponseHead, expected: Int?) -> Reception { .accept }

    func append(_ bytes: borrowing Span<UInt8>) -> AppendResult { .more }

    func didReceiveTrailers(_ trailers: HeaderFields) {}

    /// Receives the end of the task; `done` is called with the error that the task ends with.
    func finish(_ error: SessionError?, then done: @escaping @Sendable (SessionError?) -> Void) { done(error) }
}

/// Passes the body of a data task's response to the task's delegate.
final class DataSink: BodySink {
    private let task: DataTask
    private let session: SessionThread
    private let own: DataTaskDelegate

    init(_ task: DataTask) {
        self.task = task
        session = task.session
        own = task.dataDelegate
    }

    override func receiveHead(_ head: ResponseHead, expected: Int?) -> Reception {
        let hook = own.dataTaskDidReceiveResponse ?? session.hookBox.hooks.dataTaskDidReceiveResponse
        switch hook?(task, head) ?? .allow {
        case .cancel: return .end(.taskCancelled)
        case .becomeDownload: return own.isOfRequest ? .end(own.cannotBecomeDownload) : .becomeDownload
        case .allow: break
        }
        guard let expected, expected > 0 else { return .accept }
        return own.expect(expected) ? .accept : .end(own.tooLarge)
    }

    /// Whether the task has been cancelled. The loop carries out a cancellation by another thread, or by a hook, after
    /// the bytes that it already has; those are not delivered any more.
    private var isCancelled: Bool { task.isCancelled }

    override func append(_ bytes: borrowing Span<UInt8>) -> AppendResult {
        guard !isCancelled else { return .failed(.taskCancelled) }
        let appended = own.append(bytes)
        if appended == .tooLong { return .failed(own.tooLarge) }
        let count = Int64(bytes.count)
        let isReported = own.reportReceived(task.count { $0.received += count })
        let hook = session.hookBox.hooks.dataTaskDidReceiveData
        hook?(task, [UInt8](copying: bytes))
        // The program's code may just have cancelled it.
        return (isReported || hook != nil || appended == .passedOn) && isCancelled ? .failed(.taskCancelled) : .more
    }

    override func didReceiveTrailers(_ trailers: HeaderFields) { own.didReceiveTrailers(trailers) }
}

/// Hands the body of a data task to a `ByteStream`. Belongs to the loop.
final class StreamSink: BodySink {
    private let task: DataTask
    private let stream: ByteStream
    private let validation: ResponseValidation

    init(_ task: DataTask, _ stream: ByteStream, _ validation: ResponseValidation) {
        self.task = task
        self.stream = stream
        self.validation = validation
    }

    override func receiveHead(_ head: ResponseHead, expected: Int?) -> Reception {
        let hook =
            task.dataDelegate.dataTaskDidReceiveResponse ?? task.session.hookBox.hooks.dataTaskDidReceiveResponse
        switch hook?(task, head) ?? .allow {
        case .cancel: return .end(.taskCancelled)
        case .becomeDownload: return .end(task.dataDelegate.cannotBecomeDownload)
        case .allow: break
        }
        if let reason = validation.fault(of: head) { return .end(SessionError(.responseInvalid, "\(reason)")) }
        stream.didReceive(head)
        return .accept
    }

    override func append(_ bytes: borrowing Span<UInt8>) -> AppendResult {
        guard !task.isCancelled else { return .failed(.taskCancelled) }
        let count = Int64(bytes.count)
        let isReported = task.dataDelegate.reportReceived(task.count { $0.received += count })
        switch stream.append(bytes) {
        case .more: return isReported && task.isCancelled ? .failed(.taskCancelled) : .more
        case .full: return .pause
        case .tooMuch:
            return .failed(
                SessionError(
                    .responseTooLarge,
                    "A piece of the body decodes to more than \(ByteStream.hardLimit) bytes."
                )
            )
        }
    }

    override func didReceiveTrailers(_ trailers: HeaderFields) { task.dataDelegate.didReceiveTrailers(trailers) }
}
