// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

@testable import ProxyCore

@Suite("Event lines on a standard error without a reader")
struct EventOutputTests {
    /// The bytes in a pipe.
    private func contents(_ descriptor: Int32) -> String {
        var text: [UInt8] = []
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(descriptor, &bytes, bytes.count)
            guard count > 0 else { return String(decoding: text, as: UTF8.self) }
            text += bytes[..<count]
        }
    }

    @Test("event lines block no thread, stay whole, and lost ones are counted")
    func unread() throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        try #require(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
        let output = EventOutput(descriptor: ends[1])
        let line = String(repeating: "x", count: 9_999) + "\n"
        // More than the pipe holds; the test would not end.
        for _ in 0..<100 { output.write(line) }
        let first = contents(ends[0])
        let whole = first.split(separator: "\n", omittingEmptySubsequences: false).filter { $0.count == 9_999 }.count
        #expect(whole < 100)
        output.write("last\n")
        let second = contents(ends[0]).split(separator: "\n").map(String.init)
        let count = "\"count\":\(100 - whole)"
        #expect(second.suffix(2) == ["{\"event\":\"warning\",\"code\":\"events_lost\",\(count)}", "last"])
        output.write("more\n")
        #expect(contents(ends[0]) == "more\n")
    }
}
