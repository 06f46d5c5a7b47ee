// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import ServerTrust

/// Replaces secrets in the heads and trailers of responses by as many `*`, so that no length in a message changes.
///
/// A secret is found as it is, and with any of its bytes percent-encoded (RFC 3986, section 2.1), with letters in either case, and
/// with `+` for a space. Other encodings, and bodies, are not looked at. The time is linear in the bytes that are looked at; a head
/// without a secret costs a skip through it.
package struct SecretMask: Sendable {
    private let needles: [Needle]
    /// The length of the shortest secret: nothing shorter can hold one.
    private let shortest: Int

    /// One secret to look for.
    private struct Needle: Sendable {
        let plain: SecretPattern
        /// The secret as it reads when it is taken for percent-encoded itself; nil where that is the same.
        let decoded: SecretPattern?

        init(_ secret: SecretBytes) {
            plain = SecretPattern(secret.bytes)
            var bytes = PercentDecoded(secret.bytes)
            decoded = bytes.count < secret.count ? SecretPattern(bytes.bytes.span) : nil
            bytes.bytes.wipe()
        }

        func isHeld(in bytes: borrowing Span<UInt8>) -> Bool {
            plain.isHeld(in: bytes) || decoded?.isHeld(in: bytes) == true
        }
    }

    /// - Parameter secrets: of at least one byte each.
    package init(_ secrets: [SecretBytes]) {
        needles = secrets.filter { $0.count > 0 }.map { Needle($0) }
        shortest = needles.map { $0.decoded?.count ?? $0.plain.count }.min() ?? .max
    }

    /// Masks names and values of fields.
    ///
    /// - Returns: whether there was anything to mask.
    @discardableResult
    package func apply(to fields: inout HeaderFields) -> Bool {
        guard isHeld(in: fields) else { return false }
        var masked = HeaderFields()
        for index in 0..<fields.count {
            let name = self.masked(fields.name(at: index))
            let value = self.masked(fields.value(at: index))
            masked.append(name: name.span, value: value.span)
        }
        fields = masked
        return true
    }

    /// Whether one of the secrets is in a name or a value.
    package func isHeld(in fields: borrowing HeaderFields) -> Bool {
        // One look at all of them together; it may find one that a name and its value share.
        guard holds(fields.storedBytes) else { return false }
        for index in 0..<fields.count where holds(fields.value(at: index)) || holds(fields.name(at: index)) {
            return true
        }
        return false
    }

    /// Whether one of the secrets is in the bytes.
    package func holds(_ bytes: borrowing Span<UInt8>) -> Bool {
        guard bytes.count >= shortest else { return false }
        for needle in needles where needle.isHeld(in: bytes) { return true }
        guard bytes.firstIndex(of: UInt8(ascii: "%")) != nil else { return false }
        let decoded = PercentDecoded(bytes)
        for needle in needles {
            let bytes = decoded.bytes.span
            if needle.isHeld(in: bytes) { return true }
        }
        return false
    }

    /// A copy with every secret masked. `*` is a character of names, too.
    package func masked(_ bytes: borrowing Span<UInt8>) -> [UInt8] {
        var copy = [UInt8](copying: bytes)
        let isEncoded = bytes.firstIndex(of: UInt8(ascii: "%")) != nil
        let decoded = isEncoded ? PercentDecoded(bytes) : nil
        for needle in needles {
            for pattern in [needle.plain, needle.decoded].compactMap(\.self) {
                Self.mask(pattern, in: bytes, &copy) { $0 }
                if let decoded { Self.mask(pattern, in: decoded.bytes.span, &copy) { decoded.starts[$0] } }
            }
        }
        return copy
    }

    /// - Parameter start: of a byte in `copy`; also of the place behind the last one.
    private static func mask(
        _ pattern: SecretPattern,
        in bytes: borrowing Span<UInt8>,
        _ copy: inout [UInt8],
        start: (Int) -> Int
    ) {
        var matched = 0
        // The next one may begin within the one before.
        var end = 0
        for index in 0..<bytes.count where pattern.advance(&matched, by: bytes[index]) {
            for place in max(end, start(index + 1 - pattern.count))..<start(index + 1) {
                copy[place] = UInt8(ascii: "*")
            }
            end = start(index + 1)
        }
    }
}

/// Bytes with percent-encoded ones decoded, and where each of them began.
private struct PercentDecoded {
    private(set) var starts: [Int] = []
    var bytes: [UInt8] = []

    var count: Int { bytes.count }

    init(_ text: borrowing Span<UInt8>) {
        starts.reserveCapacity(text.count + 1)
        bytes.reserveCapacity(text.count)
        var position = 0
        while position < text.count {
            starts.append(position)
            if text[position] == UInt8(ascii: "%"), position &+ 2 < text.count,
                let high = ASCII.hexadecimalValue(text[position &+ 1]),
                let low = ASCII.hexadecimalValue(text[position &+ 2])
            {
                bytes.append(high << 4 | low)
                position &+= 3
            } else {
                bytes.append(text[position])
                position &+= 1
            }
        }
        starts.append(text.count)
    }
}
