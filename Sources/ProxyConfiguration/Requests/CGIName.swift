// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// The names of fields as servers behind CGI compare them (RFC 3875, section 4.1.18): fields with names that are the same here are one
/// variable there.
enum CGIName {
    /// A byte of a name: in lower case, and a hyphen for all punctuation.
    static func folded(_ byte: UInt8) -> UInt8 { isPunctuation(byte) ? UInt8(ascii: "-") : ASCII.lowercased(byte) }

    static func isPunctuation(_ byte: UInt8) -> Bool { !ASCII.isLetter(byte) && !ASCII.isDigit(byte) }
}
