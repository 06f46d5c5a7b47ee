// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// The name of a request in the texts of errors.
enum RequestName {
    private static let secrets = SecretParameters(SecretParameters.usual)
    /// The longest URL that is written as a whole, in bytes.
    private static let limit = 512

    /// Method and URL: `GET https://example.com/items?token=***`. Values of parameters with the usual names of secrets, user
    /// information and fragments are left out.
    static func text(_ method: HTTPMethod, _ url: String) -> String {
        let bytes = Array(url.utf8.prefix { $0 != UInt8(ascii: "#") })
        let span = bytes.span
        var search = SecretParameters.Search(span)
        var text: [UInt8] = []
        var position = 0
        while let secret = secrets.next(in: span, &search) {
            text += bytes[position..<secret.lowerBound] + Array("***".utf8)
            position = secret.upperBound
        }
        text += bytes[position...]
        removeUserInformation(from: &text)
        guard text.count > limit else { return "\(method) \(String(decoding: text, as: UTF8.self))" }
        return "\(method) \(String(decoding: text.prefix(limit), as: UTF8.self))…"
    }

    /// A request with user information is refused, and its error must not show the password.
    private static func removeUserInformation(from url: inout [UInt8]) {
        let slash = UInt8(ascii: "/")
        guard let first = url.firstIndex(of: slash), first + 1 < url.count, url[first + 1] == slash else { return }
        let start = first + 2
        let authority = url[start...].prefix { $0 != slash && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "\\") }
        guard let end = authority.lastIndex(of: UInt8(ascii: "@")) else { return }
        url.replaceSubrange(start..<end, with: Array("***".utf8))
    }
}
