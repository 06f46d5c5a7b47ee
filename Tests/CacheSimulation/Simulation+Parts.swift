// SPDX-License-Identifier: Apache-2.0
import HTTPCaching

/// Responses of which only parts are stored (RFC 9111 3.3 and 3.4).
extension Simulation {
    // MARK: Using

    /// The answer from stored parts, without the origin.
    func responseFromParts(_ exchange: SimulatedExchange) -> CacheModel.Response? {
        let request = exchange.request
        guard request.method == "GET", let entry = exchange.found.part, let parts = entry.parts,
            !request.fields.has("if-none-match"), !request.fields.has("if-modified-since"),
            model.lifetime(entry) > model.age(entry, now),
            let range = CacheModel.range(request.fields, entry), !range.isEmpty, parts.has(range),
            model.use(request, entry, now, isDoubted: false) == .response(refreshes: false)
        else { return nil }
        return model.response(request, entry, now)
    }

    /// The request for what is missing of the stored parts, in the place of one for the whole.
    func rest(for exchange: SimulatedExchange) -> ModelFields? {
        let request = exchange.request
        let own = ["if-none-match", "if-modified-since", "range", "if-range"]
        guard request.method == "GET", request.policy == .protocol, !request.control.has("no-store"),
            !own.contains(where: { request.fields.has($0) }), exchange.found.entries.isEmpty,
            let entry = exchange.found.part, let parts = entry.parts, let gap = parts.gap, gap.count < parts.total,
            let tag = entry.strongTag
        else { return nil }
        exchange.completed = entry
        exchange.removals = exchange.removalsAtLookup
        count("requests for the rest")
        var fields = request.fields
        fields.lines.append((name: "range", value: "bytes=\(gap.lowerBound)-\(gap.upperBound)"))
        fields.lines.append((name: "if-range", value: tag))
        return fields
    }

    // MARK: Completing

    /// The response to a request for the rest.
    ///
    /// - Returns: whether that is all.
    func complete(_ reply: SimulatedTraffic.Reply, _ exchange: SimulatedExchange, mayStore: Bool) -> Bool {
        guard let entry = exchange.completed, let parts = entry.parts, let gap = parts.gap else { return false }
        exchange.completed = nil
        guard (300..<500).contains(reply.status) || reply.status == 206, ![404, 410].contains(reply.status) else {
            return false
        }
        guard mayStore else {
            askAgain(exchange)
            return true
        }
        let length = reply.hasLength ? reply.body.utf8.count : nil
        let range = ModelRange(reply.fields, length: length)
        guard reply.status == 206, length == gap.count, range?.range == gap.lowerBound..<gap.upperBound + 1,
            range?.total == parts.total, entry.isSame(as: reply.fields), var whole = renewed(entry, exchange, reply)
        else {
            stored.drop(entry, at: exchange.key)
            askAgain(exchange)
            return true
        }
        exchange.isInMemoryOnly = isSecret(whole, exchange) || parts.isInMemoryOnly
        var known = parts.known
        for (offset, byte) in reply.body.utf8.enumerated() { known[gap.lowerBound + offset] = byte }
        whole.body = String(decoding: (0..<parts.total).map { known[$0] ?? 0x3F }, as: UTF8.self)
        if exchange.isInMemoryOnly, stored.hasDisk, !stored.isSmall(whole.body) {
            askAgain(exchange)
            return true
        }
        exchange.phase = .relaying
        exchange.entry = whole
        exchange.hasKnownLength = true
        exchange.promised = Array(whole.body.utf8)
        var response = model.response(exchange.request, whole, now)
        response.body = ""
        exchange.expected = .response(response, refreshes: false)
        offer(whole, exchange)
        count("completed")
        return true
    }

    // MARK: Storing

    /// Gives up stored parts that the response contradicts.
    func dropPartsInDoubt(_ reply: SimulatedTraffic.Reply, _ exchange: SimulatedExchange) {
        guard let entry = exchange.found.part else { return }
        let isHead = exchange.request.method == "HEAD"
        let length = reply.hasLength && !isHead ? reply.body.utf8.count : nil
        guard entry.isContradicted(by: reply.status, reply.fields, length: length, isHead: isHead) else { return }
        stored.drop(entry, at: exchange.key)
        exchange.found.part = nil
        count("parts in doubt")
    }

    /// The entry for a 206 that goes to its client.
    ///
    /// - Returns: nil when it is not stored.
    func part(_ reply: SimulatedTraffic.Reply, _ exchange: SimulatedExchange) -> ModelEntry? {
        let request = exchange.request
        let length = reply.hasLength ? reply.body.utf8.count : nil
        guard let range = ModelRange(reply.fields, length: length), exchange.found.selected == nil,
            request.fields.has("range")
        else { return nil }
        var entry: ModelEntry
        var isInMemoryOnly = false
        if let known = exchange.found.part {
            guard let renewed = renewed(known, exchange, reply) else { return nil }
            entry = renewed
            isInMemoryOnly = known.parts?.isInMemoryOnly ?? false
        } else {
            var fields = reply.fields
            fields.lines.removeAll { $0.name == "content-range" }
            guard !request.fields.has("if-range"), model.storing(request, 200, fields) == .yes else { return nil }
            entry = makeEntry(200, fields, exchange)
            guard entry.strongTag != nil else { return nil }
        }
        var parts = ModelParts(total: range.total)
        for (offset, byte) in reply.body.utf8.prefix(range.range.count).enumerated() {
            parts.known[range.range.lowerBound + offset] = byte
        }
        guard range.range.count <= stored.partsAtMost else { return nil }
        parts.isInMemoryOnly = isInMemoryOnly || isSecret(entry, exchange)
        entry.parts = parts
        return entry
    }

    /// The head of stored parts after a 206 with their entity tag.
    ///
    /// - Returns: nil when it may not be stored now.
    private func renewed(
        _ entry: ModelEntry,
        _ exchange: SimulatedExchange,
        _ reply: SimulatedTraffic.Reply
    ) -> ModelEntry? {
        var new = updated(entry, exchange, by: reply.fields)
        new.parts = nil
        new.tags.formUnion(ModelEntry.tags(new.fields))
        switch mayStay(new, exchange) {
        case .yes: return new
        case .notForThisRequest: return nil
        case .no:
            stored.drop(entry, at: exchange.key)
            return nil
        }
    }

    /// Whether something of the client's may be in it: it stays off the disk.
    func isSecret(_ entry: ModelEntry, _ exchange: SimulatedExchange) -> Bool {
        ModelStore.hasSecret(entry) || (exchange.request.hasCredentials && !entry.selecting.isEmpty)
    }
}
