// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Growing bytes whose memory serves again and again: `removeAll` is one store, and an append writes into what is there.
///
/// A value that is shared by its copies until one of them changes, like the array inside, of which only a part counts.
@usableFromInline
package struct ReusableBytes: Sendable {
    @usableFromInline var memory: [UInt8] = []
    @usableFromInline package private(set) var count = 0

    @inlinable
    package init() {}

    /// The bytes of a range, which end before `count`.
    @inlinable
    @inline(__always)
    @_lifetime(borrow self)
    package func bytes(_ range: Range<Int>) -> Span<UInt8> {
        precondition(range.upperBound <= count, "bytes behind the end")
        return memory.span.extracting(range)
    }

    /// Removes all bytes; with `keepingCapacity` the memory serves the next ones.
    package mutating func removeAll(keepingCapacity: Bool) {
        count = 0
        if !keepingCapacity { memory = [] }
    }

    /// Removes the last bytes, of which there are at least `number`.
    package mutating func removeLast(_ number: Int) {
        precondition(number <= count, "bytes before the start")
        count -= number
    }

    /// The memory in bytes, as `[UInt8].footprint`.
    package var footprint: Int { memory.footprint }

    /// Makes room for `count` bytes altogether.
    package mutating func reserve(_ count: Int) {
        if memory.count < count { grow(to: count) }
    }

    package mutating func append(_ bytes: borrowing Span<UInt8>) {
        guard !bytes.isEmpty else { return }
        let end = count &+ bytes.count
        if end > memory.count { grow(to: end) }
        let start = count
        bytes.withUnsafeBufferPointer { source in
            memory.withUnsafeMutableBufferPointer {
                ($0.baseAddress! + start).update(from: source.baseAddress!, count: source.count)
            }
        }
        count = end
    }

    package mutating func append(_ byte: UInt8) {
        if count >= memory.count { grow(to: count &+ 1) }
        memory[count] = byte
        count &+= 1
    }

    /// Appends a field line in one piece: the name, a colon and a space, the value, CRLF.
    package mutating func appendLine(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) {
        let start = count
        let end = start &+ name.count &+ value.count &+ 4
        if end > memory.count { grow(to: end) }
        name.withUnsafeBufferPointer { name in
            value.withUnsafeBufferPointer { value in
                memory.withUnsafeMutableBufferPointer { room in
                    var place = room.baseAddress! + start
                    if let source = name.baseAddress { place.update(from: source, count: name.count) }
                    place += name.count
                    place[0] = UInt8(ascii: ":")
                    place[1] = UInt8(ascii: " ")
                    place += 2
                    if let source = value.baseAddress { place.update(from: source, count: value.count) }
                    place += value.count
                    place[0] = UInt8(ascii: "\r")
                    place[1] = UInt8(ascii: "\n")
                }
            }
        }
        count = end
    }

    @inline(never)
    private mutating func grow(to size: Int) {
        // Heads of a few short fields grow once.
        let larger = max(size, 2 * memory.count, 64)
        let known = memory.count
        // By memset(3), since the standard library's ways to append zeros take a call for each byte in a build without
        // optimisation: a second for a megabyte.
        memory = [UInt8](unsafeUninitializedCapacity: larger) { room, filled in
            let start = room.baseAddress!
            memory.withUnsafeBufferPointer { if known > 0 { start.initialize(from: $0.baseAddress!, count: known) } }
            memset(start + known, 0, larger - known)
            filled = larger
        }
    }
}
