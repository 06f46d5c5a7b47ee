// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// A name for the file of a response: that of `Content-Disposition` (RFC 6266), otherwise the last part of the URL's path.
///
/// Only a name comes out: no folders, no control characters, no dots at its beginning, at most 255 bytes.
enum SuggestedFilename {
    static func of(_ fields: borrowing HeaderFields, url: String) -> String? {
        if let disposition = fields.value(for: "Content-Disposition"), let name = name(in: disposition) { return name }
        let rest = url.split(separator: "://", maxSplits: 1).last ?? ""
        let path = rest.prefix { $0 != "?" && $0 != "#" }
        guard let slash = path.lastIndex(of: "/") else { return nil }
        let bytes = Array(path[path.index(after: slash)...].utf8)
        return unescaped(bytes[...]).flatMap(cleaned)
    }

    /// The extended parameter goes before the plain one (RFC 6266, section 4.3).
    private static func name(in disposition: String) -> String? {
        var plain: String?
        for (name, value) in parameters(of: Array(disposition.utf8)) {
            switch name {
            case "filename*":
                let parts = value.split(separator: UInt8(ascii: "'"), maxSplits: 2, omittingEmptySubsequences: false)
                guard parts.count == 3, let encoding = TextEncoding(charset: String(decoding: parts[0], as: UTF8.self)),
                    let bytes = unescapedBytes(parts[2]), let text = encoding.decode(bytes), let name = cleaned(text)
                else { continue }
                return name
            case "filename" where plain == nil:
                plain = cleaned(
                    String(validating: value, as: UTF8.self) ?? TextEncoding.isoLatin1.decode(Array(value)) ?? ""
                )
            default: break
            }
        }
        return plain
    }

    /// The parameters behind the first semicolon, with names in lower case; quotes and their escapes are removed.
    private static func parameters(of bytes: [UInt8]) -> [(name: String, value: ArraySlice<UInt8>)] {
        var found: [(String, ArraySlice<UInt8>)] = []
        var parts: [[UInt8]] = [[]]
        var isQuoted = false
        var isEscaped = false
        for byte in bytes {
            if isEscaped {
                isEscaped = false
            } else if isQuoted, byte == UInt8(ascii: "\\") {
                isEscaped = true
                continue
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
                continue
            } else if !isQuoted, byte == UInt8(ascii: ";") {
                parts.append([])
                continue
            }
            parts[parts.count - 1].append(byte)
        }
        for part in parts.dropFirst() {
            guard let equals = part.firstIndex(of: UInt8(ascii: "=")) else { continue }
            func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
                let start = bytes.drop(while: ASCII.isBlank)
                return start.prefix(through: start.lastIndex { !ASCII.isBlank($0) } ?? start.startIndex - 1)
            }
            let name = String(decoding: trimmed(part[..<equals]), as: UTF8.self).lowercased()
            found.append((name, trimmed(part[(equals + 1)...])))
        }
        return found
    }

    private static func unescapedBytes(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        var result: [UInt8] = []
        var index = bytes.startIndex
        while index < bytes.endIndex {
            guard bytes[index] == UInt8(ascii: "%") else {
                result.append(bytes[index])
                index += 1
                continue
            }
            guard index + 2 < bytes.endIndex,
                let byte = UInt8(String(decoding: bytes[(index + 1)...(index + 2)], as: UTF8.self), radix: 16)
            else { return nil }
            result.append(byte)
            index += 3
        }
        return result
    }

    private static func unescaped(_ bytes: ArraySlice<UInt8>) -> String? {
        unescapedBytes(bytes).flatMap { String(validating: $0, as: UTF8.self) }
    }

    private static func cleaned(_ text: String) -> String? {
        let last = text.unicodeScalars.split { $0 == "/" || $0 == "\\" }.last ?? []
        var name = String.UnicodeScalarView()
        for scalar in last
        where scalar.properties.generalCategory != .control && scalar.properties.generalCategory != .format {
            if name.isEmpty, scalar == "." || scalar == " " { continue }
            guard String(name).utf8.count + UTF8.width(scalar) <= 255 else { break }
            name.append(scalar)
        }
        while let end = name.last, end == " " || end == "." { name.removeLast() }
        return name.isEmpty ? nil : String(name)
    }
}
