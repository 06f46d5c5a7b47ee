// SPDX-License-Identifier: Apache-2.0
import StrictJSON

/// Options for reading JSON.
public struct JSONReadingOptions: Sendable, Hashable {
    /// Whether a text may be a single number, string, boolean or null (RFC 8259 allows it, RFC 4627 did not).
    public var allowsFragments = true
    /// Whether members and elements that are null are left out, at any depth.
    public var removesNulls = false
    /// The deepest nesting of arrays and objects.
    public var maximumDepth = 512

    /// By default any value at the top, nulls are kept, and 512 levels.
    public init() {}

    /// Options with the defaults of the properties.
    public init(allowsFragments: Bool = true, removesNulls: Bool = false, maximumDepth: Int = 512) {
        self.allowsFragments = allowsFragments
        self.removesNulls = removesNulls
        self.maximumDepth = maximumDepth
    }
}

/// The reason why a text is not valid JSON.
public struct JSONFault: Error, Sendable, Hashable, CustomStringConvertible {
    /// The fault in a few words, without parts of the text.
    public let message: String
    /// The position in bytes, from 0.
    public let offset: Int

    public var description: String { "\(message) at byte \(offset)" }
}

extension JSONValue {
    /// Reads UTF-8 text strictly by RFC 8259: no comments, no trailing commas, no duplicate names (which readers
    /// interpret differently), no lone surrogates, and nothing after the value. A byte order mark is skipped.
    public init(parsing bytes: [UInt8], options: JSONReadingOptions = JSONReadingOptions()) throws(JSONFault) {
        if let offset = UTF8Check.firstFault(in: bytes) { throw JSONFault(message: "no UTF-8", offset: offset) }
        var reader = JSONReader(bytes, maximumDepth: options.maximumDepth)
        let value = try reader.document(allowsFragments: options.allowsFragments)
        self = options.removesNulls ? value.removingNulls() : value
    }
}

/// A recursive descent over valid UTF-8, of bounded depth.
struct JSONReader {
    private let bytes: [UInt8]
    private var index = 0
    private var depthLeft: Int

    /// Deeper recursion would need more stack than every thread of Swift's pool has.
    static let deepest = 1024

    init(_ bytes: [UInt8], maximumDepth: Int) {
        self.bytes = bytes
        depthLeft = min(maximumDepth, Self.deepest)
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { index = 3 }
    }

    mutating func document(allowsFragments: Bool) throws(JSONFault) -> JSONValue {
        skipBlanks()
        let start = index
        let value = try value()
        skipBlanks()
        if index < bytes.count { throw fault("text behind the value") }
        switch value {
        case .array, .object: return value
        case .null, .bool, .number, .string:
            guard allowsFragments else { throw JSONFault(message: "neither an array nor an object", offset: start) }
            return value
        }
    }

    private func fault(_ message: String) -> JSONFault {
        index < bytes.count
            ? JSONFault(message: message, offset: index) : JSONFault(message: "the text ends too early", offset: index)
    }

    private var byte: UInt8? { index < bytes.count ? bytes[index] : nil }

    private mutating func skipBlanks() {
        while let byte, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { index += 1 }
    }

    private mutating func consume(_ expected: UInt8) -> Bool {
        guard byte == expected else { return false }
        index += 1
        return true
    }

    // MARK: Values

    private mutating func value() throws(JSONFault) -> JSONValue {
        switch byte {
        case UInt8(ascii: "{"): return try object()
        case UInt8(ascii: "["): return try array()
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        case .some(UInt8(ascii: "-")), .some(UInt8(ascii: "0")...UInt8(ascii: "9")): return .number(try number())
        default: throw fault("no value")
        }
    }

    private mutating func word(_ text: StaticString, _ value: JSONValue) throws(JSONFault) -> JSONValue {
        let wanted = Array("\(text)".utf8)
        guard bytes[index...].starts(with: wanted) else { throw fault("no value") }
        index += wanted.count
        return value
    }

    private mutating func enter() throws(JSONFault) {
        guard depthLeft > 0 else { throw fault("nested too deeply") }
        depthLeft -= 1
        index += 1
        skipBlanks()
    }

    private mutating func array() throws(JSONFault) -> JSONValue {
        try enter()
        defer { depthLeft += 1 }
        var elements: [JSONValue] = []
        if consume(UInt8(ascii: "]")) { return .array(elements) }
        while true {
            elements.append(try value())
            skipBlanks()
            if consume(UInt8(ascii: "]")) { return .array(elements) }
            guard consume(UInt8(ascii: ",")) else { throw fault("no comma between elements") }
            skipBlanks()
        }
    }

    private mutating func object() throws(JSONFault) -> JSONValue {
        try enter()
        defer { depthLeft += 1 }
        var members = OrderedMembers<JSONValue>()
        if consume(UInt8(ascii: "}")) { return .object(members) }
        while true {
            let start = index
            guard byte == UInt8(ascii: "\"") else { throw fault("no name of a member") }
            let name = try string()
            guard members[name] == nil else { throw JSONFault(message: "a name for the second time", offset: start) }
            skipBlanks()
            guard consume(UInt8(ascii: ":")) else { throw fault("no colon behind a name") }
            skipBlanks()
            members[name] = try value()
            skipBlanks()
            if consume(UInt8(ascii: "}")) { return .object(members) }
            guard consume(UInt8(ascii: ",")) else { throw fault("no comma between members") }
            skipBlanks()
        }
    }

    private mutating func number() throws(JSONFault) -> JSONNumber {
        let start = index
        let (end, isComplete) = JSONGrammar.number(in: bytes, from: start)
        index = end
        guard isComplete else { throw fault("no digit in a number") }
        return JSONNumber(validated: String(decoding: bytes[start..<end], as: UTF8.self))
    }

    // MARK: Strings

    private mutating func string() throws(JSONFault) -> String {
        index += 1
        let start = index
        // Most strings have no escape, and are copied in one piece.
        while let byte, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\"), byte >= 0x20 { index += 1 }
        if consume(UInt8(ascii: "\"")) { return String(decoding: bytes[start..<index - 1], as: UTF8.self) }
        var text = Array(bytes[start..<index])
        while let byte {
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"): try escape(into: &text)
            case 0..<0x20:
                index -= 1
                throw fault("a control character in a string")
            default: text.append(byte)
            }
        }
        throw fault("a string without its end")
    }

    private mutating func escape(into text: inout [UInt8]) throws(JSONFault) {
        let start = index
        switch JSONGrammar.escape(in: bytes, at: &index) {
        case .character(let scalar): text.append(contentsOf: UTF8.encode(scalar)!)
        case .unknown: throw fault("an unknown escape")
        case .incomplete: throw fault("no hexadecimal digit")
        case .halfOfPair: throw JSONFault(message: "half of a surrogate pair", offset: start + 1)
        }
    }
}
