// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import ProxyCore

@Suite("The life of a client's HTTP/1.1 connection")
final class ConnectionLifeTests {
    private var life = ConnectionLife()

    private static let phases: [ConnectionLife.Phase] = [.head, .exchange, .lingering, .closed]

    private static func life(in phase: ConnectionLife.Phase) -> ConnectionLife {
        var life = ConnectionLife()
        switch phase {
        case .head: break
        case .exchange: life.beginExchange()
        case .lingering:
            life.beginExchange()
            _ = life.exchangeEnded(persists: false, isWhole: true)
        case .closed: _ = life.close()
        }
        return life
    }

    @Test("One request follows the other while the connection persists")
    func requests() {
        #expect(Self.phases.map { Self.life(in: $0).phase } == Self.phases)
        for _ in 0..<2 {
            life.beginExchange()
            #expect(life.phase == .exchange)
            #expect(life.exchangeEnded(persists: true, isWhole: true) == .next && life.phase == .head)
        }
    }

    @Test("A connection that does not persist lingers, and one with an incomplete response closes")
    func ends() {
        life.beginExchange()
        #expect(life.exchangeEnded(persists: false, isWhole: true) == .linger && life.phase == .lingering)
        for persists in [false, true] {
            life = Self.life(in: .exchange)
            // What is here of the response is still written.
            #expect(life.exchangeEnded(persists: persists, isWhole: false) == .close && life.phase == .exchange)
        }
    }

    @Test("A connection closes once")
    func closes() {
        for phase in Self.phases {
            life = Self.life(in: phase)
            #expect(life.close() == (phase != .closed) && life.phase == .closed && !life.close())
        }
    }

    @Test("A connection that ends drops at most 1 MB of input")
    func drops() {
        life = Self.life(in: .lingering)
        #expect(!life.drop(1 << 20) && life.drop(1))
    }

    @Test("The end of the input ends the connection, except during a request")
    func inputEnd() {
        let expected: [ConnectionLife.InputEnd] = [.close, .endBody, .close, .ignore]
        #expect(Self.phases.map { Self.life(in: $0).inputEnded() } == expected)
    }

    // MARK: Time

    @Test("A time that is up means another thing in each phase")
    func timeouts() {
        let expected: [ConnectionLife.Timeout] = [.idle, .checkBody, .close, .ignore]
        for (phase, outcome) in zip(Self.phases, expected) {
            life = Self.life(in: phase)
            #expect(life.timeIsUp(isInsideHead: false) == outcome && life.phase == phase)
        }
        // An incomplete head gets a response.
        #expect(Self.life(in: .head).phase == .head)
        life = Self.life(in: .head)
        #expect(life.timeIsUp(isInsideHead: true) == .refuseHead && life.phase == .exchange)
        // In a body the head is complete, whatever else is said.
        #expect(life.timeIsUp(isInsideHead: true) == .checkBody)
    }

    @Test("An idle connection closes, unless a head or a last response is under way")
    func idleness() {
        for (isInsideHead, isDraining, hasOutput, expected) in [
            (false, false, false, ConnectionLife.Idleness.close), (false, false, true, .close),
            (false, true, false, .close), (false, true, true, .linger), (true, true, true, .awaitHead),
            (true, false, false, .awaitHead),
        ] {
            life = ConnectionLife()
            let next = life.idle(isInsideHead: isInsideHead, isDraining: isDraining, hasOutput: hasOutput)
            #expect(next == expected && life.phase == (expected == .linger ? .lingering : .head))
        }
        for phase in Self.phases.dropFirst() {
            life = Self.life(in: phase)
            #expect(life.idle(isInsideHead: false, isDraining: false, hasOutput: false) == .goOn)
        }
    }

    @Test("The idle time begins again with each 1,024 bytes that the client reads")
    func slowReader() {
        #expect(!life.wrote(1023, isAll: false, hasExchange: false) && life.wrote(1, isAll: false, hasExchange: false))
        #expect(life.wrote(1023, isAll: false, hasExchange: false) == false, "it counts from there")
        #expect(life.wrote(1, isAll: true, hasExchange: false) == true)
        #expect(life.wrote(0, isAll: true, hasExchange: false) == true)
    }

    @Test("Output of a request does not begin the idle time")
    func writingInExchange() {
        life.beginExchange()
        #expect(life.wrote(4096, isAll: true, hasExchange: true) == false)
        #expect(life.wrote(1, isAll: false, hasExchange: false) == true)
    }
}
