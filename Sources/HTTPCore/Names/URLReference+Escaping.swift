// SPDX-License-Identifier: Apache-2.0
import IOCore

extension URLReference {
    /// A reference in which spaces and the bytes of characters beyond ASCII are percent-encoded, as user agents for people read
    /// `Location`. Everything else that makes a reference ambiguous stays in it, and is refused afterwards; so is a host that
    /// had such characters, since no host contains a percent sign.
    ///
    /// - Returns: nil when there is nothing to escape, or the bytes are no UTF-8.
    package static func escaped(_ text: borrowing Span<UInt8>) -> [UInt8]? {
        var escaped: [UInt8] = []
        var hasEscaped = false
        for index in 0..<text.count {
            let byte = text[index]
            if byte == ASCII.space || byte >= 0x80 {
                hasEscaped = true
                escaped.append(ASCII.percent)
                escaped.append(ASCII.hexDigit(byte >> 4))
                escaped.append(ASCII.hexDigit(byte & 15))
            } else {
                escaped.append(byte)
            }
        }
        guard hasEscaped, String(validating: [UInt8](copying: text), as: UTF8.self) != nil else { return nil }
        return escaped
    }
}
