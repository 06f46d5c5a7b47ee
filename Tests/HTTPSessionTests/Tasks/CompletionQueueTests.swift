// SPDX-License-Identifier: Apache-2.0
import IOCore
import Testing

@testable import HTTPSessionCore

@Suite("The queue of a task's handlers")
struct CompletionQueueTests {
    /// The work that has run, in order; and the work that a queue holds back.
    ///
    /// `@unchecked Sendable`: the test has one thread.
    private final class Record: @unchecked Sendable {
        var numbers: [Int] = []
        var held: [@Sendable () -> Void] = []
    }

    @Test("handlers wait for the end, and run in order", arguments: [0, 1, 2, 5])
    func order(count: Int) {
        let record = Record()
        let queue = CompletionQueue(CallbackQueue { $0() })
        for number in 0..<count { queue.add { record.numbers.append(number) } }
        #expect(record.numbers.isEmpty)
        queue.open()
        #expect(record.numbers == Array(0..<count))
        queue.add { record.numbers.append(count) }
        #expect(record.numbers == Array(0...count))
    }

    @Test("handlers that a handler adds come behind those that wait")
    func nested() {
        let record = Record()
        let queue = CompletionQueue(CallbackQueue { $0() })
        queue.add {
            record.numbers.append(0)
            queue.add { record.numbers.append(2) }
            queue.add { record.numbers.append(3) }
        }
        queue.add { record.numbers.append(1) }
        queue.open()
        #expect(record.numbers == [0, 1, 2, 3])
    }

    @Test("all handlers go to a queue that runs them later")
    func later() {
        let record = Record()
        let queue = CompletionQueue(CallbackQueue { record.held.append($0) })
        for number in 0..<3 { queue.add { record.numbers.append(number) } }
        queue.open()
        #expect(record.held.count == 3)
        for work in record.held { work() }
        #expect(record.numbers == [0, 1, 2])
    }
}
