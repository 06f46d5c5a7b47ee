import HTTPCore
import IOCore

/// One call of `HTTPSessionManager.data`, from any thread to its session's loop.
///
/// `@unchecked Sendable`: what it was made with is immutable; `task` and `isCancelled` are for the loop's thread.
final class DataCall: @unchecked Sendable {
    let url: RequestURL
    private let method: HTTPMethod
    private let fields: HTTPFields
    private let body: [UInt8]?
    private var task: LoopTask?
    private var isCancelled = false

    init(url: RequestURL, method: HTTPMethod, fields: HTTPFields, body: [UInt8]?) {
        self.url = url
        self.method = method
        self.fields = fields
        self.body = body
    }

    func start(
        on manager: LoopSession,
        endpoint: Endpoint,
        limit: Int,
        _ completion: @escaping (Result<DataResponse, SessionError>) -> Void
    ) {
        guard !isCancelled else {
            completion(.failure(SessionError(.cancelled, "The task was cancelled.")))
            return
        }
        let request = SessionRequest(
            endpoint: endpoint,
            method: method,
            target: url.target,
            fields: fields,
            bodyLength: body.map { .bytes($0.count) } ?? .none
        )
        let delegate = CollectingDelegate(body: body ?? [], limit: limit) { [self] result in
            task = nil
            completion(result)
        }
        let started = manager.dataTask(with: request, delegate: delegate)
        task = started
        delegate.begin(started)
        started.resume()
    }

    func cancel() {
        isCancelled = true
        task?.cancel()
    }
}

/// Sends a body that is there as a whole, and collects the answer's.
final class CollectingDelegate: LoopTaskDelegate {
    private let body: [UInt8]
    private var sent = 0
    private let limit: Int
    private var completion: ((Result<DataResponse, SessionError>) -> Void)?
    private var head: ResponseHead?
    private var data: [UInt8] = []
    private var trailers = HTTPFields()
    private var failure: SessionError?

    /// At most so many bytes of the request's body are copied ahead.
    private static let piece = 64 << 10

    init(body: [UInt8], limit: Int, _ completion: @escaping (Result<DataResponse, SessionError>) -> Void) {
        self.body = body
        self.limit = limit
        self.completion = completion
    }

    /// Gives the task the body's first bytes.
    func begin(_ task: LoopTask) {
        if !body.isEmpty { send(task) } else { task.finishSending() }
    }

    private func send(_ task: LoopTask) {
        guard sent < body.count else { return }
        let body = body
        let end = min(body.count, sent + Self.piece)
        task.send(body.span.extracting(sent..<end))
        sent = end
        if sent == body.count { task.finishSending() }
    }

    override func taskNeedsBodyData(_ task: LoopTask) { send(task) }

    override func task(_ task: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        head = copy response
        guard case .length(let count) = response.framing else { return .allow }
        guard count <= limit else {
            failure = tooLarge
            return .cancel
        }
        data.reserveCapacity(count)
        return .allow
    }

    override func task(_ task: LoopTask, didReceive bytes: borrowing Span<UInt8>) -> BodyFlow {
        guard data.count + bytes.count <= limit else {
            failure = tooLarge
            task.cancel()
            return .proceed
        }
        data.append(bytes)
        return .proceed
    }

    override func task(_ task: LoopTask, didReceiveTrailers trailers: borrowing HTTPFields) {
        self.trailers = copy trailers
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        guard let completion else { return }
        self.completion = nil
        if let error = failure ?? error {
            completion(.failure(error))
        } else if let head {
            completion(
                .success(DataResponse(response: head, data: data, trailers: trailers, metrics: task.metrics))
            )
        } else {
            completion(.failure(SessionError(.internal, "The task ended without a response and without an error.")))
        }
    }

    private var tooLarge: SessionError {
        SessionError(.responseTooLarge, "The body is longer than maximumBodySize (\(limit) bytes).")
    }
}
