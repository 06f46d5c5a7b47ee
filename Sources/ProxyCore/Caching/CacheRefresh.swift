import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

/// A stored answer that is made fresh in the background, after a client got it stale (`stale-while-revalidate`, RFC 5861).
///
/// It goes out under the policy that its client's request went under, and has a line in the task log.
final class CacheRefresh: LoopTaskDelegate {
    let transaction: CacheTransaction
    let logPrefix: [UInt8]
    private let worker: Worker
    private let manager: LoopSession
    private var request: SessionRequest
    private let startedWall: Int64
    private var phase = Phase.asking
    private(set) var status = 0
    private(set) var bytesReceived = 0
    private(set) var error: SessionError?

    private enum Phase {
        case asking, storing, dropping
        case again(HTTPFields)
    }

    /// Asks the origin, unless another one does already.
    static func begin(_ served: CacheTransaction, like request: SessionRequest, for exchange: Exchange) {
        guard let generation = exchange.generation else { return }
        var request = request
        request.method = .get
        let refreshing = served.refresh { request.fields = $0 }
        guard let refreshing else { return }
        let route = exchange.hooks?.route ?? exchange.route
        CacheRefresh(refreshing, request, generation.manager, exchange.worker, route?.logPrefix ?? []).send()
    }

    private init(
        _ transaction: CacheTransaction,
        _ request: SessionRequest,
        _ manager: LoopSession,
        _ worker: Worker,
        _ logPrefix: [UInt8]
    ) {
        self.transaction = transaction
        self.request = request
        self.manager = manager
        self.worker = worker
        self.logPrefix = logPrefix
        startedWall = worker.loop.wallClock
        super.init()
    }

    /// Where the request went, and when.
    var target: [UInt8] { request.target }
    var startTime: Int64 { startedWall }

    private func send() {
        phase = .asking
        manager.dataTask(with: request, delegate: self).resume()
    }

    override func task(_ task: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        status = response.status
        var length: Int?
        if case .length(let count) = response.framing { length = count }
        phase = .dropping
        transaction.originAnswered(
            status: response.status,
            response.fields,
            length: length,
            mayStore: task.mayKeepAnswer,
            endIsSure: request.endIsSure(response)
        ) { [unowned self] step in
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
            transaction.body(data)
            // There is no client for what is not stored, and it may have no end.
            if !transaction.isStoring { task.cancel() }
        case .dropping, .again:
            if bytesReceived > ExchangeCache.dropLimit { task.cancel() }
        case .asking: break
        }
        return .proceed
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        self.error = error
        worker.log(self, task)
        switch phase {
        case .asking:
            // One that was given up says nothing of the server.
            if let error, error.code != .cancelled { transaction.originFailed(error.originFailure) { _ in } }
            transaction.cancel()
        case .storing: transaction.ended(isWhole: error == nil)
        case .again(let fields):
            guard error == nil else { return transaction.cancel() }
            request.fields = fields
            bytesReceived = 0
            send()
        case .dropping: transaction.cancel()
        }
    }
}
