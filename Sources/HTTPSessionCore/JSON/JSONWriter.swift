// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// Options for writing JSON.
public struct JSONWritingOptions: OptionSet, Sendable {
    /// One bit an option.
    public let rawValue: Int

    /// Options from their bits; unknown bits have no effect.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// On several lines, indented by two spaces.
    public static let prettyPrinted = JSONWritingOptions(rawValue: 1)
    /// The names of objects in the order of their UTF-8 bytes, so that equal values have equal texts.
    public static let sortedKeys = JSONWritingOptions(rawValue: 2)
    /// `/` is not escaped; by default it is written as `\/`, as by Foundation, so that the text can be part of HTML.
    public static let withoutEscapingSlashes = JSONWritingOptions(rawValue: 4)
}

extension JSONValue {
    /// The value as UTF-8 text.
    public func serialized(_ options: JSONWritingOptions = []) -> [UInt8] {
        var writer = JSONWriter(options: options)
        writer.write(self)
        return writer.bytes
    }
}

private struct JSONWriter {
    let options: JSONWritingOptions
    var bytes: [UInt8] = []
    private var depth = 0

    init(options: JSONWritingOptions) { self.options = options }

    mutating func write(_ value: JSONValue) {
        switch value {
        case .null: bytes += "null".utf8
        case .bool(let flag): bytes += (flag ? "true" : "false").utf8
        case .number(let number): bytes += number.text.utf8
        case .string(let text): write(text)
        case .array(let elements):
            list("[", "]", elements) { writer, element in writer.write(element) }
        case .object(let members):
            let keys = options.contains(.sortedKeys) ? members.keys.sorted(by: Self.precedes) : members.keys
            list("{", "}", keys) { writer, key in
                writer.write(key)
                writer.bytes += (writer.options.contains(.prettyPrinted) ? ": " : ":").utf8
                writer.write(members[key] ?? .null)
            }
        }
    }

    private static func precedes(_ left: String, _ right: String) -> Bool {
        left.utf8.lexicographicallyPrecedes(right.utf8)
    }

    private mutating func list<Item>(
        _ open: String,
        _ close: String,
        _ items: [Item],
        _ write: (inout JSONWriter, Item) -> Void
    ) {
        bytes += open.utf8
        depth += 1
        for (index, item) in items.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            newLine()
            write(&self, item)
        }
        depth -= 1
        if !items.isEmpty { newLine() }
        bytes += close.utf8
    }

    private mutating func newLine() {
        guard options.contains(.prettyPrinted) else { return }
        bytes.append(UInt8(ascii: "\n"))
        for _ in 0..<depth { bytes += "  ".utf8 }
    }

    /// Escapes a string (RFC 8259, section 7).
    private mutating func write(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
            case UInt8(ascii: "/") where !options.contains(.withoutEscapingSlashes): bytes += "\\/".utf8
            case 0x08: bytes += "\\b".utf8
            case 0x09: bytes += "\\t".utf8
            case 0x0A: bytes += "\\n".utf8
            case 0x0C: bytes += "\\f".utf8
            case 0x0D: bytes += "\\r".utf8
            case 0..<0x20: bytes += (byte < 16 ? "\\u000" : "\\u00").utf8 + Array(String(byte, radix: 16).utf8)
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
