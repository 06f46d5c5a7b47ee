// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import IOCore

@Suite("Counters of one writer")
struct CounterTableTests {
    @Test("each counter begins at 0 and has its own sum")
    func sums() {
        let table = CounterTable(count: 9)
        #expect((0..<9).map { table.value(at: $0) } == Array(repeating: 0, count: 9))
        table.add(1, at: 0)
        table.add(40, at: 8)
        table.add(2, at: 8)
        #expect((0..<9).map { table.value(at: $0) } == [1, 0, 0, 0, 0, 0, 0, 0, 42])
    }

    @Test("another thread reads growing numbers, and finally all of them")
    func reading() throws {
        let table = CounterTable(count: 1)
        let writer = try LoopThread(name: "writer") {
            for _ in 0..<1_000_000 { table.add(1, at: 0) }
        }
        var last = 0
        var hasShrunk = false
        while last < 1_000_000 {
            let next = table.value(at: 0)
            if next < last { hasShrunk = true }
            last = next
        }
        writer.join()
        #expect(!hasShrunk)
        #expect(table.value(at: 0) == 1_000_000)
    }
}
