// SPDX-License-Identifier: Apache-2.0
/// JSON encoding of strings, off the request path.
package enum JSONString {
    /// A JSON string (RFC 8259, section 7), on one line and without characters that disturb it: these are escaped.
    package static func quoted(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: { $0 == "\"" || $0 == "\\" || $0.disturbsLine }) else {
            return "\"\(text)\""
        }
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case _ where scalar.disturbsLine:
                for unit in String(scalar).utf16 {
                    let digits = String(unit, radix: 16)
                    quoted += "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
                }
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }

    /// An array of strings.
    package static func array(_ texts: some Sequence<String>) -> String {
        "[\(texts.map(quoted).joined(separator: ","))]"
    }
}
