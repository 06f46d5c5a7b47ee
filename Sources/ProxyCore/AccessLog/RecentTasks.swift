// SPDX-License-Identifier: Apache-2.0
import IOCore
import Synchronization

/// The latest lines of the task log, for the admin listener. Lines have numbers from 0 on, in the order in which the
/// workers handed them over.
///
/// Two pieces of memory take turns: when the newer one is full, the older one is forgotten and used again. A hand-over
/// therefore costs one copy, whatever the number of its lines, and the memory is bounded.
///
/// `@unchecked Sendable`: `older` and `newer` are touched behind `lock` alone. Workers take it once for each hand-over
/// of a `LogBuffer`, never for a request.
package final class RecentTasks: @unchecked Sendable {
    /// Lines that follow each other.
    package struct Excerpt: Equatable {
        /// The number of the first line.
        package var first = 0
        /// Each without its newline.
        package var lines: [[UInt8]] = []
        /// The number of the line after the last one.
        package var next: Int { first + lines.count }
    }

    private struct Piece {
        /// The number of the first line.
        var first = 0
        /// The number of lines.
        var count = 0
        /// Whole lines, each with its newline.
        var bytes: [UInt8] = []

        var next: Int { first + count }
    }

    private let lock = PosixLock()
    private var older = Piece()
    private var newer = Piece()
    private let capacity: Int
    private let wasRequested = Atomic<Bool>(false)

    /// - Parameter capacity: the bytes after which a piece is full. The lines of one hand-over are kept together.
    init(capacity: Int = 512 << 10) { self.capacity = capacity }

    /// Whether a reader has ever asked. Where no task log is written, lines are made from then on alone.
    var isWanted: Bool { wasRequested.load(ordering: .relaxed) }

    /// Notes the request of a reader.
    ///
    /// - Returns: whether it is the first.
    package func want() -> Bool { !wasRequested.exchange(true, ordering: .relaxed) }

    /// Adds whole lines.
    func append(_ lines: UnsafeRawBufferPointer, count: Int) {
        lock.withLock {
            if newer.bytes.count + lines.count > capacity, newer.count > 0 {
                let next = newer.next
                swap(&older, &newer)
                newer.bytes.removeAll(keepingCapacity: true)
                newer.first = next
                newer.count = 0
            }
            // The whole memory at once, which is taken up as it is filled: an array that grows copies itself again and again.
            if newer.bytes.capacity < capacity { newer.bytes.reserveCapacity(capacity) }
            lines.withMemoryRebound(to: UInt8.self) { newer.bytes.append(contentsOf: $0) }
            newer.count += count
        }
    }

    /// Forgets all lines; their numbers are not given again.
    func forget() {
        lock.withLock {
            let next = newer.next
            older = Piece(first: next)
            newer = Piece(first: next)
        }
    }

    /// The number that the next line will get: the number of lines so far.
    package var next: Int { lock.withLock { newer.next } }

    /// The lines from a number on, as far as they are still there; the first one may have a larger number.
    ///
    /// - Parameter bytes: a line that begins at or after so many bytes of the excerpt is left for the next call.
    package func lines(from number: Int, upTo bytes: Int) -> Excerpt {
        lock.withLock {
            let first = max(number, older.first)
            var excerpt = Excerpt(first: min(first, newer.next))
            var left = bytes
            for piece in [older, newer] where excerpt.next >= piece.first {
                Self.append(piece, from: excerpt.next, upTo: &left, to: &excerpt.lines)
            }
            return excerpt
        }
    }

    private static func append(_ piece: Piece, from number: Int, upTo left: inout Int, to lines: inout [[UInt8]]) {
        var place = number - piece.first
        guard place < piece.count else { return }
        var start = piece.bytes.startIndex
        while start < piece.bytes.endIndex, left > 0 {
            let end = piece.bytes[start...].firstIndex(of: UInt8(ascii: "\n")) ?? piece.bytes.endIndex
            if place > 0 {
                place -= 1
            } else {
                lines.append(Array(piece.bytes[start..<end]))
                left -= end - start
            }
            start = end + 1
        }
    }
}
