// SPDX-License-Identifier: Apache-2.0
import HTTPCaching

/// The level that the machines share: it replies late, with or without a response, and sometimes with a ticket of no use.
extension Simulation {
    /// The request goes to the shared level before it goes to the origin.
    func share(_ exchange: SimulatedExchange) {
        guard exchange.mayShare, mayReadAlong(exchange.request) else { return forward(exchange) }
        exchange.mayShare = false
        (exchange.phase, exchange.expected) = (.sharing, .nothing)
        count("look-ups in the shared level")
    }

    /// The shared level replies.
    func resolve(_ exchange: SimulatedExchange) throws {
        guard let level = exchange.level, level.isAsked else {
            throw Difference(description: "\(exchange.text) does not ask the shared level")
        }
        let ticket = level.sharing.makeTicket(exchange.key, exchange.number, isOutdated: traffic.chance(10))
        let fitting = (level.sharing.modelled[exchange.key] ?? []).enumerated().filter {
            $0.element.digest == exchange.digest && ModelStore.matches($0.element, exchange.request)
        }
        exchange.ticket = ticket
        if let (index, entry) = fitting.last, !traffic.chance(20),
            let real = level.sharing.entries[exchange.key]?[index]
        {
            note("\(exchange.text) gets a shared response")
            find(entry, exchange)
            level.reply(.found(real, ticket))
        } else if traffic.chance(20) {
            note("\(exchange.text) gets nothing from the shared level, and no ticket")
            // The ticket is the test's own.
            exchange.ticket = nil
            level.giveBack(ticket, isForOthers: true)
            forward(exchange)
            level.reply(.nothing(nil))
        } else {
            note("\(exchange.text) gets a ticket of the shared level")
            forward(exchange)
            level.reply(.nothing(ticket))
        }
        drain()
        try compare(exchange)
        try compareWaiting()
    }

    private func find(_ entry: ModelEntry, _ exchange: SimulatedExchange) {
        let known = exchange.found.entry.map { ($0.date, $0.responseTime) }
        let isLater = known.map { $0 < (entry.date, entry.responseTime) } ?? true
        guard isLater, stored.removals(of: exchange.uri) == exchange.removalsAtLookup else { return forward(exchange) }
        let kept = stored.keep(entry, at: exchange.key)
        let place = exchange.found.entries.firstIndex { $0.selecting == kept.selecting }
        if let place {
            exchange.found.entries[place] = kept
        } else {
            exchange.found.entries.append(kept)
        }
        exchange.found.selected = place ?? exchange.found.entries.count - 1
        exchange.found.part = nil
        count("shared responses")
        guard exchange.isBackground else {
            decide(exchange, mayWait: false)
            // Those that wait for this one look it up: it is in memory now.
            if exchange.phase == .over { release(exchange, .stored) }
            return
        }
        let isDoubted = doubted.contains(SimulatedExchange.origin(exchange.uri))
        if case .response = model.use(exchange.request, kept, now, isDoubted: isDoubted),
            model.lifetime(kept) > model.age(kept, now)
        {
            (exchange.phase, exchange.expected) = (.over, .nothing)
            return release(exchange, .stored)
        }
        exchange.mayValidate = true
        forward(exchange)
    }

    /// What was stored goes to the shared level, too, if its ticket is still there.
    ///
    /// - Parameter mayShare: whether its body is in memory, and the level gets it.
    func share(_ entry: ModelEntry, of exchange: SimulatedExchange, mayShare: Bool) {
        guard let level = exchange.level, let ticket = exchange.ticket else { return }
        exchange.ticket = nil
        guard mayShare, !ModelStore.hasSecret(entry), exchange.removals == stored.removals(of: exchange.uri)
        else { return }
        level.sharing.store(entry, with: ticket)
        count("stored in the shared level")
    }

    func compareSharing() throws {
        guard let difference = sharing?.difference(Set(exchanges.map(\.number))) else { return }
        throw Difference(description: difference)
    }
}
