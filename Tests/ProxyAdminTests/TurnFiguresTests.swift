// SPDX-License-Identifier: Apache-2.0
import IOCore
import Testing

@testable import ProxyAdmin

@Suite("The figures of turns")
struct TurnFiguresTests {
    private func turn(_ milliseconds: Int, _ work: TurnWork = .handshake) -> LongTurn {
        LongTurn(microseconds: milliseconds * 1000, work: work)
    }

    @Test("the workers' turns are added, and each one's longest is shown")
    func figures() {
        let records = [TurnRecord(), TurnRecord(), TurnRecord()]
        records[0].noteShort()
        records[0].note(turn(3), at: 0)
        records[2].note(turn(34_000, [.handshake, .message]), at: 0)
        records[2].noteProcessor(nanoseconds: 34_000_000_000)
        let figures = TurnFigures(records, at: 0)
        #expect(figures.counts.reduce(0, +) == 3)
        #expect(figures.counts.last == 1)
        #expect(figures.processorTime == 34_000_000)
        #expect(
            figures.document
                == "{\"workers\":[{\"longestTurn\":{\"milliseconds\":3,\"work\":[\"handshake\"]}},{},"
                + "{\"longestTurn\":{\"milliseconds\":34000,\"work\":[\"handshake\",\"message\"]}}]}\n"
        )
    }
}
