// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

extension HTTPSessionRequest {
    /// A curl(1) command that makes the same request, for a shell.
    ///
    /// It has no pins: it is for inspecting a request, not for replacing it. A body from a source is named as the file
    /// `body`; bytes that are no printable text are piped in by printf(1).
    ///
    /// - Parameter redactingSecrets: whether the values of Authorization, Proxy-Authorization and Cookie are left out,
    ///   for logs. The URL and the body are always included.
    public func cURLDescription(redactingSecrets: Bool = true) -> String {
        var words = ["curl"]
        switch (method, body.length) {
        case (.get, .none): break
        case (.head, .none): words.append("--head")
        default: words.append("--request \(Self.quoted(method.description))")
        }
        for (name, value) in headers {
            let isSecret = ["authorization", "proxy-authorization", "cookie"].contains(name.lowercased())
            // With a colon alone curl would remove the field.
            let field = value.isEmpty ? "\(name);" : "\(name): \(isSecret && redactingSecrets ? "***" : value)"
            words.append("--header \(Self.quoted(field))")
        }
        var input = ""
        switch body {
        case .none: break
        case .bytes(let bytes):
            appendOwnContentType(to: &words)
            if let text = Self.printable(bytes) {
                words.append("--data-raw \(Self.quoted(text))")
            } else {
                let octal = bytes.map { byte in
                    let digits = String(byte, radix: 8)
                    return "\\" + String(repeating: "0", count: 3 - digits.utf8.count) + digits
                }
                input = "printf '\(octal.joined())' | "
                words.append("--data-binary @-")
            }
        case .source:
            appendOwnContentType(to: &words)
            words.append("--data-binary @body")
        }
        // curl would expand brackets and braces to several URLs.
        words.append("--globoff --path-as-is \(Self.quoted(url))")
        return input + words.joined(separator: " ")
    }

    /// By default curl gives a body the content type of a form.
    private func appendOwnContentType(to words: inout [String]) {
        if headers.value(for: "Content-Type") == nil { words.append("--header 'Content-Type:'") }
    }

    /// Quotes a text for POSIX shells, with single quotes.
    private static func quoted(_ text: String) -> String {
        "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: #"'\''"#) + "'"
    }

    /// Whether this is text without control characters other than line feeds and tabs.
    private static func printable(_ bytes: [UInt8]) -> String? {
        guard bytes.allSatisfy({ ($0 >= 0x20 && $0 != 0x7F) || $0 == 0x0A || $0 == 0x09 }) else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }
}
