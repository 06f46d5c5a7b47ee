// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The parts of a body that are stored: runs of bytes, in order, of which none touches another.
public struct StoredParts: Sendable {
    struct Run: Sendable {
        /// The position of its first byte in the body.
        let start: Int
        let bytes: StoredBytes

        var range: Range<Int> { start..<start + bytes.count }
    }

    /// The length of the complete body, in bytes.
    public let total: Int
    let runs: [Run]
    /// Whether a store would take the complete body.
    let isCompletable: Bool
    /// Whether it must not be written to the disk.
    let isInMemoryOnly: Bool

    /// Each lookup searches all of them.
    static let runsAtMost = 16

    private init(_ runs: [Run], total: Int, isCompletable: Bool, isInMemoryOnly: Bool) {
        self.runs = runs
        self.total = total
        self.isCompletable = isCompletable
        self.isInMemoryOnly = isInMemoryOnly
    }

    /// - Parameter start: the position of the first of the bytes in the body.
    init(_ bytes: StoredBytes, at start: Int, of total: Int, isCompletable: Bool, isInMemoryOnly: Bool) {
        self.init(
            [Run(start: start, bytes: bytes)],
            total: total,
            isCompletable: isCompletable,
            isInMemoryOnly: isInMemoryOnly
        )
    }

    /// The number of bytes that are stored.
    public var count: Int { runs.reduce(0) { $0 + $1.bytes.count } }

    /// Its memory outside of a pool, in bytes.
    var footprint: Int { runs.reduce(0) { $0 + 64 + ($1.bytes.isPooled ? 0 : $1.bytes.footprint) } }

    /// Its memory in a pool, in bytes.
    var pooledFootprint: Int { runs.reduce(0) { $0 + ($1.bytes.isPooled ? $1.bytes.footprint : 0) } }

    /// The run that has all of a range.
    func run(with range: Range<Int>) -> Run? {
        runs.first { $0.start <= range.lowerBound && range.upperBound <= $0.range.upperBound }
    }

    /// The range from the first byte that is missing to the last one; nil when none is.
    var gap: Range<Int>? {
        guard let first = runs.first?.range, let last = runs.last?.range else { return 0..<total }
        let start = first.lowerBound == 0 ? first.upperBound : 0
        let end = last.upperBound == total ? last.lowerBound : total
        return start < end ? start..<end : nil
    }

    /// The complete body.
    var whole: StoredBytes? {
        guard runs.count == 1, runs[0].bytes.count == total else { return nil }
        return runs[0].bytes
    }

    /// These parts together with those of a later response, which has one run.
    ///
    /// - Parameter limit: of the number of bytes.
    /// - Returns: nil when they are too many, in number or bytes, or when bytes that both have differ.
    func adding(_ later: StoredParts, in pool: ChunkPool, atMost limit: Int) -> StoredParts? {
        guard total == later.total, later.runs.count == 1 else { return nil }
        let new = later.runs[0]
        let touching = runs.filter { $0.range.lowerBound <= new.range.upperBound && $0.range.upperBound >= new.start }
        var others = runs.filter { $0.range.lowerBound > new.range.upperBound || $0.range.upperBound < new.start }
        for run in touching {
            let both = run.range.clamped(to: new.range)
            guard run.copy(both) == new.copy(both) else { return nil }
        }
        let start = min(new.start, touching.first?.start ?? new.start)
        let end = max(new.range.upperBound, touching.last?.range.upperBound ?? new.range.upperBound)
        guard others.reduce(end - start, { $0 + $1.bytes.count }) <= limit, others.count < Self.runsAtMost else {
            return nil
        }
        var writer = ChunkWriter(in: pool, expecting: end - start)
        var hasRoom = true
        func write(_ run: Run?, _ range: Range<Int>) {
            guard let run, !range.isEmpty else { return }
            run.forEachPiece(of: range) { hasRoom = hasRoom && writer.append($0) }
        }
        write(touching.first, start..<new.start)
        write(new, new.range)
        write(touching.last, new.range.upperBound..<end)
        guard hasRoom else { return nil }
        others.append(Run(start: start, bytes: StoredBytes(&writer)))
        return StoredParts(
            others.sorted { $0.start < $1.start },
            total: total,
            isCompletable: later.isCompletable,
            isInMemoryOnly: isInMemoryOnly || later.isInMemoryOnly
        )
    }
}

extension StoredParts.Run {
    /// Calls `body` with a range of the complete body, in pieces.
    func forEachPiece(of range: Range<Int>, _ body: (borrowing Span<UInt8>) -> Void) {
        bytes.forEachPiece(of: range.lowerBound - start..<range.upperBound - start, body)
    }

    fileprivate func copy(_ range: Range<Int>) -> [UInt8] {
        range.isEmpty ? [] : bytes.copy(range.lowerBound - start..<range.upperBound - start)
    }
}
