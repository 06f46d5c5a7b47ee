// SPDX-License-Identifier: Apache-2.0
/// Removes strings from a field block that are too long for nghttp2 (more than 64 KB). nghttp2 would end the
/// connection, although only the request is too large, and the compression state can be kept.
///
/// The block is walked from representation to representation (RFC 7541, section 6), frame by frame; nothing is decoded.
/// Such a string is replaced by another one with the same effect on the dynamic table: both are larger than the table,
/// so that an entry with one empties the table (RFC 7541, section 4.4).
struct FieldBlockFilter {
    private enum Part {
        case representation
        /// The rest of a number whose value is not needed, and whether a string follows it.
        case number(then: Strings)
        /// The length of a string, with the value and the number of bits that have been read.
        case length(then: Strings, value: Int, shift: Int)
        case text(left: Int, isKept: Bool, then: Strings)
    }

    /// The remaining strings of a literal.
    private enum Strings { case none, value, nameAndValue }

    /// The longest string that nghttp2 accepts: NGHTTP2_HD_MAX_NV.
    static let limit = 65_536
    /// The largest size of the dynamic table, because no other one is announced.
    private static let tableBytes = 4096
    /// No valid length is that large; nghttp2 refuses it.
    private static let largestLength = 1 << 24

    private var part = Part.representation
    /// The bytes of an incomplete length.
    private var pending: [UInt8] = []
    /// Whether a string was removed.
    private(set) var hasOmitted = false
    /// Whether the block is invalid: the rest is passed on unchanged.
    private var isInvalid = false

    /// Whether the block ends inside a removed string: it is invalid, but nghttp2 cannot notice.
    var isCutInOmission: Bool {
        if case .text(_, isKept: false, _) = part { return true }
        return false
    }

    /// Filters a piece of the block.
    ///
    /// - Parameter isLast: whether it is the last piece.
    mutating func filter(_ fragment: borrowing Span<UInt8>, isLast: Bool, into output: inout [UInt8]) {
        var position = 0
        while position < fragment.count {
            guard !isInvalid else {
                while position < fragment.count {
                    output.append(fragment[position])
                    position += 1
                }
                break
            }
            if case .text(let left, let isKept, let strings) = part {
                let end = position + min(left, fragment.count - position)
                if isKept { for index in position..<end { output.append(fragment[index]) } }
                let rest = left - (end - position)
                part = rest > 0 ? .text(left: rest, isKept: isKept, then: strings) : Self.next(strings)
                position = end
            } else {
                consume(fragment[position], into: &output)
                position += 1
            }
        }
        if isLast {
            output += pending
            pending.removeAll()
        }
    }

    private static func next(_ strings: Strings) -> Part {
        switch strings {
        case .none: .representation
        case .value: .length(then: .none, value: 0, shift: -1)
        case .nameAndValue: .length(then: .value, value: 0, shift: -1)
        }
    }

    private mutating func consume(_ byte: UInt8, into output: inout [UInt8]) {
        switch part {
        case .representation:
            output.append(byte)
            let (mask, strings) = Self.form(byte)
            part = byte & mask == mask ? .number(then: strings) : Self.next(strings)
        case .number(let strings):
            output.append(byte)
            if byte & 0x80 == 0 { part = Self.next(strings) }
        case .length(let strings, let value, let shift):
            pending.append(byte)
            if shift < 0 {
                let start = Int(byte & 0x7F)
                if start == 0x7F {
                    part = .length(then: strings, value: start, shift: 0)
                } else {
                    beginString(length: start, strings, into: &output)
                }
            } else {
                let sum = value + Int(byte & 0x7F) << shift
                if sum > Self.largestLength || shift > 28 {
                    isInvalid = true
                    output += pending
                    pending.removeAll()
                } else if byte & 0x80 != 0 {
                    part = .length(then: strings, value: sum, shift: shift + 7)
                } else {
                    beginString(length: sum, strings, into: &output)
                }
            }
        case .text: break
        }
    }

    /// The bits of a representation's first byte that hold a number, and what follows the number.
    private static func form(_ byte: UInt8) -> (mask: UInt8, strings: Strings) {
        if byte & 0x80 != 0 { return (0x7F, .none) }
        if byte & 0x40 != 0 { return (0x3F, byte & 0x3F == 0 ? .nameAndValue : .value) }
        if byte & 0x20 != 0 { return (0x1F, .none) }
        return (0x0F, byte & 0x0F == 0 ? .nameAndValue : .value)
    }

    private mutating func beginString(length: Int, _ strings: Strings, into output: inout [UInt8]) {
        let isKept = length <= Self.limit
        if isKept {
            output += pending
        } else {
            hasOmitted = true
            // 4096 as a number with a prefix of seven bits.
            output += [0x7F, 0x81, 0x1F]
            for _ in 0..<Self.tableBytes { output.append(0x78) }
        }
        pending.removeAll()
        part = length > 0 ? .text(left: length, isKept: isKept, then: strings) : Self.next(strings)
    }
}
