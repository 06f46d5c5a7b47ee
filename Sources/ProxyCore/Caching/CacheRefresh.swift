import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

/// A stored answer that is made fresh in the background, after a client got it stale (`stale-while-revalidate`, RFC 5861).
///
/// Each request of it goes out under the policy of that moment, if that is the one that the stored answer is bound to; else
/// the refresh is given up. It has a line in the task log.
final class CacheRefresh: LoopTaskDelegate {
    let transaction: CacheTransaction
    let logPrefix: [UInt8]
    private let worker: Worker
    private let listener: WorkerListener
    /// What the configuration has put into the request.
    private let headers: FieldChanges
    /// A rule for redirects may have put something into it, too.
    private let isHop: Bool
    private var request: SessionRequest
    /// Under which the endpoint of the request was found.
    private var generation: Generation
    private let startedWall: Int64
    private var phase = Phase.asking
    private(set) var status = 0
    private(set) var bytesReceived = 0
    private(set) var error: SessionError?
    /// How often a reload has ended its request before that went out.
    private var restarts = 0

    private enum Phase {
        case asking, storing, dropping
        case again(HTTPFields)
    }

    private static let restartLimit = 4

    /// The exchange's part of a refresh: where the stale response is served.
    struct Setting {
        let worker: Worker
        let listener: WorkerListener
        let generation: Generation
        let route: Route
        /// The request follows a redirect.
        let isHop: Bool
    }

    /// Asks the origin, unless another one does already.
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

    /// Where the request went, and when.
    var target: [UInt8] { request.target }
    var startTime: Int64 { startedWall }

    /// Where it goes under the policy of this moment; nil when it is not to go on.
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
            // What was stored is fresh again, or stays as it is.
            case .answer, .gatewayTimeout: break
            }
        }
        return .allow
    }

    override func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        bytesReceived += data.count
        switch phase {
        case .storing:
            transaction.didReceiveBody(data)
            // There is no client for what is not stored, and it may have no end.
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
                // A task that a retired session has given back has asked nobody.
                if error == nil { worker.log(self, task) }
                return send(to: endpoint)
            }
            // The log says it of the request that was the last.
            self.error = SessionError(
                .cancelled,
                "The refresh was given up: a reload has changed the policy for the stored answer."
            )
        }
        worker.log(self, task)
        switch phase {
        case .asking:
            // One that was given up says nothing of the server.
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
    /// What the configuration puts into requests.
    fileprivate var requestHeaders: FieldChanges { hooks?.headers.request ?? FieldChanges() }
}
