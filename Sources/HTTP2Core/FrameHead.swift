// SPDX-License-Identifier: Apache-2.0
/// The nine bytes before the payload of a frame (RFC 9113, section 4.1).
struct FrameHead {
    /// The frame types of RFC 9113, section 6.
    enum Kind: UInt8 {
        case data, headers, priority, resetStream, settings, pushPromise, ping, goAway, windowUpdate, continuation
    }

    static let byteCount = 9

    let length: Int
    let type: UInt8
    let flags: UInt8
    let stream: Int32

    /// Parses nine bytes.
    init(_ bytes: borrowing Span<UInt8>) {
        length = Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
        type = bytes[3]
        flags = bytes[4]
        let number = UInt32(bytes[5] & 0x7F) << 24 | UInt32(bytes[6]) << 16 | UInt32(bytes[7]) << 8 | UInt32(bytes[8])
        stream = Int32(bitPattern: number)
    }

    init(length: Int, type: UInt8, flags: UInt8, stream: Int32) {
        self.length = length
        self.type = type
        self.flags = flags
        self.stream = stream
    }

    /// The frame type; nil when the standard does not define it.
    var kind: Kind? { Kind(rawValue: type) }
    var endsStream: Bool { flags & 0x1 != 0 }
    var endsFieldBlock: Bool { flags & 0x4 != 0 }
    var isPadded: Bool { flags & 0x8 != 0 }
    var hasPriority: Bool { flags & 0x20 != 0 }

    func write(to bytes: inout [UInt8]) {
        for shift in [16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: length >> shift)) }
        bytes.append(type)
        bytes.append(flags)
        for shift in [24, 16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: stream >> Int32(shift))) }
    }
}
