// SPDX-License-Identifier: Apache-2.0

/// Checks text that comes in pieces for UTF-8 (RFC 3629): the first byte that no valid text can have at its place is found at once,
/// also before the character is complete.
package struct UTF8Validator: Sendable {
    /// Bytes that the character under way still lacks.
    private var missing = 0
    /// What the next byte of that character may be.
    private var lowest: UInt8 = 0x80
    private var highest: UInt8 = 0xBF

    package init() {}

    /// Whether the text may end here.
    package var isComplete: Bool { missing == 0 }

    /// - Returns: false when the text is not UTF-8; the validator is not used again then.
    package mutating func append(_ bytes: borrowing Span<UInt8>) -> Bool {
        bytes.withUnsafeBytes { append($0) }
    }

    private mutating func append(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        while index < bytes.count {
            if missing == 0 {
                // ASCII, eight bytes at a time.
                while index + 8 <= bytes.count,
                    bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self) & 0x8080_8080_8080_8080 == 0
                {
                    index += 8
                }
                guard index < bytes.count else { return true }
                guard begin(bytes[index]) else { return false }
            } else {
                guard bytes[index] >= lowest, bytes[index] <= highest else { return false }
                missing -= 1
                (lowest, highest) = (0x80, 0xBF)
            }
            index += 1
        }
        return true
    }

    /// The first byte of a character: RFC 3629, section 4.
    private mutating func begin(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x00...0x7F: return true
        case 0xC2...0xDF: missing = 1
        case 0xE0:
            missing = 2
            lowest = 0xA0
        case 0xE1...0xEC, 0xEE, 0xEF: missing = 2
        case 0xED:
            // No surrogates.
            missing = 2
            highest = 0x9F
        case 0xF0:
            missing = 3
            lowest = 0x90
        case 0xF1...0xF3: missing = 3
        case 0xF4:
            missing = 3
            highest = 0x8F
        default: return false
        }
        return true
    }
}
