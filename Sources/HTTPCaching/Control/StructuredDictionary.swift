// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// The members of a dictionary (RFC 8941 3.2), as far as cache directives need them: strings, tokens and integers with
/// their value, other types only as `other`. Parameters are skipped.
struct StructuredDictionary {
    enum Value: Equatable {
        case boolean(Bool)
        case integer(Int)
        case string([UInt8])
        case token([UInt8])
        /// A decimal, a byte sequence or an inner list.
        case other
    }

    struct Member: Equatable {
        var key: [UInt8]
        var value: Value
    }

    /// The members in the order of their first occurrence; a repeated key has its last value (RFC 8941 4.2.2).
    private(set) var members: [Member] = []
    /// Whether there were more members than `membersAtMost`; the rest is not parsed.
    private(set) var isCutShort = false

    /// The number of members that RFC 8941 3.2 requires parsers to support.
    private static let membersAtMost = 1024

    /// - Returns: nil for a syntax error: the whole field is ignored then.
    init?(_ text: [UInt8]) {
        var reader = Reader(text: text)
        var places: [[UInt8]: Int] = [:]
        reader.skip { $0 == UInt8(ascii: " ") }
        while !reader.isAtEnd {
            guard let key = reader.key() else { return nil }
            var value = Value.boolean(true)
            if reader.consume("=") {
                guard let read = reader.consume("(") ? reader.innerList() : reader.item() else { return nil }
                value = read
            }
            guard reader.parameters() else { return nil }
            if let known = places[key] {
                members[known].value = value
            } else if members.count < Self.membersAtMost {
                places[key] = members.count
                members.append(Member(key: key, value: value))
            } else {
                isCutShort = true
                return
            }
            reader.skip(ASCII.isBlank)
            if reader.isAtEnd { return }
            guard reader.consume(",") else { return nil }
            reader.skip(ASCII.isBlank)
            if reader.isAtEnd { return nil }
        }
    }

    private struct Reader {
        let text: [UInt8]
        var position = 0

        init(text: [UInt8]) { self.text = text }

        var isAtEnd: Bool { position == text.count }
        var next: UInt8? { position < text.count ? text[position] : nil }

        mutating func consume(_ scalar: Unicode.Scalar) -> Bool {
            guard next == UInt8(ascii: scalar) else { return false }
            position += 1
            return true
        }

        mutating func skip(_ condition: (UInt8) -> Bool) {
            while let byte = next, condition(byte) { position += 1 }
        }

        private mutating func run(_ condition: (UInt8) -> Bool) -> [UInt8] {
            let start = position
            skip(condition)
            return Array(text[start..<position])
        }

        private static func isLowercase(_ byte: UInt8) -> Bool {
            byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "z")
        }

        mutating func key() -> [UInt8]? {
            guard let first = next, Self.isLowercase(first) || first == UInt8(ascii: "*") else { return nil }
            return run { byte in
                Self.isLowercase(byte) || ASCII.isDigit(byte) || "_-.*".utf8.contains(byte)
            }
        }

        mutating func item() -> Value? {
            guard let first = next else { return nil }
            switch first {
            case UInt8(ascii: "\""): return string()
            case UInt8(ascii: ":"): return byteSequence()
            case UInt8(ascii: "?"):
                position += 1
                if consume("1") { return .boolean(true) }
                return consume("0") ? .boolean(false) : nil
            case UInt8(ascii: "-"): return number()
            default:
                if ASCII.isDigit(first) { return number() }
                guard ASCII.isLetter(first) || first == UInt8(ascii: "*") else { return nil }
                return .token(
                    run { ASCII.isToken($0) || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "/") }
                )
            }
        }

        private mutating func number() -> Value? {
            let isNegative = consume("-")
            let digits = run(ASCII.isDigit)
            guard !digits.isEmpty, digits.count <= 15 else { return nil }
            if consume(".") {
                let fraction = run(ASCII.isDigit)
                return digits.count <= 12 && (1...3).contains(fraction.count) ? .other : nil
            }
            guard let magnitude = DecimalNumber.parse(digits.span) else { return nil }
            return .integer(isNegative ? -magnitude : magnitude)
        }

        private mutating func string() -> Value? {
            position += 1
            var content: [UInt8] = []
            while let byte = next {
                position += 1
                if byte == UInt8(ascii: "\"") { return .string(content) }
                if byte == UInt8(ascii: "\\") {
                    guard let escaped = next, escaped == UInt8(ascii: "\"") || escaped == UInt8(ascii: "\\") else {
                        return nil
                    }
                    content.append(escaped)
                    position += 1
                } else {
                    guard byte >= 0x20, byte < 0x7F else { return nil }
                    content.append(byte)
                }
            }
            return nil
        }

        private mutating func byteSequence() -> Value? {
            position += 1
            skip { ASCII.isLetter($0) || ASCII.isDigit($0) || "+/=".utf8.contains($0) }
            return consume(":") ? .other : nil
        }

        /// Parses an inner list after its opening parenthesis.
        mutating func innerList() -> Value? {
            while true {
                skip { $0 == UInt8(ascii: " ") }
                if consume(")") { return .other }
                guard item() != nil, parameters() else { return nil }
                guard next == UInt8(ascii: " ") || next == UInt8(ascii: ")") else { return nil }
            }
        }

        mutating func parameters() -> Bool {
            while consume(";") {
                skip { $0 == UInt8(ascii: " ") }
                guard key() != nil else { return false }
                if consume("="), item() == nil { return false }
            }
            return true
        }
    }
}

extension CacheControl {
    /// The directives of a targeted field (RFC 9213 2.1).
    ///
    /// A value of the wrong type is not coerced. The directive may have been a prohibition: the control counts as
    /// malformed, and nothing is stored. The same applies to a field with too many members.
    ///
    /// - Parameter name: in lower case.
    /// - Returns: nil when there is no such field, or when it is empty or not a dictionary; it is ignored then.
    init?(targeted name: [UInt8], in fields: HeaderFields) {
        guard let index = fields.first(named: name.span) else { return nil }
        var text: [UInt8] = []
        for place in index..<fields.count where fields.name(at: place).equalsIgnoringCase(name.span) {
            if place > index { text.append(UInt8(ascii: ",")) }
            fields.appendValue(at: place, to: &text)
        }
        guard let dictionary = StructuredDictionary(text), !dictionary.members.isEmpty else { return nil }
        self.init(HeaderFields())
        if dictionary.isCutShort { noteMalformed() }
        for member in dictionary.members { apply(member) }
    }

    private mutating func apply(_ member: StructuredDictionary.Member) {
        switch (ArgumentType(of: member.key), member.value) {
        case (nil, _), (.none?, .boolean(false)), (.names?, .boolean(false)): break
        case (.none?, .boolean(true)), (.names?, .boolean(true)): applyDirective(member.key, argument: nil)
        case (.seconds?, .integer(let number)):
            applyDirective(member.key, argument: number < 0 ? [] : Array(String(number).utf8))
        case (.names?, .string(let text)): applyDirective(member.key, argument: text)
        default:
            noteMalformed()
            // In addition the strictest reading: no lifetime, and a restriction of the whole response.
            applyDirective(member.key, argument: [])
        }
    }
}
