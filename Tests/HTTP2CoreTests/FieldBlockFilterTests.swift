// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Testing

@testable import HTTP2Core

@Suite("Strings that are too large are taken out of field blocks")
struct FieldBlockFilterTests {
    static func length(_ count: Int, prefix: Int = 127) -> [UInt8] {
        if count < prefix { return [UInt8(count)] }
        var rest = count - prefix
        var bytes = [UInt8(prefix)]
        while rest >= 128 {
            bytes.append(UInt8(rest & 127 | 128))
            rest >>= 7
        }
        return bytes + [UInt8(rest)]
    }

    static func text(_ count: Int) -> [UInt8] { length(count) + [UInt8](repeating: UInt8(ascii: "v"), count: count) }
    static func text(_ text: String) -> [UInt8] { length(text.utf8.count) + Array(text.utf8) }

    /// A block with every representation, around a string.
    private static func block(_ string: [UInt8], as form: UInt8) -> [UInt8] {
        let before: [UInt8] = [0x20, 0x3F, 0xE1, 0x1F, 0x82, 0x86, 0x84, 0x41] + text("h.example") + [0xFF, 0x00]
        let after: [UInt8] = [0x40] + text("x-a") + text(127) + [0x0F, 0x2B] + text(0) + [0x1F, 0x2B] + text(300)
        return before + [form] + (form & 0x3F == 0 || form == 0x10 ? text("x-name") : []) + string + after
    }

    private func filter(_ pieces: [[UInt8]]) -> (bytes: [UInt8], hasOmitted: Bool, isCut: Bool) {
        var filter = FieldBlockFilter()
        var output: [UInt8] = []
        for (index, piece) in pieces.enumerated() {
            filter.filter(piece.span, isLast: index == pieces.count - 1, into: &output)
        }
        return (output, filter.hasOmitted, filter.isCutInOmission)
    }

    private static let substitute: [UInt8] = [0x7F, 0x81, 0x1F] + [UInt8](repeating: UInt8(ascii: "x"), count: 4096)

    @Test(
        "a block without such a string passes as it is, whole or by bytes",
        arguments: [0x00, 0x10, 0x40, 0x44]
    )
    func untouched(_ form: UInt8) {
        let block = Self.block(Self.text(65_536), as: form)
        for pieces in [[block], block.map { [$0] }] {
            let filtered = filter(pieces)
            let isSame = filtered.bytes == block
            #expect(isSame && !filtered.hasOmitted && !filtered.isCut)
        }
    }

    @Test(
        "a value above 64 KB is replaced by one that empties the table",
        arguments: [0x00, 0x10, 0x40, 0x44]
    )
    func value(_ form: UInt8) {
        let block = Self.block(Self.text(65_537), as: form)
        let expected = Self.block(Self.substitute, as: form)
        for pieces in [[block], block.map { [$0] }] {
            let filtered = filter(pieces)
            let isSame = filtered.bytes == expected
            #expect(isSame && filtered.hasOmitted && !filtered.isCut)
        }
    }

    @Test("a name above 64 KB is replaced likewise")
    func name() {
        let filtered = filter([[0x82, 0x40] + Self.text(70_000) + Self.text("value") + [0x84]])
        let isSame = filtered.bytes == [0x82, 0x40] + Self.substitute + Self.text("value") + [0x84]
        #expect(isSame && filtered.hasOmitted)
    }

    @Test("a block that ends within such a string is reported")
    func invalid() {
        #expect(filter([[0x40] + Self.text("x") + Array(Self.text(70_000).dropLast())]).isCut)
        let absurd: [UInt8] = [0x40, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 1, 2, 3]
        #expect(filter([absurd]).bytes == absurd)
        #expect(filter(absurd.map { [$0] }).bytes == absurd)
        let cut: [UInt8] = [0x40, 0x7F, 0xFF]
        #expect(filter([cut]).bytes == cut)
    }
}
