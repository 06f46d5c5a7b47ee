// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Which address of a name is dialled, and when: Happy Eyeballs (RFC 8305, sections 4 and 5). A value; times are nanoseconds of a
/// monotonic clock.
///
/// It is told what becomes of the addresses, and `step` says what is to be done now. The race goes on behind an address that has
/// connected, until that one has answered: a server that accepts connections and says nothing is as good as none.
struct AddressRace {
    enum Step: Equatable {
        case dial(SocketAddress)
        /// Its dial ends, because another address has connected or needs its place. It may be dialled again.
        case giveUp(SocketAddress)
        /// The address that has connected has had its time to answer. It has failed, unless it has answered meanwhile.
        case judge(SocketAddress)
        /// Nothing is to be done before, unless something happens; nil without an end.
        case wait(until: UInt64?)
        /// All addresses have failed.
        case end
    }

    private struct Attempt {
        let address: SocketAddress
        let since: UInt64
    }

    private enum Answer {
        /// The address that has connected may take its time.
        case optional
        case awaited
        case given
    }

    /// The next address is dialled so long after the last one (RFC 8305's Connection Attempt Delay).
    static let attemptDelay = TimeSpan.milliseconds(250)
    /// As many addresses are dialled at a time: each takes a descriptor.
    static let limit = 4
    /// When as many are dialled, the first of them gives its place to the next address after so long, in which the kernel has
    /// repeated a SYN that was lost.
    static let dialPatience = TimeSpan.seconds(2)
    /// The time that a connected address has for the first bytes of its answer, while there are others.
    static let answerPatience = TimeSpan.seconds(3)
    /// An address counts as failed when the race is given up after so long without a sign of it.
    static let silence = TimeSpan.seconds(1)

    /// Whether there is one address: then nothing has to be remembered of it, and no time has to be kept.
    let isAlone: Bool
    private let delay: UInt64
    /// The addresses that are dialled next, the first one last.
    private var waiting: [SocketAddress]
    /// The addresses that are dialled now, in the order in which that began.
    private var running: [Attempt] = []
    private(set) var connected: SocketAddress?
    private var connectedSince: UInt64 = 0
    private var answer = Answer.optional
    /// When the next address is dialled although others still are.
    private var nextDial: UInt64 = 0

    /// - Parameters:
    ///   - addresses: the best one first.
    ///   - failed: these come behind the others.
    init(
        _ addresses: [SocketAddress],
        delay: TimeSpan = Self.attemptDelay,
        behind failed: FailedAddresses,
        at now: UInt64
    ) {
        self.delay = delay.nanoseconds
        waiting = addresses.count == 1 ? addresses : Self.sorted(addresses, behind: failed, at: now).reversed()
        isAlone = waiting.count == 1
    }

    /// Each address once, the families in turns (RFC 8305, section 4).
    private static func sorted(
        _ addresses: [SocketAddress],
        behind failed: FailedAddresses,
        at now: UInt64
    ) -> [SocketAddress] {
        var fresh: [SocketAddress] = []
        var late: [SocketAddress] = []
        for address in addresses where !fresh.contains(address) && !late.contains(address) {
            if failed.contains(address, at: now) { late.append(address) } else { fresh.append(address) }
        }
        return inTurns(fresh) + inTurns(late)
    }

    private static func inTurns(_ addresses: [SocketAddress]) -> [SocketAddress] {
        let first = addresses.filter { $0.family == addresses[0].family }
        let second = addresses.filter { $0.family != addresses[0].family }
        return (0..<max(first.count, second.count)).flatMap {
            first.dropFirst($0).prefix(1) + second.dropFirst($0).prefix(1)
        }
    }

    /// Whether another address is left behind the one that has connected.
    var hasOthers: Bool { !waiting.isEmpty || !running.isEmpty }

    /// The next thing to do. To be called until it says `wait` or `end`, and for `judge` after `didAnswer` or `didFail`.
    mutating func step(at now: UInt64, _ failed: inout FailedAddresses) -> Step {
        if let connected {
            if let other = running.popLast() { return giveUp(other) }
            guard case .awaited = answer, !waiting.isEmpty else { return .wait(until: nil) }
            let end = connectedSince &+ Self.answerPatience.nanoseconds
            return now >= end ? .judge(connected) : .wait(until: end)
        }
        guard let next = waiting.last else { return running.isEmpty ? .end : .wait(until: nil) }
        guard !running.isEmpty else { return dial(next, at: now) }
        guard running.count >= Self.limit else {
            return now >= nextDial ? dial(next, at: now) : .wait(until: nextDial)
        }
        let end = max(nextDial, running[0].since &+ Self.dialPatience.nanoseconds)
        guard now >= end else { return .wait(until: end) }
        failed.note(running[0].address, at: now)
        return giveUp(running.removeFirst())
    }

    private mutating func dial(_ address: SocketAddress, at now: UInt64) -> Step {
        waiting.removeLast()
        running.append(Attempt(address: address, since: now))
        nextDial = now &+ delay
        return .dial(address)
    }

    private mutating func giveUp(_ attempt: Attempt) -> Step {
        waiting.insert(attempt.address, at: 0)
        return .giveUp(attempt.address)
    }

    /// The address has connected.
    mutating func didConnect(_ address: SocketAddress, at now: UInt64, _ failed: inout FailedAddresses) {
        guard let index = running.firstIndex(where: { $0.address == address }) else { return }
        running.remove(at: index)
        (connected, connectedSince, answer) = (address, now, .optional)
        // They had a start.
        for slower in running[..<index] { failed.note(slower.address, at: now) }
    }

    /// The address that has connected has to say something before long.
    mutating func awaitAnswer() { answer = .awaited }

    /// The address that has connected has answered. The race is over.
    mutating func didAnswer(_ failed: inout FailedAddresses) {
        answer = .given
        if let connected, !isAlone { failed.forget(connected) }
    }

    /// The dial of an address has failed, or the address that has connected has not answered. The next one is dialled at once.
    ///
    /// - Parameter isItsOwn: whether it is the address's failure, rather than this process's.
    mutating func didFail(
        _ address: SocketAddress,
        isItsOwn: Bool = true,
        at now: UInt64,
        _ failed: inout FailedAddresses
    ) {
        if connected == address { connected = nil }
        running.removeAll { $0.address == address }
        nextDial = now
        if isItsOwn, !isAlone { failed.note(address, at: now) }
    }

    /// Nothing waits for the race any more.
    func giveUp(at now: UInt64, _ failed: inout FailedAddresses) {
        guard !isAlone else { return }
        func note(_ address: SocketAddress, since: UInt64) {
            if now &- since >= Self.silence.nanoseconds { failed.note(address, at: now) }
        }
        for attempt in running { note(attempt.address, since: attempt.since) }
        if let connected, case .awaited = answer { note(connected, since: connectedSince) }
    }
}

/// The addresses of a session that have failed of late. A value; times are nanoseconds of a monotonic clock.
struct FailedAddresses {
    /// The largest number of addresses.
    static let capacity = 256
    /// An address is remembered for so long.
    static let lifetime = TimeSpan.seconds(60)

    private var ends: [SocketAddress: UInt64] = [:]

    var count: Int { ends.count }

    func contains(_ address: SocketAddress, at now: UInt64) -> Bool { ends[address].map { now < $0 } ?? false }

    mutating func note(_ address: SocketAddress, at now: UInt64) {
        if ends.count >= Self.capacity, ends[address] == nil { makeRoom(at: now) }
        ends[address] = now &+ Self.lifetime.nanoseconds
    }

    mutating func forget(_ address: SocketAddress) {
        if !ends.isEmpty { ends[address] = nil }
    }

    /// Removes those whose time is over, or else the one that failed first.
    private mutating func makeRoom(at now: UInt64) {
        ends = ends.filter { now < $0.value }
        guard ends.count >= Self.capacity, let first = ends.min(by: { $0.value < $1.value }) else { return }
        ends[first.key] = nil
    }
}
