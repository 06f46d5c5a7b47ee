// SPDX-License-Identifier: Apache-2.0
import IOCore

extension Span where Element == UInt8 {
    /// Whether both hold the same bytes.
    @inlinable
    @inline(__always)
    package func equals(_ other: borrowing Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        var index = 0
        let (raw, otherRaw) = (self.bytes, other.bytes)
        while index &+ 8 <= count {
            if WordOfBytes.load(raw, index) != WordOfBytes.load(otherRaw, index) { return false }
            index &+= 8
        }
        // The last word may overlap the one before.
        if count >= 8 {
            let last = count &- 8
            return WordOfBytes.load(raw, last) == WordOfBytes.load(otherRaw, last)
        }
        while index < count {
            if self[index] != other[index] { return false }
            index &+= 1
        }
        return true
    }

    /// Whether both are equal, ignoring the case of ASCII letters.
    @inlinable
    @inline(__always)
    package func equalsIgnoringCase(_ other: borrowing Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        var index = 0
        while index < count {
            if ASCII.lowercased(self[index]) != ASCII.lowercased(other[index]) { return false }
            index &+= 1
        }
        return true
    }

    /// Whether it is `text`, ignoring the case of ASCII letters.
    @inlinable
    @inline(__always)
    package func equalsIgnoringCase(_ text: StaticString) -> Bool {
        count == text.utf8CodeUnitCount && (equals(text) || hasPrefixIgnoringCase(text))
    }

    /// Whether it is exactly `text`.
    @inlinable
    @inline(__always)
    package func equals(_ text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        var index = 0
        while index < count {
            if self[index] != text.utf8Start[index] { return false }
            index &+= 1
        }
        return true
    }

    /// Whether it begins with `text`, ignoring the case of ASCII letters.
    @inlinable
    @inline(__always)
    package func hasPrefixIgnoringCase(_ text: StaticString) -> Bool {
        guard count >= text.utf8CodeUnitCount else { return false }
        var index = 0
        while index < text.utf8CodeUnitCount {
            if ASCII.lowercased(self[index]) != ASCII.lowercased(text.utf8Start[index]) { return false }
            index &+= 1
        }
        return true
    }

    /// The index of the first `byte` at or after `start`.
    ///
    /// Eight bytes in each step: `word ^ pattern` has a zero byte at each match, and the lowest zero byte is the first
    /// whose subtraction borrows.
    @inlinable
    @inline(__always)
    package func firstIndex(of byte: UInt8, from start: Int = 0) -> Int? {
        precondition(start >= 0)
        let pattern = WordOfBytes.repeating(byte)
        let raw = self.bytes
        var index = start
        while index &+ 8 <= count {
            let zeros = WordOfBytes.zeroBytes(WordOfBytes.load(raw, index) ^ pattern)
            if zeros != 0 { return index &+ zeros.trailingZeroBitCount / 8 }
            index &+= 8
        }
        while index < count {
            if self[index] == byte { return index }
            index &+= 1
        }
        return nil
    }

    /// The first byte of `range` that a field value cannot hold (RFC 9110 5.5).
    @inlinable
    @inline(__always)
    package func firstIndexOutsideFieldValue(in range: Range<Int>) -> Int? {
        precondition(range.lowerBound >= 0 && range.upperBound <= count)
        let raw = self.bytes
        var index = range.lowerBound
        while index < range.upperBound {
            if index &+ 8 <= range.upperBound {
                let word = WordOfBytes.load(raw, index)
                if WordOfBytes.isPrintable(word) || !WordOfBytes.hasControl(word) {
                    index &+= 8
                    continue
                }
            }
            // A TAB is a permitted control character: a word that has one is checked byte by byte.
            let end = Swift.min(index &+ 8, range.upperBound)
            while index < end {
                if !ASCII.isFieldValue(self[index]) { return index }
                index &+= 1
            }
        }
        return nil
    }

    /// The first control character from `start` on, TAB included.
    @inlinable
    @inline(__always)
    package func firstIndexOfControl(from start: Int) -> Int? {
        precondition(start >= 0)
        let raw = self.bytes
        var index = start
        while index &+ 8 <= count {
            let word = WordOfBytes.load(raw, index)
            if WordOfBytes.isPrintable(word) {
                index &+= 8
                continue
            }
            let controls = WordOfBytes.controls(word)
            // The lowest mark is exact.
            if controls != 0 { return index &+ controls.trailingZeroBitCount / 8 }
            index &+= 8
        }
        while index < count {
            if self[index] < 0x20 || self[index] == ASCII.delete { return index }
            index &+= 1
        }
        return nil
    }

    /// The first byte from `start` on that a JSON string does not hold as it is: a quote, a backslash, a control character.
    @inlinable
    package func firstIndexForJSON(from start: Int) -> Int? {
        precondition(start >= 0)
        let raw = self.bytes
        var index = start
        while index < count {
            if index &+ 8 <= count {
                let word = WordOfBytes.load(raw, index)
                let quotes = WordOfBytes.zeroBytes(word ^ WordOfBytes.repeating(UInt8(ascii: "\"")))
                let slashes = WordOfBytes.zeroBytes(word ^ WordOfBytes.repeating(UInt8(ascii: "\\")))
                if quotes | slashes == 0, !WordOfBytes.hasControl(word) {
                    index &+= 8
                    continue
                }
            }
            let end = Swift.min(index &+ 8, count)
            while index < end {
                let byte = self[index]
                if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") || byte == ASCII.delete {
                    return index
                }
                index &+= 1
            }
        }
        return nil
    }

    /// Whether some byte is a capital letter.
    @inline(__always)
    package var hasCapitals: Bool {
        let raw = self.bytes
        var index = 0
        while index &+ 8 <= count {
            if WordOfBytes.hasCapitals(WordOfBytes.load(raw, index)) { return true }
            index &+= 8
        }
        // The last word may overlap the one before.
        if count >= 8 { return index < count && WordOfBytes.hasCapitals(WordOfBytes.load(raw, count &- 8)) }
        while index < count {
            if self[index] &- UInt8(ascii: "A") < 26 { return true }
            index &+= 1
        }
        return false
    }

    /// The first byte of `range` that is no visible ASCII character.
    @inlinable
    @inline(__always)
    package func firstIndexOutsideVisible(in range: Range<Int>) -> Int? {
        precondition(range.lowerBound >= 0 && range.upperBound <= count)
        let raw = self.bytes
        var index = range.lowerBound
        while index < range.upperBound {
            if index &+ 8 <= range.upperBound {
                let word = WordOfBytes.load(raw, index)
                let spaces = WordOfBytes.zeroBytes(word ^ WordOfBytes.repeating(UInt8(ascii: " ")))
                if spaces | (word & WordOfBytes.tops) == 0, !WordOfBytes.hasControl(word) {
                    index &+= 8
                    continue
                }
            }
            let end = Swift.min(index &+ 8, range.upperBound)
            while index < end {
                if self[index] <= 0x20 || self[index] >= ASCII.delete { return index }
                index &+= 1
            }
        }
        return nil
    }

    /// `range` without the spaces and tabs at both of its ends.
    @inlinable
    @inline(__always)
    package func trimmingBlanks(_ range: Range<Int>) -> Range<Int> {
        var lower = range.lowerBound
        var upper = range.upperBound
        while lower < upper, ASCII.isBlank(self[lower]) { lower &+= 1 }
        while upper > lower, ASCII.isBlank(self[upper &- 1]) { upper &-= 1 }
        return lower..<upper
    }
}

extension String {
    /// Readable text from bytes that are probably UTF-8.
    package init(copying span: borrowing Span<UInt8>) {
        var bytes: [UInt8] = []
        bytes.append(span)
        self = String(decoding: bytes, as: UTF8.self)
    }
}

/// Predicates for eight bytes at once.
@usableFromInline
enum WordOfBytes {
    @usableFromInline static let ones: UInt64 = 0x0101_0101_0101_0101
    @usableFromInline static let tops: UInt64 = 0x8080_8080_8080_8080

    /// The bytes from `index` on, the first one lowest. The bounds are not checked once more: the caller has just compared
    /// `index &+ 8` with the end, and `index` has grown from a place that it has checked.
    @inlinable
    @inline(__always)
    static func load(_ bytes: borrowing RawSpan, _ index: Int) -> UInt64 {
        UInt64(littleEndian: unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self))
    }

    @inlinable
    @inline(__always)
    static func repeating(_ byte: UInt8) -> UInt64 { UInt64(byte) &* ones }

    /// Marks the top bit of the lowest zero byte, and perhaps of bytes above it.
    @inlinable
    @inline(__always)
    static func zeroBytes(_ word: UInt64) -> UInt64 { (word &- ones) & ~word & tops }

    /// Whether each byte is from 0x20 to 0x7E. Most words are, and this takes half as long as `controls`.
    @inlinable
    @inline(__always)
    static func isPrintable(_ word: UInt64) -> Bool { ((word &- repeating(0x20)) | (word &+ ones)) & tops == 0 }

    /// Whether some byte is below 0x20 or 0x7F; exact, because a false mark occurs only above a true one.
    @inlinable
    @inline(__always)
    static func hasControl(_ word: UInt64) -> Bool { controls(word) != 0 }

    /// Whether some byte is a capital letter. No sum of two bytes reaches the next one.
    @inlinable
    @inline(__always)
    static func hasCapitals(_ word: UInt64) -> Bool {
        let low = word & ~tops
        let fromA = low &+ repeating(0x80 - UInt8(ascii: "A"))
        let behindZ = low &+ repeating(0x7F - UInt8(ascii: "Z"))
        return fromA & ~behindZ & ~word & tops != 0
    }

    /// Marks the top bit of the lowest byte that is below 0x20 or 0x7F, and perhaps of bytes above it.
    @inlinable
    @inline(__always)
    static func controls(_ word: UInt64) -> UInt64 {
        let low = (word &- repeating(0x20)) & ~word & tops
        return low | zeroBytes(word ^ repeating(0x7F))
    }
}

extension [UInt8] {
    /// A copy of the bytes.
    package init(copying span: borrowing Span<UInt8>) {
        self.init()
        append(span)
    }
}
