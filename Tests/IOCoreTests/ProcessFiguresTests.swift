// SPDX-License-Identifier: Apache-2.0
import Glibc
import Testing

@testable import IOCore

@Suite("What the system knows of a process")
struct ProcessFiguresTests {
    @Test("the fields of /proc/PID/stat are found after any process name")
    func stat() {
        let text =
            "4711 (a (b) c) S 1 4711 4711 0 -1 4194560 500 0 3 0 250 50 0 0 20 0 7 0 991 12345678 321 184467 1 1 0"
        let figures = ProcessFigures(stat: text, ticksPerSecond: 100, pageSize: 4096)
        #expect(figures.processorTime == 3_000_000)
        #expect(figures.threads == 7)
        #expect(figures.virtualBytes == 12_345_678)
        #expect(figures.residentBytes == 321 * 4096)
    }

    @Test("an unreadable figure is 0", arguments: ["", "nonsense", "1 (x", "1 (x) R 2"])
    func unreadable(text: String) {
        let figures = ProcessFigures(stat: text, ticksPerSecond: 100, pageSize: 4096)
        #expect(figures.processorTime == 0 && figures.threads == 0 && figures.residentBytes == 0)
    }

    @Test("all figures of this process are read, with every open descriptor")
    func thisProcess() {
        let figures = ProcessFigures.read()
        #expect(figures.threads > 0)
        #expect(figures.residentBytes > 1 << 20 && figures.virtualBytes > figures.residentBytes)
        #expect(figures.openDescriptors > 2 && figures.maximalDescriptors >= figures.openDescriptors)
        let start = ProcessFigures.startTime()
        #expect(start > 0 && start <= Clock.realtime)
    }
}
