// SPDX-License-Identifier: Apache-2.0
/// The slot of a key in a Cluster: CRC-16 (XModem) of the key, or of the part of it in the first braces if that has any bytes.
enum ClusterSlot {
    static let count = 16_384

    static func of(_ key: [UInt8]) -> Int {
        var part = key[...]
        if let open = key.firstIndex(of: UInt8(ascii: "{")) {
            let inside = key[(open + 1)...]
            if let close = inside.firstIndex(of: UInt8(ascii: "}")), close > inside.startIndex {
                part = inside[..<close]
            }
        }
        return Int(checksum(part)) % count
    }

    static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt16 {
        bytes.reduce(0) { $0 << 8 ^ table[Int(UInt8(truncatingIfNeeded: $0 >> 8) ^ $1)] }
    }

    private static let table: [UInt16] = (0..<256).map { byte in
        (0..<8).reduce(UInt16(byte) << 8) { value, _ in value & 0x8000 == 0 ? value << 1 : value << 1 ^ 0x1021 }
    }
}
