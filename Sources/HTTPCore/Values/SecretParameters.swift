// SPDX-License-Identifier: Apache-2.0
/// The parameters of URLs whose values are secrets, for everything that shows URLs: the task log and what is made of it, the
/// entries of the cache, and archives.
///
/// Names are compared as some origin may read them: percent-encoding, case, punctuation, white space and what stands in
/// brackets make no difference, so that `access_token` also stands for `AccessToken` and `access%5Ftoken[]`.
package struct SecretParameters: Sendable {
    /// Names that OWASP, Rails and Sentry filter, and those of signed URLs.
    package static let usual = [
        "token", "access_token", "refresh_token", "id_token", "code", "password", "passwd", "secret", "client_secret",
        "api_key",
        "apikey", "key", "sig", "signature", "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token", "session",
        "jwt", "auth",
    ]

    /// Where a search in one target is.
    package struct Search {
        fileprivate var position = 0
        /// The place of the first question mark; the length of the target without one.
        fileprivate let query: Int

        package init(_ target: borrowing Span<UInt8>) {
            query = target.firstIndex(of: UInt8(ascii: "?")) ?? target.count
        }
    }

    /// What is compared of each name, each once.
    private let names: [[UInt8]]

    package init(_ names: [String]) {
        var unique: [[UInt8]] = []
        for name in names {
            let bytes = Self.significant(name)
            if !bytes.isEmpty, !unique.contains(bytes) { unique.append(bytes) }
        }
        self.names = unique
    }

    package var isEmpty: Bool { names.isEmpty }

    /// Whether two names are the same parameter.
    package static func areSame(_ one: String, _ other: String) -> Bool { significant(one) == significant(other) }

    /// Finds the next secret value in a target (path and query), also in segments of the path (`/a;token=…`).
    ///
    /// - Returns: the range of the value, which may be empty; nil when there is no further one.
    package func next(in target: borrowing Span<UInt8>, _ search: inout Search) -> Range<Int>? {
        while search.position < target.count {
            let start = search.position
            let end = Self.endOfPart(target, from: start, query: search.query)
            let part = target.extracting(start..<end)
            // Behind the separator.
            search.position = end + 1
            guard let equals = part.firstIndex(of: UInt8(ascii: "=")), contains(part.extracting(0..<equals)) else {
                continue
            }
            let valueEnd = Self.endOfValue(target, from: end, query: search.query)
            search.position = valueEnd + 1
            return (start + equals + 1)..<valueEnd
        }
        return nil
    }

    /// The end of what may be a name with a value. Some origins separate parameters with `;`, and begin the query at its
    /// last `?`.
    private static func endOfPart(_ target: borrowing Span<UInt8>, from start: Int, query: Int) -> Int {
        var position = start
        while position < target.count {
            switch target[position] {
            case UInt8(ascii: "?"), UInt8(ascii: ";"): return position
            case UInt8(ascii: "&") where position > query: return position
            case UInt8(ascii: "/") where position < query: return position
            default: position += 1
            }
        }
        return position
    }

    /// The end of a value by the most generous reading: to other origins `;` and `?` are parts of it.
    private static func endOfValue(_ target: borrowing Span<UInt8>, from start: Int, query: Int) -> Int {
        guard start > query else { return min(target.firstIndex(of: UInt8(ascii: "/"), from: start) ?? query, query) }
        return target.firstIndex(of: UInt8(ascii: "&"), from: start) ?? target.count
    }

    /// Whether some origin takes the name for one of these.
    package func contains(_ name: borrowing Span<UInt8>) -> Bool {
        var position = 0
        guard let first = Self.nextSignificant(name, &position) else { return false }
        for secret in names where secret[0] == first {
            if Self.continues(name, from: position, as: secret) { return true }
        }
        return false
    }

    /// Whether the rest of a name is that of a secret's name, of which the first byte was found.
    private static func continues(_ name: borrowing Span<UInt8>, from start: Int, as secret: [UInt8]) -> Bool {
        var position = start
        var matched = 1
        while let byte = nextSignificant(name, &position) {
            guard matched < secret.count, byte == secret[matched] else { return false }
            matched += 1
        }
        return matched == secret.count
    }

    /// The next byte of a name that counts, decoded and in lower case; nil at the end, which a bracket or a NUL is, too.
    private static func nextSignificant(_ name: borrowing Span<UInt8>, _ position: inout Int) -> UInt8? {
        while position < name.count {
            var byte = name[position]
            position += 1
            if byte == UInt8(ascii: "%"), position + 1 < name.count,
                let upper = ASCII.hexadecimalValue(name[position]),
                let lower = ASCII.hexadecimalValue(name[position + 1])
            {
                byte = upper << 4 | lower
                position += 2
            }
            if byte == UInt8(ascii: "[") || byte == 0 {
                position = name.count
                return nil
            }
            if isSignificant(byte) { return ASCII.lowercased(byte) }
        }
        return nil
    }

    private static func isSignificant(_ byte: UInt8) -> Bool {
        ASCII.isLetter(byte) || ASCII.isDigit(byte) || byte >= 0x80
    }

    /// The bytes of a name that are compared, in lower case.
    private static func significant(_ name: String) -> [UInt8] {
        let bytes = Array(name.utf8)
        let end = bytes.dropFirst().firstIndex(of: UInt8(ascii: "[")) ?? bytes.count
        return bytes[..<end].filter(isSignificant).map(ASCII.lowercased)
    }
}
