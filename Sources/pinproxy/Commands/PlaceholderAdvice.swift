// SPDX-License-Identifier: Apache-2.0
import ProxyConfiguration
import ProxyCore
import StrictJSON

/// The words of `check` about placeholders of credentials that no request can hold.
enum PlaceholderAdvice {
    /// - Parameter file: the configuration's path.
    static func warnings(_ configuration: Configuration, file: String) -> [DocumentIssue] {
        let limit = configuration.limits.headBytes
        return configuration.credentials.compactMap { definition in
            guard let placeholder = definition.placeholder else { return nil }
            let value = value(with: placeholder.utf8.count, definition)
            guard smallestHead + definition.header.utf8.count + value > limit else { return nil }
            return DocumentIssue(
                file: file,
                pointer: JSONPointer.member(definition.name, of: "/credentials") + "/placeholder",
                message:
                    "no request can hold the placeholder of \"\(definition.name)\": a field with it has \(value) bytes, "
                    + "and limits.headBytes is \(limit)",
                remedy: "write a shorter one: a random text of 20 characters is enough"
            )
        }
    }

    /// The bytes of the field's value: as it is, or in Base64 behind `Basic` and a user (RFC 7617).
    private static func value(with count: Int, _ definition: CredentialDefinition) -> Int {
        guard let user = definition.basicUser else { return count }
        return "Basic ".utf8.count + (user.utf8.count + 1 + count + 2) / 3 * 4
    }

    /// `GET / HTTP/1.1`, a Host of one character, the colon and line end of the field, and the end of the head.
    private static let smallestHead = "GET / HTTP/1.1\r\nHost: a\r\n: \r\n\r\n".utf8.count
}
