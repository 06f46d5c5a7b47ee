// SPDX-License-Identifier: Apache-2.0

/// A frame as a test writes and reads it, right or wrong; without the code that is tested.
package struct WebSocketTestFrame: Equatable, Sendable {
    /// From 0 to 15.
    package var opcode: UInt8
    package var isFinal: Bool
    /// The three reserved bits, from 0 to 7; 4 is RSV1.
    package var reserved: UInt8
    package var payload: [UInt8]

    package init(_ opcode: UInt8, isFinal: Bool = true, reserved: UInt8 = 0, _ payload: [UInt8] = []) {
        self.opcode = opcode
        self.isFinal = isFinal
        self.reserved = reserved
        self.payload = payload
    }

    /// A Close frame.
    package static func close(_ code: UInt16, _ reason: [UInt8] = []) -> WebSocketTestFrame {
        WebSocketTestFrame(8, [UInt8(code >> 8), UInt8(code & 0xFF)] + reason)
    }

    /// The code of a Close frame; nil without one.
    package var closeCode: UInt16? {
        payload.count < 2 ? nil : UInt16(payload[0]) << 8 | UInt16(payload[1])
    }

    /// - Parameter isMasked: as a client masks.
    package func bytes(isMasked: Bool) -> [UInt8] {
        var bytes = [(isFinal ? 0x80 : 0) | reserved << 4 | opcode]
        let flag: UInt8 = isMasked ? 0x80 : 0
        switch payload.count {
        case 0...125: bytes.append(flag | UInt8(payload.count))
        case 126...0xFFFF: bytes += [flag | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default:
            bytes.append(flag | 127)
            for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(payload.count >> shift & 0xFF)) }
        }
        guard isMasked else { return bytes + payload }
        let mask: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]
        bytes += mask
        bytes.reserveCapacity(bytes.count + payload.count)
        for (index, byte) in payload.enumerated() { bytes.append(byte ^ mask[index & 3]) }
        return bytes
    }
}

/// Reads the frames that the tested side sends.
package struct WebSocketTestReader: Sendable {
    package enum Fault: Error, Equatable {
        /// The mask of a client is missing, or a server has masked.
        case mask
        case length
    }

    private var bytes: [UInt8] = []
    private var start = 0
    private let expectsMask: Bool

    /// - Parameter expectsMask: the frames are those of a client.
    package init(expectsMask: Bool) { self.expectsMask = expectsMask }

    package mutating func append(_ more: [UInt8]) { bytes += more }

    /// The next frame, without its mask; nil when it is not complete.
    package mutating func next() throws(Fault) -> WebSocketTestFrame? {
        let left = bytes.count - start
        guard left >= 2 else { return nil }
        let (first, second) = (bytes[start], bytes[start + 1])
        guard (second & 0x80 != 0) == expectsMask else { throw .mask }
        var place = start + 2
        var length = Int(second & 0x7F)
        if length >= 126 {
            let size = length == 126 ? 2 : 8
            guard left >= 2 + size else { return nil }
            length = bytes[place..<(place + size)].reduce(0) { $0 << 8 | Int($1) }
            guard length > (size == 2 ? 125 : 0xFFFF) else { throw .length }
            place += size
        }
        let mask = expectsMask ? 4 : 0
        guard bytes.count - place >= mask + length else { return nil }
        var payload = Array(bytes[(place + mask)..<(place + mask + length)])
        if expectsMask {
            let key = bytes[place..<(place + 4)].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            payload.withUnsafeMutableBytes { room in
                var index = 0
                // Eight bytes at a time, since tests are built without optimisation.
                while index + 8 <= room.count {
                    let word = room.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                    room.storeBytes(of: word ^ (key << 32 | key), toByteOffset: index, as: UInt64.self)
                    index += 8
                }
                while index < room.count {
                    room[index] ^= UInt8(truncatingIfNeeded: key >> UInt64(8 * (index & 3)))
                    index += 1
                }
            }
        }
        start = place + mask + length
        if start == bytes.count || start > 1 << 20 {
            bytes.removeFirst(start)
            start = 0
        }
        return WebSocketTestFrame(first & 0x0F, isFinal: first & 0x80 != 0, reserved: first >> 4 & 7, payload)
    }
}
