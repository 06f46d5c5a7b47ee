// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// Writes structured field values (RFC 8941 4.1), for Proxy-Status and Cache-Status.
extension ByteBuffer {
    /// A token, such as an error type. It must be one: a letter or `*`, then token characters, `:` and `/`.
    package mutating func appendStructured(token: StaticString) {
        append(token)
    }

    /// A string in quotes, with `"` and `\` escaped. Invalid bytes (control characters and bytes above 0x7E) become
    /// `?`, so that foreign text cannot leave the quotes or the line.
    package mutating func appendStructured(string: borrowing Span<UInt8>) {
        append(ASCII.quote)
        var index = 0
        while index < string.count {
            let byte = string[index]
            if byte == ASCII.quote || byte == ASCII.backslash { append(ASCII.backslash) }
            append(byte >= 0x20 && byte < ASCII.delete ? byte : ASCII.questionMark)
            index &+= 1
        }
        append(ASCII.quote)
    }

    package mutating func appendStructured(string: StaticString) {
        appendStructured(string: string.bytes)
    }

    /// An integer of at most 15 digits; a larger one is written as the largest.
    package mutating func appendStructured(integer: Int) {
        append(decimal: max(-999_999_999_999_999, min(999_999_999_999_999, integer)))
    }

    /// The beginning of a parameter, `; key=`. A key is in lower case.
    package mutating func appendStructuredParameter(key: StaticString) {
        append("; ")
        append(key)
        append(ASCII.equals)
    }

    package mutating func appendStructuredParameter(key: StaticString, token: StaticString) {
        appendStructuredParameter(key: key)
        append(token)
    }

    package mutating func appendStructuredParameter(key: StaticString, string: borrowing Span<UInt8>) {
        appendStructuredParameter(key: key)
        appendStructured(string: string)
    }

    package mutating func appendStructuredParameter(key: StaticString, integer: Int) {
        appendStructuredParameter(key: key)
        appendStructured(integer: integer)
    }

    /// A parameter that is true: `; key`.
    package mutating func appendStructuredFlag(key: StaticString) {
        append("; ")
        append(key)
    }
}
