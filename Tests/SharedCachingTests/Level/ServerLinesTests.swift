// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SharedCaching

@Suite("Lines of the log about a server")
struct ServerLinesTests {
    private static let start: Int64 = 1_700_000_000

    private static func allowed(_ lines: inout ServerLines, at time: Int64, of count: Int = 100) -> Int {
        (0..<count).count { _ in lines.allows(now: time) }
    }

    @Test("there are four in ten seconds, however often a server changes")
    func bound() {
        var lines = ServerLines()
        #expect(Self.allowed(&lines, at: Self.start) == 4)
        #expect(Self.allowed(&lines, at: Self.start + 9) == 0)
        #expect(Self.allowed(&lines, at: Self.start + 10) == 4)
        #expect(Self.allowed(&lines, at: Self.start + 12) == 0)
    }

    @Test("few changes have a line each")
    func few() {
        var lines = ServerLines()
        for time in stride(from: Self.start, to: Self.start + 600, by: 3) { #expect(lines.allows(now: time) == true) }
    }

    @Test("a clock that is set back stops no line for longer than that")
    func setBack() {
        var lines = ServerLines()
        #expect(Self.allowed(&lines, at: Self.start) == 4)
        #expect(Self.allowed(&lines, at: Self.start - 3_600) == 4)
        #expect(Self.allowed(&lines, at: Self.start - 3_590) == 4)
    }
}
