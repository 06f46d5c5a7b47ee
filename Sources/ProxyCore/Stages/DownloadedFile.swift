// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// A file that the body of a response was saved to, as its client is told of it.
struct DownloadedFile: Sendable {
    var path: String
    var count: Int
    /// SHA-256, in hexadecimal digits.
    var digest: String

    /// The path as a file URL (RFC 8089).
    var url: String {
        let plain = Array("/-._~".utf8)
        let escaped = path.utf8.map { byte in
            ASCII.isLetter(byte) || ASCII.isDigit(byte) || plain.contains(byte)
                ? String(UnicodeScalar(byte))
                : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
        }
        return "file://" + escaped.joined()
    }
}
