// SPDX-License-Identifier: Apache-2.0
import IOCore

/// A media type, or several: `text/html`, `image/*`, `*/*`. Parameters and case are ignored.
public struct MediaTypePattern: Hashable, Sendable, CustomStringConvertible {
    /// In lower case.
    public let description: String
    /// In lower case; empty for `*`.
    private let type: [UInt8]
    private let subtype: [UInt8]

    /// - Returns: nil for a text that is not a media type, has parameters, or has a star as a part of a word.
    public init?(_ text: String) {
        let lower = Array(text.lowercased().utf8)
        guard let slash = Self.slash(lower.span, end: lower.count) else { return nil }
        let type = Array(lower[..<slash])
        let subtype = Array(lower[(slash + 1)...])
        let star = [ASCII.asterisk]
        guard type == star || !type.contains(ASCII.asterisk), subtype == star || !subtype.contains(ASCII.asterisk),
            type != star || subtype == star
        else { return nil }
        self.type = type == star ? [] : type
        self.subtype = subtype == star ? [] : subtype
        description = text.lowercased()
    }

    /// Whether it matches every type.
    package var isAny: Bool { type.isEmpty }

    /// Whether it matches the value of a `Content-Type` field (RFC 9110, section 8.3).
    package func matches(_ value: borrowing Span<UInt8>) -> Bool {
        let essence = value.trimmingBlanks(0..<(value.firstIndex(of: ASCII.semicolon) ?? value.count))
        let text = value.extracting(essence)
        guard let slash = Self.slash(text, end: text.count) else { return false }
        return (type.isEmpty || text.extracting(0..<slash).equalsIgnoringCase(type.span))
            && (subtype.isEmpty || text.extracting((slash + 1)..<text.count).equalsIgnoringCase(subtype.span))
    }

    /// The index of the slash between type and subtype; nil when these are not two tokens.
    private static func slash(_ text: borrowing Span<UInt8>, end: Int) -> Int? {
        guard let slash = text.firstIndex(of: ASCII.slash), HeaderFields.isValidName(text.extracting(0..<slash)),
            HeaderFields.isValidName(text.extracting((slash + 1)..<end))
        else { return nil }
        return slash
    }
}

extension [MediaTypePattern] {
    /// Whether one of the patterns matches any `Content-Type` of these fields: a second Content-Type must not evade a
    /// rule that refuses. `*/*` also matches fields without one.
    package func matchAny(_ fields: HeaderFields) -> Bool {
        guard var index = fields.first(.contentType) else { return contains { $0.isAny } }
        while true {
            for type in self where type.matches(fields.value(at: index)) { return true }
            guard let next = fields.next(.contentType, after: index) else { return false }
            index = next
        }
    }

    /// Whether there is exactly one `Content-Type`, and one of the patterns matches it: for rules that permit
    /// something. `*/*` also matches fields without one.
    package func matchOnly(_ fields: HeaderFields) -> Bool {
        guard let index = fields.first(.contentType) else { return contains { $0.isAny } }
        guard fields.next(.contentType, after: index) == nil else { return false }
        for type in self where type.matches(fields.value(at: index)) { return true }
        return false
    }
}
