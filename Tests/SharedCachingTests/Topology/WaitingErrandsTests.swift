// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SharedCaching

@Suite("Commands that wait for their server")
struct WaitingErrandsTests {
    private static func errand(_ deadline: UInt64) -> RedisErrand {
        RedisErrand(command: RedisCommand("PING"), key: [], deadline: deadline) { _ in }
    }

    @Test("commands whose time is over are taken out, in their order")
    func due() {
        var waiting = WaitingErrands()
        #expect(waiting.isEmpty && waiting.earliest == nil)
        for deadline: UInt64 in [30, 10, 20, 10] { #expect(waiting.add(Self.errand(deadline)) == true) }
        #expect(waiting.earliest == 10)
        #expect(waiting.take(until: 9).isEmpty)
        #expect(waiting.take(until: 10).map(\.deadline) == [10, 10])
        #expect(waiting.earliest == 20)
        #expect(waiting.take(until: .max).map(\.deadline) == [30, 20])
        #expect(waiting.isEmpty && waiting.earliest == nil)
    }

    @Test("at most 1,024 commands wait")
    func bound() {
        var waiting = WaitingErrands()
        for _ in 0..<1_024 { #expect(waiting.add(Self.errand(1)) == true) }
        #expect(waiting.add(Self.errand(1)) == false)
        #expect(waiting.take(until: 1).count == 1_024)
        #expect(waiting.add(Self.errand(1)) == true)
    }
}
