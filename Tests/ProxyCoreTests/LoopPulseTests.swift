import IOCore
import TestSupport
import Testing

@testable import ProxyCore

@Suite("Whether the loops go round")
struct LoopPulseTests {
    private static let patience = PulseBook.patience

    @Test("who has not answered for long is stuck, and is asked once")
    func book() {
        var book = PulseBook(count: 2)
        #expect(book.isAlive(at: 1000), "nobody was asked yet")
        #expect(book.ask(at: 1000) == [0, 1])
        #expect(book.ask(at: 2000) == [])
        book.answered(0)
        #expect(book.isAlive(at: 1000 + Self.patience))
        #expect(!book.isAlive(at: 1001 + Self.patience))
        #expect(book.ask(at: 1001 + Self.patience) == [0])
        book.answered(1)
        #expect(book.isAlive(at: 1002 + Self.patience))
        #expect(book.isAlive(at: 0), "a clock that seems to go back proves nothing")
    }

    @Test("a proxy without loops is alive")
    func none() {
        #expect(LoopPulse([]).check(at: 0))
    }

    @Test("a loop that does not end its turn is found, and found well again when it does")
    func stuck() throws {
        let loop = try EventLoop()
        let thread = try LoopThread(name: "stuck") { loop.run() }
        let pulse = LoopPulse([loop])
        let (entered, left) = (Latch(count: 1), Latch(count: 1))
        loop.submit {
            entered.countDown()
            left.wait()
        }
        entered.wait()
        #expect(pulse.check(at: 1))
        #expect(!pulse.check(at: 2 + Self.patience))
        left.countDown()
        try Patience.poll(for: "the answer") { pulse.check(at: 2 + Self.patience) ? true : nil }
        loop.stop()
        thread.join()
    }
}
