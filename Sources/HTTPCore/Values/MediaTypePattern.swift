import IOCore

/// A media type, or several: `text/html`, `image/*`, `*/*`. Parameters and case do not count.
public struct MediaTypePattern: Hashable, Sendable, CustomStringConvertible {
    /// In lower case.
    public let description: String
    /// In lower case; empty for `*`.
    private let type: [UInt8]
    private let subtype: [UInt8]

    /// - Returns: nil for a text that is no media type, has parameters, or has a star for a part of a word.
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

    /// Whether it takes in every type.
    package var isAny: Bool { type.isEmpty }

    /// Whether it takes in what a `Content-Type` field says (RFC 9110, section 8.3).
    package func matches(_ value: borrowing Span<UInt8>) -> Bool {
        let essence = value.trimmingBlanks(0..<(value.firstIndex(of: ASCII.semicolon) ?? value.count))
        let text = value.extracting(essence)
        guard let slash = Self.slash(text, end: text.count) else { return false }
        return (type.isEmpty || text.extracting(0..<slash).equalsIgnoringCase(type.span))
            && (subtype.isEmpty || text.extracting((slash + 1)..<text.count).equalsIgnoringCase(subtype.span))
    }

    /// Where type and subtype part; nil when they are not two tokens.
    private static func slash(_ text: borrowing Span<UInt8>, end: Int) -> Int? {
        guard let slash = text.firstIndex(of: ASCII.slash), HTTPFields.isValidName(text.extracting(0..<slash)),
            HTTPFields.isValidName(text.extracting((slash + 1)..<end))
        else { return nil }
        return slash
    }
}

extension [MediaTypePattern] {
    /// Whether one of them takes in some `Content-Type` of these fields: a rule that refuses is not to be got around by a
    /// second one. `*/*` takes in fields without one, too.
    package func matchAny(_ fields: HTTPFields) -> Bool {
        guard var place = fields.first(.contentType) else { return contains { $0.isAny } }
        while true {
            for type in self where type.matches(fields.value(at: place)) { return true }
            guard let next = fields.next(.contentType, after: place) else { return false }
            place = next
        }
    }

    /// Whether there is one `Content-Type`, and one of them takes it in: for a rule that lets something by. `*/*` takes in
    /// fields without one, too.
    package func matchOnly(_ fields: HTTPFields) -> Bool {
        guard let place = fields.first(.contentType) else { return contains { $0.isAny } }
        guard fields.next(.contentType, after: place) == nil else { return false }
        for type in self where type.matches(fields.value(at: place)) { return true }
        return false
    }
}
