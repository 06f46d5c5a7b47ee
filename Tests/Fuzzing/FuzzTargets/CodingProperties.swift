// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionCodings
import HTTPSessionCore
import IOCore

/// The content of responses: its codings, and the fields with its digests.
enum CodingProperties {
    private static let codings: [ContentCoding] = [.gzip, .deflate, .other(.brotli), .other(.zstd)]
    /// What is decoded of an input, in bytes.
    private static let limit = 4 << 20

    /// The first byte chooses the coding and the size of the pieces, the rest is content, or a field. Whole and in pieces content is the
    /// same; no step makes more than its limit, or nothing at all of input that it leaves.
    static func content(_ bytes: [UInt8]) throws(FuzzFinding) {
        guard let choice = bytes.first else { return }
        let rest = Array(bytes.dropFirst())
        let place = Int(choice & 7)
        guard place < codings.count else { return try digests(rest) }
        let whole = try decoded(rest, codings[place], pieceSize: max(rest.count, 1))
        let pieces = try decoded(rest, codings[place], pieceSize: 1 + Int(choice >> 3))
        // Which faults of a frame libzstd sees depends on how much of it is at hand, such as a wrong length behind an empty last block.
        if codings[place] == .other(.zstd), whole == nil || pieces == nil { return }
        guard whole == pieces else { throw FuzzFinding("the pieces of a body mean something else than the whole") }
    }

    /// - Returns: nil for a body that is broken, or cut.
    private static func decoded(_ bytes: [UInt8], _ coding: ContentCoding, pieceSize: Int) throws(FuzzFinding)
        -> [UInt8]?
    {
        guard let decoder = coding.makeDecoder() else { return nil }
        var output: [UInt8] = []
        var piece = ByteBuffer()
        var start = 0
        while start < bytes.count {
            let input = Array(bytes[start..<min(start + pieceSize, bytes.count)])
            start += input.count
            var position = 0
            decoding: while true {
                piece.removeAll()
                let before = position
                let step = decoder.next(input.span, &position, into: &piece)
                guard piece.count <= DecodingStep.pieceSize else { throw FuzzFinding("a step of \(piece.count) bytes") }
                output += [UInt8](copying: piece.bytes)
                // A bomb is cut by whoever reads; here its beginning is enough.
                if output.count > limit { return [] }
                switch step {
                case .failed:
                    guard case .failed = decoder.next(input.span, &position, into: &piece), !decoder.mayEnd else {
                        throw FuzzFinding("it goes on behind a fault")
                    }
                    return nil
                case .needsInput:
                    guard position == input.count else { throw FuzzFinding("input was left") }
                    break decoding
                case .hasMore:
                    guard position > before || !piece.isEmpty else { throw FuzzFinding("a step without progress") }
                }
            }
        }
        return decoder.mayEnd ? output : nil
    }

    /// A field has one digest of each known algorithm at most.
    private static func digests(_ bytes: [UInt8]) throws(FuzzFinding) {
        guard let members = DigestField.parse(String(decoding: bytes, as: UTF8.self)) else { return }
        let known = BodyDigest.Algorithm.allCases.count
        guard members.count <= known else { throw FuzzFinding("\(members.count) digests") }
    }
}
