// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// What a frame carries (RFC 6455, section 5.2). All other values are reserved.
package enum WebSocketOpcode: UInt8, Sendable {
    case continuation = 0
    case text = 1
    case binary = 2
    case close = 8
    case ping = 9
    case pong = 10

    package var isControl: Bool { rawValue & 8 != 0 }
}

/// The head of a frame (RFC 6455, section 5.2).
package struct WebSocketFrameHead: Equatable, Sendable {
    /// The last frame of its message.
    package var isFinal: Bool
    /// RSV1: in the first frame of a message, that permessage-deflate has compressed it (RFC 7692, section 6).
    package var isCompressed: Bool
    package var opcode: WebSocketOpcode
    /// The number of bytes behind the head.
    package var length: Int
    /// The four bytes of the mask, the first one lowest; nil for a payload that is not masked.
    package var mask: UInt32?

    package init(
        isFinal: Bool = true,
        isCompressed: Bool = false,
        opcode: WebSocketOpcode,
        length: Int,
        mask: UInt32? = nil
    ) {
        self.isFinal = isFinal
        self.isCompressed = isCompressed
        self.opcode = opcode
        self.length = length
        self.mask = mask
    }

    package enum Reading: Equatable {
        case needsMore
        /// The head has that many bytes.
        case head(WebSocketFrameHead, byteCount: Int)
        case failed(WebSocketFault)
    }

    /// The longest payload of a control frame, in bytes (RFC 6455, section 5.5).
    static let longestControlPayload = 125
    private static let twoByteLength: UInt8 = 126
    private static let eightByteLength: UInt8 = 127

    /// Reads a head. What is wrong with it is found with the first byte that shows it.
    package static func read(_ bytes: borrowing Span<UInt8>, at start: Int) -> Reading {
        guard start < bytes.count else { return .needsMore }
        let first = bytes[start]
        guard first & 0x30 == 0 else { return .failed(.protocolError("a reserved bit is set")) }
        guard let opcode = WebSocketOpcode(rawValue: first & 0x0F) else {
            return .failed(.protocolError("the opcode \(first & 0x0F) is reserved"))
        }
        let isFinal = first & 0x80 != 0
        guard isFinal || !opcode.isControl else { return .failed(.protocolError("a control frame is fragmented")) }
        guard start + 1 < bytes.count else { return .needsMore }
        let second = bytes[start + 1]
        var position = start + 2
        var length = Int(second & 0x7F)
        if length >= Int(twoByteLength) {
            guard !opcode.isControl else {
                return .failed(.protocolError("a control frame has more than 125 bytes"))
            }
            let isLong = length == Int(eightByteLength)
            let size = isLong ? 8 : 2
            guard position + size <= bytes.count else { return .needsMore }
            var value: UInt64 = 0
            for index in position..<(position + size) { value = value << 8 | UInt64(bytes[index]) }
            position += size
            // The minimal form is required, so that a length has one.
            guard value >= (isLong ? 1 << 16 : UInt64(twoByteLength)) else {
                return .failed(.protocolError("a length is not in its shortest form"))
            }
            guard value <= UInt64(Int.max) else { return .failed(.protocolError("a length has more than 63 bits")) }
            length = Int(value)
        }
        var mask: UInt32?
        if second & 0x80 != 0 {
            guard position + 4 <= bytes.count else { return .needsMore }
            var value: UInt32 = 0
            for index in 0..<4 { value |= UInt32(bytes[position + index]) << UInt32(8 * index) }
            mask = value
            position += 4
        }
        let head = WebSocketFrameHead(
            isFinal: isFinal,
            isCompressed: first & 0x40 != 0,
            opcode: opcode,
            length: length,
            mask: mask
        )
        return .head(head, byteCount: position - start)
    }

    /// Writes the head, with the length in its shortest form.
    package func write(into output: inout ByteBuffer) {
        output.append((isFinal ? 0x80 : 0) | (isCompressed ? 0x40 : 0) | opcode.rawValue)
        let maskBit: UInt8 = mask == nil ? 0 : 0x80
        if length < Int(Self.twoByteLength) {
            output.append(maskBit | UInt8(length))
        } else if length < 1 << 16 {
            output.append(maskBit | Self.twoByteLength)
            output.append(bytesOf: UInt64(UInt16(length).byteSwapped), count: 2)
        } else {
            output.append(maskBit | Self.eightByteLength)
            output.append(bytesOf: UInt64(length).byteSwapped, count: 8)
        }
        if let mask { output.append(bytesOf: UInt64(mask), count: 4) }
    }

    /// Writes a whole frame, and masks its payload when the head says so.
    package func write(_ payload: borrowing Span<UInt8>, into output: inout ByteBuffer) {
        precondition(payload.count == length)
        write(into: &output)
        guard let mask else { return output.append(payload) }
        guard !payload.isEmpty else { return }
        payload.withUnsafeBytes { bytes in
            _ = output.write(upTo: bytes.count) { room in
                room.copyMemory(from: bytes)
                Self.apply(mask, from: 0, to: room)
                return bytes.count
            }
        }
    }

    /// Masks bytes, or removes the mask (RFC 6455, section 5.3).
    ///
    /// - Parameter offset: the place of the first byte in the payload.
    package static func apply(_ mask: UInt32, from offset: Int, to bytes: UnsafeMutableRawBufferPointer) {
        let turn = UInt32(offset & 3) * 8
        let mask = mask >> turn | mask << ((32 - turn) & 31)
        let wide = (UInt64(mask) << 32 | UInt64(mask)).littleEndian
        var index = 0
        while index + 8 <= bytes.count {
            let word = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            bytes.storeBytes(of: word ^ wide, toByteOffset: index, as: UInt64.self)
            index += 8
        }
        while index < bytes.count {
            bytes[index] ^= UInt8(truncatingIfNeeded: mask >> (UInt32(index & 3) * 8))
            index += 1
        }
    }
}
