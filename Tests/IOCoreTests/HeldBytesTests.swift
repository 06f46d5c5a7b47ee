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

    @Test("from half of the limit on, a connection holds its part of the other half")
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

    @Test("the memory of the process is that of the machine, or of its control group")
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
