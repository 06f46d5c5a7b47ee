// SPDX-License-Identifier: Apache-2.0
import IOCore
import TestSupport
import Testing

@testable import ProxyCore

@Suite("Whether the loops go round", .onOwnThreads)
struct LoopWatchdogTests {
    private static let patience = LoopChecks.patience

    @Test("a loop without response is stuck, and checked once at a time")
    func book() {
        var book = LoopChecks(count: 2)
        #expect(book.isAlive(at: 1000), "no check has been started yet")
        #expect(book.start(at: 1000) == [0, 1])
        #expect(book.start(at: 2000) == [])
        book.didRespond(0)
        #expect(book.isAlive(at: 1000 + Self.patience))
        #expect(!book.isAlive(at: 1001 + Self.patience))
        #expect(book.isAlive(at: 1500, patience: 500) && !book.isAlive(at: 1501, patience: 500))
        #expect(book.start(at: 1001 + Self.patience) == [0])
        book.didRespond(1)
        #expect(book.isAlive(at: 1002 + Self.patience))
        #expect(book.isAlive(at: 0), "a clock that seems to go back proves nothing")
    }

    @Test("a proxy without loops is alive")
    func none() {
        #expect(LoopWatchdog([]).check(at: 0))
    }

    @Test("a loop that does not end its turn is found, and its recovery too")
    func stuck() throws {
        let loop = try EventLoop()
        let thread = try LoopThread(name: "stuck") { loop.run() }
        let watchdog = LoopWatchdog([loop])
        let (entered, left) = (Latch(count: 1), Latch(count: 1))
        loop.submit {
            entered.countDown()
            left.wait()
        }
        entered.wait()
        #expect(watchdog.check(at: 1))
        #expect(watchdog.check(at: 1000, patience: 999) && !watchdog.check(at: 1002, patience: 999))
        #expect(!watchdog.check(at: 2 + Self.patience, patience: .max), "nobody waits longer")
        #expect(!watchdog.check(at: 2 + Self.patience))
        left.countDown()
        try Patience.poll(for: "the answer") { watchdog.check(at: 2 + Self.patience) ? true : nil }
        loop.stop()
        thread.join()
    }
}
