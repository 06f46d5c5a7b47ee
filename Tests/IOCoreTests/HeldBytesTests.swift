// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import IOCore

@Suite("The budget for bytes that peers make the process hold")
struct HeldBytesTests {
    @Test("an account draws whole steps, keeps some, and gives all back when it goes")
    func steps() {
        let budget = HeldBytesBudget(limit: 1 << 30)
        var account: HeldBytes? = HeldBytes(budget)
        #expect(budget.used == 0)
        account?.change(by: 1000)
        #expect(budget.used == HeldBytes.step)
        account?.change(by: -1000)
        #expect(budget.used == HeldBytes.step)
        account?.change(by: 10 << 20)
        #expect(budget.used >= 10 << 20 && budget.used <= 10 << 20 + HeldBytes.step)
        account?.change(by: -(10 << 20))
        #expect(budget.used <= 2 * HeldBytes.step)
        #expect(account?.count == 0)
        account = nil
        #expect(budget.used == 0)
    }

    @Test("small changes to and fro do not touch the shared number")
    func hysteresis() {
        let budget = HeldBytesBudget(limit: 1 << 30)
        let account = HeldBytes(budget)
        account.change(by: HeldBytes.step)
        let used = budget.used
        for _ in 0..<100 {
            account.change(by: HeldBytes.step / 2)
            account.change(by: -HeldBytes.step / 2)
        }
        #expect(budget.used <= used + HeldBytes.step)
    }

    @Test("above half of the limit, a connection holds its part of the rest")
    func parts() {
        let budget = HeldBytesBudget(limit: 64 << 20)
        let account = HeldBytes(budget)
        #expect(budget.mayHoldMore(1 << 30, of: 10))
        account.change(by: 32 << 20)
        #expect(budget.isShort)
        #expect(budget.mayHoldMore(0, of: 10) && budget.mayHoldMore(3 << 20, of: 10))
        #expect(!budget.mayHoldMore(4 << 20, of: 10))
        #expect(budget.mayHoldMore(31 << 20, of: 1) && !budget.mayHoldMore(32 << 20, of: 1))
        // However many there are, one that holds nothing is served.
        #expect(budget.mayHoldMore(0, of: 1_000_000) && budget.mayHoldMore(0, of: 0))
        budget.setLimit(1 << 30)
        #expect(!budget.isShort && budget.mayHoldMore(32 << 20, of: 10))
    }

    @Test("consecutive connections hold at most the limit and 64 KB each")
    func oneAfterAnother() {
        let limit = 40 << 20
        for count in [1, 10, 100, 1000, 10_000] {
            let budget = HeldBytesBudget(limit: limit)
            let account = HeldBytes(budget)
            for number in 1...count {
                // Each takes as much as it may while the later ones are not there yet.
                var held = 0
                while held < 8 << 20, budget.mayHoldMore(held, of: number) {
                    held += 1 << 10
                    account.change(by: 1 << 10)
                }
                // One that holds nothing is served, however much others hold.
                #expect(held > 0)
            }
            #expect(account.count <= limit + count * (65 << 10), "\(count): \(account.count >> 20) MB")
        }
    }

    @Test("the process's memory limit is the machine's or its control group's")
    func available() {
        #expect(SystemMemory.available > 16 << 20)
        #expect(SystemMemory.limit("max\n") == nil && SystemMemory.limit("") == nil && SystemMemory.limit("0\n") == nil)
        #expect(SystemMemory.limit("99999999999999999999\n") == nil)
        #expect(SystemMemory.limit("268435456\n") == 268_435_456)
        #expect(SystemMemory.path(ofGroup: "1:name=systemd:/a\n0::/system.slice/b\n") == "/system.slice/b")
        #expect(SystemMemory.path(ofGroup: "0::/\n") == "/")
        #expect(SystemMemory.path(ofGroup: "12:memory:/a\n") == "")
    }
}
