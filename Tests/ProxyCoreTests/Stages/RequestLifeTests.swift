// SPDX-License-Identifier: Apache-2.0
import IOCore
import Testing

@testable import ProxyCore

@Suite("The life of a client's request")
final class RequestLifeTests {
    private var life = RequestLife()
    private let problem = Problem(.hostDenied, "It is not listed.")

    @Test("A request is under way from its beginning to its end")
    func ends() {
        #expect(life.isOver && life.problem == nil, "no request has begun")
        life.begin(at: 7, wall: 9)
        #expect(!life.isOver && life.startedAt == 7 && life.startedWall == 9)
        life.end(nil)
        #expect(life.isOver && life.problem == nil && life.startedAt == 7 && life.startedWall == 9)
    }

    @Test("The error of a request is not that of the next one")
    func problems() {
        life.begin(at: 1, wall: 1)
        life.end(problem)
        #expect(life.isOver && life.problem?.code == .hostDenied)
        life.begin(at: 2, wall: 2)
        #expect(!life.isOver && life.problem == nil)
        life.end(problem)
        life.end(nil)
        #expect(life.problem == nil)
    }

    @Test("After sixteen reloads in a row the next one ends a waiting request")
    func restarts() {
        life.begin(at: 5, wall: 6)
        for count in 1...16 { #expect(life.restart() == nil && life.restarts == count) }
        #expect(life.restart()?.code == .sessionInvalidated && life.restarts == 17)
        #expect(!life.isOver && life.startedAt == 5 && life.startedWall == 6, "its time goes on")
        life.begin(at: 8, wall: 9)
        #expect(life.restarts == 0 && life.restart() == nil)
    }

    @Test("What waits comes in time until the request ends or begins again")
    func marks() {
        life.begin(at: 1, wall: 1)
        let first = life.mark
        #expect(life.isCurrent(first) && life.mark == first)
        #expect(life.restart() == nil)
        let second = life.mark
        #expect(!life.isCurrent(first) && life.isCurrent(second) && first != second)
        life.end(nil)
        #expect(!life.isCurrent(second) && life.mark == second)
        life.begin(at: 2, wall: 2)
        #expect(!life.isCurrent(first) && !life.isCurrent(second) && life.isCurrent(life.mark))
    }

    @Test("What waits for a request that is given up comes too late")
    func givenUp() {
        life.begin(at: 1, wall: 1)
        for _ in 1...16 { _ = life.restart() }
        let mark = life.mark
        #expect(life.restart() != nil && !life.isCurrent(mark))
    }

    @Test("The whole time is counted from the beginning, over all restarts")
    func time() {
        let total = TimeSpan(nanoseconds: 100)
        life.begin(at: 1000, wall: 1)
        for (now, rest) in [(1000, 100), (1001, 99), (1099, 1), (1100, nil), (1101, nil), (9000, nil)]
            as [(UInt64, UInt64?)]
        {
            #expect(life.rest(of: total, at: now)?.nanoseconds == rest)
        }
        _ = life.restart()
        #expect(life.rest(of: total, at: 1060)?.nanoseconds == 40)
        life.begin(at: 2000, wall: 2)
        #expect(life.rest(of: total, at: 2010)?.nanoseconds == 90)
    }
}
