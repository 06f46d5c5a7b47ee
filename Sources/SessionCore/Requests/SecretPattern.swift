// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust

/// A secret, prepared for the search in bytes that a peer has written: a search takes a time that is linear in them, whatever both are.
///
/// Letters are compared without case, and `+` is the same as a space: HTTP/2 and some servers write names in lower case, forms write
/// spaces so.
struct SecretPattern: Sendable {
    /// The bytes as they are compared.
    private let secret: SecretBytes
    /// For each byte, how many bytes of the secret that end there are its beginning, too (Knuth, Morris, Pratt, 1977).
    private let overlaps: [Int32]
    /// How far a search may go on behind a byte at the end of a place (Horspool, 1980); zero where the byte is the secret's last.
    private let skips: [UInt8]

    /// - Parameter bytes: at least one.
    init(_ bytes: borrowing Span<UInt8>) {
        var folded = [UInt8](copying: bytes)
        for index in folded.indices { folded[index] = Self.folded(folded[index]) }
        secret = SecretBytes(folded)
        let last = folded.count - 1
        // A secret that is longer than the number in a skip is searched with shorter ones.
        var skips = [UInt8](repeating: UInt8(clamping: folded.count), count: 256)
        for index in 0..<last { skips[Int(folded[index])] = UInt8(clamping: last - index) }
        skips[Int(folded[last])] = 0
        for byte in UInt8.min...UInt8.max { skips[Int(byte)] = skips[Int(Self.folded(byte))] }
        self.skips = skips
        var overlaps = [Int32](repeating: 0, count: folded.count)
        var length = 0
        for index in folded.indices.dropFirst() {
            while length > 0, folded[index] != folded[length] { length = Int(overlaps[length - 1]) }
            if folded[index] == folded[length] { length += 1 }
            overlaps[index] = Int32(length)
        }
        self.overlaps = overlaps
        folded.wipe()
    }

    var count: Int { secret.count }

    @inline(__always)
    static func folded(_ byte: UInt8) -> UInt8 {
        byte == UInt8(ascii: "+") ? UInt8(ascii: " ") : ASCII.lowercased(byte)
    }

    /// Whether the secret stands in the bytes as it is. Most places are skipped.
    func isHeld(in bytes: borrowing Span<UInt8>) -> Bool {
        let secret = secret.bytes
        let skips = skips.span
        let last = secret.count &- 1
        var end = last
        // A secret that repeats itself, in bytes that do, would be compared at each place.
        var comparisons = bytes.count &* 2
        while end < bytes.count {
            let skip = skips[Int(bytes[end])]
            if skip > 0 {
                end &+= Int(skip)
                continue
            }
            var index = 0
            while index < last, Self.folded(bytes[end &- last &+ index]) == secret[index] { index &+= 1 }
            if index == last { return true }
            comparisons &-= index
            if comparisons < 0 { return isHeld(inEach: bytes) }
            end &+= 1
        }
        return false
    }

    /// The same, with a look at each byte.
    private func isHeld(inEach bytes: borrowing Span<UInt8>) -> Bool {
        var matched = 0
        for index in 0..<bytes.count where advance(&matched, by: bytes[index]) { return true }
        return false
    }

    /// The next byte of bytes that are searched from the first to the last.
    ///
    /// - Parameter matched: how many bytes of the secret end here; zero at first.
    /// - Returns: whether the whole secret ends with this byte.
    @inline(__always)
    func advance(_ matched: inout Int, by byte: UInt8) -> Bool {
        let secret = secret.bytes
        let byte = Self.folded(byte)
        while matched > 0, secret[matched] != byte { matched = Int(overlaps[matched &- 1]) }
        if secret[matched] == byte { matched &+= 1 }
        guard matched == secret.count else { return false }
        matched = Int(overlaps[matched &- 1])
        return true
    }
}
