// SPDX-License-Identifier: Apache-2.0
/// Work that waits for a thread. Each party (a client's address, an origin) has a queue of its own, and the parties take
/// turns; a party has at most a share of the threads at a time. So one party's work, however much and however long, delays
/// the others' by a part of the threads alone.
///
/// Each operation takes the same time for any length and number of the queues.
package struct FairQueue<Element> {
    private struct Lane {
        var waiting: [Element?] = []
        var first = 0
        var running = 0
        /// Whether the party is in `turns`.
        var isInTurn = false

        var isEmpty: Bool { first == waiting.count }

        mutating func popFirst() -> Element? {
            guard first < waiting.count else { return nil }
            defer {
                first += 1
                if first == waiting.count || first == 256 {
                    waiting.removeFirst(first)
                    first = 0
                }
            }
            return waiting[first].take()
        }
    }

    private let share: Int
    private var lanes: [UInt64: Lane] = [:]
    /// The parties that have work waiting and are below their share, each once; those before `firstTurn` are over.
    private var turns: [UInt64] = []
    private var firstTurn = 0
    /// The number of elements that wait.
    package private(set) var waitingCount = 0

    /// - Parameter share: the number of elements of a party that may run at a time, at least one.
    package init(share: Int) { self.share = max(1, share) }

    package mutating func append(_ element: Element, of party: UInt64) {
        lanes[party, default: Lane()].waiting.append(element)
        waitingCount += 1
        giveTurn(party)
    }

    /// The next element that may run; `didEnd` has to follow.
    package mutating func popNext() -> (element: Element, party: UInt64)? {
        guard firstTurn < turns.count else { return nil }
        let party = turns[firstTurn]
        firstTurn += 1
        if firstTurn == turns.count || firstTurn == 256 {
            turns.removeFirst(firstTurn)
            firstTurn = 0
        }
        lanes[party]?.isInTurn = false
        guard let element = lanes[party]?.popFirst() else { return nil }
        waitingCount -= 1
        lanes[party]?.running += 1
        giveTurn(party)
        return (element, party)
    }

    /// A party's element has run.
    package mutating func didEnd(of party: UInt64) {
        guard lanes[party] != nil else { return }
        lanes[party]?.running -= 1
        if let lane = lanes[party], lane.running == 0, lane.isEmpty { lanes[party] = nil }
        giveTurn(party)
    }

    private mutating func giveTurn(_ party: UInt64) {
        guard let lane = lanes[party], !lane.isInTurn, !lane.isEmpty, lane.running < share else { return }
        lanes[party]?.isInTurn = true
        turns.append(party)
    }

    /// Nothing waits and nothing runs.
    package var isIdle: Bool { lanes.isEmpty }
}
