import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// Where an exchange meets the cache. Each of these is called only where there is one for its host.
extension Exchange {
    // MARK: Before the origin

    /// Looks for a stored answer, and asks the origin where there is none.
    ///
    /// - Parameter givesCredentials: whether the configuration puts some in.
    func lookUpInCache(
        _ responses: ResponseCache,
        _ terms: CacheTerms,
        _ digest: PolicyDigest,
        _ request: SessionRequest,
        givesCredentials: Bool
    ) {
        let cacheRequest = CacheRequest(
            method: request.method,
            fields: request.fields,
            hasInjectedCredentials: givesCredentials,
            hasBody: request.bodyLength != .none,
            policy: terms.rules.requestPolicy(for: request.method, target: request.target.span)
        )
        let transaction = CacheTransaction(
            responses,
            url: AbsoluteURL(origin: request.endpoint.origin, rest: request.target),
            cacheRequest,
            partition: responses.options.isShared ? [] : Self.partition(of: user, request.fields),
            rules: terms.rules.rules,
            digest: digest,
            loop: worker.loop
        )
        let cache = self.cache ?? ExchangeCache(transaction, request)
        if self.cache == nil { self.cache = cache } else { cache.prepare(for: transaction, request) }
        transaction.begin { [unowned self, unowned cache] step in
            guard canContinue() else { return }
            switch step {
            case .forward(let fields): sendToOrigin(fields, cache)
            case .answer(let stored): serve(stored, cache)
            case .gatewayTimeout(let status): refuseNotStored(status, cache)
            }
        }
    }

    /// A cache that is not shared is one user's. Where nobody has to prove who it is, those of one credential are one user,
    /// and those without any: what is private to the one is not for the others.
    private static func partition(of user: [UInt8]?, _ fields: HTTPFields) -> [UInt8] {
        if let user { return user }
        guard fields.containsAny(of: credentials) else { return [] }
        var bytes: [UInt8] = []
        for index in 0..<fields.count where credentials.contains(fields.id(at: index)) {
            // Each with its length, so that no two lists read alike.
            bytes.append(fields.id(at: index) == .authorization ? 1 : 2)
            withUnsafeBytes(of: fields.value(at: index).count) { bytes += $0 }
            bytes.append(fields.value(at: index))
        }
        var partition = Array("credentials:".utf8)
        for byte in SecretDigest.sha256(bytes) {
            partition += [hexadecimal[Int(byte >> 4)], hexadecimal[Int(byte & 15)]]
        }
        return partition
    }

    private static let hexadecimal = Array("0123456789abcdef".utf8)

    private static let credentials: FieldNameSet = [.authorization, .cookie]

    private func sendToOrigin(_ fields: HTTPFields, _ cache: ExchangeCache) {
        var request = cache.request
        request.fields = fields
        cache.phase = .asking
        dispatch(request)
    }

    private func refuseNotStored(_ status: CacheStatus, _ cache: ExchangeCache) {
        cache.status = status
        refuseUnsent(
            Problem(
                .notStored,
                "Nothing that is stored may answer this request, and it says that the origin is not to be asked. Leave out only-if-cached (or the policy returnCacheDataDontLoad)."
            )
        )
    }

    // MARK: The origin's answer

    /// The final head of the origin's answer is there.
    ///
    /// - Returns: what becomes of it; nil when it goes on to the client.
    func cacheDidReceiveHead(_ response: borrowing ResponseHead, _ task: LoopTask, _ cache: ExchangeCache)
        -> ResponseDisposition?
    {
        var decided: CacheTransaction.HeadStep?
        var isLate = false
        let length: Int? =
            switch response.framing {
            case .none: cache.request.method == .head ? nil : 0
            case .length(let count): count
            case .chunked, .untilClose: nil
            }
        cache.transaction.originAnswered(
            status: response.status,
            response.fields,
            length: length,
            mayStore: task.mayStoreResponse,
            endIsSure: cache.request.endIsSure(response)
        ) { [unowned self] step in
            if isLate { self.cacheDidDecide(step, cache) } else { decided = step }
        }
        isLate = true
        switch decided {
        case nil:
            cache.heldHead = copy response
            cache.heldEnd = nil
            cache.phase = .deciding
            return .allow
        case .relay(let status)?:
            cache.status = status
            cache.phase = .relaying
            return nil
        case let step?:
            cache.phase = .replacing(step)
            guard cache.drops(response) else { return .cancel }
            if case .none = response.framing { return .allow }
            waitForEnd(cache)
            return .allow
        }
    }

    /// The rest of an answer that is dropped is not worth much of the client's time.
    private func waitForEnd(_ cache: ExchangeCache) {
        cache.wait(for: Self.dropTime, on: worker.loop) { [unowned self] in task?.cancel() }
    }

    /// The cache knows what to do, later than the head came.
    private func cacheDidDecide(_ step: CacheTransaction.HeadStep, _ cache: ExchangeCache) {
        let end = cache.heldEnd
        cache.heldEnd = nil
        guard case .relay(let status) = step else {
            cache.held.release()
            cache.phase = .replacing(step)
            if end != nil { return deliverReplacement(step, cache) }
            waitForEnd(cache)
            task?.resumeReceiving()
            return
        }
        cache.status = status
        cache.phase = .relaying
        let isDelivered = didReceiveResponseHead(cache.heldHead) == .allow
        cache.heldHead.removeAll()
        var held = ByteBuffer()
        swap(&held, &cache.held)
        guard !isOver else { return }
        if !isDelivered, end == nil {
            task?.cancel()
            return
        }
        if isDelivered, held.count > 0 {
            cache.transaction.body(held.bytes)
            _ = didReceiveResponseBody(held.bytes)
        }
        guard !isOver else { return }
        if let trailers = cache.heldTrailers, clientResponse.hasBegun { clientResponse.addTrailers(trailers) }
        cache.heldTrailers = nil
        if let end { endRelaying(end, cache) } else { task?.resumeReceiving() }
    }

    /// Takes a piece of the origin's body.
    ///
    /// - Returns: nil when it goes on to the client.
    func cacheDidReceiveBody(_ data: borrowing Span<UInt8>, _ cache: ExchangeCache) -> BodyFlow? {
        switch cache.phase {
        case .deciding:
            cache.held.append(data)
            return .pause
        case .replacing:
            if !cache.drop(data.count) { task?.cancel() }
            return .proceed
        case .relaying:
            cache.transaction.body(data)
            return nil
        case .asking, .serving: return nil
        }
    }

    /// Takes what follows the origin's body.
    ///
    /// - Returns: false when it goes on to the client.
    func cacheDidReceiveTrailers(_ trailers: borrowing HTTPFields, _ cache: ExchangeCache) -> Bool {
        switch cache.phase {
        case .deciding:
            cache.heldTrailers = copy trailers
            return true
        case .replacing: return true
        case .asking, .relaying, .serving: return false
        }
    }

    /// The origin's answer is over, or there was none.
    ///
    /// - Returns: false when that ends the exchange as any other does.
    func cacheDidEnd(_ cache: ExchangeCache, error: SessionError?) -> Bool {
        switch cache.phase {
        case .asking:
            guard let error else { return false }
            cache.transaction.originFailed(error.originFailure) { [unowned self] step in
                if let step { deliverReplacement(step, cache) } else { responseDidEnd(task, error) }
            }
            return true
        case .deciding:
            cache.heldEnd = .some(error)
            return true
        case .replacing(let step):
            cache.stopWaiting()
            deliverReplacement(step, cache)
            return true
        case .relaying:
            cache.transaction.ended(isWhole: error == nil)
            return false
        case .serving: return false
        }
    }

    private func endRelaying(_ error: SessionError?, _ cache: ExchangeCache) {
        cache.transaction.ended(isWhole: error == nil)
        responseDidEnd(task, error)
    }

    /// Something takes the place of what the origin sent, or failed to send. What the origin sent is over; what takes its
    /// place is stored under the policy of the request, or asked for once more.
    private func deliverReplacement(_ step: CacheTransaction.HeadStep, _ cache: ExchangeCache) {
        guard canContinue() else { return }
        switch step {
        case .answer(let stored): serve(stored, cache)
        case .again(let fields): sendToOrigin(fields, cache)
        case .gatewayTimeout(let status): refuseNotStored(status, cache)
        // What is relayed is in the origin's own place.
        case .relay: fail(Problem(.internal, "The cache relays an answer that is over."))
        }
    }

    // MARK: A stored answer

    /// Answers out of the cache: the head takes the way of an origin's.
    private func serve(_ stored: CacheTransaction.Answer, _ cache: ExchangeCache) {
        if stored.refreshes { CacheRefresh.start(cache.transaction, like: cache.request, for: self) }
        cache.phase = .serving
        cache.status = stored.status
        cache.storedAge = stored.head.age
        cache.stored = CachedBytes(source: stored.body, range: stored.head.body)
        let head = ResponseHead(
            status: stored.head.status,
            fields: stored.head.keptFields,
            contentLength: stored.head.contentLength,
            hasBody: !stored.head.body.isEmpty
        )
        // An answer that is not delivered needs no body: it leads on, or is refused.
        if didReceiveResponseHead(head) == .cancel { cache.stored.range = 0..<0 }
        if !isOver { sendStoredBody(cache) }
    }

    /// Hands on what there is room for, and ends the answer behind the last byte.
    func sendStoredBody(_ cache: ExchangeCache) {
        guard !cache.stored.isPumping, !cache.stored.isReading, case .serving = cache.phase else { return }
        cache.stored.isPumping = true
        while !isOver, !cache.stored.isPaused, !cache.stored.range.isEmpty {
            let range = cache.stored.range
            let end = min(range.upperBound, range.lowerBound + Self.storedPiece)
            switch cache.stored.source {
            case .memory(let bytes):
                cache.stored.range = end..<range.upperBound
                deliverStored(bytes.span.extracting(range.lowerBound..<end), cache)
            case .file(let file):
                cache.stored.isPumping = false
                readStored(file, at: range.lowerBound, count: end - range.lowerBound, cache)
                return
            }
        }
        cache.stored.isPumping = false
        if !isOver, cache.stored.range.isEmpty, !cache.stored.isPaused { responseDidEnd(task, nil) }
    }

    private static let storedPiece = 128 << 10
    private static let dropTime = TimeSpan.seconds(1)

    private func deliverStored(_ bytes: borrowing Span<UInt8>, _ cache: ExchangeCache) {
        guard case .pause = didReceiveResponseBody(bytes), !isOver else { return }
        cache.stored.isPaused = true
        let timeouts = cache.request.timeouts ?? cache.request.endpoint.timeouts
        var patience = timeouts.stall
        if let total = timeouts.total {
            let spent = min(total.nanoseconds, worker.loop.now - startedAt)
            patience = min(patience, TimeSpan(nanoseconds: total.nanoseconds - spent))
        }
        cache.wait(for: patience, on: worker.loop) { [unowned self] in
            fail(
                Problem(
                    .stalled,
                    "The client has taken nothing of a stored answer within timeouts.stall, or not all of it within timeouts.total."
                )
            )
        }
    }

    private func readStored(_ file: StoredBody, at offset: Int, count: Int, _ cache: ExchangeCache) {
        guard let disk = cache.transaction.disk else { return fail(Self.lostBody) }
        cache.stored.isReading = true
        let loop = worker.loop
        let reader = CachedRead(self, number)
        disk.read(file, at: offset, count: count, deliver: { loop.submit($0) }) { reader.didReadStored($0) }
    }

    fileprivate func didReadStored(_ bytes: [UInt8]?) {
        guard !isOver, let cache else { return }
        cache.stored.isReading = false
        guard let bytes, !bytes.isEmpty else { return fail(Self.lostBody) }
        let range = cache.stored.range
        cache.stored.range = (range.lowerBound + bytes.count)..<range.upperBound
        cache.stored.isPumping = true
        deliverStored(bytes.span, cache)
        cache.stored.isPumping = false
        sendStoredBody(cache)
    }

    private static var lostBody: Problem {
        Problem(.fileFailed, "The stored body could not be read from the disk. Ask again: the origin is asked then.")
    }

    /// Whoever takes the answer has room again.
    func resumeReceiving() {
        task?.resumeReceiving()
        if let cache, cache.stored.isPaused {
            cache.stored.isPaused = false
            cache.stopWaiting()
            sendStoredBody(cache)
        }
    }
}

/// A piece of a stored body that is being read for an exchange, which may have gone on to another request meanwhile.
///
/// `@unchecked Sendable`: made and called on the loop of the exchange's worker; the store's thread only hands it back.
private final class CachedRead: @unchecked Sendable {
    private let exchange: Exchange
    private let number: UInt64

    init(_ exchange: Exchange, _ number: UInt64) {
        self.exchange = exchange
        self.number = number
    }

    func didReadStored(_ bytes: [UInt8]?) {
        if exchange.number == number { exchange.didReadStored(bytes) }
    }
}
