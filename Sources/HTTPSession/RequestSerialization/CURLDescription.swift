import HTTPCore
import SessionCore

extension HTTPRequest {
    /// A curl(1) command that makes the same request, for a shell.
    ///
    /// It asks for no pins: it is for looking at a request, not for replacing it. A body that is read while it is sent
    /// is named as the file `body`; one of bytes that are no printable text is piped in by printf(1).
    ///
    /// - Parameter redactingSecrets: whether the values of Authorization, Proxy-Authorization and Cookie are left out,
    ///   as befits what may reach a log. The URL and the body are there in any case.
    public func cURLDescription(redactingSecrets: Bool = true) -> String {
        var words = ["curl"]
        switch (method, body.length) {
        case (.get, .none): break
        case (.head, .none): words.append("--head")
        default: words.append("--request \(Self.quoted(method.description))")
        }
        for (name, value) in fields.list {
            let isSecret = ["authorization", "proxy-authorization", "cookie"].contains(name.lowercased())
            // With a colon alone curl would take the field away.
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
        // Brackets and braces would make several URLs of one.
        words.append("--globoff --path-as-is \(Self.quoted(url))")
        return input + words.joined(separator: " ")
    }

    /// curl calls a body a form, unless told otherwise.
    private func appendOwnContentType(to words: inout [String]) {
        if fields.value(for: "Content-Type") == nil { words.append("--header 'Content-Type:'") }
    }

    /// In single quotes, as every POSIX shell reads them.
    private static func quoted(_ text: String) -> String {
        "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: #"'\''"#) + "'"
    }

    /// Text without control characters but line feeds and tabs.
    private static func printable(_ bytes: [UInt8]) -> String? {
        guard bytes.allSatisfy({ ($0 >= 0x20 && $0 != 0x7F) || $0 == 0x0A || $0 == 0x09 }) else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }
}
