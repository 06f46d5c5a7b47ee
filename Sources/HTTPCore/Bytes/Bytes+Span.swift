import IOCore

extension Span where Element == UInt8 {
    /// Whether both hold the same bytes.
    @inline(__always)
    package func equals(_ other: borrowing Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        var index = 0
        while index < count {
            if self[index] != other[index] { return false }
            index &+= 1
        }
        return true
    }

    /// Whether both are equal but for the case of ASCII letters.
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

    /// Whether it is `text` but for the case of ASCII letters.
    @inline(__always)
    package func equalsIgnoringCase(_ text: StaticString) -> Bool {
        equalsIgnoringCase(text.bytes)
    }

    /// Whether it is exactly `text`.
    @inline(__always)
    package func equals(_ text: StaticString) -> Bool {
        equals(text.bytes)
    }

    /// Whether it begins with `text` but for the case of ASCII letters.
    @inline(__always)
    package func hasPrefixIgnoringCase(_ text: StaticString) -> Bool {
        let prefix = text.bytes
        guard count >= prefix.count else { return false }
        return extracting(0..<prefix.count).equalsIgnoringCase(prefix)
    }

    /// Where `byte` first stands at or after `start`.
    @inline(__always)
    package func firstIndex(of byte: UInt8, from start: Int = 0) -> Int? {
        var index = start
        while index < count {
            if self[index] == byte { return index }
            index &+= 1
        }
        return nil
    }

    /// `range` without the spaces and tabs at both of its ends.
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
    /// Text for people out of bytes that are most likely UTF-8.
    package init(copying span: borrowing Span<UInt8>) {
        var bytes: [UInt8] = []
        bytes.append(span)
        self = String(decoding: bytes, as: UTF8.self)
    }
}
