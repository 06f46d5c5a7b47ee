// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The names that are looked up at a time, and those that wait for it.
///
/// A name that has had no response for a second gives up its place to a name that waits for its first one, and goes on
/// when there is room again, at most in half of the places: a few silent names cannot fill all places. A value; times are
/// nanoseconds of a monotonic clock.
struct NameQueue {
    enum Action: Equatable {
        case start(String)
        /// The lookup is given up; a later `start` begins anew.
        case stop(String)
    }

    /// The largest number of names that are looked up at a time.
    static let limit = 64
    /// Silent names start again only while fewer lookups than this are running.
    static let silentShare = 32
    /// A lookup without a response for this time may be stopped in favour of a name that has not been asked for yet.
    private let patience: TimeSpan

    private struct Running {
        let name: String
        let since: UInt64
    }

    /// A FIFO queue. Each name has a ticket number; a ticket whose number is no longer the name's is skipped.
    private struct TicketQueue {
        private var tickets: [(name: String, number: UInt64)] = []
        private var first = 0

        var count: Int { tickets.count }

        mutating func append(_ name: String, _ number: UInt64) { tickets.append((name, number)) }

        /// Lets go of the tickets of names that have left, when these are most of them.
        mutating func tidy(_ waiting: [String: UInt64]) {
            guard tickets.count > 64, tickets.count > 2 * waiting.count else { return }
            tickets.removeSubrange(..<first)
            first = 0
            tickets.removeAll { waiting[$0.name] != $0.number }
        }

        /// - Parameter waiting: the names that wait, with the number of their ticket.
        mutating func head(_ waiting: [String: UInt64]) -> String? {
            if first > 64, first * 2 > tickets.count {
                tickets.removeFirst(first)
                first = 0
            }
            while first < tickets.count {
                let ticket = tickets[first]
                if waiting[ticket.name] == ticket.number { return ticket.name }
                first += 1
            }
            tickets.removeAll()
            first = 0
            return nil
        }
    }

    /// The longest running first.
    private var running: [Running] = []
    private var fresh = TicketQueue()
    private var silent = TicketQueue()
    private var waiting: [String: UInt64] = [:]
    private var lastNumber: UInt64 = 0

    init(patience: TimeSpan = .seconds(1)) { self.patience = patience }

    var isEmpty: Bool { running.isEmpty && waiting.isEmpty }
    var runningCount: Int { running.count }
    /// The tickets of both queues, also those of names that have left.
    var ticketCount: Int { fresh.count + silent.count }

    mutating func add(_ name: String, at now: UInt64) -> [Action] {
        waiting[name] = nextNumber()
        fresh.append(name, lastNumber)
        return proceed(at: now)
    }

    /// The lookup has ended, or nothing waits for it any more. The caller stops it.
    mutating func remove(_ name: String, at now: UInt64) -> [Action] {
        waiting[name] = nil
        running.removeAll { $0.name == name }
        fresh.tidy(waiting)
        silent.tidy(waiting)
        return proceed(at: now)
    }

    /// When `proceed` is to be called, if nothing happens before.
    mutating func nextStep() -> UInt64? {
        guard fresh.head(waiting) != nil, let oldest = running.first else { return nil }
        return oldest.since &+ patience.nanoseconds
    }

    mutating func proceed(at now: UInt64) -> [Action] {
        var actions: [Action] = []
        while let name = fresh.head(waiting) {
            if running.count >= Self.limit {
                let oldest = running[0]
                guard now >= oldest.since &+ patience.nanoseconds else { break }
                running.removeFirst()
                waiting[oldest.name] = nextNumber()
                silent.append(oldest.name, lastNumber)
                actions.append(.stop(oldest.name))
            }
            start(name, at: now, &actions)
        }
        while running.count < Self.silentShare, let name = silent.head(waiting) { start(name, at: now, &actions) }
        return actions
    }

    private mutating func start(_ name: String, at now: UInt64, _ actions: inout [Action]) {
        waiting[name] = nil
        running.append(Running(name: name, since: now))
        actions.append(.start(name))
    }

    private mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }
}
