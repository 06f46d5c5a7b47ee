// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// A stored body in memory: in a pool, or as an array.
public struct StoredBytes: Sendable, ExpressibleByArrayLiteral {
    private let chunked: ChunkedBytes?
    private let array: [UInt8]

    /// - Parameter bytes: all bytes of the body.
    public init(_ bytes: [UInt8]) {
        chunked = nil
        array = bytes
    }

    /// The bytes of a literal.
    public init(arrayLiteral elements: UInt8...) { self.init(elements) }

    init(_ writer: inout ChunkWriter) { (chunked, array) = writer.finish() }

    /// The same bytes in the memory of a pool, if they are worth it.
    func packed(in pool: ChunkPool) -> StoredBytes {
        guard chunked == nil, array.count >= ChunkWriter.fewest else { return self }
        var writer = ChunkWriter(in: pool, expecting: array.count)
        return writer.append(array.span) ? StoredBytes(&writer) : self
    }

    /// The length in bytes.
    public var count: Int { chunked?.count ?? array.count }

    /// Whether a pool has it.
    var isPooled: Bool { chunked != nil }

    /// Its memory, in bytes.
    var footprint: Int { chunked?.capacity ?? array.footprint }

    /// The part of `range` from its start that lies in one piece of memory; empty only if `range` is.
    package func contiguous(_ range: Range<Int>) -> Range<Int> { chunked?.contiguous(range) ?? range }

    /// The bytes of a range that lies in one piece of memory (`contiguous`).
    @_lifetime(borrow self)
    package func span(_ range: Range<Int>) -> Span<UInt8> {
        guard let chunked else { return array.span.extracting(range) }
        return unsafe _overrideLifetime(chunked.span(range), borrowing: self)
    }

    /// A copy of all bytes.
    public var bytes: [UInt8] {
        guard chunked != nil else { return array }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        forEachPiece { bytes.append($0) }
        return bytes
    }

    /// A copy of a range of the bytes.
    func copy(_ range: Range<Int>) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(range.count)
        forEachPiece(of: range) { bytes.append($0) }
        return bytes
    }

    /// Calls `body` with all bytes, in pieces.
    private func forEachPiece(_ body: (borrowing Span<UInt8>) -> Void) { forEachPiece(of: 0..<count, body) }

    func forEachPiece(of range: Range<Int>, _ body: (borrowing Span<UInt8>) -> Void) {
        var start = range.lowerBound
        while start < range.upperBound {
            let piece = contiguous(start..<range.upperBound)
            body(span(piece))
            start = piece.upperBound
        }
    }

    /// The checksum of all bytes.
    var checksum: UInt64 {
        var hash = XXH64()
        forEachPiece { hash.update($0) }
        return hash.value
    }
}
