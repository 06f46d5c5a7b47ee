// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// A growable byte buffer with a read end and a write end, for sockets and serialisers.
///
/// It owns memory from `BufferPool` and returns it after use, so that an idle connection holds none. A noncopyable
/// value with one owner.
@usableFromInline
package struct ByteBuffer: ~Copyable {
    // Other modules inline what writes here: a literal becomes a few stores.
    @usableFromInline var base: UnsafeMutableRawPointer?
    @usableFromInline var capacity: Int
    @usableFromInline var readIndex: Int
    @usableFromInline var writeIndex: Int

    package init() {
        base = nil
        capacity = 0
        readIndex = 0
        writeIndex = 0
    }

    deinit {
        if let base { BufferPool.free(base, capacity) }
    }

    /// The number of unread bytes.
    @inlinable
    @inline(__always)
    package var count: Int { writeIndex &- readIndex }

    @inlinable
    @inline(__always)
    package var isEmpty: Bool { writeIndex == readIndex }

    package var hasMemory: Bool { base != nil }

    /// The unread bytes.
    @inlinable package var bytes: Span<UInt8> {
        @_lifetime(borrow self) borrowing get {
            let span = Span<UInt8>(_unsafeStart: start, count: writeIndex &- readIndex)
            return unsafe _overrideLifetime(span, borrowing: self)
        }
    }

    @inlinable var start: UnsafePointer<UInt8> {
        guard let base else { return UnsafePointer(bitPattern: 1)! }
        return UnsafePointer(base.assumingMemoryBound(to: UInt8.self) + readIndex)
    }

    /// Removes `count` bytes from the front.
    @inlinable
    @inline(__always)
    package mutating func consume(_ count: Int) {
        precondition(count >= 0 && count <= self.count, "consumed more than there is")
        readIndex &+= count
        if readIndex == writeIndex {
            readIndex = 0
            writeIndex = 0
        }
    }

    /// Removes all bytes and keeps the memory for the next use.
    package mutating func removeAll() {
        readIndex = 0
        writeIndex = 0
    }

    /// Removes all bytes and frees the memory.
    package mutating func release() {
        if let base { BufferPool.free(base, capacity) }
        base = nil
        capacity = 0
        readIndex = 0
        writeIndex = 0
    }

    /// Takes over the memory of an empty buffer, unless this one has memory.
    @inline(__always)
    package mutating func takeMemory(of spare: inout ByteBuffer) {
        if base == nil { swap(&self, &spare) }
    }

    /// Removes all bytes, and gives the memory to a buffer that has none. It is freed where that has some, or where it is large.
    @inline(__always)
    package mutating func giveMemory(to spare: inout ByteBuffer) {
        guard spare.base == nil, capacity == BufferPool.smallest else { return release() }
        removeAll()
        swap(&self, &spare)
    }

    /// Makes space for `count` more bytes: it moves the bytes to the front, or allocates more memory.
    @inlinable
    @inline(__always)
    package mutating func reserve(_ count: Int) {
        if capacity &- writeIndex < count { makeRoom(count) }
    }

    @usableFromInline
    @inline(never)
    mutating func makeRoom(_ needed: Int) {
        let held = self.count
        if let base, capacity &- held >= needed, readIndex >= capacity / 2 {
            base.copyMemory(from: base + readIndex, byteCount: held)
        } else {
            let (fresh, size) = BufferPool.allocate(held + needed)
            if let base {
                fresh.copyMemory(from: base + readIndex, byteCount: held)
                BufferPool.free(base, capacity)
            }
            base = fresh
            capacity = size
        }
        readIndex = 0
        writeIndex = held
    }

    @inlinable
    @inline(__always)
    package mutating func append(_ byte: UInt8) {
        reserve(1)
        base!.storeBytes(of: byte, toByteOffset: writeIndex, as: UInt8.self)
        writeIndex &+= 1
    }

    @inlinable
    @inline(__always)
    package mutating func append(_ text: StaticString) {
        let count = text.utf8CodeUnitCount
        reserve(count)
        (base! + writeIndex).copyMemory(from: UnsafeRawPointer(text.utf8Start), byteCount: count)
        writeIndex &+= count
    }

    @inlinable
    @inline(__always)
    package mutating func append(_ span: borrowing Span<UInt8>) {
        span.withUnsafeBufferPointer { append(UnsafeRawBufferPointer($0)) }
    }

    @inlinable
    @inline(__always)
    package mutating func append(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { append($0) }
    }

    /// Appends a copy of bytes in this buffer; `range` counts from the first unread byte.
    package mutating func append(copyOf range: Range<Int>) {
        precondition(range.lowerBound >= 0 && range.upperBound <= count)
        guard !range.isEmpty else { return }
        reserve(range.count)
        let base = base!
        (base + writeIndex).copyMemory(from: base + readIndex + range.lowerBound, byteCount: range.count)
        writeIndex &+= range.count
    }

    /// For bytes from C; other callers append a span.
    @inlinable
    @inline(__always)
    package mutating func append(_ raw: UnsafeRawBufferPointer) {
        guard let source = raw.baseAddress, raw.count > 0 else { return }
        reserve(raw.count)
        (base! + writeIndex).copyMemory(from: source, byteCount: raw.count)
        writeIndex &+= raw.count
    }

    /// Text for error bodies and details: not for the request path.
    package mutating func append(text: String) {
        var text = text
        text.withUTF8 { append(UnsafeRawBufferPointer($0)) }
    }

    /// Appends the lowest `count` bytes of a word, the lowest first.
    @inlinable
    @inline(__always)
    package mutating func append(bytesOf word: UInt64, count: Int) {
        precondition(count >= 0 && count <= 8)
        reserve(8)
        base!.storeBytes(of: word.littleEndian, toByteOffset: writeIndex, as: UInt64.self)
        writeIndex &+= count
    }

    /// Appends a number in decimal digits.
    package mutating func append(decimal value: Int) {
        if UInt(bitPattern: value) < 10 { return append(UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: value)) }
        if value < 0 { append(UInt8(ascii: "-")) }
        appendDigits(value.magnitude)
    }

    /// Appends a number of at most four digits.
    @inline(__always)
    private mutating func appendFewDigits(_ value: UInt32) {
        let count = value < 100 ? value < 10 ? 1 : 2 : value < 1_000 ? 3 : 4
        let hundreds = value / 100
        let digits = Self.pair(hundreds) | Self.pair(value &- hundreds &* 100) &<< 16
        // The zeros in front are shifted out.
        append(bytesOf: UInt64(digits &>> UInt32(32 &- 8 &* count)), count: count)
    }

    /// Appends a number in lower-case hexadecimal digits (chunk sizes).
    package mutating func append(hexadecimal value: Int) {
        precondition(value >= 0)
        reserve(16)
        var shift = (Int.bitWidth - 1 - value.leadingZeroBitCount) / 4 * 4
        if value == 0 { shift = 0 }
        while shift >= 0 {
            let digit = UInt8((value >> shift) & 15)
            append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
            shift -= 4
        }
    }

    private mutating func appendDigits(_ value: UInt) {
        if value < 10_000 { return appendFewDigits(UInt32(truncatingIfNeeded: value)) }
        let digits = Self.digitCount(value)
        reserve(digits)
        let base = base!
        var position = writeIndex &+ digits
        writeIndex = position
        var rest = value
        // Two digits with one division.
        while rest >= 10 {
            position &-= 2
            let hundreds = rest / 100
            base.storeBytes(
                of: UInt16(truncatingIfNeeded: Self.pair(UInt32(truncatingIfNeeded: rest &- hundreds &* 100)))
                    .littleEndian,
                toByteOffset: position,
                as: UInt16.self
            )
            rest = hundreds
        }
        guard position > writeIndex &- digits else { return }
        base.storeBytes(
            of: UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest),
            toByteOffset: position &- 1,
            as: UInt8.self
        )
    }

    /// The number of digits of a number from 10,000 on, with a few comparisons for those of up to eight digits.
    @inline(__always)
    private static func digitCount(_ value: UInt) -> Int {
        if value < 100_000_000 {
            if value < 1_000_000 { return value < 100_000 ? 5 : 6 }
            return value < 10_000_000 ? 7 : 8
        }
        var digits = 9
        var bound: UInt = 1_000_000_000
        while digits < 20, value >= bound {
            digits &+= 1
            bound &*= 10
        }
        return digits
    }

    /// The two digits of a number below 100, the first one in the lower byte.
    @inline(__always)
    private static func pair(_ value: UInt32) -> UInt32 {
        assert(value < 100)
        let digits = UnsafeRawPointer(pairs.utf8Start).loadUnaligned(fromByteOffset: Int(value) &* 2, as: UInt16.self)
        return UInt32(UInt16(littleEndian: digits))
    }

    /// The numbers below 100, of two digits each.
    private static var pairs: StaticString {
        """
        0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
        5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899
        """
    }

    /// Lets `body` write up to `count` bytes at the end; it returns the number of written bytes.
    @inlinable
    @inline(__always)
    package mutating func write(upTo count: Int, _ body: (UnsafeMutableRawBufferPointer) -> Int) -> Int {
        reserve(count)
        let written = body(UnsafeMutableRawBufferPointer(start: base! + writeIndex, count: count))
        precondition(written >= 0 && written <= count)
        writeIndex &+= written
        return written
    }

    /// Gives `body` access to the bytes for C functions.
    @inlinable
    @inline(__always)
    package func withUnsafeBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        body(UnsafeRawBufferPointer(start: start, count: count))
    }
}

/// An allocator of buffer memory in a few sizes.
///
/// A thin layer over the allocator: sizes are rounded so that a buffer grows in few steps, and the allocator's
/// per-thread lists do the pooling.
enum BufferPool {
    static let smallest = 2048

    static func allocate(_ needed: Int) -> (UnsafeMutableRawPointer, Int) {
        var size = smallest
        while size < needed { size *= 2 }
        // Not `UnsafeMutableRawPointer.allocate`, which takes the slow way of aligned memory (posix_memalign).
        guard let memory = malloc(size) else { fatalError("no memory for a buffer of \(size) bytes") }
        return (memory, size)
    }

    static func free(_ base: UnsafeMutableRawPointer, _ size: Int) { Glibc.free(base) }
}
