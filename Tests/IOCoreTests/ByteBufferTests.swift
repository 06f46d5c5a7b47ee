// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import IOCore

@Suite("Byte buffers")
struct ByteBufferTests {
    private func text(_ buffer: borrowing ByteBuffer) -> String {
        buffer.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }

    @Test("appended bytes are read in order, over many growths")
    func growth() {
        var buffer = ByteBuffer()
        var expected: [UInt8] = []
        for index in 0..<10_000 {
            buffer.append(UInt8(truncatingIfNeeded: index))
            expected.append(UInt8(truncatingIfNeeded: index))
            if index % 3 == 0 {
                #expect(buffer.bytes[0] == expected.first)
                buffer.consume(1)
                expected.removeFirst()
            }
        }
        #expect(buffer.withUnsafeBytes { Array($0) } == expected)
    }

    @Test(
        "numbers are written in their digits",
        arguments: [0, 1, 9, 10, 99, 100, 101, 999, 1000, 12_345, 99_999_999_999, -7, -10, Int.max, Int.min]
    )
    func decimals(number: Int) {
        var buffer = ByteBuffer()
        buffer.append(decimal: number)
        #expect(text(buffer) == String(number))
    }

    @Test("numbers of every length are written one after another")
    func manyDecimals() {
        var buffer = ByteBuffer()
        var expected = ""
        for number in Array(0...10_100) + (0...62).flatMap({ [1 << $0, (1 << $0) - 1, -(1 << $0)] }) {
            buffer.append(decimal: number)
            expected += String(number)
        }
        #expect(text(buffer) == expected)
    }

    @Test("hexadecimal numbers have no leading zero", arguments: [0, 1, 15, 16, 255, 256, 4096, 65_535, Int.max])
    func hexadecimals(number: Int) {
        var buffer = ByteBuffer()
        buffer.append(hexadecimal: number)
        #expect(text(buffer) == String(number, radix: 16))
    }

    @Test("memory goes from a buffer that is done to one that has none")
    func spare() {
        var spare = ByteBuffer()
        var first = ByteBuffer()
        first.append("first")
        first.giveMemory(to: &spare)
        #expect(!first.hasMemory && spare.hasMemory && spare.isEmpty)
        var second = ByteBuffer()
        second.append("second")
        second.takeMemory(of: &spare)
        #expect(text(second) == "second" && spare.hasMemory)
        second.giveMemory(to: &spare)
        #expect(!second.hasMemory && spare.isEmpty)
        second.takeMemory(of: &spare)
        #expect(second.isEmpty && second.hasMemory && !spare.hasMemory)
        // A large one is not kept.
        second.append([UInt8](repeating: 7, count: 100_000))
        second.giveMemory(to: &spare)
        #expect(!second.hasMemory && !spare.hasMemory)
    }

    @Test("a released buffer can be filled again")
    func release() {
        var buffer = ByteBuffer()
        buffer.append("first")
        buffer.release()
        #expect(buffer.count == 0)
        buffer.append("second")
        #expect(text(buffer) == "second")
    }
}
