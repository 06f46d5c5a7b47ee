// SPDX-License-Identifier: Apache-2.0

/// Writes messages of Protocol Buffers (https://protobuf.dev/programming-guides/encoding/): as much of the encoding as the messages of
/// OTLP have. A field with the value zero is left out, as proto3 does.
struct ProtobufWriter {
    private(set) var bytes: [UInt8] = []

    private enum WireType: UInt64 {
        case varint = 0
        case fixed64 = 1
        case delimited = 2
        case fixed32 = 5
    }

    mutating func write(_ number: UInt64, at field: UInt64) {
        guard number != 0 else { return }
        writeNumber(number, at: field)
    }

    /// Writes it also when it is zero: a member of a `oneof`.
    mutating func writeNumber(_ number: UInt64, at field: UInt64) {
        writeTag(field, .varint)
        writeVarint(number)
    }

    mutating func writeFixed64(_ number: UInt64, at field: UInt64) {
        guard number != 0 else { return }
        writeTag(field, .fixed64)
        for shift in stride(from: UInt64(0), to: 64, by: 8) { bytes.append(UInt8(truncatingIfNeeded: number >> shift)) }
    }

    mutating func writeFixed32(_ number: UInt32, at field: UInt64) {
        guard number != 0 else { return }
        writeTag(field, .fixed32)
        for shift in stride(from: UInt32(0), to: 32, by: 8) { bytes.append(UInt8(truncatingIfNeeded: number >> shift)) }
    }

    /// An identifier of 8 bytes, the highest first; left out when it is zero.
    mutating func writeIdentifier(_ numbers: UInt64..., at field: UInt64) {
        guard numbers.contains(where: { $0 != 0 }) else { return }
        writeTag(field, .delimited)
        writeVarint(UInt64(8 * numbers.count))
        for number in numbers {
            for shift in stride(from: UInt64(56), through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: number >> shift))
            }
        }
    }

    mutating func write(_ content: [UInt8], at field: UInt64) {
        guard !content.isEmpty else { return }
        writeContent(content, at: field)
    }

    /// Writes text, also when it is empty. Strings of protobuf are UTF-8, or readers refuse the whole message.
    mutating func writeText(_ text: [UInt8], at field: UInt64) {
        let isASCII = text.allSatisfy { $0 < 0x80 }
        writeContent(isASCII ? text : Array(String(decoding: text, as: UTF8.self).utf8), at: field)
    }

    /// Writes a message inside this one.
    mutating func writeMessage(at field: UInt64, _ write: (inout ProtobufWriter) -> Void) {
        var inner = ProtobufWriter()
        write(&inner)
        writeContent(inner.bytes, at: field)
    }

    private mutating func writeContent(_ content: [UInt8], at field: UInt64) {
        writeTag(field, .delimited)
        writeVarint(UInt64(content.count))
        bytes += content
    }

    private mutating func writeTag(_ field: UInt64, _ type: WireType) { writeVarint(field << 3 | type.rawValue) }

    private mutating func writeVarint(_ number: UInt64) {
        var rest = number
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }
}
