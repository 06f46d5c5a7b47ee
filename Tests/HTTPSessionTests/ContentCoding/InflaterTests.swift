// SPDX-License-Identifier: Apache-2.0
import CZlib
import Foundation
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

/// Bodies in their codings, made by another program than the one under test.
enum CodedBody {
    static let text = Array(String(repeating: "What is sent is what was meant. ", count: 4).utf8)
    static let gzip = bytes("H4sIAAAAAAACAwvPSCxRyCxWKE7NA9PlIH55YrFCbmpiXomeQjiN5QG0/wkwgAAAAA==")
    static let wrapped = bytes("eNoLz0gsUcgsVihOzQPT5SB+eWKxQm5qYl6JnkI4jeUBTcksoQ==")
    static let raw = bytes("C89ILFHILFYoTs0D0+UgfnlisUJuamJeiZ5COI3lAQ==")

    private static func bytes(_ base64: String) -> [UInt8] { Array(Data(base64Encoded: base64)!) }

    static func deflated(_ bytes: [UInt8]) -> [UInt8] {
        var count = compressBound(UInt(bytes.count))
        var coded = [UInt8](repeating: 0, count: Int(count))
        precondition(compress2(&coded, &count, bytes, UInt(bytes.count), 6) == Z_OK)
        return Array(coded.prefix(Int(count)))
    }
}

@Suite("Undoing content codings")
struct InflaterTests {
    /// The output for input of so many bytes at a time; nil for rejected or truncated input.
    private func decode(_ coded: [UInt8], _ coding: ContentCoding, by size: Int = .max) throws -> [UInt8]? {
        let inflater = try #require(Inflater(coding))
        var decoded: [UInt8] = []
        var place = 0
        while place < coded.count {
            let end = min(coded.count, place + min(size, coded.count))
            let piece = Array(coded[place..<end])
            place = end
            var position = 0
            var step = Inflater.Step.hasMore
            while step == .hasMore {
                var output = ByteBuffer()
                step = inflater.next(piece.span, &position, into: &output)
                if case .failed = step { return nil }
                #expect(output.count <= Inflater.pieceSize)
                decoded += [UInt8](copying: output.bytes)
            }
            #expect(position == piece.count)
        }
        return inflater.mayEnd ? decoded : nil
    }

    @Test("gzip, deflate, and deflate without its wrapping, in pieces of any size", arguments: [1, 2, 3, 7, Int.max])
    func codings(_ size: Int) throws {
        #expect(try decode(CodedBody.gzip, .gzip, by: size) == CodedBody.text)
        #expect(try decode(CodedBody.wrapped, .deflate, by: size) == CodedBody.text)
        #expect(try decode(CodedBody.raw, .deflate, by: size) == CodedBody.text)
    }

    @Test("a gzip body of several members is their contents in order", arguments: [1, 10, Int.max])
    func members(_ size: Int) throws {
        let twice = try decode(CodedBody.gzip + CodedBody.gzip, .gzip, by: size)
        #expect(twice == CodedBody.text + CodedBody.text)
    }

    @Test("a long body comes in pieces of a bounded size")
    func long() throws {
        var generator = SeededGenerator(seed: 7)
        let noise = (0..<300_000).map { _ in UInt8.random(in: 0...255, using: &generator) }
        let body = noise + [UInt8](repeating: 0, count: 2_000_000)
        #expect(try firstDifference(decode(CodedBody.deflated(body), .deflate), body) == nil)
        #expect(try firstDifference(decode(CodedBody.deflated(body), .deflate, by: 5000), body) == nil)
    }

    @Test("a body that ends too early is not whole", arguments: [1, 9, 20, 40])
    func truncated(_ lacking: Int) throws {
        #expect(try decode(CodedBody.gzip.dropLast(lacking), .gzip) == nil)
        #expect(try decode(CodedBody.wrapped.dropLast(min(lacking, 36)), .deflate) == nil)
    }

    @Test("zero bytes are an empty body")
    func empty() throws {
        #expect(try decode([], .gzip) == [])
        #expect(try decode([], .deflate) == [])
    }

    @Test(
        "bytes behind the end that are no further member are ignored",
        arguments: [1, 2, 10, Int.max]
    )
    func behindEnd(_ size: Int) throws {
        let rests: [[UInt8]] = [
            [0], [1, 2, 3], [0x1F], [0x1F, 0], [0x8B], [0x1F, 0x1F, 0x8B], [UInt8](repeating: 0, count: 700),
        ]
        for rest in rests {
            #expect(try decode(CodedBody.gzip + rest, .gzip, by: size) == CodedBody.text)
            #expect(
                try decode(CodedBody.gzip + CodedBody.gzip + rest, .gzip, by: size) == CodedBody.text + CodedBody.text
            )
            #expect(try decode(CodedBody.wrapped + rest, .deflate, by: size) == CodedBody.text)
            #expect(try decode(CodedBody.raw + rest, .deflate, by: size) == CodedBody.text)
        }
        // A further member that is broken, or cut off, is missing.
        #expect(try decode(CodedBody.gzip + [0x1F, 0x8B, 9], .gzip, by: size) == nil)
        #expect(try decode(CodedBody.gzip + CodedBody.gzip.dropLast(3), .gzip, by: size) == nil)
    }

    @Test("a wrong checksum and another coding are refused")
    func broken() throws {
        var changed = CodedBody.gzip
        changed[changed.count - 6] ^= 1
        #expect(try decode(changed, .gzip) == nil)
        #expect(try decode(CodedBody.text, .gzip) == nil)
        #expect(try decode(CodedBody.wrapped, .gzip) == nil)
    }
}
