import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

/// A background refresh of a stored response that a client received stale (`stale-while-revalidate`, RFC 5861).
///
/// Each of its requests is sent under the current policy, if the stored response is bound to that policy; otherwise the
/// refresh is given up. It has a line in the task log.
final class CacheRefresh: LoopTaskDelegate {
    let transaction: CacheTransaction
    let logPrefix: [UInt8]
    private let worker: Worker
    private let listener: WorkerListener
    /// The fields that the configuration adds to the request.
    private let headers: FieldChanges
    /// The request follows a redirect, whose rule may have added fields too.
    private let isHop: Bool
    private var request: SessionRequest
    /// The generation that the request's endpoint was found in.
    private var generation: Generation
    private let startedWall: Int64
    private var phase = Phase.asking
    private(set) var status = 0
    private(set) var bytesReceived = 0
    private(set) var error: SessionError?
    /// The number of reloads that ended the request before it was sent.
    private var restarts = 0

    private enum Phase {
        case asking, storing, dropping
        case again(HTTPFields)
    }

    private static let restartLimit = 4

    /// The circumstances under which the stale response is served.
    struct Setting {
        let worker: Worker
        let listener: WorkerListener
        let generation: Generation
        let route: Route
        /// The request follows a redirect.
        let isHop: Bool
    }

    /// Sends a request to the origin, unless another refresh is under way.
    static func start(_ served: CacheTransaction, like request: SessionRequest, _ setting: Setting) {
        var request = request
        request.method = .get
        request.timeouts = nil
        request.isRepetition = false
        let refreshing = served.refresh { request.fields = $0 }
        guard let refreshing else { return }
        let refresh = CacheRefresh(refreshing, request, setting)
        refresh.send(to: request.endpoint)
    }

    private init(
        _ transaction: CacheTransaction,
        _ request: SessionRequest,
        _ setting: Setting
    ) {
        self.transaction = transaction
        self.request = request
        generation = setting.generation
        worker = setting.worker
        listener = setting.listener
        isHop = setting.isHop
        logPrefix = setting.route.logPrefix
        headers = setting.route.requestHeaders
        startedWall = worker.loop.wallClock
        super.init()
    }

    /// The target and the start time of the request.
    var target: [UInt8] { request.target }
    var startTime: Int64 { startedWall }

    /// The endpoint under the current policy; nil when the refresh must be given up.
    private func endpoint() -> Endpoint? {
        if generation === worker.generation { return request.endpoint }
        guard !isHop else { return nil }
        let route = listener.route(toHop: request.endpoint.origin, under: worker.generation.router)
        guard worker.cache === transaction.cache, case .origin(let endpoint) = route.destination,
            endpoint.origin == request.endpoint.origin,
            route.cache?.digest(at: worker.loop.wallClock / 1_000_000) == transaction.digest,
            route.requestHeaders == headers
        else { return nil }
        return endpoint
    }

    private func send(to endpoint: Endpoint) {
        phase = .asking
        bytesReceived = 0
        request.endpoint = endpoint
        generation = worker.generation
        generation.manager.dataTask(with: request, delegate: self).resume()
    }

    override func task(_ task: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        status = response.status
        var length: Int?
        if case .length(let count) = response.framing { length = count }
        phase = .dropping
        transaction.didReceiveHead(
            status: response.status,
            response.fields,
            length: length,
            mayStore: task.mayStoreResponse,
            endIsSure: request.endIsSure(response)
        ) { [weak self] step in
            guard let self else { return }
            switch step {
            case .relay: if transaction.isStoring { phase = .storing }
            case .again(let fields): phase = .again(fields)
            // The stored response is fresh again, or unchanged.
            case .respond, .gatewayTimeout: break
            }
        }
        return .allow
    }

    override func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        bytesReceived += data.count
        switch phase {
        case .storing:
            transaction.didReceiveBody(data)
            // Without storing, the body has no receiver, and it may have no end.
            if !transaction.isStoring { task.cancel() }
        case .dropping, .again:
            if bytesReceived > UnwantedBody.limit { task.cancel() }
        case .asking: break
        }
        return .proceed
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        self.error = error
        if sendsAgain(error) {
            request.isRepetition = task.wasRepeated
            if let endpoint = endpoint() {
                // A task that a retired session gives back has sent nothing.
                if error == nil { worker.log(self, task) }
                return send(to: endpoint)
            }
            // The log line of the last request holds the reason.
            self.error = SessionError(
                .cancelled,
                "The refresh was given up: a reload has changed the policy for the stored response."
            )
        }
        worker.log(self, task)
        switch phase {
        case .asking:
            // A refresh that was given up shows nothing about the server.
            if let error = self.error, error.code != .cancelled, error.code != .sessionInvalidated {
                transaction.originDidFail(error.originFailure) { _ in }
            }
            transaction.cancel()
        case .storing: transaction.didEnd(isWhole: error == nil)
        case .again, .dropping: transaction.cancel()
        }
    }

    /// Whether another request follows the one that is over.
    private func sendsAgain(_ error: SessionError?) -> Bool {
        switch phase {
        case .asking:
            guard error?.code == .sessionInvalidated else { return false }
            restarts += 1
            return restarts <= Self.restartLimit
        case .again(let fields):
            guard error == nil else { return false }
            request.fields = fields
            return true
        case .storing, .dropping: return false
        }
    }
}

extension Route {
    /// The fields that the configuration adds to requests.
    fileprivate var requestHeaders: FieldChanges { hooks?.headers.request ?? FieldChanges() }
}
