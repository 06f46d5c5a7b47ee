// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// The dates that a cache calculates with.
enum CacheDate {
    /// The date of a field; nil when it is absent, malformed, or occurs twice with different values.
    static func value(_ name: FieldName, in fields: HeaderFields, now: Int) -> Int? {
        guard let index = fields.first(name), let date = parse(fields.value(at: index), now: now) else { return nil }
        if let second = fields.next(name, after: index), !fields.value(at: second).equals(fields.value(at: index)) {
            return nil
        }
        return date
    }

    /// Parses a date case-insensitively (RFC 9111 4.2); a date in another zone than GMT is invalid.
    static func parse(_ text: borrowing Span<UInt8>, now: Int) -> Int? {
        if let date = HTTPDate.parse(text, now: now) { return date }
        guard text.count > 0, text.count <= 40 else { return nil }
        // The case of the grammar: a capital at the beginning of a word, and the zone in capitals.
        var usual: [UInt8] = []
        var isInWord = false
        for index in 0..<text.count {
            let byte = text[index]
            let isLetter = ASCII.isLetter(byte)
            usual.append(isLetter ? (isInWord ? byte | 0x20 : byte & 0xDF) : byte)
            isInWord = isLetter
        }
        if usual.count > 3, usual.suffix(3).elementsEqual("Gmt".utf8) {
            usual.replaceSubrange((usual.count - 3)..., with: "GMT".utf8)
        }
        return HTTPDate.parse(usual.span, now: now)
    }
}
