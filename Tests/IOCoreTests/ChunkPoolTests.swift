// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@testable import IOCore

@Suite("Memory in chunks")
struct ChunkPoolTests {
    private func content(of bytes: ChunkedBytes) -> [UInt8] {
        var content: [UInt8] = []
        var start = 0
        while start < bytes.count {
            let piece = bytes.contiguous(start..<bytes.count)
            content.append(bytes.span(piece))
            start = piece.upperBound
        }
        return content
    }

    /// - Parameter expected: the number that the writer is told; nil for none.
    private func stored(_ content: [UInt8], _ expected: Int?, piece: Int, in pool: ChunkPool) -> (
        ChunkedBytes?, [UInt8]
    ) {
        var writer = ChunkWriter(in: pool, expecting: expected)
        var start = 0
        while start < content.count {
            let end = min(start + piece, content.count)
            let isTaken = writer.append(content.span.extracting(start..<end))
            #expect(isTaken)
            start = end
        }
        return writer.finish()
    }

    @Test("bytes of any length come back unchanged, whatever their pieces")
    func content() {
        let pool = ChunkPool(keptAtMost: 4)
        for length in [0, 1, 4095, 4096, 4097, 65_535, 65_536, 65_537, 200_000, 1 << 20] {
            let bytes = patternBytes(length)
            for piece in [999, 16_384, 100_000] {
                for expected in [nil, length, length + 5000] {
                    let (chunked, few) = stored(bytes, expected, piece: piece, in: pool)
                    #expect(firstDifference(chunked.map { content(of: $0) } ?? few, bytes) == nil)
                    // The rest of the last granule is all that is lost.
                    if let chunked { #expect(chunked.capacity < length + ChunkPool.granuleSize) }
                }
            }
        }
        #expect(pool.usage.used == 0)
    }

    @Test("memory of mixed sizes stays near its use, and is returned")
    func bound() {
        let pool = ChunkPool(keptAtMost: 4)
        var generator = SeededGenerator(seed: 11)
        var held: [(bytes: ChunkedBytes, first: UInt8)] = []
        for round in 0..<1500 {
            let length = 4096 << Int.random(in: 0...5, using: &generator) + Int.random(in: 0..<4096, using: &generator)
            let first = UInt8(truncatingIfNeeded: round)
            let isKnown = Bool.random(using: &generator)
            let bytes = [UInt8](repeating: first, count: length)
            let (chunked, _) = stored(bytes, isKnown ? length : nil, piece: 9000, in: pool)
            if let chunked { held.append((chunked, first)) }
            while held.reduce(0, { $0 + $1.bytes.capacity }) > 2 << 20 {
                let gone = held.remove(at: Int.random(in: held.indices, using: &generator))
                #expect(content(of: gone.bytes) == [UInt8](repeating: gone.first, count: gone.bytes.count))
            }
            let usage = pool.usage
            // The removed ones may have been freed already, or not.
            #expect(usage.used >= held.reduce(0) { $0 + $1.bytes.capacity })
            #expect(usage.resident <= usage.used * 120 / 100 + 8 * ChunkPool.chunkSize)
        }
        held = []
        #expect(pool.usage.used == 0)
        #expect(pool.usage.resident <= 4 * ChunkPool.chunkSize)
        pool.release()
        #expect(pool.usage.resident == 0)
    }
}
