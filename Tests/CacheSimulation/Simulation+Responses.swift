// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

/// From the origin's head, or its failure, to the end.
extension Simulation {
    /// Continues one of the exchanges in progress.
    func proceed() throws {
        let busy = exchanges.filter { $0.phase == .sharing || $0.phase == .asked || $0.phase == .relaying }
        guard !busy.isEmpty else { return }
        let exchange = traffic.pick(busy)
        machine = exchange.machine
        if exchange.phase == .sharing { return try resolve(exchange) }
        if exchange.phase == .relaying { return try endBody(exchange) }
        if traffic.chance(8) { return try fail(exchange) }
        try respond(exchange)
    }

    func cancel() throws {
        guard !exchanges.isEmpty else { return }
        let exchange = traffic.pick(exchanges)
        machine = exchange.machine
        note("\(exchange.text) is given up")
        count("given up")
        if try goesOn(without: exchange) { return }
        exchange.transaction.cancel()
        try readOn(exchange, isWhole: false)
        exchanges.removeAll { $0 === exchange }
        flights.leave(exchange.number, exchange.key)
        release(exchange, .abandoned)
        drain()
        try compareWaiting()
    }

    // MARK: The head

    private func respond(_ exchange: SimulatedExchange) throws {
        try unusedSecond()
        guard exchanges.contains(where: { $0 === exchange }) else { return }
        let reply = exchange.reply ?? makeReply(exchange)
        let mayStore = !traffic.chance(3)
        note(
            "\(exchange.text) is answered \(reply.status) \(reply.fields.sorted), \(mayStore ? "" : "not to be stored, ")\(reply.body.utf8.count) bytes"
        )
        exchange.body = reply.body
        exchange.expected = .nothing
        exchange.length = exchange.request.method == "HEAD" || !reply.hasLength ? nil : reply.body.utf8.count
        try require(exchange, exchange.delivery.receiveHead(length: exchange.length), true)
        var given = exchange.transaction.didReceiveHead(
            status: reply.status,
            reply.fields.real,
            length: exchange.delivery.length,
            mayStore: mayStore
        )
        if given == nil { exchange.transaction.whenDecided { given = $0 } }
        drain()
        take(reply, exchange, mayStore: mayStore)
        try require(exchange, given.map { Self.outcome($0) } ?? .nothing, exchange.expected)
        if let given { try stage(exchange, does: given) }
        if case .respondWhileReceiving(let response)? = given, case .growing(let reader) = response.body {
            let expected = exchange.promised
            exchange.readings.append(SimulatedReading(exchange.number, reader, response.head.body, expected: expected))
        } else if case .respond(let response)? = given {
            try finishResponse(exchange, response)
        } else if exchange.phase == .over {
            exchange.transaction.didEnd(isWhole: true)
            end(exchange)
        }
        drain()
        try compareWaiting()
    }

    private func take(_ reply: SimulatedTraffic.Reply, _ exchange: SimulatedExchange, mayStore: Bool) {
        exchange.reply = nil
        if mayStore { doubted.remove(SimulatedExchange.origin(exchange.uri)) }
        failed[SimulatedExchange.origin(exchange.uri)] = nil
        if complete(reply, exchange, mayStore: mayStore) { return }
        if reply.status == 304, exchange.validates { return notModified(reply, exchange, mayStore: mayStore) }
        let use = model.use(after: .status(reply.status), exchange.request, exchange.found.entry, now, isDoubted: false)
        if reply.status >= 500, mayStore, use == .response(refreshes: false), let entry = exchange.found.entry {
            release(exchange, .failed)
            count("stale for an error")
            guard stored.isAlive(entry) else {
                forget(exchange)
                return relay(reply, exchange, mayStore: false)
            }
            return give(exchange, entry)
        }
        relay(reply, exchange, mayStore: mayStore)
        guard !exchange.request.isRead, (200..<400).contains(reply.status) else { return }
        for url in invalidated(by: reply.fields, exchange.uri) {
            stored.invalidate(url)
            sharing?.invalidate(url)
        }
        count("invalidations")
    }

    /// RFC 9111 4.4: the target, and what Location and Content-Location name on the same origin.
    private func invalidated(by fields: ModelFields, _ uri: Int) -> [String] {
        let origin = "http://\(SimulatedExchange.origin(uri))"
        let named = ["location", "content-location"].compactMap { fields.first($0) }.map { text in
            if text.hasPrefix("http") { return text }
            if text.hasPrefix("//") { return "http:" + text }
            return origin + (text.hasPrefix("/") ? "" : "/") + text
        }
        let urls = named.filter { $0.hasPrefix(origin + "/") }
        return [SimulatedTraffic.paths[uri]] + Set(urls).subtracting([SimulatedTraffic.paths[uri]])
    }

    private func relay(_ reply: SimulatedTraffic.Reply, _ exchange: SimulatedExchange, mayStore: Bool) {
        let request = exchange.request
        exchange.phase = .relaying
        exchange.hasKnownLength = exchange.length != nil
        exchange.expected = .relay(isStored: false)
        exchange.entry = nil
        if mayStore { dropPartsInDoubt(reply, exchange) }
        if request.method != "GET" {
            exchange.phase = .over
            if request.method == "HEAD", mayStore { describe(reply, exchange) }
            return
        }
        if mayStore, reply.status == 206 {
            if let part = part(reply, exchange) {
                exchange.entry = part
                exchange.expected = .relay(isStored: true)
            }
            return release(exchange, .notForOthers)
        }
        guard mayStore, model.storing(request, reply.status, reply.fields) == .yes else {
            return release(exchange, .notForOthers)
        }
        let entry = makeEntry(reply.status, reply.fields, exchange, body: reply.body)
        guard isWorthKeeping(entry, exchange) else { return release(exchange, .notForOthers) }
        // Secrets of clients stay off the disk.
        let isSecret = isSecret(entry, exchange)
        if isSecret, stored.hasDisk, !stored.isSmall(entry.body) { return release(exchange, .notForOthers) }
        exchange.entry = entry
        exchange.isInMemoryOnly = isSecret
        exchange.expected = .relay(isStored: true)
        offer(entry, exchange)
    }

    func makeEntry(
        _ status: Int,
        _ fields: ModelFields,
        _ exchange: SimulatedExchange,
        body: String = ""
    ) -> ModelEntry {
        var names = CacheModel.vary(fields)
        if names.isEmpty {
            let varied = exchange.found.entries.filter { !$0.selecting.isEmpty }.max { $0.date < $1.date }
            names = varied?.selecting.compactMap { $0[0] } ?? []
        }
        let kept = model.kept(fields)
        return ModelEntry(
            status: status,
            fields: kept,
            selecting: CacheModel.selecting(names, exchange.request.fields),
            requestTime: exchange.requestTime,
            responseTime: now,
            initialAge: CacheModel.initialAge(fields, requestTime: exchange.requestTime, responseTime: now),
            digest: exchange.digest,
            body: body,
            tags: ModelEntry.tags(kept)
        )
    }

    /// Others may read the response along, if it is for them.
    func offer(_ entry: ModelEntry, _ exchange: SimulatedExchange) {
        exchange.isForOthers = answersOthers(entry, exchange)
        guard exchange.isForOthers else { return release(exchange, .notForOthers) }
        guard
            let followers = flights.offer(entry, removals: exchange.removals, by: exchange.number, exchange.key)
        else { return }
        exchange.isOffered = true
        for (number, isForIt) in followers {
            guard let follower = exchanges.first(where: { $0.number == number }) else { continue }
            if isForIt { readAlong(follower, entry) } else { share(follower) }
        }
    }

    /// The requests that read this one's body read what there is.
    ///
    /// - Parameter isWhole: whether they must have all of it now, or a part of it; nil: what they may.
    private func readOn(_ exchange: SimulatedExchange, isWhole: Bool?) throws {
        drain()
        for reading in exchange.readings {
            let progress = reading.read(disk, pieceSize: traffic.pick([1, 7, 1000]))
            let isRight =
                switch isWhole {
                case true?: progress == .complete && reading.isRight(isWhole: true)
                case false?: progress != .waits && reading.isRight(isWhole: progress == .complete)
                case nil: progress != .broken && reading.isRight(isWhole: false)
                }
            if !isRight {
                throw Difference(
                    description: "#\(reading.number), which reads along with #\(exchange.number), \(progress)"
                )
            }
        }
    }

    /// A response that could never be reused is not stored in a shared cache.
    private func isWorthKeeping(_ entry: ModelEntry, _ exchange: SimulatedExchange) -> Bool {
        guard isShared, exchange.request.policy == .protocol, exchange.found.entries.isEmpty else { return true }
        let graces = ["stale-while-revalidate", "stale-if-error"].map { entry.control[$0] ?? 0 }
        return entry.hasValidator || model.lifetime(entry) > 0 || graces.contains { $0 > 0 }
    }

    private func answersOthers(_ entry: ModelEntry, _ exchange: SimulatedExchange) -> Bool {
        var owner = exchange.request.owner
        (owner.bypasses, owner.ignored) = (false, [])
        let plain = ModelRequest(method: "GET", fields: ModelFields(), owner: owner)
        if case .response = model.use(plain, entry, now, isDoubted: false) { return true }
        return false
    }

    private func give(_ exchange: SimulatedExchange, _ entry: ModelEntry, cookies: [String] = []) {
        exchange.phase = .over
        let response = model.response(exchange.request, entry, now, cookies: cookies)
        exchange.expected = .response(response, refreshes: false)
    }

    private func forget(_ exchange: SimulatedExchange) {
        if let selected = exchange.found.selected { exchange.found.entries.remove(at: selected) }
        exchange.found.selected = nil
    }

    // MARK: 304 (RFC 9111 4.3.4)

    private func notModified(_ reply: SimulatedTraffic.Reply, _ exchange: SimulatedExchange, mayStore: Bool) {
        let meant = meant(by: reply.fields, exchange)
        guard !meant.isEmpty else {
            if isForClient(reply.fields, exchange) { return relay(reply, exchange, mayStore: mayStore) }
            return askAgain(exchange)
        }
        guard mayStore else { return askAgain(exchange) }
        exchange.found.selected = meant[0]
        guard exchange.isBackground || stored.isAlive(exchange.found.entries[meant[0]]) else {
            forget(exchange)
            return askAgain(exchange)
        }
        count("validations")
        var mayStay = true
        var updated: ModelEntry?
        for index in meant {
            let stays = update(exchange, index, by: reply.fields)
            if stays, updated == nil { updated = exchange.found.entries[index] }
            mayStay = mayStay && stays
        }
        if let updated { share(updated, of: exchange, mayShare: updated.file == nil) }
        if exchange.isBackground {
            (exchange.phase, exchange.expected) = (.over, .relay(isStored: false))
            return release(exchange, mayStay ? .stored : .notForOthers)
        }
        let entry = exchange.found.entries[meant[0]]
        give(exchange, entry, cookies: reply.fields.all("set-cookie"))
        release(exchange, mayStay && answersOthers(entry, exchange) ? .stored : .notForOthers)
    }

    /// The stored responses that a 304 refers to; the one that is used comes first.
    private func meant(by fields: ModelFields, _ exchange: SimulatedExchange) -> [Int] {
        let (request, found) = (exchange.request.fields, exchange.found)
        if let tag = fields.first("etag"), CacheModel.isStrong(tag) {
            let all = found.entries.indices.sorted { found.entries[$0].date > found.entries[$1].date }
            let meant = all.filter { found.entries[$0].etag == tag && Self.hasCodings(found.entries[$0], of: request) }
            return meant.filter { $0 == found.selected } + meant.filter { $0 != found.selected }
        }
        guard let selected = found.selected, let entry = found.entry else { return [] }
        if let tag = fields.first("etag") {
            return entry.etag.map(CacheModel.weak) == CacheModel.weak(tag) ? [selected] : []
        }
        if let date = fields.first("last-modified") {
            return date == entry.fields.first("last-modified") ? [selected] : []
        }
        let others = found.entries.indices.contains {
            $0 != selected && found.entries[$0].etag != nil && Self.hasCodings(found.entries[$0], of: request)
        }
        return others || request.has("if-none-match") ? [] : [selected]
    }

    private func isForClient(_ fields: ModelFields, _ exchange: SimulatedExchange) -> Bool {
        let own = exchange.request.fields.members("if-none-match").filter { $0 != "*" }
        if let tag = fields.first("etag") { return own.contains { CacheModel.weak($0) == CacheModel.weak(tag) } }
        return !own.isEmpty && !exchange.found.entries.contains { $0.hasValidator }
    }

    func askAgain(_ exchange: SimulatedExchange) {
        exchange.validates = false
        exchange.mayValidate = false
        exchange.found.selected = nil
        exchange.found.part = nil
        exchange.requestTime = now
        exchange.removals = stored.removals(of: exchange.uri)
        count("asked again")
        send(exchange, exchange.request.fields)
    }

    /// RFC 9111 3.2.
    ///
    /// - Returns: whether the response stays stored.
    private func update(_ exchange: SimulatedExchange, _ index: Int, by fields: ModelFields) -> Bool {
        let old = exchange.found.entries[index]
        let new = updated(old, exchange, by: fields)
        switch mayStay(new, exchange) {
        case .yes:
            exchange.found.entries[index] = stored.update(old, by: new, at: exchange.key)
            return true
        case .no:
            stored.invalidate(SimulatedTraffic.paths[exchange.uri])
            sharing?.invalidate(SimulatedTraffic.paths[exchange.uri])
        case .notForThisRequest: break
        }
        exchange.found.entries[index] = new
        return false
    }

    /// A stored response after an update of its fields.
    func updated(_ old: ModelEntry, _ exchange: SimulatedExchange, by fields: ModelFields) -> ModelEntry {
        var new = old
        var provided = model.kept(fields)
        let control = ModelDirectives(fields)
        let isForAll = control.has("public") || control["s-maxage"] != nil
        if isShared, !isForAll { provided.lines.removeAll { $0.name == "set-cookie" } }
        provided.lines.removeAll { ["etag", "content-encoding", "content-range"].contains($0.name) }
        new.fields.lines.removeAll { line in provided.has(line.name) }
        new.fields.lines += provided.lines
        new.tags.formUnion(ModelEntry.tags(new.fields))
        let names = CacheModel.vary(new.fields)
        if fields.has("vary"), names != old.selecting.compactMap({ $0[0] }) {
            new.selecting = CacheModel.selecting(names, exchange.request.fields)
        }
        new.requestTime = exchange.requestTime
        new.responseTime = now
        new.initialAge = CacheModel.initialAge(fields, requestTime: exchange.requestTime, responseTime: now)
        new.isMarkedStale = false
        return new
    }

    func mayStay(_ new: ModelEntry, _ exchange: SimulatedExchange) -> CacheModel.Storing {
        var owner = exchange.request.owner
        owner.bypasses = false
        let asked = ModelRequest(method: "GET", fields: exchange.request.fields, owner: owner)
        return model.storing(asked, new.status, new.fields)
    }

    /// The effect of a HEAD on stored responses to GET (RFC 9111 4.3.5).
    private func describe(_ reply: SimulatedTraffic.Reply, _ exchange: SimulatedExchange) {
        guard reply.status == 200 else { return }
        for index in exchange.found.entries.indices {
            let entry = exchange.found.entries[index]
            guard entry.status == 200, ModelStore.matches(entry, exchange.request) else { continue }
            let isOther = ["etag", "last-modified"].contains {
                reply.fields.has($0) && reply.fields.first($0) != entry.fields.first($0)
            }
            let length = reply.fields.first("content-length").flatMap { Int($0) }
            if isOther || (length != nil && length != entry.body.utf8.count)
                || ModelDirectives(reply.fields).has("no-store")
            {
                markStale(entry, exchange)
            } else {
                _ = update(exchange, index, by: reply.fields)
            }
        }
    }

    private func markStale(_ entry: ModelEntry, _ exchange: SimulatedExchange) {
        guard !entry.isMarkedStale else { return }
        var stale = entry
        stale.isMarkedStale = true
        _ = stored.update(entry, by: stale, at: exchange.key)
    }

    // MARK: The end

    private func endBody(_ exchange: SimulatedExchange) throws {
        let isWhole = !traffic.chance(8)
        let bytes = Array(exchange.body.utf8)
        let pieces = [Array(bytes.prefix(bytes.count / 2)), Array(bytes.dropFirst(bytes.count / 2))]
        for piece in isWhole ? pieces : [pieces[0]] {
            try receive(piece, exchange)
            if traffic.chance(50) { try readOn(exchange, isWhole: nil) }
        }
        note("\(exchange.text) has ended, \(isWhole ? "whole" : "cut short")")
        exchange.phase = .over
        var isStored = false
        if isWhole, let entry = exchange.entry, exchange.removals == stored.removals(of: exchange.uri) {
            if entry.parts == nil {
                isStored = true
                stored.store(entry, at: exchange.key, inMemoryOnly: exchange.isInMemoryOnly)
                count("stored")
                // The end of a body of unknown length may never come: it is shared only if others wait for it.
                let isSure = exchange.isForOthers || exchange.hasKnownLength
                let isInMemory = !stored.hasDisk || stored.isSmall(entry.body)
                share(entry, of: exchange, mayShare: isSure && isInMemory && !exchange.isInMemoryOnly)
            } else {
                isStored = stored.store(part: entry, at: exchange.key)
                count("parts stored")
            }
        }
        release(exchange, isStored ? .stored : .failed)
        exchange.transaction.didEnd(isWhole: isWhole)
        try readOn(exchange, isWhole: isWhole)
        end(exchange)
        try compareWaiting()
    }

    /// The origin fails without a response.
    private func fail(_ exchange: SimulatedExchange) throws {
        let (failure, kind): (OriginFailure, CacheModel.Failure) = traffic.pick([
            (.unreachable, .unreachable), (.noConnection, .noConnection), (.untrusted, .untrusted), (.other, .other),
        ])
        note("\(exchange.text) fails: \(kind)")
        count("failures")
        exchange.phase = .over
        exchange.expected = .nothing
        release(exchange, .failed)
        let origin = SimulatedExchange.origin(exchange.uri)
        if case .untrusted = kind {
            doubted.insert(origin)
            if let entry = exchange.found.entry, !entry.isMarkedStale, model.lifetime(entry) <= model.age(entry, now) {
                markStale(entry, exchange)
            }
        }
        if case .noConnection = kind, exchange.request.owner.retryAfter > 0 { failed[origin] = loop.now }
        let isDoubted = doubted.contains(origin)
        switch model.use(after: kind, exchange.request, exchange.found.entry, now, isDoubted: isDoubted) {
        case .response?:
            if let entry = exchange.found.entry, stored.isAlive(entry) { give(exchange, entry) }
        case .timeout?: exchange.expected = .timeout
        case .validate?, nil: break
        }
        guard case .failure = exchange.delivery.originDidEnd(nil) else {
            throw Difference(description: "\(exchange.text): its stage expects no failure")
        }
        var given = exchange.transaction.originDidFail(failure)
        if given == nil { exchange.transaction.whenDecided { given = $0 } }
        drain()
        try require(exchange, given.map { Self.outcome($0) } ?? .nothing, exchange.expected)
        end(exchange)
        drain()
        try compareWaiting()
    }
}
