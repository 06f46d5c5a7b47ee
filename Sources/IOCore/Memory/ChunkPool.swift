// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Memory for bytes that stay for a while, straight from the system: chunks of one size, which are used in runs of
/// granules.
///
/// An allocator of many sizes cannot use the gap of a small block for a large one, and each thread has gaps of its own:
/// bodies of mixed sizes that come and go take up several times their bytes. Here any free granules fit any use,
/// because bytes may lie in several runs, and all but a few free chunks are returned to the system immediately.
///
/// `@unchecked Sendable`: `lock` guards all mutable state, that of the chunks included.
package final class ChunkPool: @unchecked Sendable {
    /// The size of a chunk in bytes, a multiple of the page size.
    package static let chunkSize = 64 << 10
    /// The size of a granule in bytes: a chunk has 64.
    package static let granuleSize = 1 << 10
    /// The number of chunks that are mapped at a time.
    private static let regionChunks = 32
    /// The number of granules in the shortest run that is used for longer ones.
    private static let shortestPart = 4

    fileprivate final class Chunk {
        let base: UnsafeMutableRawPointer
        /// A set bit is a free granule.
        private(set) var free = UInt64.max
        /// The number of granules in the longest free run.
        private(set) var longestRun = 64
        /// Its index among the partial chunks with the same longest run.
        var index = 0

        init(_ base: UnsafeMutableRawPointer) { self.base = base }

        /// Takes the first free run of that length; there is one.
        func take(_ count: Int) -> Run {
            var starts = free
            for shift in 1..<max(count, 1) { starts &= free >> UInt64(shift) }
            let start = starts.trailingZeroBitCount
            free &= ~Self.mask(start, count)
            measure()
            return Run(chunk: self, start: start, granules: count)
        }

        func give(_ run: Run) {
            free |= Self.mask(run.start, run.granules)
            measure()
        }

        private func measure() {
            var rest = free
            longestRun = 0
            while rest != 0 {
                rest &= rest << 1
                longestRun += 1
            }
        }

        private static func mask(_ start: Int, _ count: Int) -> UInt64 {
            (count == 64 ? .max : (1 << UInt64(count)) - 1) << UInt64(start)
        }
    }

    /// Consecutive granules of one chunk.
    fileprivate struct Run {
        let chunk: Chunk
        let start: Int
        var granules: Int

        var base: UnsafeMutableRawPointer { chunk.base + start * ChunkPool.granuleSize }
        var size: Int { granules * ChunkPool.granuleSize }
    }

    /// The number of free chunks that keep their memory, so that the next use needs no page faults.
    private let keptAtMost: Int
    private let lock = PosixLock()
    // Behind `lock`.
    private var regions: [UnsafeMutableRawPointer] = []
    /// Free chunks that still have memory.
    private var kept: [Chunk] = []
    /// Free chunks without memory.
    private var empty: [Chunk] = []
    /// Chunks in use with free granules, by their longest free run.
    private var partial = [[Chunk]](repeating: [], count: 64)
    /// A set bit is a length for which there are partial chunks.
    private var lengths: UInt64 = 0
    /// The number of free granules in partial chunks.
    private var spare = 0
    /// The number of granules in use.
    private var used = 0

    /// - Parameter keptAtMost: the number of free chunks that keep their memory.
    package init(keptAtMost: Int) { self.keptAtMost = keptAtMost }

    /// Every run in use refers to its pool: none is in use here.
    deinit { for region in regions { munmap(region, Self.regionChunks * Self.chunkSize) } }

    /// The state of a pool, in bytes.
    package struct Usage: Hashable, Sendable {
        /// The granules in use.
        package var used: Int
        /// The memory, free granules and free chunks included.
        package var resident: Int
    }

    package var usage: Usage {
        lock.withLock {
            Usage(
                used: used * Self.granuleSize,
                resident: (used + spare) * Self.granuleSize + kept.count * Self.chunkSize
            )
        }
    }

    /// Takes granules, in several runs if necessary.
    ///
    /// - Returns: nil when the system has no memory.
    fileprivate func allocate(_ count: Int) -> [Run]? {
        lock.withLock {
            var runs: [Run] = []
            var needed = count
            while needed > 0 {
                guard let run = takeRun(needed) else {
                    for run in runs { give(run) }
                    return nil
                }
                runs.append(run)
                needed -= run.granules
            }
            return runs
        }
    }

    /// Takes one run of at most that length.
    private func takeRun(_ needed: Int) -> Run? {
        if needed < 64 {
            let fitting = lengths & (UInt64.max << UInt64(needed))
            if fitting != 0 { return take(needed, among: fitting.trailingZeroBitCount) }
            // Granules between others are used before more memory is, as long as bytes do not fall to pieces.
            let longest = 63 - lengths.leadingZeroBitCount
            if spare >= needed, longest >= Self.shortestPart { return take(longest, among: longest) }
        }
        if kept.isEmpty, empty.isEmpty, !map() { return nil }
        return (kept.popLast() ?? empty.popLast()).map { take(min(needed, 64), of: $0) }
    }

    /// Takes a run of one of the partial chunks with that longest run.
    private func take(_ count: Int, among length: Int) -> Run? {
        guard let chunk = partial[length].last else { return nil }
        unlink(chunk)
        return take(count, of: chunk)
    }

    private func take(_ count: Int, of chunk: Chunk) -> Run {
        let run = chunk.take(count)
        used += count
        link(chunk)
        return run
    }

    private func link(_ chunk: Chunk) {
        guard chunk.longestRun > 0 else { return }
        chunk.index = partial[chunk.longestRun].count
        partial[chunk.longestRun].append(chunk)
        lengths |= 1 << UInt64(chunk.longestRun)
        spare += chunk.free.nonzeroBitCount
    }

    private func unlink(_ chunk: Chunk) {
        let length = chunk.longestRun
        guard length > 0 else { return }
        spare -= chunk.free.nonzeroBitCount
        let last = partial[length].removeLast()
        if last !== chunk {
            partial[length][chunk.index] = last
            last.index = chunk.index
        }
        if partial[length].isEmpty { lengths &= ~(1 << UInt64(length)) }
    }

    fileprivate func free(_ runs: [Run]) {
        lock.withLock { for run in runs { give(run) } }
    }

    private func give(_ run: Run) {
        let chunk = run.chunk
        unlink(chunk)
        chunk.give(run)
        used -= run.granules
        guard chunk.free == .max else { return link(chunk) }
        if kept.count < keptAtMost {
            kept.append(chunk)
        } else {
            madvise(chunk.base, Self.chunkSize, MADV_DONTNEED)
            empty.append(chunk)
        }
    }

    /// Returns the memory of all free chunks to the system.
    package func release() {
        lock.withLock {
            for chunk in kept { madvise(chunk.base, Self.chunkSize, MADV_DONTNEED) }
            empty += kept
            kept = []
        }
    }

    private func map() -> Bool {
        let size = Self.regionChunks * Self.chunkSize
        let region = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let region, region != MAP_FAILED else { return false }
        // A huge page would stay whole while one of its chunks is in use.
        madvise(region, size, MADV_NOHUGEPAGE)
        regions.append(region)
        for index in (0..<Self.regionChunks).reversed() { empty.append(Chunk(region + index * Self.chunkSize)) }
        return true
    }
}

/// Bytes in the memory of a pool.
///
/// `@unchecked Sendable`: it is immutable after `ChunkWriter.finish`, and its memory belongs to it alone.
package final class ChunkedBytes: @unchecked Sendable {
    private let pool: ChunkPool
    private var runs: [ChunkPool.Run] = []
    /// The position behind each run.
    private var ends: [Int] = []
    /// The number of bytes.
    package private(set) var count = 0

    fileprivate init(_ pool: ChunkPool) { self.pool = pool }

    deinit { pool.free(runs) }

    /// The memory in bytes.
    package var capacity: Int { ends.last ?? 0 }

    /// The part of `range` from its start that lies in one run; empty only if `range` is.
    package func contiguous(_ range: Range<Int>) -> Range<Int> {
        guard !range.isEmpty else { return range }
        return range.lowerBound..<min(range.upperBound, ends[run(at: range.lowerBound)])
    }

    /// The bytes of a range that lies in one run (`contiguous`).
    @_lifetime(borrow self)
    package func span(_ range: Range<Int>) -> Span<UInt8> {
        precondition(range.upperBound <= count)
        guard !range.isEmpty else { return Span() }
        let run = run(at: range.lowerBound)
        precondition(range.upperBound <= ends[run])
        let start = UnsafePointer(address(of: range.lowerBound, in: run).assumingMemoryBound(to: UInt8.self))
        let span = Span<UInt8>(_unsafeStart: start, count: range.count)
        return unsafe _overrideLifetime(span, borrowing: self)
    }

    private func address(of position: Int, in run: Int) -> UnsafeMutableRawPointer {
        runs[run].base + (position - (ends[run] - runs[run].size))
    }

    /// The index of the run with that position.
    private func run(at position: Int) -> Int {
        precondition(position >= 0 && position < capacity)
        var low = 0
        var high = ends.count - 1
        while low < high {
            let middle = (low + high) / 2
            if position < ends[middle] { high = middle } else { low = middle + 1 }
        }
        return low
    }

    /// Makes room.
    ///
    /// - Returns: false when the system has no memory.
    fileprivate func reserve(_ more: Int) -> Bool {
        let missing = count + more - capacity
        guard missing > 0 else { return true }
        guard let added = pool.allocate((missing + ChunkPool.granuleSize - 1) / ChunkPool.granuleSize) else {
            return false
        }
        for run in added {
            ends.append(capacity + run.size)
            runs.append(run)
        }
        return true
    }

    /// Appends bytes for which there is room.
    fileprivate func append(_ bytes: borrowing Span<UInt8>) {
        var start = 0
        while start < bytes.count {
            let run = run(at: count)
            let length = min(bytes.count - start, ends[run] - count)
            let target = address(of: count, in: run)
            bytes.extracting(start..<start + length).withUnsafeBytes { source in
                if let base = source.baseAddress { target.copyMemory(from: base, byteCount: length) }
            }
            count += length
            start += length
        }
    }

    /// Frees the memory behind the bytes.
    fileprivate func trim() {
        var surplus = (capacity - count) / ChunkPool.granuleSize
        while surplus > 0, let last = runs.last {
            let granules = min(surplus, last.granules)
            surplus -= granules
            let left = last.granules - granules
            pool.free([ChunkPool.Run(chunk: last.chunk, start: last.start + left, granules: granules)])
            ends[ends.count - 1] -= granules * ChunkPool.granuleSize
            if left > 0 {
                runs[runs.count - 1].granules = left
            } else {
                runs.removeLast()
                ends.removeLast()
            }
        }
    }
}

/// Collects bytes: few as an array of their exact size, more in the memory of a pool.
package struct ChunkWriter: ~Copyable {
    /// The number of bytes from which on the pool has them: for fewer, the rest of the last granule would be too much.
    package static let fewest = 4 << 10

    private let pool: ChunkPool
    private let expected: Int?
    private var chunked: ChunkedBytes?
    private var few: [UInt8] = []

    /// - Parameter count: the number of bytes that will be appended; nil when unknown. Memory is taken at most for a
    ///   chunk of bytes that have not come yet, because the number may be false.
    package init(in pool: ChunkPool, expecting count: Int? = nil) {
        self.pool = pool
        expected = count
    }

    /// The memory of all bytes, in bytes.
    package var footprint: Int { (chunked?.capacity ?? 0) + few.footprint }

    /// The number of bytes.
    package var count: Int { chunked?.count ?? few.count }

    /// A copy of a range of the bytes.
    package func copy(_ range: Range<Int>) -> [UInt8] {
        guard let chunked else { return Array(few[range]) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(range.count)
        var start = range.lowerBound
        while start < range.upperBound {
            let piece = chunked.contiguous(start..<range.upperBound)
            bytes.append(chunked.span(piece))
            start = piece.upperBound
        }
        return bytes
    }

    /// - Returns: false when the system has no memory.
    package mutating func append(_ bytes: borrowing Span<UInt8>) -> Bool {
        if let chunked { return append(bytes, to: chunked) }
        if max(few.count + bytes.count, expected ?? 0) < Self.fewest {
            if few.isEmpty { few.reserveCapacity(expected ?? bytes.count) }
            few.append(bytes)
            return true
        }
        let chunked = ChunkedBytes(pool)
        guard append(few.span, to: chunked), append(bytes, to: chunked) else { return false }
        self.chunked = chunked
        few = []
        return true
    }

    private func append(_ bytes: borrowing Span<UInt8>, to chunked: ChunkedBytes) -> Bool {
        if chunked.count + bytes.count > chunked.capacity {
            // As much as there is already, if the end is unknown: few runs, and no chunk for a small body.
            let ahead = expected.map { $0 - chunked.count } ?? max(chunked.count, 2 * Self.fewest)
            guard chunked.reserve(max(bytes.count, min(ahead, ChunkPool.chunkSize))) else { return false }
        }
        chunked.append(bytes)
        return true
    }

    /// Ends the bytes: either is empty.
    package mutating func finish() -> (chunked: ChunkedBytes?, few: [UInt8]) {
        defer { removeAll() }
        chunked?.trim()
        guard few.footprint > few.count + few.count / 16 + 64 else { return (chunked, few) }
        var exact: [UInt8] = []
        exact.reserveCapacity(few.count)
        exact.append(few.span)
        return (chunked, exact)
    }

    /// Removes all bytes and frees their memory.
    package mutating func removeAll() {
        chunked = nil
        few = []
    }
}

extension [UInt8] {
    /// The memory of its elements, in bytes: the capacity takes up the allocator's whole block, behind a header.
    package var footprint: Int { capacity == 0 ? 0 : capacity + 32 }
}
