// SPDX-License-Identifier: Apache-2.0
import IOCore
import TestSupport
import Testing
import WebSocketCore

struct WebSocketFrameTests {
    @Test(arguments: [0, 1, 125, 126, 127, 65535, 65536, 1 << 20])
    func `A head is written with its length in the shortest form, and read back`(length: Int) {
        for mask in [nil, UInt32(0xA1B2_C3D4)] {
            let head = WebSocketFrameHead(
                isFinal: length.isMultiple(of: 2),
                opcode: .binary,
                length: length,
                mask: mask
            )
            var output = ByteBuffer()
            head.write(into: &output)
            let size = (length < 126 ? 2 : length < 65536 ? 4 : 10) + (mask == nil ? 0 : 4)
            #expect(output.count == size)
            #expect(WebSocketFrameHead.read(output.bytes, at: 0) == .head(head, byteCount: size))
            for count in 0..<size {
                #expect(WebSocketFrameHead.read(output.bytes.extracting(0..<count), at: 0) == .needsMore)
            }
        }
    }

    @Test(
        arguments: [
            [0x82, 126, 0, 125], [0x82, 126, 0, 0], [0x82, 127, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF],
            [0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0],
        ] as [[UInt8]]
    )
    func `A length of 64 bits, or not in its shortest form, is refused`(bytes: [UInt8]) throws {
        guard case .failed(let fault) = WebSocketFrameHead.read(bytes.span, at: 0) else {
            throw Unexpected(what: "the head was taken")
        }
        #expect(fault.code == 1002)
    }

    @Test func `The largest length of 63 bits is read`() {
        let bytes: [UInt8] = [0x82, 127, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]
        let head = WebSocketFrameHead(opcode: .binary, length: Int.max)
        #expect(WebSocketFrameHead.read(bytes.span, at: 0) == .head(head, byteCount: 10))
    }

    @Test func `A wrong head is refused at the first byte that shows it`() {
        let faults: [[UInt8]] = [[0x90], [0xA0], [0x83], [0x8B], [0x09], [0x89, 126], [0x88, 127]]
        for bytes in faults {
            guard case .failed = WebSocketFrameHead.read(bytes.span, at: 0) else {
                Issue.record("\(bytes) was taken")
                continue
            }
        }
    }

    @Test(arguments: 0..<20)
    func `A mask is applied from any place of the payload`(count: Int) {
        let plain = (0..<count).map { UInt8($0 &* 7) }
        let mask: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]
        let word: UInt32 = 0x3D21_FA37
        for offset in 0..<5 {
            var bytes = plain
            bytes.withUnsafeMutableBytes { WebSocketFrameHead.apply(word, from: offset, to: $0) }
            #expect(bytes == plain.enumerated().map { $1 ^ mask[($0 + offset) & 3] })
        }
    }
}

struct Unexpected: Error {
    let what: String
}

struct UTF8ValidatorTests {
    @Test func `Texts are valid as in Kuhn's decoder test, in every division into two pieces`() {
        for sample in UTF8Cases.groups.joined() {
            for cut in 0...sample.bytes.count {
                var validator = UTF8Validator()
                let pieces = [Array(sample.bytes[..<cut]), Array(sample.bytes[cut...])]
                let isValid = pieces.allSatisfy { validator.append($0.span) } && validator.isComplete
                #expect(isValid == sample.isValid, "\(sample.bytes)")
                #expect(isValid == (String(validating: sample.bytes, as: UTF8.self) != nil))
            }
        }
    }

    @Test func `Scalars are valid, and no text is valid that Swift refuses`() {
        for value in stride(from: 0, through: 0x10FFFF, by: 97) {
            guard let scalar = Unicode.Scalar(UInt32(value)) else { continue }
            var validator = UTF8Validator()
            let bytes = Array(String(scalar).utf8)
            if !validator.append(bytes.span) || !validator.isComplete { Issue.record("\(value)") }
        }
        for first in UInt8.min ... .max {
            for second: UInt8 in [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF] {
                for third: UInt8 in [0x7F, 0x80, 0xBF, 0xC0] {
                    let bytes = [first, second, third]
                    var validator = UTF8Validator()
                    let isValid = validator.append(bytes.span) && validator.isComplete
                    if isValid != (String(validating: bytes, as: UTF8.self) != nil) { Issue.record("\(bytes)") }
                }
            }
        }
    }

    @Test func `The first byte that cannot follow is refused at once`() {
        var validator = UTF8Validator()
        let start: [UInt8] = [0xF4]
        let next: [UInt8] = [0x90]
        let isStartValid = validator.append(start.span)
        let isNextValid = validator.append(next.span)
        #expect(isStartValid && !isNextValid)
    }
}
