// SPDX-License-Identifier: Apache-2.0
/// RFC 3629: which bytes are UTF-8.
package enum UTF8Check {
    /// The offset of the first byte that is not part of a well-formed sequence.
    package static func firstFault(in bytes: [UInt8]) -> Int? {
        var index = 0
        while index < bytes.count {
            let lead = bytes[index]
            if lead < 0x80 {
                index += 1
                continue
            }
            let length: Int
            var second: ClosedRange<UInt8> = 0x80...0xbf
            switch lead {
            case 0xc2...0xdf: length = 2
            case 0xe0: (length, second) = (3, 0xa0...0xbf)
            case 0xed: (length, second) = (3, 0x80...0x9f)
            case 0xe1...0xef: length = 3
            case 0xf0: (length, second) = (4, 0x90...0xbf)
            case 0xf1...0xf3: length = 4
            case 0xf4: (length, second) = (4, 0x80...0x8f)
            default: return index
            }
            guard index + length <= bytes.count, second.contains(bytes[index + 1]) else { return index }
            for place in (index + 2)..<max(index + length, index + 2) where bytes[place] & 0xc0 != 0x80 {
                return index
            }
            index += length
        }
        return nil
    }
}
