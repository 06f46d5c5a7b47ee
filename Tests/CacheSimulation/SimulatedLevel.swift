// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import IOCore

/// What the machines share: real responses, and the model's beside them. It keeps to the properties of a shared level: no response from
/// before an invalidation or a purge is found, and none is stored with an older ticket.
final class SimulatedSharing {
    final class Ticket: SharedTicket {
        let key: ModelStore.Key
        /// The request that has it.
        let number: Int
        /// The URI was invalidated since, or something purged; or the level was mistaken from the beginning.
        var isOutdated: Bool
        fileprivate(set) var isOver = false

        init(_ key: ModelStore.Key, _ number: Int, isOutdated: Bool) {
            self.key = key
            self.number = number
            self.isOutdated = isOutdated
        }
    }

    private var tickets: [Ticket] = []
    private(set) var entries: [ModelStore.Key: [CachedEntry]] = [:]
    private(set) var modelled: [ModelStore.Key: [ModelEntry]] = [:]
    /// The misuse of a ticket, for the next comparison.
    private var fault: String?

    // MARK: Tickets

    func makeTicket(_ key: ModelStore.Key, _ number: Int, isOutdated: Bool) -> Ticket {
        let ticket = Ticket(key, number, isOutdated: isOutdated)
        tickets.append(ticket)
        return ticket
    }

    fileprivate func end(_ ticket: any SharedTicket) -> Ticket? {
        guard let ticket = ticket as? Ticket, !ticket.isOver else {
            fault = "a ticket was used twice"
            return nil
        }
        ticket.isOver = true
        tickets.removeAll { $0 === ticket }
        return ticket
    }

    // MARK: Responses

    /// The real response goes in.
    fileprivate func store(_ entry: CachedEntry, with ticket: Ticket) {
        guard !ticket.isOutdated else { return }
        guard case .memory(let bytes) = entry.body else {
            fault = "a response without its body was shared"
            return
        }
        let copy = CachedEntry(
            key: entry.key,
            response: entry.response,
            body: .memory(StoredBytes(bytes.bytes)),
            tags: entry.tags
        )
        let (digest, selecting) = (entry.response.digest, entry.response.selecting)
        entries[ticket.key, default: []].removeAll {
            $0.response.digest == digest && $0.response.selecting == selecting
        }
        entries[ticket.key, default: []].append(copy)
    }

    /// The model's response goes in.
    func store(_ entry: ModelEntry, with ticket: Ticket) {
        guard !ticket.isOutdated else { return }
        modelled[ticket.key, default: []].removeAll {
            $0.digest == entry.digest && $0.selecting == entry.selecting
        }
        modelled[ticket.key, default: []].append(entry)
    }

    // MARK: Removing

    /// The cache removes a URI's responses.
    fileprivate func invalidate(_ key: CacheKey) {
        for uri in SimulatedTraffic.paths.indices
        where SimulatedExchange.key(SimulatedTraffic.paths[uri], 0).uri == key.uri {
            for ticket in tickets where ticket.key.uri == uri { ticket.isOutdated = true }
            for key in entries.keys where key.uri == uri { entries[key] = [] }
        }
    }

    /// The model removes them.
    func invalidate(_ url: String) {
        for key in modelled.keys where SimulatedTraffic.paths[key.uri] == url { modelled[key] = [] }
    }

    /// An operator removes what fits, from both.
    func purge(_ fits: (ModelStore.Key, ModelEntry) -> Bool) {
        for ticket in tickets { ticket.isOutdated = true }
        remove(fits)
    }

    private func remove(_ fits: (ModelStore.Key, ModelEntry) -> Bool) {
        for (key, all) in modelled {
            for index in all.indices.reversed() where fits(key, all[index]) {
                modelled[key]?.remove(at: index)
                entries[key]?.remove(at: index)
            }
        }
    }

    /// The level has lost a URI's responses.
    func forget(_ uri: Int) { remove { key, _ in key.uri == uri } }

    // MARK: Comparing

    /// What is wrong; nil: nothing.
    ///
    /// - Parameter numbers: of the requests under way.
    func difference(_ numbers: Set<Int>) -> String? {
        if let fault { return fault }
        if let ticket = tickets.first(where: { !numbers.contains($0.number) }) {
            return "#\(ticket.number) has ended, and has not given its ticket back"
        }
        for key in Set(entries.keys).union(modelled.keys) {
            let real = (entries[key] ?? []).map { "\($0.response.status) \($0.response.responseTime) \($0.body.count)" }
            let model = (modelled[key] ?? []).map { "\($0.status) \($0.responseTime) \($0.body.utf8.count)" }
            if real != model { return "the level has \(real) of \(key), and not \(model)" }
        }
        return nil
    }
}

/// The shared level as one request sees it.
final class SimulatedLevel: SharedLevel {
    private final class LookUp: SharedLookUp {
        var completion: ((SharedFinding) -> Void)?

        init(_ completion: @escaping (SharedFinding) -> Void) { self.completion = completion }

        func cancel() { completion = nil }
    }

    let sharing: SimulatedSharing
    private let loop: EventLoop
    private var lookUp: LookUp?

    init(_ sharing: SimulatedSharing, _ loop: EventLoop) {
        self.sharing = sharing
        self.loop = loop
    }

    /// Whether a look-up waits for its result.
    var isAsked: Bool { lookUp?.completion != nil }

    func reply(_ finding: SharedFinding) {
        let completion = lookUp?.completion
        lookUp = nil
        completion?(finding)
    }

    func lookUp(_ question: SharedQuestion, _ completion: @escaping (SharedFinding) -> Void) -> any SharedLookUp {
        let lookUp = LookUp(completion)
        self.lookUp = lookUp
        return lookUp
    }

    func store(_ entry: CachedEntry, with ticket: any SharedTicket) {
        if let ticket = sharing.end(ticket) { sharing.store(entry, with: ticket) }
    }

    func giveBack(_ ticket: any SharedTicket, isForOthers: Bool) { _ = sharing.end(ticket) }

    func invalidate(_ keys: [CacheKey], _ completion: @escaping () -> Void) {
        for key in keys { sharing.invalidate(key) }
        loop.atEndOfTurn(completion)
    }
}
