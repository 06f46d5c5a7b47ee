// SPDX-License-Identifier: Apache-2.0
/// The parser of one JSON text: recursive descent over bytes, with limits for depth, size and issues.
struct JSONScanner {
    private let bytes: [UInt8]
    private let file: String
    private var index = 0
    private var line = 1
    private var column = 1
    private var depth = 0
    private(set) var issues: [DocumentIssue] = []

    /// Parsing cannot continue; the issue is already recorded.
    private struct Broken: Error {}

    init(bytes: [UInt8], file: String) {
        self.bytes = bytes
        self.file = file
    }

    /// Reads the whole text: one value and white space.
    mutating func document() -> DocumentValue? {
        guard bytes.count <= JSONDocument.maximumBytes else {
            issues.append(
                DocumentIssue(
                    file: file,
                    message: "the file is longer than \(JSONDocument.maximumBytes >> 20) MB",
                    remedy: "split it"
                )
            )
            return nil
        }
        guard isUTF8() else { return nil }
        do {
            if bytes.starts(with: [0xef, 0xbb, 0xbf]) {
                try report("a byte order mark at the start", "save the file as UTF-8 without one", at: "")
                index = 3
            }
            try skipSpace(at: "")
            let value = try value(at: "")
            try skipSpace(at: "")
            if index < bytes.count {
                try report("text after the end of the document", "take it out", at: "")
            }
            return value
        } catch {
            return nil
        }
    }

    // MARK: - Values

    private mutating func value(at pointer: String) throws(Broken) -> DocumentValue {
        let start = place
        guard let byte = peek else {
            try fail("the text ends where a value should be", "complete it", at: pointer)
        }
        let content: DocumentValue.Content
        switch byte {
        case UInt8(ascii: "{"): content = .object(try members(at: pointer))
        case UInt8(ascii: "["): content = .array(try elements(at: pointer))
        case UInt8(ascii: "\""): content = try stringContent(at: pointer)
        case UInt8(ascii: "-"), UInt8(ascii: "+"), UInt8(ascii: "."), UInt8(ascii: "0")...UInt8(ascii: "9"):
            content = try number(at: pointer)
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"):
            content = try literal(at: pointer)
        case UInt8(ascii: "'"):
            try fail("a single quote", "put strings into double quotes", at: pointer)
        default:
            try fail("\(character) where a value should be", "write a JSON value", at: pointer)
        }
        return DocumentValue(content: content, place: start)
    }

    private mutating func members(at pointer: String) throws(Broken) -> [DocumentValue.Member] {
        try enter(at: pointer)
        advance()
        var members: [DocumentValue.Member] = []
        var seen: [String: DocumentValue.Place] = [:]
        try skipSpace(at: pointer)
        if peek == UInt8(ascii: "}") {
            leave()
            return members
        }
        while true {
            let namePlace = place
            guard peek == UInt8(ascii: "\"") else {
                if peek == nil { try fail("the text ends inside an object", "close it with }", at: pointer) }
                try fail("\(character) where a name should be", "put names into straight double quotes", at: pointer)
            }
            let (name, readable) = try string(at: pointer)
            let memberPointer = JSONPointer.member(name, of: pointer)
            if readable {
                if let first = seen[name] {
                    try report(
                        "duplicate key \"\(LegibleText.excerpt(name))\", first given in line \(first.line)",
                        "keep one of the two",
                        at: memberPointer,
                        place: namePlace
                    )
                } else {
                    seen[name] = namePlace
                }
            }
            try skipSpace(at: memberPointer)
            guard peek == UInt8(ascii: ":") else {
                try fail("no colon after the name", "write \"name\": value", at: memberPointer)
            }
            advance()
            try skipSpace(at: memberPointer)
            let value = try value(at: memberPointer)
            if readable { members.append(.init(name: name, namePlace: namePlace, value: value)) }
            try skipSpace(at: pointer)
            if try !separator(closing: UInt8(ascii: "}"), kind: "an object", at: pointer) { break }
        }
        leave()
        return members
    }

    private mutating func elements(at pointer: String) throws(Broken) -> [DocumentValue] {
        try enter(at: pointer)
        advance()
        var elements: [DocumentValue] = []
        try skipSpace(at: pointer)
        if peek == UInt8(ascii: "]") {
            leave()
            return elements
        }
        while true {
            elements.append(try value(at: JSONPointer.element(elements.count, of: pointer)))
            try skipSpace(at: pointer)
            if try !separator(closing: UInt8(ascii: "]"), kind: "an array", at: pointer) { break }
        }
        leave()
        return elements
    }

    /// Consumes the comma before the next item (true), or stops at the closing bracket (false).
    private mutating func separator(closing: UInt8, kind: String, at pointer: String) throws(Broken) -> Bool {
        let close = Character(Unicode.Scalar(closing))
        switch peek {
        case closing:
            return false
        case UInt8(ascii: ","):
            let comma = place
            advance()
            try skipSpace(at: pointer)
            if peek == closing {
                try report("a comma before the closing \(close)", "take the comma out", at: pointer, place: comma)
                return false
            }
            return true
        case nil:
            try fail("the text ends inside \(kind)", "close it with \(close)", at: pointer)
        case UInt8(ascii: "\""), UInt8(ascii: "{"), UInt8(ascii: "["):
            // The intention is clear: continue, so that the rest is checked too.
            try report("no comma between two items of \(kind)", "put a comma between them", at: pointer)
            return true
        default:
            try fail("\(character) inside \(kind)", "write a comma or \(close)", at: pointer)
        }
    }

    private mutating func enter(at pointer: String) throws(Broken) {
        depth += 1
        if depth > JSONDocument.maximumDepth {
            try fail("nested deeper than \(JSONDocument.maximumDepth) levels", "flatten the document", at: pointer)
        }
    }

    /// Consumes the closing bracket.
    private mutating func leave() {
        advance()
        depth -= 1
    }

    private mutating func literal(at pointer: String) throws(Broken) -> DocumentValue.Content {
        let start = place
        let first = index
        while let byte = peek, Self.isWord(byte) { advance() }
        let word = String(decoding: bytes[first..<index], as: UTF8.self)
        switch word {
        case "true": return .bool(true)
        case "false": return .bool(false)
        case "null": return .null
        default:
            let remedy =
                ["true", "false", "null"].contains(word.lowercased())
                ? "write \(word.lowercased())" : "write true, false, null, a number or a string in double quotes"
            try report("\(LegibleText.excerpt(word)) is no JSON value", remedy, at: pointer, place: start)
            return .unreadable
        }
    }

    private mutating func number(at pointer: String) throws(Broken) -> DocumentValue.Content {
        let start = place
        let first = index
        while let byte = peek, Self.isWord(byte) || byte == UInt8(ascii: "+") || byte == UInt8(ascii: ".") {
            advance()
        }
        let text = String(decoding: bytes[first..<index], as: UTF8.self)
        guard JSONGrammar.number(in: bytes, from: first) == (index, true) else {
            let word = LegibleText.excerpt(text)
            try report("\(word) is no JSON number", "write it as in 0, -1, 2.5 or 1e6", at: pointer, place: start)
            return .unreadable
        }
        return .number(text)
    }

    /// The characters of literals and numbers, valid or not. They are consumed together, so that one issue covers them.
    private static func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }

    // MARK: - Strings

    private mutating func stringContent(at pointer: String) throws(Broken) -> DocumentValue.Content {
        let (text, readable) = try string(at: pointer)
        return readable ? .string(text) : .unreadable
    }

    /// The text of a string, and whether it is free of issues.
    private mutating func string(at pointer: String) throws(Broken) -> (String, Bool) {
        let start = place
        advance()
        var text: [UInt8] = []
        var readable = true
        while true {
            guard let byte = peek else {
                try fail("a string without its closing quote", "close it", at: pointer, place: start)
            }
            switch byte {
            case UInt8(ascii: "\""):
                advance()
                return (String(decoding: text, as: UTF8.self), readable)
            case UInt8(ascii: "\\"):
                if try !escape(into: &text, at: pointer) { readable = false }
            case 0x0a, 0x0d:
                try fail("a line break inside a string", "close the string or write \\n", at: pointer, place: start)
            case 0..<0x20:
                try report("a control character in a string", "write it as \\u00XX", at: pointer)
                readable = false
                advance()
            default:
                text.append(byte)
                advance()
            }
        }
    }

    /// Parses one escape; false when it was invalid and has been reported.
    private mutating func escape(into text: inout [UInt8], at pointer: String) throws(Broken) -> Bool {
        let start = place
        advance()
        guard peek != nil else { return true }
        var end = index
        let escape = JSONGrammar.escape(in: bytes, at: &end)
        while index < end { advance() }
        switch escape {
        case .character(let scalar):
            text.append(contentsOf: UTF8.encode(scalar)!)
            return true
        case .unknown:
            try report("an unknown escape in a string", "write a backslash as \\\\", at: pointer, place: start)
        case .incomplete:
            try report("\\u without four hexadecimal digits", "write four of them", at: pointer, place: start)
        case .halfOfPair:
            try report("half of a surrogate pair", "write both halves", at: pointer, place: start)
        }
        return false
    }

    // MARK: - White space, and what is taken for it

    private mutating func skipSpace(at pointer: String) throws(Broken) {
        while let byte = peek {
            switch byte {
            case 0x20, 0x09, 0x0a, 0x0d:
                advance()
            case UInt8(ascii: "/") where peekNext == UInt8(ascii: "/"), UInt8(ascii: "#"):
                try report("a comment", "JSON has none: use a \"comment\" key where there is one", at: pointer)
                while let byte = peek, byte != 0x0a { advance() }
            case UInt8(ascii: "/") where peekNext == UInt8(ascii: "*"):
                try report("a comment", "JSON has none: use a \"comment\" key where there is one", at: pointer)
                advance()
                advance()
                while peek != nil, !(peek == UInt8(ascii: "*") && peekNext == UInt8(ascii: "/")) { advance() }
                advance()
                advance()
            default:
                return
            }
        }
    }

    // MARK: - Bytes and places

    private var peek: UInt8? { index < bytes.count ? bytes[index] : nil }
    private var peekNext: UInt8? { index + 1 < bytes.count ? bytes[index + 1] : nil }
    private var place: DocumentValue.Place { .init(line: line, column: column) }

    /// The current character, in words.
    private var character: String {
        guard let byte = peek else { return "the end of the text" }
        if byte < 0x20 || byte == 0x7f { return "a control character" }
        let scalar = String(decoding: bytes[index..<min(index + 4, bytes.count)], as: UTF8.self).unicodeScalars.first
        return scalar.map { "\"\(String($0).legible)\"" } ?? "a character"
    }

    private mutating func advance() {
        guard index < bytes.count else { return }
        index += 1
        if bytes[index - 1] == 0x0a {
            line += 1
            column = 1
        } else if index == bytes.count || bytes[index] & 0xc0 != 0x80 {
            column += 1
        }
    }

    /// Checks the whole text first, so that later steps never find an incomplete character.
    private mutating func isUTF8() -> Bool {
        guard let offset = UTF8Check.firstFault(in: bytes) else { return true }
        while index < offset { advance() }
        // Advancing does not count a stray continuation byte as a character, but here it is the place of the issue.
        if index > 0, bytes[index] & 0xc0 == 0x80 { column += 1 }
        issues.append(
            DocumentIssue(
                file: file,
                message: "not UTF-8 (byte \(offset + 1))",
                remedy: "save the file as UTF-8",
                line: line,
                column: column
            )
        )
        return false
    }

    // MARK: - Issues

    private mutating func report(
        _ message: String,
        _ remedy: String,
        at pointer: String,
        place: DocumentValue.Place? = nil
    ) throws(Broken) {
        let place = place ?? self.place
        issues.append(
            DocumentIssue(
                file: file,
                pointer: pointer,
                message: message,
                remedy: remedy,
                line: place.line,
                column: place.column
            )
        )
        if issues.count >= JSONDocument.maximumIssues { throw Broken() }
    }

    private mutating func fail(
        _ message: String,
        _ remedy: String,
        at pointer: String,
        place: DocumentValue.Place? = nil
    ) throws(Broken) -> Never {
        try report(message, remedy, at: pointer, place: place)
        throw Broken()
    }
}
