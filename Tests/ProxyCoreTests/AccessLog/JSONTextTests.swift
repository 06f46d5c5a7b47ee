// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import ProxyCore

@Suite("JSON in the log")
struct JSONTextTests {
    private func text(_ body: (inout ByteBuffer) -> Void) -> String {
        var buffer = ByteBuffer()
        body(&buffer)
        return buffer.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }

    @Test("a string of any characters reads back as it was")
    func escaping() throws {
        let all = String(String.UnicodeScalarView((0..<0x250).compactMap { Unicode.Scalar($0) })) + "\u{2028}\u{1F512}"
        let line = try #require(LogLine("{\"x\":\(text { $0.append(jsonString: all) })}"))
        #expect(line.string("x") == all)
        #expect(!line.text.contains("\n") && !line.text.contains("\u{7F}"))
    }

    @Test("microseconds become milliseconds with the decimals that they need")
    func milliseconds() {
        for (microseconds, expected) in [
            (0, "0"), (1, "0.001"), (10, "0.01"), (100, "0.1"), (120, "0.12"), (1000, "1"), (12_400, "12.4"),
            (12_004, "12.004"), (1_000_010, "1000.01"), (9_000, "9"), (9_999, "9.999"), (9_090, "9.09"), (10_000, "10"),
            (10_001, "10.001"), (99_999_900, "99999.9"), (-1, "0"), (-12_400, "-12"), (.max, "9223372036854775.807"),
        ] as [(Int64, String)] {
            #expect(text { $0.append(milliseconds: microseconds) } == expected)
        }
    }
}
