// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// A media type with its charset (RFC 9110, section 8.3.1), in lower case.
package struct MediaType: Sendable, Hashable {
    let type: String
    let subtype: String
    package let charset: String?

    package var essence: String { "\(type)/\(subtype)" }

    /// nil for an invalid media type.
    package init?(_ text: String) {
        var parts = Self.split(text)[...]
        let names = parts.removeFirst().split(separator: "/", omittingEmptySubsequences: false)
        guard names.count == 2, names.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy(ASCII.isToken) }) else {
            return nil
        }
        type = names[0].lowercased()
        subtype = names[1].lowercased()
        charset = parts.lazy.compactMap { Self.value(of: "charset", in: $0) }.first
    }

    /// Splits at semicolons outside quoted strings, and removes white space around.
    private static func split(_ text: String) -> [String] {
        var parts: [[UInt8]] = [[]]
        var isQuoted = false
        var isEscaped = false
        for byte in text.utf8 {
            if byte == UInt8(ascii: ";"), !isQuoted {
                parts.append([])
                continue
            }
            if byte == UInt8(ascii: "\""), !isEscaped { isQuoted.toggle() }
            isEscaped = isQuoted && !isEscaped && byte == UInt8(ascii: "\\")
            parts[parts.count - 1].append(byte)
        }
        return parts.map { part in
            let content = part.drop(while: ASCII.isBlank)
            let end = content.lastIndex { !ASCII.isBlank($0) } ?? content.startIndex - 1
            return String(decoding: content[..<(end + 1)], as: UTF8.self)
        }
    }

    private static func value(of name: String, in parameter: String) -> String? {
        guard let equals = parameter.firstIndex(of: "="), parameter[..<equals].lowercased() == name else { return nil }
        let value = parameter[parameter.index(after: equals)...]
        guard value.hasPrefix("\"") else { return value.lowercased() }
        return value.filter { $0 != "\"" && $0 != "\\" }.lowercased()
    }

    /// Whether the type matches `pattern`, in which `*` stands for any type or subtype, or for what is before a suffix (`*+json`).
    func matches(_ pattern: MediaType) -> Bool {
        guard pattern.type == "*" || pattern.type == type else { return false }
        if pattern.subtype == "*" || pattern.subtype == subtype { return true }
        return pattern.subtype.hasPrefix("*+") && subtype.hasSuffix(pattern.subtype.dropFirst())
            && subtype.utf8.count >= pattern.subtype.utf8.count
    }
}
