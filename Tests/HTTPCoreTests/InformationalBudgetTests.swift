// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@Suite("How many informational responses an origin may send")
struct InformationalBudgetTests {
    private static let second: UInt64 = 1_000_000_000

    private func isExcessive(_ verdict: InformationalBudget.Verdict) -> Bool {
        if case .excessive = verdict { return true }
        return false
    }

    @Test("the first 16 are relayed, whatever the time between them; others are dropped")
    func relayed() {
        var budget = InformationalBudget(headBytes: 4096)
        let verdicts = (0..<40).map { budget.receive(status: 103, byteCount: 30, at: UInt64($0) * 10 * Self.second) }
        #expect(verdicts == Array(repeating: .relay, count: 16) + Array(repeating: .drop, count: 24))
    }

    @Test("100 (Continue) is passed on behind any number of others")
    func lateContinue() {
        var budget = InformationalBudget(headBytes: 4096)
        for _ in 0..<50 { _ = budget.receive(status: 102, byteCount: 30, at: Self.second) }
        #expect(budget.receive(status: 100, byteCount: 25, at: Self.second) == .relay)
        #expect(budget.receive(status: 102, byteCount: 30, at: Self.second) == .drop)
    }

    @Test("the 101st within a second is too many, also of 100 (Continue)", arguments: [100, 102, 103])
    func rate(status: Int) {
        var budget = InformationalBudget(headBytes: 1 << 20)
        for number in 0..<100 {
            let verdict = budget.receive(status: status, byteCount: 30, at: 7 * Self.second + UInt64(number))
            #expect(!isExcessive(verdict))
        }
        #expect(isExcessive(budget.receive(status: status, byteCount: 30, at: 8 * Self.second - 1)))
    }

    @Test("a 1xx response every 10 ms may come for ever")
    func steady() {
        var budget = InformationalBudget(headBytes: 1 << 20)
        for number in 0..<5000 {
            let verdict = budget.receive(status: 102, byteCount: 30, at: UInt64(number) * (Self.second / 100))
            #expect(!isExcessive(verdict))
        }
    }

    @Test("more bytes in a second than one head's limit are too many")
    func bytes() {
        var budget = InformationalBudget(headBytes: 4096)
        #expect(budget.receive(status: 103, byteCount: 4000, at: Self.second) == .relay)
        #expect(budget.receive(status: 103, byteCount: 4000, at: 2 * Self.second) == .relay)
        #expect(budget.receive(status: 103, byteCount: 96, at: 2 * Self.second + 1) == .relay)
        guard case .excessive(let why) = budget.receive(status: 103, byteCount: 1, at: 2 * Self.second + 2) else {
            Issue.record("4,097 bytes in a second are accepted")
            return
        }
        #expect(why.contains("limits.responseHeadBytes"))
    }
}
