// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// How long the phases of a transfer may last.
///
/// A value: events go in with their times, in nanoseconds of a monotonic clock; the phase that has taken too long comes out.
struct TransferClock {
    enum Phase {
        /// As many connections to the host are in use as there may be.
        case queued
        /// Name lookup, TCP and TLS.
        case connecting
        /// The request body goes out.
        case sending
        /// The request is out, the final head is not there.
        case waiting
        /// The response body comes.
        case receiving
    }

    enum Verdict {
        /// Judge again then.
        case wait(until: UInt64)
        /// No head has come for a while since the request began to go out: look whether the connection is alive.
        case look
        case expired(Expiry)
    }

    /// The phase that has taken too long.
    struct Expiry {
        let phase: Phase
        /// Whether the whole task has taken too long, rather than the phase alone.
        let isTotal: Bool
        let limit: TimeSpan
    }

    private let timeouts: TaskTimeouts
    /// The time at which the whole task must be over.
    private let end: UInt64
    private(set) var phase = Phase.connecting
    /// When the request went out on its connection.
    private(set) var exchangeBegan: UInt64 = 0
    /// Since when nothing has happened.
    private var lastActivity: UInt64
    /// The task is suspended: only the limit of the whole runs.
    private var isSuspended = false
    /// When the wait for the final head asks next for a look at the connection.
    private var nextLook: UInt64

    init(_ timeouts: TaskTimeouts = TaskTimeouts(), taskStart: UInt64 = 0, now: UInt64 = 0) {
        self.timeouts = timeouts
        end = timeouts.spans.total.map { taskStart &+ $0.nanoseconds } ?? UInt64.max
        lastActivity = now
        nextLook = now &+ Self.lookInterval(timeouts)
    }

    /// Nanoseconds between two looks: usually there is time for three of them, and for the system to send a lost segment again
    /// several times.
    private static func lookInterval(_ timeouts: TaskTimeouts) -> UInt64 {
        min(max(timeouts.spans.firstByte.nanoseconds / 4, 100_000_000), 5_000_000_000)
    }

    var lookInterval: UInt64 { Self.lookInterval(timeouts) }

    /// A kept connection is doubted if it had carried nothing for so long before the request: one that has just brought a response
    /// belongs to a server that is slow.
    private static let restBeforeDoubt = TimeSpan.seconds(1).nanoseconds

    /// The request goes out on a connection.
    mutating func beginExchange(at now: UInt64) { exchangeBegan = now }

    /// Whether the connection may be the reason for a response that does not come.
    ///
    /// - Parameter restedAt: since when it had carried nothing before the request; nil for a new one.
    func doubts(_ restedAt: UInt64?) -> Bool {
        restedAt.map { exchangeBegan &- $0 >= Self.restBeforeDoubt } ?? false
    }

    mutating func enter(_ next: Phase, at now: UInt64) {
        phase = next
        lastActivity = now
    }

    /// A byte of a body has moved, in either direction. The wait for a connection, and for the final head, goes on.
    @inline(__always)
    mutating func active(at now: UInt64) {
        switch phase {
        case .sending, .receiving: lastActivity = now
        case .queued, .connecting, .waiting: break
        }
    }

    /// An informational head has come: the wait for the final one begins anew, because servers send 102 (Processing) for as
    /// long as they work. An upload may have stalled nevertheless.
    mutating func originIsAlive(at now: UInt64) {
        if case .waiting = phase { lastActivity = now }
    }

    mutating func suspend() { isSuspended = true }

    /// The phase's time begins anew.
    mutating func resume(at now: UInt64) {
        isSuspended = false
        lastActivity = now
    }

    private var limit: TimeSpan {
        switch phase {
        // A year: as good as none, and no sum with the clock overflows.
        case .queued: timeouts.spans.queue ?? .seconds(31_536_000)
        case .connecting: timeouts.spans.connect
        case .waiting: timeouts.spans.firstByte
        case .sending, .receiving: timeouts.spans.stall
        }
    }

    /// When it has taken too long, if nothing more happens.
    var deadline: UInt64 { isSuspended ? end : min(end, lastActivity &+ limit.nanoseconds) }

    /// When `judge` has something to say at the earliest.
    var nextJudgement: UInt64 { min(deadline, nextLook) }

    mutating func judge(at now: UInt64) -> Verdict {
        if now >= end {
            return .expired(Expiry(phase: phase, isTotal: true, limit: timeouts.spans.total ?? limit))
        }
        if !isSuspended, now >= lastActivity &+ limit.nanoseconds {
            return .expired(Expiry(phase: phase, isTotal: false, limit: limit))
        }
        if now >= nextLook {
            if case .receiving = phase { nextLook = .max } else { nextLook = now &+ lookInterval }
            switch phase {
            // A request that waits for 100 (Continue), or for its body, is not sent either.
            case .sending, .waiting: if !isSuspended { return .look }
            case .queued, .connecting, .receiving: break
            }
        }
        return .wait(until: nextJudgement)
    }
}

extension TransferClock.Expiry {
    /// The error for the task.
    ///
    /// - Parameter stage: how far the connection had come.
    func error(_ endpoint: Endpoint, at stage: ConnectionStage) -> SessionError {
        if isTotal {
            return SessionError(
                phase == .connecting || phase == .queued ? .connectTimeout : .responseTimeout,
                "The request took longer than timeouts.total (\(limit.milliseconds) ms)."
            )
        }
        switch phase {
        case .queued:
            return SessionError(
                .limitReached,
                "As many connections to \(endpoint.host) are in use as connectionsPerHost allows, and none became free within timeouts.queue (\(limit.milliseconds) ms). Try again, or raise the limit."
            )
        case .connecting:
            if stage == .lookup {
                return SessionError(
                    .dnsTimeout,
                    "No address to connect to for \(endpoint.host) within timeouts.connect (\(limit.milliseconds) ms). "
                        + "Check the name servers, or give the host a \"resolve\" address."
                )
            }
            if stage == .tunnel, let proxy = endpoint.proxy {
                return SessionError(
                    .connectTimeout,
                    "The upstream proxy \(proxy.authorityText) has opened no tunnel to \(endpoint.host) within timeouts.connect (\(limit.milliseconds) ms)."
                )
            }
            return SessionError(
                .connectTimeout,
                "No connection to \(endpoint.host) within timeouts.connect (\(limit.milliseconds) ms)."
            )
        case .waiting:
            return SessionError(
                .responseTimeout,
                "No answer from \(endpoint.host) within timeouts.firstByte (\(limit.milliseconds) ms)."
            )
        case .sending, .receiving:
            return SessionError(
                .stalled,
                "No byte of a body has moved within timeouts.stall (\(limit.milliseconds) ms)."
            )
        }
    }
}
