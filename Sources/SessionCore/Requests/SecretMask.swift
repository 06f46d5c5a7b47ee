// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import ServerTrust

/// Replaces secrets in the heads and trailers of responses by as many `*`, so that no length in a message changes.
///
/// A secret is found as it is, and with any of its bytes percent-encoded (RFC 3986, section 2.1), in either case, also with `+` for
/// a space. Other encodings, and bodies, are not looked at. A response without a secret costs a skip through its longer values.
package struct SecretMask: Sendable {
    private let needles: [Needle]
    /// The length of the shortest secret: nothing shorter can hold one.
    private let shortest: Int

    /// One secret to look for.
    private struct Needle: Sendable {
        let secret: SecretBytes
        /// How far the search may go on behind a place, by the byte at the end of the place (Horspool, 1980).
        let skips: [UInt8]

        init(_ secret: SecretBytes) {
            self.secret = secret
            let count = secret.count
            var skips = [UInt8](repeating: UInt8(clamping: count), count: 256)
            let bytes = secret.bytes
            // A secret that is longer than the number in a skip is searched with shorter ones.
            for index in 0..<(count - 1) { skips[Int(bytes[index])] = UInt8(clamping: count - 1 - index) }
            self.skips = skips
        }
    }

    /// - Parameter secrets: of at least one byte each.
    package init(_ secrets: [SecretBytes]) {
        needles = secrets.filter { $0.count > 0 }.map { Needle($0) }
        shortest = needles.map(\.secret.count).min() ?? .max
    }

    /// Masks names and values of fields.
    ///
    /// - Returns: whether there was anything to mask.
    @discardableResult
    package func apply(to fields: inout HeaderFields) -> Bool {
        var index = 0
        while index < fields.count {
            if holds(fields.value(at: index)) || holds(fields.name(at: index)) {
                rebuild(&fields)
                return true
            }
            index &+= 1
        }
        return false
    }

    /// Whether one of the secrets is in the bytes.
    package func holds(_ bytes: borrowing Span<UInt8>) -> Bool {
        guard bytes.count >= shortest else { return false }
        for needle in needles where bytes.count >= needle.secret.count {
            if Self.isPlain(needle, in: bytes) { return true }
        }
        guard bytes.firstIndex(of: UInt8(ascii: "%")) != nil || bytes.firstIndex(of: UInt8(ascii: "+")) != nil else {
            return false
        }
        for needle in needles {
            for place in 0..<bytes.count where Self.match(needle.secret.bytes, in: bytes, at: place) != nil {
                return true
            }
        }
        return false
    }

    /// A copy with every secret masked.
    package func masked(_ bytes: borrowing Span<UInt8>) -> [UInt8] {
        var copy = [UInt8](copying: bytes)
        for needle in needles {
            var place = 0
            while place < bytes.count {
                guard let end = Self.match(needle.secret.bytes, in: bytes, at: place) else {
                    place += 1
                    continue
                }
                for index in place..<end { copy[index] = UInt8(ascii: "*") }
                // The next one may begin within this one.
                place += 1
            }
        }
        return copy
    }

    /// `*` is a character of names, too.
    private func rebuild(_ fields: inout HeaderFields) {
        var masked = HeaderFields()
        for index in 0..<fields.count {
            let name = self.masked(fields.name(at: index))
            let value = self.masked(fields.value(at: index))
            masked.append(name: name.span, value: value.span)
        }
        fields = masked
    }

    // MARK: Search

    /// Whether the secret stands in the bytes as it is.
    private static func isPlain(_ needle: Needle, in bytes: borrowing Span<UInt8>) -> Bool {
        let secret = needle.secret.bytes
        let skips = needle.skips.span
        let last = secret.count &- 1
        let lastByte = secret[last]
        var end = last
        while end < bytes.count {
            let byte = bytes[end]
            if byte == lastByte {
                var index = 0
                while index < last, bytes[end &- last &+ index] == secret[index] { index &+= 1 }
                if index == last { return true }
            }
            end &+= Int(skips[Int(byte)])
        }
        return false
    }

    /// The end of the secret that begins at a place, each of its bytes as it is or percent-encoded.
    ///
    /// - Parameter first: the byte of the secret that is looked for at the place.
    private static func match(
        _ secret: borrowing Span<UInt8>,
        from first: Int = 0,
        in bytes: borrowing Span<UInt8>,
        at start: Int
    ) -> Int? {
        var place = start
        for index in first..<secret.count {
            guard place < bytes.count else { return nil }
            let byte = bytes[place]
            let wanted = secret[index]
            if byte == UInt8(ascii: "%"), place &+ 2 < bytes.count,
                let high = ASCII.hexadecimalValue(bytes[place &+ 1]),
                let low = ASCII.hexadecimalValue(bytes[place &+ 2]), high << 4 | low == wanted
            {
                // `%25` may be a percent sign, or one with `25` behind it.
                if wanted == UInt8(ascii: "%"), let end = match(secret, from: index &+ 1, in: bytes, at: place &+ 3) {
                    return end
                }
                place &+= wanted == UInt8(ascii: "%") ? 1 : 3
            } else if byte == wanted || (byte == UInt8(ascii: "+") && wanted == UInt8(ascii: " ")) {
                place &+= 1
            } else {
                return nil
            }
        }
        return place
    }
}
