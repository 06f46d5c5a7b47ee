// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

/// The steps from the lookup to the request to the origin.
extension Simulation {
    typealias Outcome = SimulatedExchange.Outcome

    func ask(_ request: ModelRequest) throws {
        let uri = uri()
        let key = ModelStore.Key(uri: uri, partition: isShared ? 0 : traffic.below(2))
        guard let url = AbsoluteURL(SimulatedTraffic.paths[uri]) else { fatalError() }
        let level = sharing.map { SimulatedLevel($0, loop) }
        let transaction = CacheTransaction(
            cache,
            url: url,
            request.real,
            partition: SimulatedExchange.bytes(key.partition),
            digest: PolicyDigest([UInt8(digest)]),
            level: level,
            loop: loop
        )
        let exchange = SimulatedExchange(nextNumber(), uri, key, digest, request, transaction, machine, level)
        exchanges.append(exchange)
        count(request.method)
        if request.isServable, request.policy != .reload {
            exchange.mayShare = level != nil
            lookUp(exchange, mayWait: true)
        } else {
            decide(exchange, mayWait: false)
        }
        exchange.given = transaction.begin()
        if exchange.given == nil { transaction.whenDecided { exchange.given = $0 } }
        drain()
        note("\(exchange.text) -> \(exchange.expected)")
        try compare(exchange)
        try compareWaiting()
    }

    func lookUp(_ exchange: SimulatedExchange, mayWait: Bool) {
        exchange.found = stored.find(exchange.key, exchange.request, exchange.digest)
        exchange.removalsAtLookup = stored.removals(of: exchange.uri)
        decide(exchange, mayWait: mayWait)
    }

    func decide(_ exchange: SimulatedExchange, mayWait: Bool) {
        let (request, entry) = (exchange.request, exchange.found.entry)
        let isDoubted = doubted.contains(SimulatedExchange.origin(exchange.uri))
        if let response = responseFromParts(exchange) {
            (exchange.phase, exchange.expected) = (.over, .response(response, refreshes: false))
            return count("hits of parts")
        }
        switch model.use(request, entry, now, isDoubted: isDoubted) {
        case .response(let refreshes):
            guard let entry else { return }
            exchange.phase = .over
            exchange.expected = .response(model.response(request, entry, now), refreshes: refreshes)
            count(model.lifetime(entry) > model.age(entry, now) ? "hits" : "stale hits")
        case .timeout:
            (exchange.phase, exchange.expected) = (.over, .timeout)
        case .validate:
            if let since = failed[SimulatedExchange.origin(exchange.uri)], let entry,
                Int((loop.now - since) / 1_000_000_000) < request.owner.retryAfter,
                case .response? = model.use(after: .noConnection, request, entry, now, isDoubted: isDoubted)
            {
                exchange.phase = .over
                exchange.expected = .response(model.response(request, entry, now), refreshes: false)
                count("stale without a connection")
                return
            }
            exchange.mayValidate = entry?.hasValidator ?? !exchange.found.entries.isEmpty
            guard mayWait, mayReadAlong(request) else { return share(exchange) }
            switch flights.offer(for: exchange.key, removals: stored.removals(of: exchange.uri)) {
            case .entry(let entry): return readAlong(exchange, entry)
            case .outdated: return share(exchange)
            case .none: break
            }
            guard isCollapsible(request) else { return share(exchange) }
            switch flights.join(
                exchange.number,
                exchange.key,
                now: loop.now,
                removals: stored.removals(of: exchange.uri)
            ) {
            case .lead, .goAlone: share(exchange)
            case .wait:
                (exchange.phase, exchange.expected, exchange.hasWaited) = (.waiting, .nothing, true)
                count("waits")
            }
        }
    }

    func mayReadAlong(_ request: ModelRequest) -> Bool {
        request.method == "GET" && request.policy == .protocol && !request.hasCredentials && !request.wantsNoCache
            && !request.control.has("no-store")
    }

    private func isCollapsible(_ request: ModelRequest) -> Bool {
        mayReadAlong(request)
            && !["if-none-match", "if-modified-since", "range", "if-range"].contains { request.fields.has($0) }
    }

    /// Another request receives a response: it is for this one, too, or this one goes to the origin alone.
    func readAlong(_ exchange: SimulatedExchange, _ entry: ModelEntry) {
        let isDoubted = doubted.contains(SimulatedExchange.origin(exchange.uri))
        guard entry.digest == exchange.digest, ModelStore.matches(entry, exchange.request),
            case .response = model.use(exchange.request, entry, now, isDoubted: isDoubted)
        else { return share(exchange) }
        exchange.phase = .over
        var response = model.response(exchange.request, entry, now)
        exchange.promised = Array(response.body.utf8)
        response.body = ""
        exchange.expected = .response(response, refreshes: false)
        count("read along")
    }

    /// Sends the request to the origin, with the validators of stored responses (RFC 9111 4.3.1).
    func forward(_ exchange: SimulatedExchange) {
        exchange.phase = .asked
        exchange.removals = stored.removals(of: exchange.uri)
        exchange.requestTime = now
        exchange.validates = false
        if let rest = rest(for: exchange) { return send(exchange, rest) }
        var fields = exchange.request.fields
        if exchange.mayValidate, let conditions = conditions(exchange) {
            exchange.validates = true
            fields = conditions
        }
        send(exchange, fields)
    }

    private func conditions(_ exchange: SimulatedExchange) -> ModelFields? {
        let (request, found) = (exchange.request.fields, exchange.found)
        var tags: [String] = []
        for entry in found.entries where Self.hasCodings(entry, of: request) {
            if let tag = entry.etag, !tags.contains(tag) { tags.append(tag) }
        }
        let date = found.entry?.lastModified == nil ? nil : found.entry?.fields.first("last-modified")
        let ofClient = request.members("if-none-match")
        var names = tags + ofClient.filter { $0 != "*" && !tags.contains($0) }
        if tags.isEmpty, ofClient.contains("*") { names = [] }
        if tags.isEmpty, date == nil { return nil }
        var fields = request
        fields.lines.removeAll { $0.name == "if-none-match" || $0.name == "if-modified-since" }
        if !names.isEmpty { fields.lines.append((name: "if-none-match", value: names.joined(separator: ", "))) }
        if let date { fields.lines.append((name: "if-modified-since", value: date)) }
        return fields.has("if-none-match") || fields.has("if-modified-since") ? fields : nil
    }

    /// Whether a variant was selected for the codings that this request accepts, if Accept-Encoding is a selecting
    /// field.
    static func hasCodings(_ entry: ModelEntry, of request: ModelFields) -> Bool {
        guard let kept = entry.selecting.first(where: { $0[0] == "accept-encoding" }) else { return true }
        return CacheModel.selecting(["accept-encoding"], request) == [kept]
    }

    /// Makes the request to the origin; half of the responses are made immediately, but arrive later.
    func send(_ exchange: SimulatedExchange, _ fields: ModelFields) {
        exchange.phase = .asked
        exchange.asked = ModelRequest(method: exchange.request.method, fields: fields)
        exchange.expected = .forward(fields.comparable)
        exchange.reply = traffic.chance(50) ? makeReply(exchange) : nil
    }

    func makeReply(_ exchange: SimulatedExchange) -> SimulatedTraffic.Reply {
        guard exchange.request.isRead else { return traffic.unsafeReply() }
        return traffic.reply(exchange.uri, to: exchange.asked, date: unusedDate(), now: now)
    }

    /// The other request has ended, or the timeout.
    func wake(_ number: Int, _ wake: ModelFlights.Wake) {
        guard let exchange = exchanges.first(where: { $0.number == number }) else { return }
        switch wake {
        case .goAlone, .lead: share(exchange)
        case .lookUp:
            lookUp(exchange, mayWait: false)
            if exchange.phase == .over { count("collapsed") }
        }
    }

    func release(_ exchange: SimulatedExchange, _ ending: ModelFlights.Ending) {
        for (number, wake) in flights.ended(exchange.number, exchange.key, ending, now: loop.now) {
            self.wake(number, wake)
        }
    }

    /// Starts a background revalidation after a stale response (RFC 5861 3).
    func refresh(_ exchange: SimulatedExchange) throws {
        guard let entry = exchange.found.entry else { return }
        let left: Set = [
            "if-none-match", "if-modified-since", "if-range", "range", "cache-control", "pragma", "expect",
        ]
        var plain = exchange.request.fields
        plain.lines.removeAll { left.contains($0.name) }
        let number = nextNumber()
        let leads = flights.lead(number, exchange.key)
        let transaction = exchange.transaction.refresh()
        try require(exchange, transaction != nil, leads)
        guard let transaction else { return }
        var owner = ModelOwner()
        owner.whileRevalidating = exchange.request.owner.whileRevalidating
        owner.onErrors = exchange.request.owner.onErrors
        owner.retryAfter = exchange.request.owner.retryAfter
        let request = ModelRequest(method: "GET", fields: plain, owner: owner)
        let background = SimulatedExchange(
            number,
            exchange.uri,
            exchange.key,
            exchange.digest,
            request,
            transaction,
            machine,
            exchange.level,
            isBackground: true
        )
        background.found = ModelStore.Found(entries: [entry], selected: 0)
        background.removalsAtLookup = exchange.removalsAtLookup
        background.mayShare = exchange.level != nil
        background.mayValidate = true
        exchanges.append(background)
        count("refreshes")
        share(background)
        background.given = transaction.begin()
        if background.given == nil { transaction.whenDecided { background.given = $0 } }
        try compare(background)
    }
}
