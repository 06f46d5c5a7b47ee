import IOCore
import TestSupport
import Testing

@Suite("Work threads")
struct WorkThreadTests {
    @Test("work is done in the order of the calls, on one thread that is not the caller's")
    func workIsDoneInOrder() throws {
        let thread = WorkThread(name: "work")
        defer { thread.stop() }
        let done = Monitor<[Int]>([])
        for number in 0..<100 { #expect(thread.submit { done.with { $0.append(number) } }) }
        let order = try done.wait(for: "the work") { $0.count == 100 ? $0 : nil }
        #expect(order == Array(0..<100))
    }

    @Test("a stopped thread accepts no work, whether it had started or not", arguments: [true, false])
    func stoppedThreadAcceptsNothing(hasStarted: Bool) throws {
        let thread = WorkThread(name: "work")
        let done = Monitor<Int>(0)
        if hasStarted {
            #expect(thread.submit { done.with { $0 += 1 } })
            try done.wait(for: "the work") { $0 == 1 ? true : nil }
        }
        thread.stop()
        thread.stop()
        #expect(!thread.submit { done.with { $0 += 1 } })
        #expect(done.with { $0 } == (hasStarted ? 1 : 0))
    }
}
