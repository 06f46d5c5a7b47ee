// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The owner of clients' connections: decides what they begin with, and lets them read and write in their turns. A base class.
class TransportOwner: EndOfTurnHandler {
    private let loop: EventLoop
    private var toFlush = TurnQueue<ClientTransport>()
    private var toPump = TurnQueue<ClientTransport>()
    /// The turn in which the time for input that was put off was over, by its begin.
    private var turnWithoutPumps: UInt64 = 0

    /// Input that was put off has so many nanoseconds of a turn: those who have just sent something come first.
    private static let timeForPumps: UInt64 = 1_000_000

    init(_ loop: EventLoop) {
        self.loop = loop
        super.init()
    }

    /// TLS is there, or is not used: begins with HTTP.
    func serveHTTP(on transport: ClientTransport) { preconditionFailure("a subclass overrides this") }

    /// A client was redirected here: its first bytes say what it speaks.
    func serveRedirected(_ transport: ClientTransport) { preconditionFailure("a subclass overrides this") }

    /// The connection is closed.
    func didClose(_ transport: ClientTransport) { preconditionFailure("a subclass overrides this") }

    /// A connection holds more than its part of the memory: makes room.
    func relieve() { preconditionFailure("a subclass overrides this") }

    // MARK: Work put off to the end of the turn

    final func flushLater(_ connection: ClientTransport) {
        toFlush.append(connection)
        loop.atEndOfTurn(self)
    }

    final func pumpLater(_ connection: ClientTransport) {
        toPump.append(connection)
        loop.atEndOfTurn(self)
    }

    final override func turnEnds() {
        if let connection = toFlush.takeOnly() {
            connection.flushPlanned()
        } else if !toFlush.isEmpty {
            let flushed = toFlush.take()
            for place in flushed.indices {
                // The first one in any case, so that each has its turn.
                if place > 0, loop.isTurnLong {
                    toFlush.putBack(flushed[place...])
                    loop.atEndOfTurn(self)
                    break
                }
                flushed[place].flushPlanned()
            }
            toFlush.giveBack(flushed)
        }
        if !toPump.isEmpty { pumpPlanned() }
    }

    private func pumpPlanned() {
        guard turnWithoutPumps != loop.turnBegan else { return loop.atEndOfTurn(self) }
        let pumped = toPump.take()
        let begun = loop.freshNow
        for place in pumped.indices {
            if place > 0, loop.isTurnLong || loop.freshNow &- begun >= Self.timeForPumps {
                turnWithoutPumps = loop.turnBegan
                toPump.putBack(pumped[place...])
                loop.atEndOfTurn(self)
                break
            }
            pumped[place].pumpPlanned()
        }
        toPump.giveBack(pumped)
    }
}
